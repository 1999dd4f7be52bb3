"""JSON in Spark's columns and back: types of a JSON Schema, values that do not fit, schemas that evolved."""

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type

from headwater.base.errors import UserError
from headwater.client.schema_registry import SchemaRegistryError
from headwater.schemas import SchemaType, parse
from headwater.schemas.framing import SchemaId
from headwater.schemas.model import DataError
from headwater.spark.serdes.decoding import JsonDecoder, SchemaEvolved
from headwater.spark.serdes.encoding import encoded_batches, plan_sink
from headwater.spark.serdes.json_types import given_type, json_schema, json_spark_type, unreadable
from headwater.spark.serdes.json_values import json_bytes, json_value
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions
from headwater.spark.serdes.source_plan import plan_source
from unit.spark.serdes.fake_registry import FakeRegistry, registry

WANTED = ColumnFormat("value", "json", "t-value", "")


def struct(**fields: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in fields.items()])


def schema(**properties: Any) -> str:
    return json.dumps({"type": "object", "properties": properties})


@pytest.mark.parametrize(
    ("said", "comes_to"),
    [
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["null", "boolean"]}, "boolean"),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "string"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "contentEncoding": "base64"}, "binary"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"properties": {"x": {"type": "integer"}}}, "struct<x:bigint>"),
        ({"$ref": "#/definitions/x~1y"}, "struct<deep:string>"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "string"),
        ({"type": ["integer", "string"]}, "string"),
        ({"type": ["null", "integer"], "allOf": [{"minimum": 0}]}, "bigint"),
        ({"description": "of x", "allOf": [{"type": "integer"}]}, "bigint"),
        ({"$ref": "other.json"}, "string"),
        ({"type": "object"}, "string"),
        (True, "string"),
    ],
)
def test_types_of_a_schema(said: Any, comes_to: str) -> None:
    """`x/y` contains itself: what is inside it again is JSON as it stands."""
    inside = {"type": "object", "properties": {"deep": {"$ref": "#/definitions/x~1y"}}}
    text = json.dumps({"type": "object", "properties": {"a": said}, "definitions": {"x/y": inside}})
    assert json_spark_type(text).simpleString() == f"struct<a:{comes_to}>"


def test_a_schema_that_is_given() -> None:
    text = spark.StructType([spark.StructField("n", spark.IntegerType(), nullable=False)]).json()
    assert given_type("value.schema", text) == struct(n=spark.IntegerType())
    assert given_type("value.schema", schema(n={"type": "integer"})) == struct(n=spark.LongType())
    for wrong in ("n INT", "[]", '{"type": "struct"}', '{"type": "struct", "fields": [{"name": "n", "type": "what"}]}'):
        with pytest.raises(UserError, match="is not a schema of JSON"):
            given_type("value.schema", wrong)
    for other in (
        spark.ArrayType(spark.LongType()),
        spark.MapType(spark.StringType(), spark.ArrayType(spark.DateType())),
    ):
        assert given_type("value.schema", other.json()) == other


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (schema(n={"type": "long"}), "at #/properties/n: type is one of .* not 'long'"),
        (json.dumps({"type": "object", "properties": ["n"]}), "properties is an object"),
        (schema(n={"$ref": "#/nowhere"}), "points to nothing"),
    ],
)
def test_a_slip_in_a_schema_that_is_given_makes_no_column_of_text(text: str, why: str) -> None:
    with pytest.raises(UserError, match=f"is not a schema of JSON.*{why}"):
        given_type("value.schema", text)


def test_what_a_given_schema_refers_to_elsewhere_is_text() -> None:
    assert given_type("value.schema", schema(n={"$ref": "other.json#/a"})) == struct(n=spark.StringType())


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (struct(n=spark.MapType(spark.IntegerType(), spark.LongType())), "n is map<int,bigint>"),
        (struct(n=spark.ArrayType(spark.DayTimeIntervalType())), r"n\[\] is interval day to second"),
        (struct(n=spark.VariantType()), "n is variant"),
        (struct(n=spark.VarcharType(3)), r"n is varchar\(3\)"),
    ],
)
def test_a_column_that_no_record_could_fill_is_refused(kind: spark.StructType, why: str) -> None:
    with pytest.raises(UserError, match=f"The option value.schema has a type that JSON has no values of. {why}"):
        given_type("value.schema", kind.json())


