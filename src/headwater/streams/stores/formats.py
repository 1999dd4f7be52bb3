"""The bytes of keys and values in stores and changelog topics: those of Kafka Streams.

    timestamped value   timestamp (8, big endian), value            in the store
                        value, and the record's own timestamp       in the changelog
    window              key, start of the window (8), sequence number (4)
    session             key, end (8), start (8)

The sequence number counts records where a store keeps duplicates (the sides of a stream-stream join) and is 0
elsewhere. A changelog that Kafka Streams wrote restores here, and the reverse. Pure functions.
"""

from struct import Struct
from typing import Final

LONG: Final = Struct(">q")
TWO_LONGS: Final = Struct(">qq")  # a timestamped long
WINDOW: Final = Struct(">qi")
_SESSION: Final = Struct(">qq")
LONG_MAX: Final = (1 << 63) - 1
SEQUENCE_MAX: Final = (1 << 31) - 1
WINDOW_SUFFIX_SIZE: Final = 12
SESSION_SUFFIX_SIZE: Final = 16


def stamped(value: bytes, timestamp: int) -> bytes:
    return LONG.pack(timestamp) + value


def stamped_cells(values: list[bytes | None], timestamps: list[int]) -> list[bytes | None]:
    pack = LONG.pack
    return [
        None if value is None else pack(timestamp) + value for value, timestamp in zip(values, timestamps, strict=True)
    ]


def unstamped(raw: bytes) -> tuple[bytes, int]:
    """(value, timestamp) of a timestamped value."""
    return raw[8:], LONG.unpack_from(raw)[0]


def window_key(key: bytes, start: int, sequence: int = 0) -> bytes:
    return key + WINDOW.pack(start, sequence)


def split_window_key(raw: bytes) -> tuple[bytes, int, int]:
    """(key, start, sequence number)."""
    start, sequence = WINDOW.unpack_from(raw, len(raw) - WINDOW_SUFFIX_SIZE)
    return raw[:-WINDOW_SUFFIX_SIZE], start, sequence


def session_key(key: bytes, start: int, end: int) -> bytes:
    return key + _SESSION.pack(end, start)


def split_session_key(raw: bytes) -> tuple[bytes, int, int]:
    """(key, start, end)."""
    end, start = _SESSION.unpack_from(raw, len(raw) - SESSION_SUFFIX_SIZE)
    return raw[:-SESSION_SUFFIX_SIZE], start, end


def after_prefix(prefix: bytes) -> bytes | None:
    """The least bytes above everything that begins with `prefix`; None if there are none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes((stem[-1] + 1,)) if stem else None
