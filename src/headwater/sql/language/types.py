"""The types of columns and expressions: ksqlDB's, with its names, its order of numbers and its text form.

A value of each type in Python: BOOLEAN bool, INTEGER and BIGINT int, DOUBLE float, DECIMAL `decimal.Decimal`, STRING
str, BYTES bytes, DATE `datetime.date`, TIME `datetime.time`, TIMESTAMP `datetime.datetime` without a zone (it means
UTC), ARRAY list, MAP dict, STRUCT dict by field name. NULL is None.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Final


class Base(Enum):
    """What kind of type it is; `value` is the name that statements and answers use."""

    BOOLEAN = "BOOLEAN"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    DECIMAL = "DECIMAL"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BYTES = "BYTES"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


@dataclass(frozen=True, slots=True)
class Type:
    """A type without parameters; those with parameters are subclasses."""

    base: Base

    def __str__(self) -> str:
        return self.base.value

    @property
    def is_number(self) -> bool:
        return self.base in _WIDTH


@dataclass(frozen=True, slots=True)
class DecimalType(Type):
    precision: int
    scale: int

    def __str__(self) -> str:
        return f"DECIMAL({self.precision}, {self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType(Type):
    item: Type

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


@dataclass(frozen=True, slots=True)
class MapType(Type):
    key: Type
    value: Type

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructType(Type):
    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return f"STRUCT<{listed(self.fields)}>"

    def field(self, name: str) -> Type | None:
        return dict(self.fields).get(name)


BOOLEAN: Final = Type(Base.BOOLEAN)
INTEGER: Final = Type(Base.INTEGER)
BIGINT: Final = Type(Base.BIGINT)
DOUBLE: Final = Type(Base.DOUBLE)
STRING: Final = Type(Base.STRING)
BYTES: Final = Type(Base.BYTES)
DATE: Final = Type(Base.DATE)
TIME: Final = Type(Base.TIME)
TIMESTAMP: Final = Type(Base.TIMESTAMP)

# Names that statements use for types without parameters.
NAMED: Final[dict[str, Type]] = {
    "BOOLEAN": BOOLEAN,
    "INTEGER": INTEGER,
    "INT": INTEGER,
    "BIGINT": BIGINT,
    "DOUBLE": DOUBLE,
    "VARCHAR": STRING,
    "STRING": STRING,
    "BYTES": BYTES,
    "DATE": DATE,
    "TIME": TIME,
    "TIMESTAMP": TIMESTAMP,
}

MAX_PRECISION: Final = 1_000  # BigDecimal's is larger; nobody needs it, and it bounds the work of a peer's statement

# Numbers in the order in which they widen.
_WIDTH: Final = {Base.INTEGER: 0, Base.BIGINT: 1, Base.DECIMAL: 2, Base.DOUBLE: 3}


class NoSuchType(ValueError):
    """A DECIMAL that there is not."""


def decimal(precision: int, scale: int) -> DecimalType:
    """DECIMAL(precision, scale); raises NoSuchType where ksqlDB refuses the pair."""
    if precision < 1:
        raise NoSuchType(f"DECIMAL precision must be >= 1: DECIMAL({precision},{scale})")
    if scale < 0:
        raise NoSuchType(f"DECIMAL scale must be >= 0: DECIMAL({precision},{scale})")
    if precision < scale:
        raise NoSuchType(f"DECIMAL precision must be >= scale: DECIMAL({precision},{scale})")
    if precision > MAX_PRECISION:
        raise NoSuchType(f"DECIMAL precision must be at most {MAX_PRECISION}: DECIMAL({precision},{scale})")
    return DecimalType(Base.DECIMAL, precision, scale)


def array(item: Type) -> ArrayType:
    return ArrayType(Base.ARRAY, item)


def mapping(key: Type, value: Type) -> MapType:
    return MapType(Base.MAP, key, value)


def struct(*fields: tuple[str, Type]) -> StructType:
    return StructType(Base.STRUCT, tuple(fields))


def quoted(name: str) -> str:
    """A name as statements have to write it: between backquotes, as ksqlDB prints every column."""
    return "`" + name.replace("`", "``") + "`"


def listed(columns: Iterable[tuple[str, Type]]) -> str:
    """Columns or fields as ksqlDB prints them: a name and a type each."""
    return ", ".join(f"{quoted(name)} {each}" for name, each in columns)


def decimal_of_value(value: Decimal) -> DecimalType:
    """The DECIMAL that holds this value with all its digits, and no more."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return decimal(max(len(digits) + max(exponent, 0), scale, 1), scale)


def as_decimal(given: Type) -> DecimalType:
    """The DECIMAL that holds every value of an INTEGER, a BIGINT or a DECIMAL."""
    if isinstance(given, DecimalType):
        return given
    return decimal(10, 0) if given.base is Base.INTEGER else decimal(19, 0)


def widest(left: Type, right: Type) -> Type | None:
    """The number type that both become in an operation, or None if one of them is no number."""
    if not (left.is_number and right.is_number):
        return None
    if Base.DOUBLE in (left.base, right.base):
        return DOUBLE
    if Base.DECIMAL in (left.base, right.base):
        one, other = as_decimal(left), as_decimal(right)
        scale = max(one.scale, other.scale)
        return decimal(max(one.precision - one.scale, other.precision - other.scale) + scale, scale)
    return left if _WIDTH[left.base] >= _WIDTH[right.base] else right


def can_widen(given: Type, wanted: Type) -> bool:
    """Whether a value of `given` is taken where `wanted` stands, without a cast."""
    if given == wanted:
        return True
    if given.is_number and wanted.is_number:
        if isinstance(wanted, DecimalType):
            if given.base is Base.DOUBLE:
                return False
            small = as_decimal(given)
            return small.scale <= wanted.scale and small.precision - small.scale <= wanted.precision - wanted.scale
        return _WIDTH[given.base] <= _WIDTH[wanted.base]
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        return can_widen(given.item, wanted.item)
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        return can_widen(given.key, wanted.key) and can_widen(given.value, wanted.value)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        theirs = dict(wanted.fields)
        return all(name in theirs and can_widen(each, theirs[name]) for name, each in given.fields)
    return False