EVERYTHING = struct(
    flag=spark.BooleanType(),
    small=spark.ShortType(),
    large=spark.LongType(),
    ratio=spark.DoubleType(),
    word=spark.StringType(),
    raw=spark.BinaryType(),
    day=spark.DateType(),
    at=spark.TimestampType(),
    parts=spark.ArrayType(struct(x=spark.LongType())),
    tags=spark.MapType(spark.StringType(), spark.LongType()),
    none=spark.StringType(),
)
ROW: dict[str, Any] = {
    "flag": True,
    "small": -3,
    "large": 2**62 + 1,
    "ratio": 0.1,
    "word": "ü",
    "raw": b"\0\1",
    "day": date(2024, 5, 1),
    "at": datetime(2024, 5, 1, 2, 3, 4, 5, UTC),
    "parts": [{"x": 1}, None],
    "tags": [("a", 1)],
    "none": None,
}


def test_what_is_written_is_read_again() -> None:
    asked = registry()
    options = SerdeOptions((WANTED,), {"url": "-"})
    frame = spark.StructType([spark.StructField("value", EVERYTHING)])
    planned = pickle.loads(pickle.dumps(plan_sink(options, frame, asked)))
    ((subject, stored),) = asked.by_id
    assert (subject, stored.schema_type) == ("t-value", SchemaType.JSON)
    parse(SchemaType.JSON, stored.text)
    array = pa.array([ROW, None], to_arrow_type(EVERYTHING, timezone="UTC"))
    (batch,) = encoded_batches(planned, iter([pa.RecordBatch.from_arrays([array], names=["value"])]))
    assert batch.column("value")[0].as_py().startswith(SchemaId(1).prefix() + b'{"flag":true')
    made, bad = decoder(asked)(batch.column("value"))
    assert (made.to_pylist(), bad) == ([ROW, None], {})


def test_without_a_registry_it_is_plain_json() -> None:
    frame = spark.StructType([spark.StructField("value", struct(n=spark.LongType(), none=spark.LongType()))])
    planned = plan_sink(SerdeOptions((WANTED,)), frame, None)
    array = pa.array([{"n": 1, "none": None}], to_arrow_type(frame["value"].dataType))
    (batch,) = encoded_batches(planned, iter([pa.RecordBatch.from_arrays([array], names=["value"])]))
    assert batch.column("value").to_pylist() == [b'{"n":1}']
    wanted = ColumnFormat("value", "json", "", schema(n={"type": "integer"}))
    (column,) = plan_source(SerdeOptions((wanted,)), None)
    decode = JsonDecoder(column, to_arrow_type(column.type), None)
    assert decode(pa.array([b'{"n":1,"more":2}', None, b"{"])) == (
        pa.array([{"n": 1}, None, None], to_arrow_type(column.type)),
        {2: "it is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
    )


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.0", spark.LongType(), 1),
        ("3", spark.DoubleType(), 3.0),
        ('{"a": [1, 2.5]}', spark.StringType(), '{"a":[1,2.5]}'),
        ("12.30", spark.DecimalType(5, 2), Decimal("12.30")),
        ('"2024-05-01T00:00:00Z"', spark.TimestampType(), datetime(2024, 5, 1, tzinfo=UTC)),
        ('"2024-05-01T00:00:00"', spark.TimestampType(), datetime(2024, 5, 1, tzinfo=UTC)),
        ('"2024-05-01t02:00:00.5z"', spark.TimestampType(), datetime(2024, 5, 1, 2, 0, 0, 500_000, tzinfo=UTC)),
        ('"2024-05-01T02:00:00.5"', spark.TimestampNTZType(), datetime.fromisoformat("2024-05-01T02:00:00.500")),
        ("null", struct(n=spark.LongType()), None),
    ],
)
def test_values(text: str, kind: spark.DataType, value: Any) -> None:
    assert json_value(text.encode(), kind) == value


