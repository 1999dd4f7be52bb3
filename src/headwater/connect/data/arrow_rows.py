"""Structs as rows of Arrow: the type of their columns, and values as Arrow takes them."""

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS_MAX: Final = 38  # of a decimal that Spark, Hive and DuckDB read


def arrow_schema(schema: Schema) -> "pa.Schema":
    """The columns of a struct's fields."""
    import pyarrow as pa

    return pa.schema(list(arrow_type(schema)))


def arrow_type(schema: Schema) -> "pa.DataType":
    import pyarrow as pa

    match schema.name:
        case s.DECIMAL:
            scale = logical.scale_of(schema)
            if not 0 <= scale <= _DIGITS_MAX:
                raise DataError(f"Columns cannot have decimals with a scale of {scale}")
            return pa.decimal128(_DIGITS_MAX, scale)
        case s.DATE:
            return pa.date32()
        case s.TIME:
            return pa.time32("ms")
        case s.TIMESTAMP:
            return pa.timestamp("ms", tz="UTC")
    match schema.type:
        case Type.STRUCT:
            if not schema.fields:
                raise DataError("Columns cannot have structs without fields")
            return pa.struct(
                [pa.field(f.name, arrow_type(f.schema), nullable=f.schema.optional) for f in schema.fields]
            )
        case Type.ARRAY:
            return pa.list_(_inner("element", schema.value_schema))
        case Type.MAP:
            key = _inner("key", schema.key_schema)
            return pa.map_(key.with_nullable(False), _inner("value", schema.value_schema))
    return {
        Type.INT8: pa.int8(),
        Type.INT16: pa.int16(),
        Type.INT32: pa.int32(),
        Type.INT64: pa.int64(),
        Type.FLOAT32: pa.float32(),
        Type.FLOAT64: pa.float64(),
        Type.BOOLEAN: pa.bool_(),
        Type.STRING: pa.string(),
        Type.BYTES: pa.binary(),
    }[schema.type]


def _inner(name: str, schema: Schema | None) -> "pa.Field":
    import pyarrow as pa

    assert schema is not None
    return pa.field(name, arrow_type(schema), nullable=schema.optional)


def plain(schema: Schema, value: Any) -> Any:
    """As Arrow takes it: dicts for structs, pairs for maps; checked, so that a whole file does not fail for one
    value.
    """
    if value is None:
        if not schema.optional:
            raise DataError("null where the schema has a value")
        return None
    match schema.type:
        case Type.STRUCT:
            return {field.name: plain(field.schema, value.get(field.name)) for field in schema.fields}
        case Type.ARRAY:
            assert schema.value_schema is not None
            return [plain(schema.value_schema, each) for each in value]
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            if schema.key_schema.optional and None in value:
                raise DataError("Columns cannot have maps with null keys")
            return [(plain(schema.key_schema, key), plain(schema.value_schema, each)) for key, each in value.items()]
        case Type.BYTES if schema.name != s.DECIMAL:
            return bytes(value)
        case Type.STRING:
            try:
                value.encode()
            except UnicodeEncodeError:
                raise DataError("A text that is not Unicode") from None
    if isinstance(value, Decimal):
        return _decimal(schema, value)
    if schema.name == s.TIMESTAMP:  # milliseconds: what is finer is cut off
        return logical.millis_to_timestamp(logical.timestamp_to_millis(value))
    return logical.millis_to_time(logical.time_to_millis(value)) if schema.name == s.TIME else value


def _decimal(schema: Schema, value: Decimal) -> Decimal:
    if logical.scale_of_value(value) != logical.scale_of(schema):
        raise DataError(f"{value} has not the scale of its schema, {logical.scale_of(schema)}")
    if len(value.as_tuple().digits) > _DIGITS_MAX:
        raise DataError(f"A decimal of more than {_DIGITS_MAX} digits")
    return value
