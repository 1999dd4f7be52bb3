"""Avro's types as objects. A parser builds them, then nobody changes them; a recursive record contains itself, so they
compare by identity.
"""

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class Absence(enum.Enum):
    """Null is a default, so that absence needs a sign of its own: one that stays itself when it is pickled."""

    NO_DEFAULT = "no default"


NO_DEFAULT: Final = Absence.NO_DEFAULT

Kind = Literal[
    "null",
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "bytes",
    "string",
    "record",
    "enum",
    "fixed",
    "array",
    "map",
    "union",
]


@dataclass(eq=False, slots=True)
class AvroType:
    kind: Kind
    properties: dict[str, Any]  # attributes that Avro gives no meaning, and `logicalType`

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.kind


@dataclass(eq=False, slots=True)
class Primitive(AvroType):
    pass


@dataclass(eq=False, slots=True)
class Named(AvroType):
    name: str  # the full name: namespace.name
    aliases: tuple[str, ...]  # full names
    doc: str | None

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(eq=False, slots=True)
class Field:
    name: str
    type: AvroType
    default: Any  # as in JSON, or NO_DEFAULT
    aliases: tuple[str, ...]
    order: str
    doc: str | None
    properties: dict[str, Any]

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


@dataclass(eq=False, slots=True)
class Record(Named):
    is_error: bool = False
    fields: tuple[Field, ...] = ()
    by_name: dict[str, Field] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Enum(Named):
    symbols: tuple[str, ...] = ()
    default: str | None = None
    symbol_set: frozenset[str] = frozenset()


@dataclass(eq=False, slots=True)
class Fixed(Named):
    size: int = 0


@dataclass(eq=False, slots=True)
class Array(AvroType):
    items: AvroType


@dataclass(eq=False, slots=True)
class Map(AvroType):
    values: AvroType


@dataclass(eq=False, slots=True)
class Union(AvroType):
    branches: tuple[AvroType, ...]


@dataclass(frozen=True, slots=True)
class LogicalType:
    name: str
    precision: int = 0
    scale: int = 0


_DECIMAL_BYTES_MAX: Final = 64
_PLAIN_LOGICAL_TYPES: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "uuid": ("string",),
}


def logical_type(avro_type: AvroType) -> LogicalType | None:
    """The logical type, if it is one that Avro knows and is used rightly; otherwise none: Avro tells readers to ignore
    it then.
    """
    name = avro_type.properties.get("logicalType")
    if not isinstance(name, str):
        return None
    if avro_type.kind in _PLAIN_LOGICAL_TYPES.get(name, ()):
        return LogicalType(name)
    if isinstance(avro_type, Fixed) and (name, avro_type.size) in (("uuid", 16), ("duration", 12)):
        return LogicalType(name)
    if name == "decimal" and avro_type.kind in ("bytes", "fixed"):
        return _decimal(avro_type)
    return None


def _decimal(avro_type: AvroType) -> LogicalType | None:
    precision, scale = avro_type.properties.get("precision"), avro_type.properties.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision == 0:
        return None
    if isinstance(avro_type, Fixed) and not _holds(avro_type.size, precision):
        return None
    return LogicalType("decimal", precision, scale)


def _holds(size_bytes: int, digits: int) -> bool:
    """Whether so many bytes, one bit of them for the sign, hold every number of so many digits. The power is only of a
    small number.
    """
    bits = 8 * min(size_bytes, _DECIMAL_BYTES_MAX) - 1
    return bits > 3 * digits and 10**digits <= 1 << bits  # a digit takes more than three bits


def inner_types(avro_type: AvroType) -> Iterator[AvroType]:
    """The types right inside a type."""
    if isinstance(avro_type, Record):
        for each in avro_type.fields:
            yield each.type
    elif isinstance(avro_type, Array):
        yield avro_type.items
    elif isinstance(avro_type, Map):
        yield avro_type.values
    elif isinstance(avro_type, Union):
        yield from avro_type.branches