def test_half_a_surrogate_pair_is_a_bad_record_and_ends_no_task() -> None:
    kind = struct(word=spark.StringType(), tags=spark.MapType(spark.StringType(), spark.LongType()))
    wanted = ColumnFormat("value", "json", "", kind.json())
    (column,) = plan_source(SerdeOptions((wanted,)), None)
    rows = [rb'{"word":"\ud83d"}', rb'{"tags":{"\ud83d":1}}', rb'{"word":"\ud83d\ude00"}']
    made, bad = JsonDecoder(column, to_arrow_type(column.type), None)(pa.array(rows))
    assert made.to_pylist() == [None, None, {"word": "\U0001f600", "tags": None}]
    assert bad == {
        0: "word: '\\ud83d' is not text: it has half of a surrogate pair",
        1: "tags: '\\ud83d' is not text: it has half of a surrogate pair",
    }


def test_json_in_a_column_of_text_has_its_characters_and_no_escapes() -> None:
    assert (
        json_value('{"w\u00f6rd": ["\u00fc", "\\u00fc"]}'.encode(), spark.StringType())
        == '{"w\u00f6rd":["\u00fc","\u00fc"]}'
    )
    assert json_value(rb'["\ud83d"]', spark.StringType()) == r'["\ud83d"]'


@pytest.mark.parametrize("text", ["1.10", "12345678901234567890.123", "1E+400", '{"a":[0.1000,{}],"b":[]}'])
def test_json_in_a_column_of_text_has_all_digits_of_its_numbers(text: str) -> None:
    assert json_value(text.encode(), spark.StringType()) == text


def test_json_in_a_column_of_text_may_be_nested_as_deep_as_it_can_be_read() -> None:
    text = "[" * 900 + "]" * 900
    assert json_value(text.encode(), spark.StringType()) == text


@pytest.mark.parametrize("text", ["12345678901234567890123456789012345.678", "-0.001"])
def test_decimals_have_all_the_digits_that_their_column_has(text: str) -> None:
    kind = spark.DecimalType(38, 3)
    assert json_value(text.encode(), kind) == Decimal(text) == json_value(f'"{text}"'.encode(), kind)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("[" * 100_000, spark.StringType(), "nested too deep"),
        ("NaN", spark.DoubleType(), "no number of JSON"),
        ("1e400000", spark.DoubleType(), "64 bits"),
        ("1" * 5000, spark.LongType(), "not JSON"),
        ("1." + "0" * 500, spark.LongType(), "too long"),
        ("1e999999999", spark.LongType(), "whole number"),
        ("1e99999999999999999999.", spark.LongType(), "not JSON"),
        ("1e99999999999999999999", spark.LongType(), "too large"),
        ("3.5e38", spark.FloatType(), "32 bits"),
        (str(-(10**400)), spark.FloatType(), "32 bits"),
        ("1.5", spark.LongType(), "1.5' is not a whole number"),
        ("true", spark.LongType(), "whole number"),
        ("true", spark.DoubleType(), "not double"),
        ("40000", spark.ShortType(), "16 bits"),
        ('"x"', spark.BooleanType(), "not boolean"),
        ('"!"', spark.BinaryType(), "not base64"),
        ('"soon"', spark.TimestampType(), "not a time"),
        ('"2024-05-01T00:00:00Z"', spark.TimestampNTZType(), "not a time without a zone"),
        ("1.234", spark.DecimalType(5, 2), "decimal"),
        ("12345", spark.DecimalType(5, 2), "decimal"),
        ("5", struct(n=spark.LongType()), "the value: 5 is not an object"),
        ('{"n": [{"m": "x"}]}', struct(n=spark.ArrayType(struct(m=spark.LongType()))), r"n\[0\]\.m: 'x' is not"),
        ("\xff", spark.StringType(), "not JSON"),
    ],
)
def test_values_that_do_not_fit(text: str, kind: spark.DataType, said: str) -> None:
    with pytest.raises(DataError, match=said):
        json_value(text.encode("latin-1"), kind)


