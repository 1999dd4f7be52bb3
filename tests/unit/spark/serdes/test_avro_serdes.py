"""Avro in Spark's columns and back: types, versions side by side, records that do not decode, schemas that evolved."""

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
from headwater.schemas import SchemaType
from headwater.schemas.avro import parse_avro
from headwater.schemas.columns import COMPILED, avro_rows
from headwater.schemas.columns.arrow import arrow_type
from headwater.schemas.framing import SchemaId
from headwater.schemas.model import DataError
from headwater.spark.serdes import bad_records, decoding, encoding
from headwater.spark.serdes.avro_types import avro_schema, spark_type
from headwater.spark.serdes.bad_records import HEADERS, dead_letters, typed_batches
from headwater.spark.serdes.decoding import AvroDecoder, SchemaEvolved, column_decoders, fitting
from headwater.spark.serdes.encoding import encoded_batches, plan_sink
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions
from headwater.spark.serdes.source_plan import plan_source
from unit.spark.serdes.fake_registry import FakeRegistry, registry

WANTED = ColumnFormat("value", "avro", "t-value", "")
OPTIONS = SerdeOptions((WANTED,), {"url": "-"})
EVERYTHING = [
    ("flag", "boolean", True),
    ("small", "int", 3),
    ("large", "long", 2**40),
    ("ratio", "double", 0.5),
    ("word", "string", "ü"),
    ("raw", "bytes", b"\0\1"),
    ("day", {"type": "int", "logicalType": "date"}, date(2024, 5, 1)),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}, datetime(2024, 5, 1, 2, 3, 4, 5000, UTC)),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.30")),
    ("color", {"type": "enum", "name": "C", "symbols": ["red", "blue"]}, "blue"),
    ("hash", {"type": "fixed", "name": "H", "size": 2}, b"xy"),
    ("maybe", ["null", "int"], None),
    ("list", {"type": "array", "items": "int"}, [1, 2]),
    ("map", {"type": "map", "values": "long"}, [("a", 1)]),
    ("inner", {"type": "record", "name": "I", "fields": [{"name": "x", "type": "float"}]}, {"x": 0.5}),
]


def record(*fields: tuple[Any, ...], name: str = "R") -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": f[0], "type": f[1]} | (f[2] if len(f) > 2 else {}) for f in fields]})  # fmt: skip


def framed(schema_id: int, schema: str, *rows: Any) -> list[bytes]:
    root = parse_avro(schema, {}).root
    made: list[bytes] = avro_rows(root)(pa.array(rows, arrow_type(root)), SchemaId(schema_id).prefix()).to_pylist()
    return made


def decoder(asked: FakeRegistry, **given: str) -> AvroDecoder:
    wanted = ColumnFormat("value", "avro", "t-value", **({"schema": ""} | given))
    (column,) = pickle.loads(pickle.dumps(plan_source(SerdeOptions((wanted,)), asked)))  # type: ignore[arg-type]
    return AvroDecoder(column, to_arrow_type(column.type, timezone="UTC"), asked)


N = record(("n", "int"))


def test_all_types_come_out_as_spark_has_them() -> None:
    asked = registry()
    schema = record(*((name, kind) for name, kind, _ in EVERYTHING))
    row = {name: value for name, _, value in EVERYTHING}
    asked.add("t-value", schema)
    made, bad = decoder(asked)(pa.array([*framed(1, schema, row), None]))
    assert (made.to_pylist(), bad) == ([row, None], {})
    kinds = {each.name: each.type for each in made.type}
    assert (kinds["color"], kinds["hash"], kinds["at"]) == (pa.string(), pa.binary(), pa.timestamp("us", "UTC"))


def test_times_of_day_are_their_numbers_and_local_times_have_no_zone() -> None:
    assert spark_type(pa.time32("ms")) == spark.IntegerType()
    assert spark_type(pa.time64("us")) == spark.LongType()
    assert spark_type(pa.timestamp("us")) == spark.TimestampNTZType()


