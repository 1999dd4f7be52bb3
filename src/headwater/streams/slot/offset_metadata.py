"""What is committed beside an offset, in Kafka Streams' own form, so that a task goes on after a restart as it was.
Pure.

Base64 of: version 2 (1 byte), the partition's time, which is the largest timestamp that was processed (8), and the
processors' metadata (KIP-825): nothing, or a number of entries (4), each the size of a name (4), the name, and a time
(8). The name is that of a store whose windows are emitted on close, the time is up to where they have been.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final

_FORMAT: Final = Struct(">bq")
_COUNT: Final = Struct(">i")
_TIME: Final = Struct(">q")
_WITHOUT_PROCESSORS: Final = 1
_LATEST: Final = 2


@dataclass(frozen=True, slots=True)
class OffsetMetadata:
    """`partition_time`: -1 if it is not known."""

    partition_time: int = -1
    close_times: Mapping[str, int] = field(default_factory=dict)


def encode_metadata(metadata: OffsetMetadata) -> str:
    pieces = [_FORMAT.pack(_LATEST, metadata.partition_time)]
    if metadata.close_times:
        pieces.append(_COUNT.pack(len(metadata.close_times)))
    for name, time in sorted(metadata.close_times.items()):
        pieces += [_COUNT.pack(len(name.encode())), name.encode(), _TIME.pack(time)]
    return base64.b64encode(b"".join(pieces)).decode()


def decode_metadata(text: str) -> OffsetMetadata:
    """What others have written there is no metadata."""
    try:
        data = base64.b64decode(text, validate=True)
        version, timestamp = _FORMAT.unpack_from(data)
    except (binascii.Error, error, ValueError):
        return OffsetMetadata()
    if version not in (_WITHOUT_PROCESSORS, _LATEST):
        return OffsetMetadata()
    return OffsetMetadata(timestamp, _close_times(data[_FORMAT.size :]) if version == _LATEST else {})


def _close_times(data: bytes) -> dict[str, int]:
    if not data:
        return {}
    found = {}
    try:
        (count,) = _COUNT.unpack_from(data)
        at = _COUNT.size
        for _ in range(count):
            (size,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            if not 0 <= size <= len(data) - at:
                return {}
            name = data[at : at + size].decode()
            (found[name],) = _TIME.unpack_from(data, at + size)
            at += size + _TIME.size
    except (error, ValueError):
        return {}
    return found
