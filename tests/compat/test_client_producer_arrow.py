"""Tables through our producer, read back by confluent-kafka, row by row."""

import json
from datetime import UTC, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compat.support.everything import read_all
from compat.support.topics import make_topic
from headwater.client import AvroEncoding, Producer, UserError
from headwater.records.codec import murmur2

TIMEOUT_S = 60


def _table(count: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "key": pa.array([None if n % 10 == 9 else f"key-{n % 97}" for n in range(count)]),
            "value": pa.array([None if n % 100 == 99 else b"value-%d" % n for n in range(count)]),
            "at": pa.array([1_700_000_000_000 + n for n in range(count)], pa.timestamp("ms", tz="UTC")),
            "where": pa.array([n % 3 for n in range(count)], pa.int32()),
            "headers": pa.array(
                [None if n % 2 else [{"key": "n", "value": b"%d" % n}] for n in range(count)],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_all_columns(broker_address: str, topic: str, codec: str) -> None:
    make_topic(broker_address, topic, 3)
    count = 5000
    table = _table(count)
    with Producer(bootstrap_servers=broker_address, compression_type=codec) as producer:
        delivery = producer.send_arrow(table, topic, key="key", timestamp="at", headers="headers", partition="where")
        assert delivery.count == count
        found = delivery.result(TIMEOUT_S)
    assert found.record_count == count
    assert {partition: offsets[1:] for partition, offsets in found.partitions.items()} == {
        partition: (0, len(range(partition, count, 3)) - 1) for partition in range(3)
    }
    messages = read_all(broker_address, topic, count)
    rows = {(row["where"], index): row for index, row in _numbered(table)}
    for message in messages:
        row = rows[message.partition(), message.offset()]
        key = None if row["key"] is None else row["key"].encode()
        assert (message.key(), message.value()) == (key, row["value"])
        assert message.timestamp()[1] == int(row["at"].timestamp() * 1000)
        assert message.headers() == (None if row["headers"] is None else [("n", row["headers"][0]["value"])])


def _numbered(table: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    """Each row with its offset in its partition."""
    offsets: dict[int, int] = {}
    numbered = []
    for row in table.to_pylist():
        offset = offsets.get(row["where"], 0)
        offsets[row["where"]] = offset + 1
        numbered.append((offset, row))
    return numbered


def test_keys_go_where_send_puts_them(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 5)
    keys = [f"key-{number}" for number in range(2000)]
    with Producer(bootstrap_servers=broker_address) as producer:
        table = pa.table({"key": keys, "value": keys})
        producer.send_arrow(table, topic, key="key").result(TIMEOUT_S)
        producer.send_arrow(table.to_batches()[0], topic, key="key").result(TIMEOUT_S)
    for message in read_all(broker_address, topic, 4000):
        assert message.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % 5


def test_a_large_table_passes_through_little_memory(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 2)
    count = 60_000
    table = pa.table({"value": pa.array([b"%05d" % n * 20 for n in range(count)])})
    with Producer(bootstrap_servers=broker_address, buffer_memory=1_000_000) as producer:
        delivery = producer.send_arrow(table, topic)
        assert delivery.result(TIMEOUT_S).record_count == count
        assert producer.metrics()["buffer-available-bytes"] == 1_000_000
    found = sorted(message.value()[:5] for message in read_all(broker_address, topic, count))
    assert found == [b"%05d" % n for n in range(count)]


def test_json_avro_and_expressions(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    now = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)
    table = pa.table(
        {
            "id": pa.array([1, None], pa.int64()),
            "name": ['with "quotes" \\ and\nlines', "\x01 ü"],
            "at": pa.array([now, now], pa.timestamp("s", tz="UTC")),
            "score": [1.5, float("nan")],
            "good": [True, None],
            "tags": [["a"], []],
            "deep": [{"x": 1}, None],
        }
    )
    columns = table.schema.names
    schema = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "name", "type": "string"}],
    }
    with Producer(bootstrap_servers=broker_address) as producer:
        producer.send_arrow(table, topic, value=columns, encode={"value": "json"}).result(TIMEOUT_S)
        avro = AvroEncoding(schema, header=b"\0\0\0\0\7")
        producer.send_arrow(table, topic, key="id", value=["id", "name"], encode={"value": avro, "key": "long"}).result(
            TIMEOUT_S
        )
        expression = pc.utf8_upper(pc.field("name"))
        producer.send_arrow(table, topic, value=expression, partition=0).result(TIMEOUT_S)
    messages = read_all(broker_address, topic, 6)
    first, second = (json.loads(message.value()) for message in messages[:2])
    assert first == {
        "id": 1,
        "name": 'with "quotes" \\ and\nlines',
        "at": "2024-05-06T07:08:09Z",
        "score": 1.5,
        "good": True,
        "tags": ["a"],
        "deep": {"x": 1},
    }
    assert second == {**first, "id": None, "name": "\x01 ü", "score": None, "good": None, "tags": [], "deep": None}
    import io

    assert messages[2].value()[:5] == b"\0\0\0\0\7"
    assert fastavro.schemaless_reader(io.BytesIO(messages[2].value()[5:]), schema)["id"] == 1
    assert [message.key() for message in messages[2:4]] == [(1).to_bytes(8, "big"), None]
    assert messages[5].value() == "\x01 Ü".encode()


def test_what_is_wrong_with_a_table_is_said(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    table = pa.table({"value": [b"v"], "number": [1]})
    with Producer(bootstrap_servers=broker_address) as producer:
        with pytest.raises(UserError, match="no column 'key'"):
            producer.send_arrow(table, topic, key="key")
        with pytest.raises(UserError, match="partition 5, which is not there"):
            producer.send_arrow(table, topic, partition=5)
        with pytest.raises(TypeError):
            producer.send_arrow(table, topic, value="number")
        assert producer.send_arrow(table.slice(0, 0), topic).result(TIMEOUT_S).record_count == 0
    with (
        Producer(bootstrap_servers=broker_address, partitioner_class=lambda *_: 0) as producer,
        pytest.raises(UserError),
    ):
        producer.send_arrow(table, topic)


def test_a_frame_is_no_table_and_the_error_says_what_to_do() -> None:
    with (
        Producer(bootstrap_servers="localhost:1") as producer,
        pytest.raises(UserError, match=r"Table\.from_pandas"),
    ):
        producer.send_arrow({"value": [1]}, "t")  # type: ignore[arg-type]