def test_several_versions_side_by_side_in_the_order_of_records() -> None:
    asked = registry()
    later = record(("n", "long"), ("more", "string", {"default": "-"}))
    asked.add("t-value", N)
    asked.add("t-value", later)
    rows = [*framed(1, N, {"n": 1}), *framed(2, later, {"n": 2, "more": "x"}), None, *framed(1, N, {"n": 3})]
    made, bad = decoder(asked)(pa.array(rows))
    assert made.to_pylist() == [{"n": 1, "more": "-"}, {"n": 2, "more": "x"}, None, {"n": 3, "more": "-"}]
    assert bad == {}


def test_what_a_task_learned_it_does_not_ask_again() -> None:
    asked = registry()
    asked.add("t-value", N)
    decode = decoder(asked)
    decode(pa.array(framed(1, N, {"n": 1})))
    before = asked.asked
    decode(pa.array(framed(1, N, {"n": 1})))
    assert asked.asked == before


def test_rows_that_do_not_decode_are_found_and_told() -> None:
    asked = registry()
    asked.add("t-value", N)
    asked.add("t-value", "{}", SchemaType.JSON)
    asked.by_id[0], asked.by_id[1] = asked.by_id[1], asked.by_id[0]  # the Avro schema is the latest, and has the id 2
    (good,) = framed(2, N, {"n": 7})
    rows = [good, b"x", good, good + b"!", SchemaId(9).prefix() + b"\2", SchemaId(1).prefix(), good[:-1], good]
    made, bad = decoder(asked)(pa.array(rows))
    assert [row and row["n"] for row in made.to_pylist()] == [7, None, 7, None, None, None, None, 7]
    assert bad == {
        1: "it does not begin with the id of a schema",
        3: "bytes are left behind the value" if COMPILED else "1 bytes are left behind the value",
        4: "the registry knows no schema 9",
        5: "the schema 1 is JSON, not AVRO",
        6: "the bytes end too early",
    }


def test_a_time_that_spark_cannot_hold_is_a_bad_record() -> None:
    asked = registry()
    schema = record(("at", {"type": "long", "logicalType": "timestamp-millis"}))
    asked.add("t-value", schema)
    (good,) = framed(1, schema, {"at": 5})
    far = good[:5] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # 2**63 - 1 milliseconds
    made, bad = decoder(asked)(pa.array([good, far]))
    assert made[1].as_py() is None
    assert list(bad) == [1]


def test_a_version_that_the_query_cannot_read_ends_it() -> None:
    asked = registry()
    asked.add("t-value", N)
    decode = decoder(asked)
    other = record(("n", "string"))
    asked.add("t-value", other)
    with pytest.raises(
        SchemaEvolved, match=r"took version 1 of 't-value' .* written with version 2 of 't-value' \(id 2\)"
    ):
        decode(pa.array(framed(2, other, {"n": "one"})))


def test_a_schema_of_something_else_is_a_bad_record() -> None:
    asked = registry()
    asked.add("t-value", N)
    other = record(("n", "string"), name="Other")
    asked.add("other-value", other)
    _, bad = decoder(asked)(pa.array(framed(2, other, {"n": "one"})))
    assert bad[0].startswith("its schema 2 cannot be read with version 1 of 't-value'")


def test_a_registry_that_does_not_answer_is_no_fault_of_a_record() -> None:
    asked = registry()
    asked.add("t-value", N)
    decode = decoder(asked)
    asked.refuses = SchemaRegistryError("nobody answers")
    with pytest.raises(SchemaRegistryError, match="nobody answers"):
        decode(pa.array(framed(1, N, {"n": 1})))


def test_a_schema_that_is_given_is_the_readers() -> None:
    asked = registry()
    asked.add("t-value", record(("n", "int"), ("more", "string")))
    made, _ = decoder(asked, schema=N)(pa.array(framed(1, asked.by_id[0][1].text, {"n": 1, "more": "x"})))
    assert made.to_pylist() == [{"n": 1}]


@pytest.mark.parametrize(
    ("text", "schema_type", "said"),
    [
        ("", SchemaType.AVRO, "There is no schema for the column value"),
        ("{}", SchemaType.JSON, "is JSON"),
        (record(("n", ["int", "string"])), SchemaType.AVRO, "Read it as bytes"),
    ],
)
def test_what_cannot_be_planned(text: str, schema_type: SchemaType, said: str) -> None:
    asked = registry()
    if text:
        asked.add("t-value", text, schema_type)
    with pytest.raises(UserError) as raised:
        plan_source(OPTIONS, asked)
    assert said in str(raised.value)


