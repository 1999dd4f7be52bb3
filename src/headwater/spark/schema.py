"""The columns of the source: those of Spark's own Kafka source, with the same names and types, but for keys and values
that a schema gives others.

The Arrow schema is made by PySpark from Spark's, because the first batch that a reader gives must equal it exactly.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    import pyarrow

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


def source_schema(*, headers: bool, typed: Mapping[str, DataType] = MappingProxyType({})) -> StructType:
    columns = [
        StructField("key", typed.get("key", BinaryType())),
        StructField("value", typed.get("value", BinaryType())),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if headers:
        columns.append(StructField("headers", ArrayType(_HEADER)))
    return StructType(columns)


def arrow_schema(schema: StructType) -> "pyarrow.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
