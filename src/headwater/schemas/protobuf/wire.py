"""Protobuf's wire format, as far as descriptors need it. Bytes from a peer: every length is looked at before it is
used.
"""

import struct
from typing import Final

from headwater.schemas.model import SchemaError

_DOUBLE: Final = struct.Struct("<d")
_SIXTYFOUR: Final = (1 << 64) - 1


def signed(number: int) -> int:
    """A varint of a negative int32 or int64 has all its 64 bits."""
    return number - (1 << 64) if number >> 63 else number


class Writer:
    """Fields one after the other; what is empty is left out where the caller says so."""

    def __init__(self) -> None:
        self._out = bytearray()

    def varint(self, value: int) -> "Writer":
        value &= _SIXTYFOUR
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)
        return self

    def number(self, field: int, value: int) -> "Writer":
        return self.varint(field << 3).varint(value)

    def data(self, field: int, value: bytes) -> "Writer":
        self.varint(field << 3 | 2).varint(len(value))
        self._out += value
        return self

    def raw(self, value: bytes) -> "Writer":
        """Bytes as they are: the value of a field whose tag has been written."""
        self._out += value
        return self

    def text(self, field: int, value: str) -> "Writer":
        return self.data(field, value.encode("utf-8", "replace"))

    def optional_text(self, field: int, value: str) -> "Writer":
        return self.text(field, value) if value else self

    def optional_data(self, field: int, value: bytes) -> "Writer":
        return self.data(field, value) if value else self

    def double(self, field: int, value: float) -> "Writer":
        self.varint(field << 3 | 1)
        self._out += _DOUBLE.pack(value)
        return self

    def bytes(self) -> bytes:
        return bytes(self._out)


class Fields:
    """The fields of one message, by number. Nested messages are read when they are asked for."""

    def __init__(self, data: bytes) -> None:
        self._values: dict[int, list[int | bytes]] = {}
        position = 0
        while position < len(data):
            tag, position = _varint(data, position)
            kind = tag & 7
            if kind == 0:
                number, position = _varint(data, position)
                self._values.setdefault(tag >> 3, []).append(number)
                continue
            if kind == 3:
                content, position = _group(data, position, tag >> 3)
                self._values.setdefault(tag >> 3, []).append(content)
                continue
            if kind == 2:
                length, position = _varint(data, position)
            elif kind in (1, 5):
                length = 8 if kind == 1 else 4
            else:
                raise _broken()
            if length > len(data) - position:
                raise _broken()
            self._values.setdefault(tag >> 3, []).append(data[position : position + length])
            position += length

    def numbers(self) -> list[int]:
        return list(self._values)

    def values(self, field: int) -> list[int | bytes]:
        """As they stand; bytes also of numbers of fixed size."""
        return self._values.get(field, [])

    def has(self, field: int) -> bool:
        return field in self._values

    def number(self, field: int) -> int:
        value = self._values.get(field, [0])[-1]
        if not isinstance(value, int):
            raise _broken()
        return value

    def integers(self, field: int) -> list[int]:
        """Repeated numbers, packed or not."""
        found: list[int] = []
        for value in self._values.get(field, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            position = 0
            while position < len(value):
                number, position = _varint(value, position)
                found.append(number)
        return found

    def data(self, field: int) -> bytes:
        value = self._values.get(field, [b""])[-1]
        if isinstance(value, int):
            raise _broken()
        return value

    def text(self, field: int) -> str:
        return _decoded(self.data(field))

    def texts(self, field: int) -> list[str]:
        return [_decoded(value) for value in self._values.get(field, ()) if isinstance(value, bytes)]

    def double(self, field: int) -> float:
        data = self.data(field)
        if len(data) != 8:
            raise _broken()
        value: float = _DOUBLE.unpack(data)[0]
        return value

    def messages(self, field: int) -> list["Fields"]:
        return [Fields(value) for value in self._values.get(field, ()) if isinstance(value, bytes)]

    def message(self, field: int) -> "Fields | None":
        found = self.messages(field)
        return found[-1] if found else None


def records(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Fields one by one, of bytes that we have written: their number, all their bytes, and those behind tag and
    length.
    """
    found = []
    position = 0
    while position < len(data):
        begin = position
        tag, position = _varint(data, position)
        content_at = position
        if tag & 7 == 0:
            _, position = _varint(data, position)
        elif tag & 7 == 2:
            length, content_at = _varint(data, position)
            position = content_at + length
        elif tag & 7 == 3:
            content, position = _group(data, position, tag >> 3)
            found.append((tag >> 3, data[begin:position], content))
            continue
        else:
            position += 8 if tag & 7 == 1 else 4
        found.append((tag >> 3, data[begin:position], data[content_at:position]))
    return found


def _group(data: bytes, position: int, number: int) -> tuple[bytes, int]:
    """What stands between the tags of a group, and where it ends."""
    begin = position
    open_groups = [number]
    while True:
        tag_at = position
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            _, position = _varint(data, position)
        elif kind == 2:
            length, position = _varint(data, position)
            position += length
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        elif kind == 3:
            open_groups.append(tag >> 3)
        elif kind == 4 and open_groups.pop() == tag >> 3:
            if not open_groups:
                return data[begin:tag_at], position
        else:
            raise _broken()


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _SIXTYFOUR, position
        shift += 7
    raise _broken()


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SchemaError("not a descriptor of a .proto file: a name is not UTF-8") from error


def _broken() -> SchemaError:
    return SchemaError("not a descriptor of a .proto file: its bytes end too early or are of no known form")