# What becomes of bad records


def raw_batch(values: list[bytes | None]) -> pa.RecordBatch:
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"k"] * count),
            pa.array(values, pa.binary()),
            pa.array(["t"] * count),
            pa.array([2] * count, pa.int32()),
            pa.array(range(10, 10 + count), pa.int64()),
            pa.array([[{"key": "h", "value": b"1"}], *([None] * (count - 1))], header),
        ],
        names=["key", "value", "topic", "partition", "offset", "headers"],
    )


class Letters:
    def __init__(self) -> None:
        self.sent: list[pa.RecordBatch] = []

    def send(self, letters: pa.RecordBatch) -> None:
        self.sent.append(letters)


def through(values: list[bytes | None], options: SerdeOptions, letters: Letters | None = None) -> list[Any]:
    asked = registry()
    asked.add("t-value", N)
    columns = plan_source(options, asked)
    schema = pa.schema([("value", to_arrow_type(columns[0].type)), ("offset", pa.int64())])
    decoders = column_decoders(columns, schema, asked)
    made = list(typed_batches(iter([raw_batch(values)]), decoders, options, letters, ["value", "offset"]))
    assert [each.schema for each in made] == [schema]
    return [(row["offset"], row["value"]) for row in made[0].to_pylist()]


GOOD = framed(1, N, {"n": 1})[0]


def test_a_bad_record_fails_the_query_and_is_named() -> None:
    with pytest.raises(
        UserError, match=r"The value of the record of t-2 at offset 11 cannot be decoded\. it does not begin"
    ):
        through([GOOD, b"x"], OPTIONS)


def test_a_bad_record_is_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    assert through([b"x", GOOD, None], SerdeOptions((WANTED,), {}, "drop")) == [(11, {"n": 1}), (12, None)]
    assert "1 records that do not decode are dropped" in capsys.readouterr().err


def test_a_bad_record_becomes_a_dead_letter_as_it_was() -> None:
    letters = Letters()
    options = SerdeOptions((WANTED,), {}, "dead-letter", "dead")
    assert through([b"x", GOOD, b"y"], options, letters) == [(11, {"n": 1})]
    (sent,) = letters.sent
    first, second = sent.to_pylist()
    assert (first["key"], first["value"], second["value"]) == (b"k", b"x", b"y")
    told = {each["key"].removeprefix(HEADERS): each["value"] for each in first["headers"]}
    reason = b"value: it does not begin with the id of a schema"
    assert told == {"h": b"1", "reason": reason, "topic": b"t", "partition": b"2", "offset": b"10"}
    assert [each["value"] for each in second["headers"]] == [reason, b"t", b"2", b"12"]


def test_a_reason_has_bounds() -> None:
    made = dead_letters(raw_batch([b"x"]), [decoding.BadRecord(0, "value", "?" * 10**6)])
    assert len(made.column("headers")[0].as_py()[1]["value"]) == bad_records._REASON_CHARACTERS_MAX


# The sink

FRAME = spark.StructType(
    [
        spark.StructField(
            "value",
            spark.StructType(
                [
                    spark.StructField("tiny", spark.ByteType(), False),
                    spark.StructField("at", spark.TimestampType()),
                    spark.StructField("price", spark.DecimalType(9, 2)),
                    spark.StructField(
                        "parts", spark.ArrayType(spark.StructType([spark.StructField("x", spark.LongType())]))
                    ),
                    spark.StructField("tags", spark.MapType(spark.StringType(), spark.StringType())),
                ]
            ),
        )
    ]
)


def test_a_column_is_written_and_read_again() -> None:
    asked = registry()
    planned = pickle.loads(pickle.dumps(plan_sink(OPTIONS, FRAME, asked)))
    assert [subject for subject, _ in asked.by_id] == ["t-value"]
    row = {"tiny": 5, "at": datetime(2024, 5, 1, tzinfo=UTC), "price": Decimal("1.50"), "parts": [{"x": 1}, None], "tags": [("a", "b")]}  # fmt: skip
    array = pa.array([row, None], to_arrow_type(FRAME["value"].dataType, timezone="UTC"))
    (batch,) = encoded_batches(planned, iter([pa.RecordBatch.from_arrays([array], names=["value"])]))
    assert batch.column("value").type == pa.binary()
    made, bad = decoder(asked)(batch.column("value"))
    assert (made.to_pylist(), bad) == ([row, None], {})


