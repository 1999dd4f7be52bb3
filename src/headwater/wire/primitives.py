"""What the compiled codecs call when a value leaves the common case: long varints, tagged fields, errors.

A varint here is Kafka's unsigned one: seven bits a byte, the lowest first, the high bit set on all but the last byte.
Decoders read beyond nothing: `buffer[position]` raises IndexError at the end, which they turn into a DecodeError.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import Buffer
from headwater.wire.errors import DecodeError

VARINT_BYTES_MAX: Final = 5
REQUEST_ELEMENTS_MAX: Final = 500_000  # of all arrays and tag sections of a request together: about a second of work
TAGGED_FIELDS_MAX: Final = 127  # of one struct; no message of Kafka's has more than a few
STRING_BYTES_MAX: Final = 0x7FFF  # Kafka's own limit, also where the length could say more


SHORT_UVARINTS: Final = tuple(bytes((value,)) for value in range(0x80))
_PACK_2: Final = Struct("BB").pack  # half the time of bytes((a, b))
_PACK_3: Final = Struct("BBB").pack


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return SHORT_UVARINTS[value]
    if value < 0x4000:
        return _PACK_2(value & 0x7F | 0x80, value >> 7)
    if value < 0x20_0000:  # most lengths of records end here
        return _PACK_3(value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def continue_uvarint(first: int, buffer: Buffer, position: int) -> tuple[int, int]:
    """Goes on after a first byte that has the high bit set: (value, position behind it)."""
    value = first & 0x7F
    byte = buffer[position]
    if byte < 0x80:
        return value | byte << 7, position + 1
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DecodeError("a varint has more than 5 bytes")


def continue_string_length(first: int, buffer: Buffer, position: int) -> tuple[int, int]:
    """The same for the length of a compact string, which is one more than its bytes."""
    value, position = continue_uvarint(first, buffer, position)
    if value > STRING_BYTES_MAX + 1:
        raise DecodeError(f"a string of {value - 1} bytes; {STRING_BYTES_MAX} are allowed")
    return value, position


def decode_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    return continue_uvarint(first, buffer, position + 1)


def skip_tagged_fields(count: int, buffer: Buffer, position: int) -> int:
    """The position behind tagged fields that nobody here knows. `count` is the first byte of their number."""
    if count > TAGGED_FIELDS_MAX:
        raise too_many_tags()
    for _ in range(count):  # a lie about the count ends at the end of the buffer
        _, position = decode_uvarint(buffer, position)
        size_bytes, position = decode_uvarint(buffer, position)
        position += size_bytes
    return position


def encode_tagged_fields(fields: list[tuple[int, bytes]]) -> bytes:
    """A whole tag section of (tag, value), in the order given: ascending tags."""
    out = [encode_uvarint(len(fields))]
    for tag, value in fields:
        out += (encode_uvarint(tag), encode_uvarint(len(value)), value)
    return b"".join(out)


def null_field(name: str) -> DecodeError:
    return DecodeError(f"{name} is null, but must not be")


def bad_count(name: str, count: int) -> DecodeError:
    return DecodeError(f"{name} claims {count} elements, more than the bytes left can hold")


def too_many_elements(name: str) -> DecodeError:
    return DecodeError(
        f"the request has more than {REQUEST_ELEMENTS_MAX} elements, with {name}: ask in several requests"
    )


def too_many_tags() -> DecodeError:
    return DecodeError(f"more than {TAGGED_FIELDS_MAX} tagged fields in one struct")


def bad_tag(name: str) -> DecodeError:
    return DecodeError(f"the tagged field {name} does not end where its size says")


def bad_end(position: int, end: int) -> DecodeError:
    if position > end:
        return DecodeError(f"the message is cut short: {position - end} bytes are missing")
    return DecodeError(f"{end - position} bytes are left behind the message")


def malformed(error: Exception) -> DecodeError:
    if isinstance(error, UnicodeDecodeError):
        return DecodeError("a string is not UTF-8")
    return DecodeError("the message is cut short")
