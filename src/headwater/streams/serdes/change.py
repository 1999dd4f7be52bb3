"""Changes of a table in the repartition topic of its aggregation, in the bytes of Kafka Streams since 3.5.

new value, 1                                        only a new value
old value, 0                                        only an old one
length of the new one (zigzag varint), new, old, 2  both
"""

from typing import Any

from headwater.streams.model.record import Change
from headwater.streams.serdes.port import Serde, SerdeError


class ChangeSerde:
    """Around the serde of the values."""

    __slots__ = ("_inner", "name")

    def __init__(self, inner: Serde) -> None:
        self._inner = inner
        self.name = f"change of {inner.name}"

    def serialize(self, value: Any) -> bytes:
        new = None if value.new is None else self._inner.serialize(value.new)
        old = None if value.old is None else self._inner.serialize(value.old)
        if new is not None and old is not None:
            return _varint(len(new)) + new + old + b"\x02"
        if new is not None:
            return new + b"\x01"
        if old is not None:
            return old + b"\x00"
        raise SerdeError("a change has neither a new nor an old value")

    def deserialize(self, data: bytes) -> Change:
        flag, read = data[-1], self._inner.deserialize
        if flag == 1:
            return Change(read(data[:-1]), None)
        if flag == 0:
            return Change(None, read(data[:-1]))
        if flag != 2:
            raise SerdeError(f"a change ends with 0, 1 or 2, and this one with {flag}")
        length, at = _read_varint(data)
        return Change(read(data[at : at + length]), read(data[at + length : -1]))


def _varint(number: int) -> bytes:
    value, out = number << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes) -> tuple[int, int]:
    value = shift = at = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value >> 1, at
        shift += 7
