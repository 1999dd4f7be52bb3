"""Columns decoded on the way, limits, and rows that cannot be decoded."""

import asyncio
import io
import json
import threading
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.aio import AsyncConsumer
from headwater.client.consumer.arrow import ArrowTaker, Avro, Json, decode_column, decoded, first_bad
from headwater.client.consumer.completed_fetch import CompletedFetch
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.client.schema_registry import SchemaRegistryError
from headwater.client.serialization.lookups import looked_up
from headwater.records.builder import build_batch
from headwater.records.record import Record
from unit.client.consumer.fake_log import FakeConsumer, one_broker

P0 = TopicPartition("orders", 0)


def binary(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


def poll(consumer: FakeConsumer, decode: Any = None, **limits: int) -> Any:
    taker = ArrowTaker(
        consumer.core, consumer.do, limits.get("max_records", 1000), limits.get("max_bytes", 1 << 20), decode
    )
    consumer.poll_with(taker.take, 1.0)
    return taker.batch()


def filled(*values: bytes, **settings: object) -> FakeConsumer:
    world, logs = one_broker()
    logs.append(P0, list(values))
    consumer = FakeConsumer(world, auto_offset_reset="earliest", **settings)
    consumer.assign(P0)
    return consumer


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("string", (b"a", None, "ü".encode()), ["a", None, "ü"]),
        ("int", (b"\0\0\0\1", None, b"\xff\xff\xff\xff"), [1, None, -1]),
        ("long", (b"\0\0\0\0\0\0\1\0",), [256]),
        ("short", (b"\0\2",), [2]),
        ("double", (b"\x3f\xf8\0\0\0\0\0\0", None), [1.5, None]),
        ("bytes", (b"x", None), [b"x", None]),
        ("json", (b'{"a":1}', None, b'{"a":2}'), [{"a": 1}, None, {"a": 2}]),
        ("json", (b'{\n"a": 1}', b'{"a":2}'), [{"a": 1}, {"a": 2}]),
        ("json", (None, None), [None, None]),
        ("long", (), []),
        ("json", (), []),
    ],
)
def test_forms(form: str, values: tuple[bytes | None, ...], expected: list[Any]) -> None:
    assert decode_column(binary(*values), form).to_pylist() == expected


def test_a_slice_of_a_column_is_decoded_as_such() -> None:
    numbers = binary(b"\0\1", b"\0\2", None, b"\0\4")
    assert decode_column(numbers.slice(1), "short").to_pylist() == [2, None, 4]


def test_a_schema_says_what_json_is() -> None:
    schema = pa.schema([("a", pa.float32()), ("b", pa.string())])
    found = decode_column(binary(b'{"a":1,"c":5}', b'{"b":"x"}'), Json(schema))
    assert found.type == pa.struct(list(schema))
    assert found.to_pylist() == [{"a": 1.0, "b": None}, {"a": None, "b": "x"}]


def test_avro_is_read_record_by_record() -> None:
    schema = {"type": "record", "name": "order", "fields": [{"name": "id", "type": "long"}]}
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, {"id": 77})
    values = binary(b"\0\0\0\0\1" + written.getvalue(), None)
    for given in (schema, json.dumps(schema)):
        assert decode_column(values, Avro(given, header_bytes=5)).to_pylist() == [{"id": 77}, None]
    with pytest.raises(KafkaError, match="decoded as Avro"):
        decode_column(binary(b""), Avro(schema))


def test_a_function_may_decode() -> None:
    assert decode_column(binary(b"ab"), lambda column: pa.array([len(v.as_py()) for v in column])).to_pylist() == [2]


@pytest.mark.parametrize(
    ("form", "values"),
    [
        ("string", (b"\xff",)),
        ("int", (b"\0",)),
        ("json", (b"{",)),
        ("json", (b'{"a":1}{"a":2}',)),
        ("json", (b"", b'{"a":1}')),
    ],
)
def test_what_is_not_of_the_form(form: str, values: tuple[bytes, ...]) -> None:
    with pytest.raises(KafkaError, match="cannot be decoded"):
        decode_column(binary(*values), form)


def test_wrong_names_are_explained() -> None:
    batch = poll(filled(b"a"))
    with pytest.raises(UserError, match="there is none"):
        decoded(batch, {"valu": "json"})
    with pytest.raises(UserError, match="decode cannot be"):
        decoded(batch, {"value": "yaml"})


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    batch = poll(filled(b"a", b"b"))
    assert batch.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    assert batch.column("value").to_pylist() == [b"a", b"b"]


