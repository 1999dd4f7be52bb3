"""A slow and plain encoder over the same schema, written apart from the compiled one, that can also lie.

It is the oracle for versions that no other library has, puts unknown tagged fields into every struct, and spoils the
n-th array, length, string or non-nullable value on demand.
"""

import struct
from dataclasses import dataclass
from typing import Any

from headwater.wire.schema import STRING, Array, Field, FieldType, FixedType, Message, SizedType, Struct

HUGE = 2**31 - 1
UNKNOWN = bytes((99, 3)) + b"???"


@dataclass
class Fault:
    """Spoils the value with this number, of those that `kind` counts: count, length, null or utf8."""

    kind: str
    number: int
    done: bool = False

    def strikes(self, kind: str) -> bool:
        if kind != self.kind or self.done:
            return False
        self.number -= 1
        self.done = self.number < 0
        return self.done


def uvarint(value: int) -> bytes:
    low, rest = value % 128, value // 128
    return bytes((low + 128,)) + uvarint(rest) if rest else bytes((low,))


def encode(message: Message, version: int, *, unknown_tags: bool = False, fault: Fault | None = None) -> bytes:
    flexible = version >= message.FLEXIBLE_SINCE
    return _Reference(version, flexible, unknown_tags, fault or Fault("none", 0)).struct(message)


class _Reference:
    def __init__(self, version: int, flexible: bool, unknown_tags: bool, fault: Fault) -> None:
        self.version = version
        self.flexible = flexible
        self.unknown_tags = unknown_tags
        self.fault = fault

    def struct(self, value: Struct) -> bytes:
        out, tagged = b"", {}
        for field in value.FIELDS:
            if not field.in_version(self.version):
                continue
            held = getattr(value, field.name)
            nullable = field.nullable_in(self.version)
            if not field.tagged_in(self.version):
                out += self.value(field.type, held, nullable)
            elif not self._is_default(field, held):
                tagged[field.tag] = self.value(field.type, held, nullable)
        return out + self._tags(tagged) if self.flexible else out

    def _tags(self, tagged: dict[Any, bytes]) -> bytes:
        out = uvarint(len(tagged) + self.unknown_tags)
        for tag, encoded in sorted(tagged.items()):
            out += uvarint(tag) + uvarint(len(encoded)) + encoded
        return out + UNKNOWN if self.unknown_tags else out

    def _is_default(self, field: Field, held: Any) -> bool:
        if isinstance(field.type, type):
            return held is None or bool(held == field.type())
        return bool(held == ([] if field.default == () else field.default))

    def value(self, type_: FieldType, held: Any, nullable: bool) -> bytes:
        if isinstance(type_, FixedType):
            return struct.pack(">" + type_.format, held)
        if isinstance(type_, SizedType):
            return self._sized(type_, held, nullable)
        if isinstance(type_, Array):
            return self._array(type_, held, nullable)
        if nullable:
            return b"\xff" if held is None else b"\x01" + self.struct(held)
        return self.struct(held)

    def _length(self, format_: str, length: int | None) -> bytes:
        if self.flexible:
            return uvarint(0 if length is None else length + 1)
        return struct.pack(">" + format_, -1 if length is None else length)

    def _sized(self, type_: SizedType, held: Any, nullable: bool) -> bytes:
        if held is None or (not nullable and self.fault.strikes("null")):
            return self._length(type_.length_format, None)
        encoded = held.encode() if type_ is STRING else bytes(held)
        if type_ is STRING and self.fault.strikes("utf8"):
            encoded = b"\xff" * len(encoded)
        if self.fault.strikes("length"):
            return self._length(type_.length_format, 2**15 - 1 if type_ is STRING else HUGE) + encoded
        return self._length(type_.length_format, len(encoded)) + encoded

    def _array(self, type_: Array, held: Any, nullable: bool) -> bytes:
        if held is None or (not nullable and self.fault.strikes("null")):
            return self._length("i", None)
        if self.fault.strikes("count"):
            return self._length("i", HUGE) + b"".join(self.value(type_.element, item, False) for item in held)
        return self._length("i", len(held)) + b"".join(self.value(type_.element, item, False) for item in held)
