"""What Spark is given for the columns of a frame: those of the source, or what somebody has said with `schema(...)`."""

import json
from typing import Any

import pytest
from pyspark.sql import types as spark

from headwater.base.errors import UserError
from headwater.spark.data_source import HeadwaterDataSource

TEXT = spark.StringType()
LONG = json.dumps({"type": "object", "properties": {"n": {"type": "integer"}}})


def source(**more: str) -> HeadwaterDataSource:
    given: Any = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **more}
    return HeadwaterDataSource(given)


def columns(*fields: tuple[str, spark.DataType]) -> spark.StructType:
    return spark.StructType([spark.StructField(*each) for each in fields])


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (columns(("value", spark.StringType())), "The column 'value' of .* it is binary, not string"),
        (columns(("n", spark.LongType())), "The column 'n' of .* there is no such column"),
        (columns(("headers", spark.StringType())), "no such column"),
        (spark.StructType([spark.StructField("value", spark.BinaryType(), False)]), "binary, not binary not null"),
    ],
)
def test_a_schema_that_is_none_of_the_source_is_refused_before_anything_is_read(
    schema: spark.StructType, why: str
) -> None:
    """Each task failed, with what Arrow or Spark say of columns that do not match."""
    with pytest.raises(UserError, match=why):
        source().reader(schema)
    with pytest.raises(UserError, match=why):
        source().streamReader(schema)


def test_a_typed_column_of_another_type_is_refused() -> None:
    """Its fields were null without a word."""
    typed = source(**{"value.format": "json", "value.schema": LONG})
    with pytest.raises(UserError, match="it is struct<n:bigint>, not struct<m:bigint>"):
        typed.reader(columns(("value", columns(("m", spark.LongType())))))


def test_some_of_the_columns_that_there_are_can_be_named() -> None:
    typed = source(**{"value.format": "json", "value.schema": LONG})
    typed.reader(columns(("value", columns(("n", spark.LongType()))), ("offset", spark.LongType())))
    typed.streamReader(typed.schema())
    source(includeHeaders="true").reader(source(includeHeaders="true").schema())


HEADERS = spark.ArrayType(columns(("key", spark.StringType()), ("value", spark.BinaryType())))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (columns(("value", spark.LongType())), "The column value .* bigint, not string or binary.*value.format"),
        (
            columns(("value", TEXT), ("key", columns(("n", spark.LongType())))),
            "The column key .* struct<n:bigint>, not",
        ),
        (columns(("value", TEXT), ("partition", TEXT)), "The column partition .* string, not int"),
        (columns(("value", TEXT), ("headers", spark.MapType(TEXT, TEXT))), "The column headers .* map"),
        (columns(("value", TEXT), ("headers", spark.ArrayType(columns(("key", TEXT))))), "The column headers"),
    ],
)
def test_a_column_that_no_record_takes_is_refused_before_a_task_begins(schema: spark.StructType, why: str) -> None:
    """Each of its tasks began a transaction and failed, four times over."""
    for write in (source_of_sink().writer, source_of_sink(delivery="at-least-once").streamWriter):
        with pytest.raises(UserError, match=why):
            write(schema, overwrite=False)


def test_columns_that_records_take() -> None:
    every = columns(
        ("value", spark.NullType()), ("key", spark.BinaryType()), ("partition", spark.ShortType()), ("headers", HEADERS)
    )
    source_of_sink().writer(every, overwrite=False)
    source_of_sink(**{"value.format": "json"}).writer(columns(("value", spark.LongType())), overwrite=False)
    source_of_sink().writer(columns(("value", TEXT), ("topic", spark.LongType())), overwrite=False)


def source_of_sink(**more: str) -> HeadwaterDataSource:
    given: Any = {"kafka.bootstrap.servers": "h:1", "topic": "a", **more}
    return HeadwaterDataSource(given)
