"""The columns of a data frame as schemas and values of Connect. Pure but for PySpark's types.

Everything that Spark calls nullable is optional. Decimals, dates and timestamps are Connect's logical types, timestamps
to the millisecond; a timestamp without a zone counts as UTC.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SIMPLE = {
    "boolean": s.BOOLEAN,
    "tinyint": s.INT8,
    "smallint": s.INT16,
    "int": s.INT32,
    "bigint": s.INT64,
    "float": s.FLOAT32,
    "double": s.FLOAT64,
    "string": s.STRING,
    "binary": s.BYTES,
    "date": s.DATE_SCHEMA,
    "timestamp": s.TIMESTAMP_SCHEMA,
    "timestamp_ntz": s.TIMESTAMP_SCHEMA,
}


def connect_schema(columns: "StructType", *, optional: bool = False) -> Schema:
    fields = [(each.name, _schema(each.dataType, each.nullable, each.name)) for each in columns.fields]
    if not fields:
        raise ConnectError("What was read has no columns")
    return s.struct(fields, optional=optional)


def _schema(kind: "DataType", nullable: bool, name: str) -> Schema:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StringType, StructType

    if isinstance(kind, StructType):
        return connect_schema(kind, optional=nullable)
    if isinstance(kind, ArrayType):
        return s.array(_schema(kind.elementType, kind.containsNull, name), optional=nullable)
    if isinstance(kind, MapType):
        values = _schema(kind.valueType, kind.valueContainsNull, name)
        return s.map_of(_schema(kind.keyType, False, name), values, optional=nullable)
    if isinstance(kind, DecimalType):
        return s.decimal_schema(kind.scale, optional=nullable)
    text = "string" if isinstance(kind, StringType) else kind.simpleString()
    found = _SIMPLE.get(text)
    if found is None:
        raise ConnectError(
            f"The column {name} is of the type {text}, which records cannot have: cast it in what is read"
        )
    return found.as_optional() if nullable else found


Make = Callable[[Any], Any]


def value_of(schema: Schema) -> Make:
    """From what Arrow gives for a value to what a record holds."""
    made = _value_of(schema)
    return lambda value: None if value is None else made(value)


def _value_of(schema: Schema) -> Make:
    match schema.type:
        case Type.STRUCT:
            fields = [(field.name, value_of(field.schema)) for field in schema.fields]
            return lambda row: Struct.of(schema, [make(row[name]) for name, make in fields])
        case Type.ARRAY:
            assert schema.value_schema is not None
            item = value_of(schema.value_schema)
            return lambda items: [item(each) for each in items]
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            key, value = value_of(schema.key_schema), value_of(schema.value_schema)
            return lambda pairs: {key(name): value(each) for name, each in pairs}
    if schema.name == s.TIMESTAMP:
        return lambda time: logical.millis_to_timestamp(logical.timestamp_to_millis(time))
    return lambda value: value
