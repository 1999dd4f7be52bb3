"""What happens under a running query: a topic that is deleted and made anew, a broker that is away, records that are no
JSON; and the lag of the consumer group that follows it, all the while."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from headwater.base.ids import TopicPartition
from headwater.client import Admin, NewTopic
from headwater.client.types import LATEST
from headwater.demo import demo_run
from headwater.testing import Broker

Make = Callable[..., None]
PATIENCE_S = 300  # a busy machine takes minutes for what takes seconds


class Running:
    """A query that reads a topic for as long as the block lasts, and the values it has seen, in order."""

    def __init__(self, query: StreamingQuery, values: list[str]) -> None:
        self.query = query
        self.values = values

    def until(self, done: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not done():
            assert self.query.isActive, self.query.exception()
            assert time.monotonic() < deadline_s, f"seen: {self.values}; {self.query.lastProgress}"
            time.sleep(0.05)

    def until_it_fails(self) -> str:
        deadline_s = time.monotonic() + PATIENCE_S
        while self.query.isActive:
            assert time.monotonic() < deadline_s, f"seen: {self.values}"
            time.sleep(0.05)
        return str(self.query.exception())


@contextmanager
def running(
    spark: SparkSession, servers: str, checkpoint: Path, trigger: dict[str, Any] | None = None, **options: Any
) -> Iterator[Running]:
    values: list[str] = []
    given = {"kafka.bootstrap.servers": servers, "startingOffsets": "earliest", **options}

    def take(frame: DataFrame, _: int) -> None:
        values.extend(row.value for row in frame.collect())

    frame = spark.readStream.format("headwater").options(**given).load()
    writer = frame.selectExpr("cast(value as string) value").writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = demo_run.start(writer.trigger(**(trigger or {"processingTime": "0 seconds"})))
    try:
        yield Running(query, values)
    finally:
        query.stop()


def lag(servers: str, topic: str) -> int | None:
    """Of the group that follows a query which names none. None: it has committed nothing."""
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=servers) as admin:
        committed = admin.list_group_offsets(f"headwater-spark-{topic}").get(partition)
        end = admin.list_offsets({partition: LATEST})[partition].offset
    return None if committed is None else end - committed.offset


def test_the_lag_of_the_group_returns_to_zero(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make, tmp_path: Path
) -> None:
    """When the query idles, and when it has ended by itself."""
    servers = broker.bootstrap_servers
    create_topic(topic)
    produce(topic, [b"0", b"1"])
    with running(spark, servers, tmp_path / "checkpoint", subscribe=topic) as read:
        read.until(lambda: lag(servers, topic) == 0)
        assert read.values == ["0", "1"]
        produce(topic, [b"2"])
        read.until(lambda: lag(servers, topic) == 0)
        assert read.values == ["0", "1", "2"]
    produce(topic, [b"3", b"4"])
    assert lag(servers, topic) == 2
    now = {"availableNow": True}
    with running(spark, servers, tmp_path / "checkpoint", now, subscribe=topic, maxOffsetsPerTrigger=1) as read:
        assert read.query.awaitTermination(PATIENCE_S)
    assert read.values == ["3", "4"]
    assert lag(servers, topic) == 0


def test_the_group_hears_of_a_batch_long_before_the_next_one(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make, tmp_path: Path
) -> None:
    """A reader is told of a batch's end when the next one is asked for: in an hour, with this trigger."""
    servers = broker.bootstrap_servers
    create_topic(topic)
    produce(topic, [b"0", b"1"])
    seldom = {"processingTime": "1 hour"}
    with running(spark, servers, tmp_path / "checkpoint", seldom, subscribe=topic) as read:
        read.until(lambda: lag(servers, topic) == 0)
        assert read.values == ["0", "1"]


def test_no_group_if_none_is_wanted(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make, tmp_path: Path
) -> None:
    create_topic(topic)
    produce(topic, [b"0"])
    now = {"availableNow": True}
    servers = broker.bootstrap_servers
    with running(spark, servers, tmp_path / "checkpoint", now, subscribe=topic, commitOffsets=False) as read:
        assert read.query.awaitTermination(PATIENCE_S)
    assert read.values == ["0"]
    assert lag(servers, topic) is None


@pytest.mark.parametrize("fails", [True, False], ids=["failOnDataLoss", "without"])
def test_a_topic_made_anew(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make, tmp_path: Path, fails: bool
) -> None:
    """While the query runs: an error that says so, or the new topic from its beginning."""
    create_topic(topic)
    produce(topic, [b"0", b"1", b"2"])
    options = {"subscribe": topic, "failOnDataLoss": fails}
    with running(spark, broker.bootstrap_servers, tmp_path / "checkpoint", **options) as read:
        read.until(lambda: len(read.values) == 3)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.delete_topics([topic])[topic].result(60)
        if fails:
            assert "Data was lost before it could be read" in read.until_it_fails()
            return
        create_topic(topic)
        produce(topic, [b"new"])
        read.until(lambda: len(read.values) == 4)
    assert read.values == ["0", "1", "2", "new"]


def test_a_broker_that_is_away(spark: SparkSession, tmp_path: Path) -> None:
    """The query waits, and goes on."""
    with Broker(data_dir=str(tmp_path / "broker")) as own:
        servers = own.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("away")])

        def send(value: str) -> None:
            producer = confluent_kafka.Producer({"bootstrap.servers": servers})
            producer.produce("away", value)
            assert producer.flush(60) == 0

        send("0")
        with running(spark, servers, tmp_path / "checkpoint", subscribe="away") as read:
            read.until(lambda: read.values == ["0"])
            own.kill()
            time.sleep(3)  # the query asks for offsets all the time
            own.start()
            send("1")
            read.until(lambda: read.values == ["0", "1"])
            read.until(lambda: lag(servers, "away") == 0)


def test_a_record_that_is_no_json_is_null_and_the_others_go_through(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make
) -> None:
    create_topic(topic)
    produce(topic, [b'{"n": 1}', b"\xff no JSON", b"", b'{"n": "text"}', b'{"n": 2}'])
    frame = spark.read.format("headwater").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    frame = frame.option("subscribe", topic).load().orderBy("offset")
    rows = frame.selectExpr("from_json(cast(value as string), 'n int').n n").collect()
    assert [row.n for row in rows] == [1, None, None, None, 2]