def test_what_may_be_null_can_come_and_go_in_later_versions() -> None:
    made = json.loads(avro_schema(spark.StructType([spark.StructField("n", spark.IntegerType())])))
    assert made["fields"] == [{"name": "n", "type": ["null", "int"], "default": None}]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        (spark.StructField("a b", spark.LongType()), "letters, digits"),
        (spark.StructField("i", spark.DayTimeIntervalType()), "nothing like interval"),
        (spark.StructField("m", spark.MapType(spark.LongType(), spark.LongType())), "nothing like map"),
    ],
)
def test_what_avro_cannot_hold(field: spark.StructField, said: str) -> None:
    with pytest.raises(UserError, match=said):
        avro_schema(spark.StructType([spark.StructField("in", spark.StructType([field]))]))


def test_the_latest_version_is_written_where_that_is_wanted() -> None:
    asked = registry()
    asked.add("t-value", N)
    options = SerdeOptions((WANTED,), {}, use_latest=True)
    frame = spark.StructType(
        [spark.StructField("value", spark.StructType([spark.StructField("n", spark.ShortType())]))]
    )
    (planned,) = plan_sink(options, frame, asked)
    assert planned.prefix == SchemaId(1).prefix()
    with pytest.raises(UserError, match=r"cannot be written with the schema of 't-value'\. the schema has no field at"):
        plan_sink(options, FRAME, asked)


def test_a_field_that_is_missing_must_be_one_that_may_be_null() -> None:
    inner = spark.StructType([spark.StructField("n", spark.LongType())])
    frame = spark.StructType([spark.StructField("value", spark.StructType([spark.StructField("in", inner)]))])
    in_n = ("in", {"type": "record", "name": "In", "fields": [{"name": "n", "type": "long"}]})
    for more, fits in ((["null", "int"], True), ("int", False)):
        asked = registry()
        asked.add("t-value", record(in_n, ("more", more)))
        options = SerdeOptions((WANTED,), {}, use_latest=True)
        if fits:
            assert plan_sink(options, frame, asked)
        else:
            with pytest.raises(UserError, match="the field more is missing"):
                plan_sink(options, frame, asked)


def test_what_the_registry_refuses_ends_the_query_before_anything_is_written() -> None:
    asked = registry()
    asked.refuses = SchemaRegistryError("Schema being registered is incompatible", status=409, error_code=409)
    with pytest.raises(UserError, match=r"not taken under 't-value'\. Schema being registered is incompatible"):
        plan_sink(OPTIONS, FRAME, asked)
    with pytest.raises(UserError, match="not taken"):
        plan_sink(SerdeOptions((WANTED,), {}, auto_register=False), FRAME, registry())


def test_a_row_that_does_not_fit_says_so() -> None:
    planned = encoding.SinkColumn(WANTED, N, b"", spark.LongType())
    batch = pa.RecordBatch.from_pydict({"value": pa.array([{"n": None}], pa.struct([("n", pa.int32())]))})
    with pytest.raises(UserError, match=r"a null where the schema has none|None is not a whole number"):
        list(encoded_batches((planned,), iter([batch])))


def test_a_nanosecond_that_is_cut_off_lets_no_other_time_of_the_record_wrap_around() -> None:
    """A time in milliseconds that Spark has not came out as another one, of long ago, if the record had nanoseconds."""
    written = pa.struct([("fine", pa.timestamp("ns")), ("coarse", pa.timestamp("ms"))])
    wanted = pa.struct([("fine", pa.timestamp("us")), ("coarse", pa.timestamp("us"))])
    fits = fitting(pa.array([{"fine": 1_999, "coarse": 7}], written), wanted)
    assert fits.cast(pa.struct([("fine", pa.int64()), ("coarse", pa.int64())])).to_pylist() == [
        {"fine": 1, "coarse": 7000}
    ]
    with pytest.raises(DataError, match="out of bounds timestamp"):
        fitting(pa.array([{"fine": 1, "coarse": 2**60}], written), wanted)
