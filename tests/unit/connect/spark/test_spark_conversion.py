"""The steps of SparkSink and SparkSource that need no Spark session: rows out of records, records out of columns,
checks of configs.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.connect.connector_config.common import connector_def
from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.spark.columns import connect_schema, value_of
from headwater.connect.connectors.spark.source import Handover
from headwater.connect.data import schema as s
from headwater.connect.data.runs import ArrowColumn
from headwater.connect.errors import ConnectError, DataError, Interrupted
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.spark_conversion import JSON_COLUMN, Conversion, Packing, convert, rows_of
from headwater.connect.runtime.spark_errors import told
from headwater.connect.runtime.spark_sink import QueryPlan, source_options
from headwater.connect.runtime.task import TaskId

BASE = {"name": "x", "connector.class": "SparkSink", "topics": "t", "key.converter": "StringConverter"}


def batch_of(*values: bytes | None) -> pa.RecordBatch:
    count = len(values)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": ["t"] * count,
            "partition": pa.array([0] * count, pa.int32()),
            "offset": list(range(count)),
            "timestamp": pa.array([1_700_000_000_123_456] * count, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"1"}]] * count, headers),
        }
    )


def conversion(**props: str) -> Conversion:
    given = {**BASE, "value.converter": "JsonConverter", **props}
    config = connector_def(Catalog(), Kind.SINK).parse(given)
    nothing: dict[str, Any] = {"worker": {}, "allowed": ("*",), "secrets": frozenset(), "producer": {}, "admin": {}}
    return Conversion.of(TaskId("x", 0), given, config, **nothing)


def rows(of: Conversion, wanted: pa.Schema, *values: bytes | None) -> list[dict[str, Any]]:
    chunks = convert(of)(iter([batch_of(*values)]))
    chunks = list(chunks)
    mine = {each for chunk in chunks for each in chunk.column("columns").to_pylist() if each is not None}
    return [row for batch in rows_of(wanted, mine)(iter(chunks)) for row in batch.to_pylist()]


def in_envelope(schema: dict[str, Any], payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def test_fields_are_columns_of_all_schemas_of_a_batch() -> None:
    old = in_envelope({"type": "struct", "fields": [{"field": "n", "type": "int32"}]}, {"n": 1})
    fields = [{"field": "n", "type": "int64"}, {"field": "t", "type": "string", "optional": True}]
    new = in_envelope({"type": "struct", "fields": fields}, {"n": 2, "t": "x"})
    of = conversion(
        **{"transforms": "a", "transforms.a.type": "InsertField$Value", "transforms.a.timestamp.field": "at"}
    )
    wanted = pa.schema([("n", pa.int64()), ("t", pa.string()), ("at", pa.timestamp("us", tz="UTC"))])
    at = datetime.fromtimestamp(1_700_000_000.123, UTC)
    assert rows(of, wanted, old, new) == [{"n": 1, "t": None, "at": at}, {"n": 2, "t": "x", "at": at}]


def test_a_value_that_is_no_struct_is_one_column_and_one_without_a_schema_is_text() -> None:
    of = conversion()
    assert rows(of, pa.schema([("value", pa.int32())]), in_envelope({"type": "int32"}, 5)) == [{"value": 5}]
    of = conversion(**{"value.converter.schemas.enable": "false"})
    assert rows(of, pa.schema([(JSON_COLUMN, pa.string())]), b'{"a": [1, null]}') == [{JSON_COLUMN: '{"a":[1,null]}'}]


def test_records_that_cannot_be_taken_end_the_batch_or_are_passed_over() -> None:
    wanted = pa.schema([("value", pa.int32())])
    good = in_envelope({"type": "int32"}, 5)
    with pytest.raises(ConnectError, match="Tolerance exceeded"):
        rows(conversion(), wanted, b"{", good)
    with pytest.raises(ConnectError, match="The record has no value"):
        rows(conversion(), wanted, None, good)
    assert rows(conversion(**{"errors.tolerance": "all"}), wanted, b"{", None, good) == [{"value": 5}]
    assert rows(conversion(**{"behavior.on.null.values": "ignore"}), wanted, None, good) == [{"value": 5}]


def counts(of: Conversion, *batches: pa.RecordBatch) -> list[dict[str, int]]:
    told = [each for chunk in convert(of)(iter(batches)) for each in chunk.column("counts").to_pylist()]
    return [json.loads(each) for each in told if each is not None]


def test_a_task_of_spark_tells_once_what_it_has_read_and_what_went_wrong() -> None:
    good = in_envelope({"type": "int32"}, 5)
    of = conversion(**{"errors.tolerance": "all", "errors.log.enable": "true"})
    (told_of,) = counts(of, batch_of(good, b"{", None), batch_of(good))
    assert told_of.pop("last-error-timestamp") > 1_700_000_000_000
    # one was converted in vain, which counts as skipped, and one has no place in a column
    expected = {"read": 4, "total-record-failures": 2, "total-records-skipped": 1, "total-errors-logged": 2}
    assert told_of == expected
    assert counts(of, batch_of(good)) == [{"read": 1}]  # by the same process, for the next task
    assert counts(of) == []


def test_what_a_task_that_failed_has_counted_is_forgotten() -> None:
    """Spark does it again, with the same records."""
    of = conversion()
    with pytest.raises(ConnectError, match="Tolerance exceeded"):
        counts(of, batch_of(b"{"))
    assert counts(of, batch_of(in_envelope({"type": "int32"}, 5))) == [{"read": 1}]


def test_columns_are_schemas_with_logical_types() -> None:
    columns = StructType(
        [
            StructField("n", IntegerType(), nullable=False),
            StructField("price", DecimalType(6, 2)),
            StructField("at", TimestampType()),
            StructField("names", MapType(StringType(), ArrayType(StringType(), containsNull=False))),
            StructField("inner", StructType([StructField("x", StringType())])),
        ]
    )
    schema = connect_schema(columns)
    assert schema.fields[0].schema == s.INT32
    assert schema.fields[1].schema == s.decimal_schema(2, optional=True)
    assert schema.fields[2].schema == s.OPTIONAL_TIMESTAMP
    at = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
    row = {"n": 1, "price": Decimal("1.50"), "at": at, "names": [("a", ["b"])], "inner": {"x": None}}
    made = value_of(schema)(row)
    made.validate()
    assert (made["at"].microsecond, made["names"], made["inner"]["x"]) == (678_000, {"a": ["b"]}, None)
    with pytest.raises(ConnectError, match="The column i is of the type interval"):
        connect_schema(StructType([StructField("i", CalendarIntervalType())]))


def errors(**props: str) -> dict[str, list[str]]:
    return {name: each.errors for name, each in validate(Catalog(), props).values.items() if each.errors}


def test_wrong_configs_are_told_field_by_field() -> None:
    sink = {"connector.class": "SparkSink", "name": "x", "topics": "t"}
    assert set(errors(**sink)) == {"format", "checkpoint.location"}
    wrong = {"format": "a b", "checkpoint.location": "", "spark.jars": "/evil.jar", "option.path": "x"}
    assert set(errors(**sink, **wrong)) == {"format", "checkpoint.location", "spark.jars", "option.path"}
    assert set(errors(**sink, format="csv", **{"checkpoint.location": "/c"})) == {"options.path"}
    assert errors(**sink, format="csv", **{"checkpoint.location": "/c", "options.path": "/p"}) == {}
    source = {"connector.class": "SparkSource", "name": "x", "topic": "t", "format": "rate"}
    assert set(errors(**source)) == {"checkpoint.location"}
    assert errors(**source, **{"read.mode": "batch"}) == {}
    assert set(errors(**source, **{"read.mode": "batch", "spark.jars.packages": "a:b:1"})) == {"spark.jars.packages"}


def test_the_query_reads_with_the_settings_of_the_workers_consumer() -> None:
    config = connector_def(Catalog(), Kind.SINK).parse(BASE)
    consumer = {"bootstrap.servers": "h:1", "auto.offset.reset": "latest", "max.poll.records": "5"}
    assert source_options("x", config, consumer, QueryPlan("/c", 0, 7, None)) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.max.poll.records": "5",
        "kafka.group.id": "connect-x",
        "startingOffsets": "latest",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": "7",
        "subscribe": "t",
    }


def test_a_batch_waits_until_it_is_through_or_the_task_stops() -> None:
    handover = Handover()
    assert handover.take(0) is None
    handover.close()
    with pytest.raises(Interrupted):
        handover.give("frame", "query", 1)  # type: ignore[arg-type]
    assert handover.take(0) is None


def test_errors_of_the_jvm_are_told_without_its_stack() -> None:
    assert (
        told(RuntimeError("What happened\n\tat org.apache.Spark.run(A.scala:1)\n\n\t... 12 more\nwhy"))
        == "What happened\nwhy"
    )
    assert told(ValueError()) == "ValueError"


def test_rows_of_a_schema_that_nobody_has_seen_are_an_error_and_never_dropped() -> None:
    value = b'{"schema": {"type": "struct", "fields": [{"field": "a", "type": "int32"}]}, "payload": {"a": 1}}'
    chunks = list(convert(conversion())(iter([batch_of(value)])))
    (columns,) = chunks[0].column("columns").to_pylist()
    wanted = pa.ipc.read_schema(pa.py_buffer(columns))
    assert [each.to_pylist() for each in rows_of(wanted, {columns})(iter(chunks))] == [[{"a": 1}]]
    assert list(rows_of(wanted, {b"x"}, {columns})(iter(chunks))) == []
    with pytest.raises(DataError, match="another schema"):
        list(rows_of(wanted, {b"x"}, {b"y"})(iter(chunks)))
    with pytest.raises(DataError, match="no place for the columns a"):
        list(rows_of(pa.schema([("b", pa.int32())]), {columns})(iter(chunks)))


def test_structs_without_fields_go_one_by_one() -> None:
    """No column says how many there are: an index into none of them ended the batch."""
    count = 20
    batch = pa.record_batch(
        {
            "topic": ["t"] * count,
            "key": [b"k"] * count,
            "value": [b"v"] * count,
            "headers": pa.nulls(count, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )
    empty = ArrowColumn(s.struct([]), pa.array([{}] * count, pa.struct([])), list)
    pipeline: Any = SimpleNamespace(
        is_pure=True,
        steps=[],
        key=SimpleNamespace(to_connect_run=lambda _topic, _data: None),
        value=SimpleNamespace(to_connect_columns=lambda _topic, _data: empty),
    )
    assert Packing(nulls_fail=True).add_columns(batch, pipeline) is False
