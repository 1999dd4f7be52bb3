"""Schemas: types, optional or not, with defaults, names, versions and parameters.

A `Schema` is immutable and compares by value. Logical types are schemas with a name of Connect's: `Decimal` on bytes,
`Date` and `Time` on int32, `Timestamp` on int64; their values are `decimal.Decimal`, `datetime.date`, `datetime.time`
and `datetime.datetime` (UTC, milliseconds).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headwater.connect.errors import DataError, SchemaBuilderError


class Type(StrEnum):
    """The values are the names that JSON and configs have for them."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


class Field(NamedTuple):
    name: str
    position: int
    schema: "Schema"


@dataclass(frozen=True, eq=False)
class Schema:
    type: Type
    optional: bool = False
    default: Any = None
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    fields: tuple[Field, ...] = ()
    key_schema: "Schema | None" = None
    value_schema: "Schema | None" = None
    _by_name: dict[str, Field] = field_(init=False, repr=False)
    _hash: int = field_(init=False, repr=False)

    def __post_init__(self) -> None:
        by_name = {field.name: field for field in self.fields}
        object.__setattr__(self, "_by_name", by_name)
        if len(by_name) != len(self.fields):
            twice = next(each.name for each in self.fields if by_name[each.name] is not each)
            raise SchemaBuilderError(f"Cannot create field because of field name duplication {twice}")
        object.__setattr__(self, "_hash", hash((self.type, self.optional, self.name, self.version, tuple(by_name))))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema) or self._hash != other._hash:
            return False
        return (
            self.type is other.type
            and self.optional == other.optional
            and self.version == other.version
            and self.name == other.name
            and self.doc == other.doc
            and self.default == other.default
            and self.fields == other.fields
            and self.key_schema == other.key_schema
            and self.value_schema == other.value_schema
            and self.parameters == other.parameters
        )

    def __str__(self) -> str:
        return f"Schema{{{self.name}:{self.type.name}}}" if self.name else f"Schema{{{self.type.name}}}"

    def field(self, name: str) -> Field | None:
        if self.type is not Type.STRUCT:
            raise DataError("Cannot look up fields on non-struct type")
        return self._by_name.get(name)

    def as_optional(self) -> "Schema":
        return self if self.optional else replace(self, optional=True)

    def changed(self, **changes: Any) -> "Schema":
        return replace(self, **changes)


class StructValue:
    """What a struct is at least: `Struct` is the one there is."""

    __slots__ = ("schema",)
    schema: Schema

    def validate(self) -> None:
        raise NotImplementedError


def struct(
    fields: Iterable[tuple[str, Schema]],
    *,
    optional: bool = False,
    name: str | None = None,
    version: int | None = None,
    doc: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Schema:
    """A struct of named fields, in their order."""
    made = tuple(Field(field, index, schema) for index, (field, schema) in enumerate(fields))
    return Schema(Type.STRUCT, optional, None, name, version, doc, parameters, made)


def array(items: Schema, *, optional: bool = False) -> Schema:
    return Schema(Type.ARRAY, optional, value_schema=items)


def map_of(keys: Schema, values: Schema, *, optional: bool = False) -> Schema:
    return Schema(Type.MAP, optional, key_schema=keys, value_schema=values)


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)
OPTIONAL_INT32: Final = INT32.as_optional()
OPTIONAL_INT64: Final = INT64.as_optional()
OPTIONAL_FLOAT64: Final = FLOAT64.as_optional()
OPTIONAL_BOOLEAN: Final = BOOLEAN.as_optional()
OPTIONAL_STRING: Final = STRING.as_optional()
OPTIONAL_BYTES: Final = BYTES.as_optional()

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
LOGICAL_NAMES: Final = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})
SCALE: Final = "scale"
PRECISION: Final = "connect.decimal.precision"  # which Connect itself does not know

DATE_SCHEMA: Final = Schema(Type.INT32, name=DATE, version=1)
TIME_SCHEMA: Final = Schema(Type.INT32, name=TIME, version=1)
TIMESTAMP_SCHEMA: Final = Schema(Type.INT64, name=TIMESTAMP, version=1)
OPTIONAL_TIMESTAMP: Final = TIMESTAMP_SCHEMA.as_optional()


def decimal_schema(scale: int, *, optional: bool = False, precision: int | None = None) -> Schema:
    """`precision`: how many digits there may be, as converters for Avro and Protobuf ask for it."""
    parameters = {SCALE: str(scale)} if precision is None else {SCALE: str(scale), PRECISION: str(precision)}
    return Schema(Type.BYTES, optional, name=DECIMAL, version=1, parameters=parameters)


class SchemaAndValue(NamedTuple):
    schema: Schema | None
    value: Any


NULL: Final = SchemaAndValue(None, None)