def test_limits_are_kept_and_the_position_moves_with_what_is_given() -> None:
    consumer = filled(*[b"%d" % at for at in range(10)])
    assert poll(consumer, max_records=4).column("offset").to_pylist() == [0, 1, 2, 3]
    assert consumer.core.positions_to_commit()[P0].offset == 4
    assert [record.offset for record in consumer.poll(limit=2)] == [4, 5]  # records and columns take turns
    assert poll(consumer).column("offset").to_pylist() == [6, 7, 8, 9]
    assert poll(consumer).num_rows == 0


def test_a_limit_of_bytes_ends_a_batch() -> None:
    world, logs = one_broker()
    for _ in range(5):
        logs.append(P0, [b"x" * 1000])
    consumer = FakeConsumer(world, auto_offset_reset="earliest")
    consumer.assign(P0)
    assert poll(consumer, max_bytes=2500).num_rows == 3
    assert poll(consumer, max_bytes=1).num_rows == 1


def test_the_first_bad_row_is_found() -> None:
    batch = poll(filled(b'{"a":1}', b'{"a":2}', b"{", b'{"a":4}', b"{"))
    assert first_bad(batch, {"value": "json"}) == 2
    assert first_bad(batch.slice(0, 2), {"value": "json"}) is None


def test_a_row_that_cannot_be_decoded_is_raised_after_those_before_it() -> None:
    consumer = filled(b'{"a":1}', b'{"a":2}', b"{", b'{"a":4}')
    assert poll(consumer, {"value": "json"}).column("value").to_pylist() == [{"a": 1}, {"a": 2}]
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as raised:
            poll(consumer, {"value": "json"})
    error = raised.value
    assert (error.topic_partition, error.offset, error.next_offset, error.value) == (P0, 2, 3, b"{")
    consumer.do(lambda: consumer.core.seek(P0, error.next_offset))
    assert poll(consumer, {"value": "json"}).column("value").to_pylist() == [{"a": 4}]


def test_a_row_that_cannot_be_decoded_may_be_skipped() -> None:
    consumer = filled(b"{", b'{"a":2}', on_bad_record="skip")
    rows: list[Any] = []
    for _ in range(3):
        rows += poll(consumer, {"value": "json"}).column("offset").to_pylist()
    assert rows == [1]


def _closed_by_the_registry(_: Any) -> Any:
    raise SchemaRegistryError("The schema registry did not answer")


def _refused(_: Any) -> Any:
    raise ValueError("of a function of one's own")


@pytest.mark.parametrize("decode", [_closed_by_the_registry, _refused])
def test_rows_whose_decoding_failed_come_again(decode: Any) -> None:
    """They were gone: nobody got them, and `close` committed the offsets behind them."""
    consumer = filled(b"a", b"b")
    with pytest.raises((SchemaRegistryError, ValueError)):
        poll(consumer, {"value": decode})
    assert consumer.core.positions_to_commit()[P0].offset == 0
    assert poll(consumer).column("value").to_pylist() == [b"a", b"b"]


def test_rows_come_again_when_another_failure_comes_while_the_bad_one_is_looked_for() -> None:
    """The rows before the bad one were gone with it."""

    def decode(column: Any) -> Any:
        if b"bad" in column.to_pylist():
            raise KafkaError(ErrorCode.INVALID_RECORD, "bad")
        raise SchemaRegistryError("The schema registry did not answer")

    consumer = filled(b"a", b"bad")
    with pytest.raises(SchemaRegistryError):
        poll(consumer, {"value": decode})
    assert consumer.core.positions_to_commit()[P0].offset == 0


def test_rows_that_a_cancelled_poll_has_taken_come_with_the_next_one() -> None:
    """In asyncio, a poll may be cancelled at any time, also while a schema is asked for: its rows were gone."""
    asked, answered = threading.Event(), threading.Event()

    def ask() -> None:
        asked.set()
        answered.wait(60)

    def decode(column: Any) -> Any:
        looked_up("schema", ask)
        return column

    async def play() -> None:
        async with AsyncConsumer({"bootstrap.servers": "localhost:1"}) as consumer:
            consumer.assign([P0])
            state = consumer._core.subscription.states[P0]
            state.seek(0)
            data = bytes(build_batch([Record(0, 1000, None, b"a")]))
            state.add(CompletedFetch(P0, data, 0, None))
            consumer._core.fetcher.enqueue(state)
            polling = asyncio.create_task(consumer.poll_arrow(60, decode={"value": decode}))
            await asyncio.to_thread(asked.wait, 60)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            answered.set()
            assert state.position == 0

    asyncio.run(play())


def test_what_an_iteration_holds_ready_comes_as_columns() -> None:
    consumer = filled(b"a", b"b", b"c")
    consumer.core.iteration_buffer.extend(consumer.poll())
    consumer.core.iteration_buffer.popleft()
    assert poll(consumer).column("value").to_pylist() == [b"b", b"c"]
