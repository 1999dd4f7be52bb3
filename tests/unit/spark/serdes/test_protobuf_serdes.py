"""Protobuf in Spark's columns and back: types, versions side by side, other messages, schemas that evolved."""

import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from headwater.base.errors import UserError
from headwater.schemas import SchemaType
from headwater.spark.serdes.decoding import SchemaEvolved, column_decoders
from headwater.spark.serdes.encoding import encoded_batches, plan_sink
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions
from headwater.spark.serdes.source_plan import plan_source
from unit.spark.serdes.fake_registry import FakeRegistry, registry

TEXT = """syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Colour { NONE = 0; RED = 1; }
message Other { int32 x = 1; }
message Order {
  string id = 1;
  uint32 count = 2;
  uint64 large = 3;
  optional int32 maybe = 4;
  Colour colour = 5;
  repeated Other others = 6;
  map<string, double> prices = 7;
  google.protobuf.Timestamp at = 8;
}
"""
WANTED = ColumnFormat("value", "protobuf", "t-value", "", "shop.Order")
OPTIONS = SerdeOptions((WANTED,), {"url": "-"})
ROW = {
    "id": "a",
    "count": 7,
    "large": Decimal(2**64 - 1),
    "maybe": None,
    "colour": "RED",
    "others": [{"x": 1}, {"x": 2}],
    "prices": [("eur", 1.5)],
    "at": None,
}


def with_schema(text: str = TEXT) -> FakeRegistry:
    made: FakeRegistry = registry()
    made.add("t-value", text, SchemaType.PROTOBUF)
    return made


def frame_type(known: Any) -> tuple[Any, Any]:
    (column,) = plan_source(OPTIONS, known)
    return column, pa.schema([("value", to_arrow_type(column.type, timezone="UTC"))])


def test_types_are_sparks_and_rows_go_round() -> None:
    known: Any = with_schema()
    column, schema = frame_type(known)
    assert column.format.message == "shop.Order"
    types = {each.name: each.dataType.simpleString() for each in column.type}
    assert types["count"] == "bigint"
    assert types["large"] == "decimal(20,0)"
    assert types["colour"] == "string"
    assert types["at"] == "timestamp"
    options = SerdeOptions((WANTED,), {"url": "-"}, use_latest=True)
    (sink,) = plan_sink(options, spark.StructType([spark.StructField("value", column.type)]), known)
    sink = pickle.loads(pickle.dumps(sink))  # as it travels to the tasks
    batch = pa.record_batch([pa.array([ROW, None, ROW], schema.field(0).type)], schema=schema)
    (written,) = encoded_batches((sink,), iter([batch]))
    assert written.column(0)[0].as_py()[:7] == b"\0\0\0\0\1\2\2"
    decoded, reasons = column_decoders((column,), schema, known)["value"](written.column(0))
    assert reasons == {}
    assert decoded.to_pylist() == [ROW, None, ROW]


def encoded(known: Any, text: str, message: str, row: dict[str, Any], of_type: spark.StructType) -> bytes:
    wanted = ColumnFormat("value", "protobuf", "t-value", text, message)
    (sink,) = plan_sink(
        SerdeOptions((wanted,), {"url": "-"}), spark.StructType([spark.StructField("value", of_type)]), known
    )
    column = pa.array([row], to_arrow_type(of_type, timezone="UTC"))
    (batch,) = encoded_batches((sink,), iter([pa.record_batch([column], ["value"])]))
    made: bytes = batch.column(0)[0].as_py()
    return made


def test_records_of_other_messages_and_versions_are_told_apart() -> None:
    known: Any = with_schema()
    column, schema = frame_type(known)
    id_only = spark.StructType([spark.StructField("id", spark.StringType())])
    order = encoded(known, TEXT, "shop.Order", {"id": "b"}, id_only)
    newer = encoded(
        known, TEXT.replace("int32 x = 1;", "int32 x = 1; int32 y = 2;"), "shop.Order", {"id": "c"}, id_only
    )
    other = encoded(
        known, TEXT, "shop.Other", {"x": 1}, spark.StructType([spark.StructField("x", spark.IntegerType())])
    )
    rows = pa.array([order, other, newer, b"plain", None, order[:-1]], pa.binary())
    decoded, reasons = column_decoders((column,), schema, known)["value"](rows)
    assert [row and row["id"] for row in decoded.to_pylist()] == ["b", None, "c", None, None, None]
    assert reasons[1] == "it is a shop.Other, not a shop.Order"
    assert "does not begin with the id" in reasons[3]
    assert "beyond the bytes" in reasons[5]
    assert set(reasons) == {1, 3, 5}


def test_a_version_that_cannot_be_read_ends_the_query() -> None:
    known: Any = with_schema()
    column, schema = frame_type(known)
    schema_id = known.add("t-value", TEXT.replace("string id = 1", "double id = 1"), SchemaType.PROTOBUF)
    with pytest.raises(SchemaEvolved, match="has other versions"):
        column_decoders((column,), schema, known)["value"](
            pa.array([b"\0" + schema_id.to_bytes(4) + b"\2\2"], pa.binary())
        )


@pytest.mark.parametrize(
    ("wanted", "latest", "said"),
    [
        (WANTED, False, "fields of Protobuf have numbers"),
        (ColumnFormat("value", "protobuf", "t-value", TEXT, "shop.No"), False, "no message shop.No"),
        (ColumnFormat("value", "protobuf", "t-value", TEXT, "shop.Other"), False, "has no field id"),
        (ColumnFormat("value", "protobuf", "u-value", TEXT, "shop.Order"), True, "no such subject"),
    ],
)
def test_a_sink_that_cannot_write_says_why(wanted: ColumnFormat, latest: bool, said: str) -> None:
    known: Any = with_schema()
    column = spark.StructType([spark.StructField("id", spark.StringType())])
    frame = spark.StructType([spark.StructField("value", column)])
    with pytest.raises(UserError, match=said):
        plan_sink(SerdeOptions((wanted,), {"url": "-"}, use_latest=latest), frame, known)


def test_a_message_that_contains_itself_cannot_be_typed() -> None:
    known: Any = with_schema('syntax = "proto3"; package shop; message Order { Order inner = 1; }')
    with pytest.raises(UserError, match="cannot be typed"):
        plan_source(OPTIONS, known)
