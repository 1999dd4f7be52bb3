"""Avro's types as Spark's, and Spark's as an Avro schema. Pure.

To Spark: as the columns of Arrow that records are decoded into, where Spark has such a type; enums and uuids are
strings, fixed is binary, times of day are their numbers, as Spark's own Avro reader has them; Protobuf's unsigned
numbers are the next larger type. Every field may be null: a reader's default fills what is missing.

From Spark: a column that may be null is `["null", X]` with the default null, so that it can come and go in later
versions. Records are named as Spark names them: `topLevelRecord`, and inside it by their fields.
"""

import json
import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark

from headwater.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOP: Final = "topLevelRecord"
_AVRO_NAMES: Final[dict[type[spark.DataType], Any]] = {
    spark.BooleanType: "boolean",
    spark.ByteType: "int",
    spark.ShortType: "int",
    spark.IntegerType: "int",
    spark.LongType: "long",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.StringType: "string",
    spark.BinaryType: "bytes",
    spark.DateType: {"type": "int", "logicalType": "date"},
    spark.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    spark.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    spark.NullType: "null",
}


def spark_type(arrow: "pa.DataType") -> spark.DataType:
    """Of a type that `headwater.schemas.columns` gives."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_type

    kinds = pa.types
    if kinds.is_struct(arrow):
        return spark.StructType([spark.StructField(each.name, spark_type(each.type)) for each in arrow])
    if kinds.is_list(arrow):
        return spark.ArrayType(spark_type(arrow.value_type))
    if kinds.is_map(arrow):
        return spark.MapType(spark_type(arrow.key_type), spark_type(arrow.item_type))
    if kinds.is_dictionary(arrow):
        return spark.StringType()
    if kinds.is_fixed_size_binary(arrow):
        return spark.BinaryType()
    if kinds.is_time32(arrow):
        return spark.IntegerType()
    if kinds.is_time64(arrow):
        return spark.LongType()
    if kinds.is_uint32(arrow):
        return spark.LongType()
    if kinds.is_uint64(arrow):
        return spark.DecimalType(20, 0)
    if kinds.is_timestamp(arrow):
        return spark.TimestampNTZType() if arrow.tz is None else spark.TimestampType()
    return from_arrow_type(arrow)


def avro_schema(of_type: spark.DataType) -> str:
    """The schema that a column of this type is written with, as text."""
    return json.dumps(_avro(of_type, _TOP, "", _TOP), separators=(",", ":"))


def _avro(of_type: spark.DataType, name: str, namespace: str, path: str) -> Any:
    if isinstance(of_type, spark.StructType):
        inner = f"{namespace}.{name}" if namespace else name
        fields = []
        for each in of_type:
            place = f"{path}.{each.name}"
            if _NAME.fullmatch(each.name) is None:
                raise UserError(
                    f"The field {place} cannot be written as Avro",
                    "a name there has letters, digits and _ only",
                    "Rename it",
                )
            made = _nullable(_avro(each.dataType, each.name, inner, place), each.nullable)
            fields.append({"name": each.name, "type": made} | ({"default": None} if each.nullable else {}))
        record = {"type": "record", "name": name, "fields": fields}
        return record | ({"namespace": namespace} if namespace else {})
    if isinstance(of_type, spark.ArrayType):
        items = _avro(of_type.elementType, name, namespace, f"{path}.element")
        return {"type": "array", "items": _nullable(items, of_type.containsNull)}
    if isinstance(of_type, spark.MapType) and isinstance(of_type.keyType, spark.StringType):
        values = _avro(of_type.valueType, name, namespace, f"{path}.value")
        return {"type": "map", "values": _nullable(values, of_type.valueContainsNull)}
    if isinstance(of_type, spark.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": of_type.precision, "scale": of_type.scale}
    found = next((made for kind, made in _AVRO_NAMES.items() if isinstance(of_type, kind)), None)
    if found is None:
        raise UserError(
            f"The field {path} cannot be written as Avro",
            f"there is nothing like {of_type.simpleString()} in it",
            "Cast it",
        )
    return found


def _nullable(avro: Any, nullable: bool) -> Any:
    return ["null", avro] if nullable and avro != "null" else avro