def test_what_json_cannot_hold() -> None:
    with pytest.raises(DataError, match="no number of JSON"):
        json_bytes(float("inf"), spark.DoubleType())
    with pytest.raises(UserError, match=r"value\.price cannot be written as JSON"):
        json_schema(struct(price=spark.DecimalType(5, 2)))


def encoded(array: pa.Array, kind: spark.DataType) -> list[bytes]:
    planned = plan_sink(
        SerdeOptions((ColumnFormat("value", "json", "", ""),)),
        spark.StructType([spark.StructField("value", kind)]),
        None,
    )
    (batch,) = encoded_batches(planned, iter([pa.RecordBatch.from_arrays([array], names=["value"])]))
    made: list[bytes] = batch.column("value").to_pylist()
    return made


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "UTC"])
def test_times_are_written_in_utc_whatever_the_zone_of_the_session(zone: str) -> None:
    """Berlin's was 53 minutes and 28 seconds off until 1893."""
    times = [datetime(1890, 1, 1, 2, tzinfo=UTC), datetime(2024, 5, 1, 2, tzinfo=UTC)]
    rows = encoded(pa.array(times, pa.timestamp("us", tz=zone)), spark.TimestampType())
    assert rows == [b'"1890-01-01T02:00:00+00:00"', b'"2024-05-01T02:00:00+00:00"']


def test_numbers_of_32_bits_are_written_with_the_digits_that_they_have() -> None:
    kind = spark.FloatType()
    texts = ["0.1", "16777216.0", "3.4028235e+38", "1e-45", "-0.0", "33554432.0", None]
    numbers = pa.array([None if text is None else float(text) for text in texts], pa.float32())
    made = encoded(numbers, kind)
    assert made == [
        b"0.1",
        b"16777216.0",
        b"3.4028235e+38",
        b"1.4013e-45",
        b"-0.0",
        b"33554432.0",
        None,
    ]
    again = pa.array([None if each is None else json_value(each, kind) for each in made], pa.float32())
    assert again.equals(numbers)


def test_years_that_json_has_not_are_told() -> None:
    for array, kind in (
        (pa.array([3_000_000], pa.date32()), spark.DateType()),
        (pa.array([[-(2**56)]], pa.list_(pa.timestamp("us", tz="UTC"))), spark.ArrayType(spark.TimestampType())),
    ):
        with pytest.raises(
            UserError, match=r"The column value cannot be written as json. .* before the year 1 or after"
        ):
            encoded(array, kind)


def decoder(asked: FakeRegistry) -> JsonDecoder:
    untyped: Any = asked
    (column,) = plan_source(SerdeOptions((WANTED,), {"url": "-"}), untyped)
    return JsonDecoder(column, to_arrow_type(column.type, timezone="UTC"), asked)


def test_rows_that_do_not_decode_are_told() -> None:
    asked = registry()
    asked.add("other-value", '"int"')
    asked.add("t-value", schema(n={"type": "integer"}), SchemaType.JSON)
    asked.add("other-value", schema(n={"type": "string"}), SchemaType.JSON)
    rows = [SchemaId(number).prefix() + b'{"n": 1}' for number in (2, 1, 3, 9)]
    made, bad = decoder(asked)(pa.array([*rows, b'{"n": 1}']))
    assert made.to_pylist() == [{"n": 1}, None, None, None, None]
    assert bad == {
        1: "the schema 1 is AVRO, not JSON",
        2: "its schema 3 cannot be read with version 1 of 't-value': n is string, not bigint",
        3: "the registry knows no schema 9",
        4: "it does not begin with the id of a schema",
    }


