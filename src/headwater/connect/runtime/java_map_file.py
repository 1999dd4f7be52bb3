"""Apache Kafka's file of source offsets: a Java-serialized `HashMap<byte[], byte[]>`, read and written in exactly that
shape.

The stream: magic and version; the object and its class (name, serial version, the fields loadFactor and threshold); the
two fields; a block with capacity and size; then keys and values, each an array of bytes (the class of the first is
written out, the others refer to it) or null; and the end of the block. Anything else is refused: there is no general
deserializer here.
"""

import struct
from collections.abc import Mapping
from typing import Final

from headwater.base.errors import UserError

_HEAD: Final = (
    b"\xac\xed\x00\x05"
    b"sr\x00\x11java.util.HashMap\x05\x07\xda\xc1\xc3\x16\x60\xd1\x03\x00\x02"
    b"F\x00\x0aloadFactorI\x00\x09thresholdxp"
)
_ARRAY_CLASS: Final = b"ur\x00\x02[B\xac\xf3\x17\xf8\x06\x08T\xe0\x02\x00\x00xp"
_ARRAY_AGAIN: Final = b"uq\x00~\x00\x02"
_NULL: Final = b"p"
_END: Final = b"x"
_LOAD_FACTOR: Final = 0.75
_ENTRIES_MAX: Final = 10_000_000

Entries = Mapping[bytes, bytes | None]


def encode(entries: Entries) -> bytes:
    capacity = 16
    while capacity * _LOAD_FACTOR < len(entries):
        capacity *= 2
    parts = [_HEAD, struct.pack(">fi", _LOAD_FACTOR, int(capacity * _LOAD_FACTOR)), b"w\x08"]
    parts.append(struct.pack(">ii", capacity, len(entries)))
    first = True
    for pair in entries.items():
        for each in pair:
            if each is None:
                parts.append(_NULL)
                continue
            parts += [_ARRAY_CLASS if first else _ARRAY_AGAIN, struct.pack(">i", len(each)), each]
            first = False
    return b"".join([*parts, _END])


def decode(data: bytes, where: str) -> dict[bytes, bytes | None]:
    if not data:
        return {}
    reader = _Reader(data, where)
    reader.expect(_HEAD)
    reader.take(8)
    reader.expect(b"w\x08")
    _, size = struct.unpack(">ii", reader.take(8))
    if not 0 <= size <= _ENTRIES_MAX:
        raise reader.refused()
    entries: dict[bytes, bytes | None] = {}
    for _ in range(size):
        key = reader.array()
        if key is None:
            raise reader.refused()
        entries[key] = reader.array()
    reader.expect(_END)
    return entries


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._at, self._where = data, 0, where

    def refused(self) -> UserError:
        return UserError(
            f"{self._where} is not a file of source offsets",
            f"what stands at byte {self._at} is not what a map of byte arrays has there",
            "Name another file in offset.storage.file.filename, or move this one away",
        )

    def take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) < size:
            raise self.refused()
        self._at += size
        return taken

    def expect(self, wanted: bytes) -> None:
        if not self._data.startswith(wanted, self._at):
            raise self.refused()
        self._at += len(wanted)

    def array(self) -> bytes | None:
        for form in (_NULL, _ARRAY_CLASS, _ARRAY_AGAIN):
            if self._data.startswith(form, self._at):
                self._at += len(form)
                return None if form is _NULL else self.take(struct.unpack(">i", self.take(4))[0])
        raise self.refused()
