"""How a record says which schema it was written with: Confluent's wire format, in the payload or in a header. Pure.

prefix    byte 0, the schema's id as 4 bytes big-endian, then the data
guid      byte 1, the schema's 16-byte guid; stands in the header `__value_schema_id` or `__key_schema_id`, or before
          the data
Protobuf  has the path of the message within its file behind either of them: its length and its indexes as zigzag
          varints; the first message alone, [0], is the single byte 0
"""

import struct
import uuid
from dataclasses import dataclass
from typing import Final

from headwater.schemas.model import DataError

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_ID: Final = struct.Struct(">bI")
_INDEXES_MAX: Final = 1_000  # messages inside each other; Confluent's clients allow more than anyone could write


@dataclass(frozen=True, slots=True)
class SchemaId:
    """Which schema: by its number, by its guid, or both."""

    id: int | None = None
    guid: uuid.UUID | None = None
    message_indexes: tuple[int, ...] = ()  # Protobuf's

    def prefix(self) -> bytes:
        assert self.id is not None
        return _ID.pack(0, self.id) + write_indexes(self.message_indexes)

    def header(self) -> bytes:
        assert self.guid is not None
        return b"\x01" + self.guid.bytes + write_indexes(self.message_indexes)


def read_schema_id(data: bytes, *, protobuf: bool = False) -> tuple[SchemaId, int]:
    """What stands before the data (or in the header), and where it ends."""
    if not data:
        raise DataError("there are no bytes where a schema's id should be")
    if data[0] == 0:
        if len(data) < 5:
            raise DataError("the bytes end within the schema's id")
        schema_id, position = SchemaId(_ID.unpack_from(data)[1]), 5
    elif data[0] == 1:
        if len(data) < 17:
            raise DataError("the bytes end within the schema's guid")
        schema_id, position = SchemaId(guid=uuid.UUID(bytes=data[1:17])), 17
    else:
        raise DataError(f"the first byte is {data[0]}, not 0 or 1: this was not written with a schema of a registry")
    if not protobuf:
        return schema_id, position
    indexes, position = read_indexes(data, position)
    return SchemaId(schema_id.id, schema_id.guid, indexes), position


def write_indexes(indexes: tuple[int, ...]) -> bytes:
    if not indexes:
        return b""
    if indexes == (0,):
        return b"\x00"
    return b"".join(map(_zigzag, (len(indexes), *indexes)))


def read_indexes(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    count, position = _varint(data, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= _INDEXES_MAX:
        raise DataError(f"the path to a message cannot have {count} parts")
    indexes = []
    for _ in range(count):
        index, position = _varint(data, position)
        if index < 0:
            raise DataError(f"a message cannot have the index {index}")
        indexes.append(index)
    return tuple(indexes), position


def _zigzag(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 35:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise DataError("the bytes end within the path to a message")