def test_a_version_that_the_query_cannot_read_ends_it() -> None:
    asked = registry()
    asked.add("t-value", schema(n={"type": "integer"}), SchemaType.JSON)
    decode = decoder(asked)
    asked.add("t-value", schema(n={"type": "string"}), SchemaType.JSON)
    with pytest.raises(SchemaEvolved, match=r"version 2 of 't-value' \(id 2\): n is string, not bigint"):
        decode(pa.array([SchemaId(2).prefix() + b"{}"]))
    asked.refuses = SchemaRegistryError("nobody answers")
    with pytest.raises(SchemaRegistryError):
        decode(pa.array([SchemaId(3).prefix() + b"{}"]))


@pytest.mark.parametrize(
    ("reader", "writer", "why"),
    [
        (spark.StringType(), spark.LongType(), ""),
        (spark.DoubleType(), spark.LongType(), ""),
        (spark.TimestampNTZType(), spark.StringType(), ""),
        (spark.LongType(), spark.DoubleType(), "a is double, not bigint"),
        (spark.ArrayType(spark.LongType()), spark.ArrayType(spark.StringType()), "a is string, not bigint"),
        (struct(x=spark.BooleanType()), struct(x=spark.LongType()), "a.x is bigint, not boolean"),
        (struct(x=spark.BooleanType()), struct(y=spark.LongType()), ""),
        (struct(x=spark.BooleanType()), spark.LongType(), "a is bigint, not struct<x:boolean>"),
    ],
)
def test_what_columns_can_hold(reader: spark.DataType, writer: spark.DataType, why: str) -> None:
    assert unreadable(struct(a=reader), struct(a=writer)) == why


def test_the_sink_keeps_to_the_schema_of_the_subject() -> None:
    asked = registry()
    asked.add("t-value", schema(n={"type": "integer"}), SchemaType.JSON)
    options = SerdeOptions((WANTED,), {"url": "-"}, use_latest=True)
    fits = spark.StructType([spark.StructField("value", struct(n=spark.IntegerType()))])
    assert plan_sink(options, fits, asked)[0].prefix == SchemaId(1).prefix()
    other = spark.StructType([spark.StructField("value", struct(n=spark.BooleanType()))])
    with pytest.raises(UserError, match="n is boolean, not bigint"):
        plan_sink(options, other, asked)


@pytest.mark.parametrize(
    ("said", "column", "why"),
    [
        ({"type": "string"}, spark.LongType(), "n is bigint, not string"),
        ({"type": "string"}, struct(x=spark.LongType()), "n is struct<x:bigint>, not string"),
        ({"type": "string", "format": "date-time"}, spark.LongType(), "n is bigint, not timestamp"),
        ({"type": "string", "format": "date-time"}, spark.DateType(), "n is date, not timestamp"),
        (
            {"type": "array", "items": {"type": "string"}},
            spark.ArrayType(spark.BooleanType()),
            "n is boolean, not string",
        ),
        ({"type": "string"}, spark.DateType(), ""),
        ({"type": "string", "contentEncoding": "base64"}, spark.StringType(), ""),
        ({"type": ["string", "integer"]}, spark.LongType(), ""),
        ({}, struct(x=spark.LongType()), ""),
        ({"type": "number"}, spark.IntegerType(), ""),
    ],
)
def test_the_sink_writes_no_value_that_the_schema_says_is_text(said: Any, column: spark.DataType, why: str) -> None:
    """Numbers were written where the subject's schema says text or a time."""
    asked = registry()
    asked.add("t-value", schema(n=said), SchemaType.JSON)
    frame = spark.StructType([spark.StructField("value", struct(n=column))])
    options = SerdeOptions((WANTED,), {"url": "-"}, use_latest=True)
    if not why:
        plan_sink(options, frame, asked)
        return
    with pytest.raises(UserError, match=why):
        plan_sink(options, frame, asked)
