"""What a column of a PostgreSQL type becomes: a schema, and a function that reads the type's text. Pure.

Schemas and values are Debezium's, by the modes of its connector (`decimal.handling.mode` and its like). A type that
none of these rules know is no column at all, or bytes with `include.unknown.datatypes`. Numbers that Connect's own
Date, Time and Timestamp cannot hold (`time.precision.mode=connect` with years before Christ) are a `DataError`.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.postgres_cdc import text_values as t
from headwater.connect.connectors.postgres_cdc.temporal_types import temporal
from headwater.connect.data import schema as s
from headwater.connect.data.logical import scale_of_value, unscaled
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_WIDE: Final = Context(prec=200_000)
_UNBOUNDED_BITS: Final = (1 << 31) - 1


class TypeInfo(NamedTuple):
    """A row of pg_type."""

    oid: int
    name: str
    kind: str = "b"  # typtype: base, composite, domain, enum, range, multirange
    element: int = 0  # of an array
    base: int = 0  # of a domain
    base_modifier: int = -1
    labels: tuple[str, ...] = ()
    delimiter: str = ","


class Modes(NamedTuple):
    decimal: str = "precise"
    time: str = "adaptive"
    binary: str = "bytes"
    interval: str = "numeric"
    hstore: str = "json"
    unavailable: str = "__debezium_unavailable_value"
    unknown_as_bytes: bool = False
    money_digits: int = 2


class ColumnType(NamedTuple):
    """`schema` is the one of a column that is NOT NULL; `zero` stands for a value that such a column has and the log
    has not.
    """

    schema: Schema
    read: Callable[[str], Any]
    zero: Any = None
    unavailable: Any = None
    default_allowed: bool = True  # whether a default of the database becomes one of the schema
    type_name: str = ""
    length: int = 0  # of a text, where the column limits it


Types = Mapping[int, TypeInfo]


def column_type(types: Types, oid: int, modifier: int, modes: Modes) -> ColumnType | None:
    """None: a column of this type is left out."""
    info = types.get(oid)
    if info is None:
        return None
    while info.kind == "d":
        modifier = info.base_modifier if modifier < 0 else modifier
        base = types.get(info.base)
        if base is None:
            return None
        info = base
    if info.element:
        return _array(types, info, modifier, modes)
    found = _of_enum(info) if info.kind == "e" else _of_name(info, modifier, modes)
    if found is None and modes.unknown_as_bytes:
        encode = _binary(modes)
        return ColumnType(encode.schema, lambda text: encode.of(text.encode()), encode.of(b""), None, False, info.name)
    length = modifier - 4 if info.name in ("varchar", "bpchar") and modifier > 4 else 0
    return None if found is None else found._replace(type_name=info.name, length=length)


def reading(read: Callable[[str], Any], schema: Schema) -> Callable[[str], Any]:
    """The same values under the field's own schema: a struct's must be exactly that, optional or not."""
    if schema.type is not Type.STRUCT:
        return read

    def of(text: str) -> Struct | None:
        found = read(text)
        return None if found is None else found.under(schema)

    return of


def _of_enum(info: TypeInfo) -> ColumnType:
    allowed = {"allowed": ",".join(info.labels)}
    return ColumnType(Schema(Type.STRING, name="io.debezium.data.Enum", version=1, parameters=allowed), str, "")


def _of_name(info: TypeInfo, modifier: int, modes: Modes) -> ColumnType | None:
    simple = _SIMPLE.get(info.name)
    if simple is not None:
        return simple._replace(unavailable=modes.unavailable if simple.schema.type is Type.STRING else None)
    if info.kind == "r":
        return ColumnType(s.STRING, str, "", modes.unavailable)
    dated = temporal(info.name, modifier, modes.time)
    if dated is not None:
        return ColumnType(*dated)
    match info.name:
        case "numeric" | "money":
            return _decimal(info.name, modifier, modes.decimal, modes.money_digits)
        case "bytea":
            encode = _binary(modes)
            return ColumnType(encode.schema, lambda text: encode.of(t.bytes_of(text)), encode.of(b""), encode.of(modes.unavailable.encode()), False)  # fmt: skip
        case "bit" | "varbit":
            return _bits(info.name, modifier)
        case "interval" if modes.interval == "string":
            schema = Schema(Type.STRING, name="io.debezium.time.Interval", version=1)
            return ColumnType(schema, lambda text: t.interval_of(text).iso, "P0Y0M0DT0H0M0S")
        case "interval":
            schema = Schema(Type.INT64, name="io.debezium.time.MicroDuration", version=1)
            return ColumnType(schema, lambda text: t.interval_of(text).total_us, 0)
        case "hstore" if modes.hstore == "map":
            return ColumnType(s.map_of(s.STRING, s.OPTIONAL_STRING), t.hstore_of, {}, {modes.unavailable: modes.unavailable}, False)  # fmt: skip
        case "hstore":
            schema = Schema(Type.STRING, name=_JSON, version=1)
            return ColumnType(schema, lambda text: json.dumps(t.hstore_of(text), separators=(",", ":"), ensure_ascii=False), "{}", modes.unavailable, False)  # fmt: skip
        case "point":
            return ColumnType(_POINT, _point, None, None, False)
    return None


_JSON: Final = "io.debezium.data.Json"
_POINT: Final = s.struct(
    [("x", s.FLOAT64), ("y", s.FLOAT64), ("wkb", s.OPTIONAL_BYTES), ("srid", s.OPTIONAL_INT32)],
    name="io.debezium.data.geometry.Point",
    version=1,
    doc="Geometry (POINT)",
)
_VARIABLE_SCALE: Final = s.struct(
    [("scale", s.INT32), ("value", s.BYTES)],
    name="io.debezium.data.VariableScaleDecimal",
    version=1,
    doc="Variable scaled decimal",
)


def _named(name: str) -> Schema:
    return Schema(Type.STRING, name=f"io.debezium.data.{name}", version=1)


def _truth(text: str) -> bool:
    return text == "t"


_TEXT: Final = ColumnType(s.STRING, str, "")
_SIMPLE: Final[dict[str, ColumnType]] = {
    "bool": ColumnType(s.BOOLEAN, _truth, False),
    "int2": ColumnType(s.INT16, int, 0),
    "int4": ColumnType(s.INT32, int, 0),
    "int8": ColumnType(s.INT64, int, 0),
    "oid": ColumnType(s.INT64, int, 0),
    "float4": ColumnType(s.FLOAT32, float, 0.0),
    "float8": ColumnType(s.FLOAT64, float, 0.0),
    "uuid": ColumnType(_named("Uuid"), str, "00000000-0000-0000-0000-000000000000"),
    "json": ColumnType(_named("Json"), str, "{}"),
    "jsonb": ColumnType(_named("Json"), str, "{}"),
    "xml": ColumnType(_named("Xml"), str, ""),
    "ltree": ColumnType(_named("Ltree"), str, ""),
    "tsvector": ColumnType(_named("Tsvector"), str, ""),
    **dict.fromkeys(
        ("text", "varchar", "bpchar", "char", "name", "citext", "inet", "cidr", "macaddr", "macaddr8"), _TEXT
    ),
}


def _point(text: str) -> Struct:
    x, y, binary = t.point_of(text)
    return Struct(_POINT, {"x": x, "y": y, "wkb": binary})


def _decimal(name: str, modifier: int, mode: str, money_digits: int) -> ColumnType:
    parse: Callable[[str], Decimal] = t.money_of if name == "money" else _number
    if mode == "double":
        return ColumnType(s.FLOAT64, lambda text: float(parse(text)), 0.0)
    if name == "numeric" and modifier < 0:
        if mode == "string":
            return ColumnType(s.STRING, lambda text: _plain(parse(text)), "0")
        return ColumnType(_VARIABLE_SCALE, lambda text: _variable_scale(parse(text)), None, None, False)
    scale, parameters = money_digits, {s.SCALE: str(money_digits)}
    if name == "numeric":
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
        parameters = {s.SCALE: str(scale), "connect.decimal.precision": str(precision)}
    unit = Decimal(1).scaleb(-scale)
    schema = Schema(Type.BYTES, name=s.DECIMAL, version=1, parameters=parameters)

    def read(text: str) -> Decimal | None:
        value = parse(text)
        return value.quantize(unit, ROUND_HALF_UP, _WIDE) if value.is_finite() else None

    if mode == "string":
        return ColumnType(s.STRING, lambda text: _plain(read(text) or parse(text)), "0")
    return ColumnType(schema, read, Decimal(0).quantize(unit))


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise DataError(f"Not a number: {text!r}") from None


def _plain(value: Decimal) -> str:
    if value.is_finite():
        return f"{value:f}"
    return "NAN" if math.isnan(value) else "POSITIVE_INFINITY" if value > 0 else "NEGATIVE_INFINITY"


def _variable_scale(value: Decimal) -> Struct | None:
    if not value.is_finite():
        return None
    number = unscaled(value)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return Struct(_VARIABLE_SCALE, {"scale": scale_of_value(value), "value": number.to_bytes(size, "big", signed=True)})


class _Binary(NamedTuple):
    schema: Schema
    of: Callable[[bytes], Any]


def _binary(modes: Modes) -> _Binary:
    match modes.binary:
        case "base64":
            return _Binary(s.STRING, lambda data: base64.b64encode(data).decode())
        case "base64-url-safe":
            return _Binary(s.STRING, lambda data: base64.urlsafe_b64encode(data).decode())
        case "hex":
            return _Binary(s.STRING, bytes.hex)
    return _Binary(s.BYTES, bytes)


def binary_of(modes: Modes) -> tuple[Schema, Callable[[bytes], Any]]:
    return _binary(modes)


def _bits(name: str, modifier: int) -> ColumnType:
    length = modifier if modifier > 0 else 1 if name == "bit" else _UNBOUNDED_BITS
    if length == 1 and name == "bit":
        return ColumnType(s.BOOLEAN, lambda text: text == "1", False)
    schema = Schema(Type.BYTES, name="io.debezium.data.Bits", version=1, parameters={"length": str(length)})
    return ColumnType(schema, t.bits_of, b"\0")


def _array(types: Types, info: TypeInfo, modifier: int, modes: Modes) -> ColumnType | None:
    element = column_type(types, info.element, modifier, modes._replace(unknown_as_bytes=False))
    if element is None or element.schema.type in (Type.ARRAY, Type.MAP):
        return None
    # Debezium's enums in arrays are required
    required = element.schema.name == "io.debezium.data.Enum"
    inner = element.schema if required else element.schema.as_optional()
    read, delimiter = reading(element.read, inner), info.delimiter

    def elements(text: str) -> list[Any]:
        return [None if each is None else read(each) for each in t.array_of(text, delimiter)]

    unavailable: list[Any] | None = None
    if element.unavailable is not None:
        unavailable = [element.unavailable]
    elif element.schema.type in (Type.INT16, Type.INT32, Type.INT64) and element.schema.name is None:
        unavailable = list(modes.unavailable.encode())
    return ColumnType(s.array(inner), elements, [], unavailable, False, info.name)
