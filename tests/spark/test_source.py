"""`format("headwater")`, read in batches and as a stream, from a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.demo import demo_run
from headwater.testing import Broker

Make = Callable[..., None]


class Source:
    """Reads topics of the test's broker, in both ways."""

    def __init__(self, spark: SparkSession, broker: Broker, checkpoint: Path) -> None:
        self.spark = spark
        self.servers = broker.bootstrap_servers
        self.checkpoint = checkpoint

    def batch(self, **options: Any) -> DataFrame:
        frame = self.spark.read.format("headwater").option("kafka.bootstrap.servers", self.servers)
        return frame.options(**options).load()

    def values(self, **options: Any) -> list[str]:
        frame = self.batch(**options).selectExpr("topic", "partition", "offset", "cast(value as string) value")
        return [row.value for row in sorted(frame.collect())]

    def stream(self, **options: Any) -> list[list[str]]:
        """The batches that a query finds until there is no more."""
        batches: list[list[str]] = []
        given = {"startingOffsets": "earliest", "kafka.bootstrap.servers": self.servers, **options}
        query = demo_run.start(
            self.spark.readStream.format("headwater")
            .options(**given)
            .load()
            .selectExpr("cast(value as string) value")
            .writeStream.foreachBatch(lambda frame, _: batches.append(sorted(row.value for row in frame.collect())))
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(300)
        return batches


@pytest.fixture
def source(spark: SparkSession, broker: Broker, tmp_path: Path) -> Source:
    return Source(spark, broker, tmp_path / "checkpoint")


def test_a_batch(source: Source, topic: str, create_topic: Make, produce: Make) -> None:
    create_topic(topic, 2)
    produce(topic, [b"a", b"b"], partition=0, key=b"k", timestamp=1_700_000_000_123, headers=[("h", b"1"), ("i", None)])
    produce(topic, [b"c"], partition=1)
    frame = source.batch(subscribe=topic, includeHeaders=True).selectExpr("*", "unix_millis(timestamp) ms")
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.offset, bytes(row.value)) for row in rows] == [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]
    first, _, last = rows
    assert (first.key, first.topic, first.ms, first.timestampType) == (b"k", topic, 1_700_000_000_123, 0)
    assert [(each.key, each.value) for each in first.headers] == [("h", b"1"), ("i", None)]
    assert (last.key, last.headers) == (None, None)


def test_a_batch_between_offsets_and_times(source: Source, topic: str, create_topic: Make, produce: Make) -> None:
    create_topic(topic, 1)
    for n in range(6):
        produce(topic, [b"%d" % n], timestamp=1_700_000_000_000 + n)
    between = {"startingOffsets": f'{{"{topic}": {{"0": 1}}}}', "endingOffsets": f'{{"{topic}": {{"0": 4}}}}'}
    assert source.values(subscribe=topic, **between) == ["1", "2", "3"]
    assert source.values(subscribe=topic, startingTimestamp=1_700_000_000_003, minPartitions=3) == ["3", "4", "5"]
    assert source.values(assign=f'{{"{topic}": [0]}}', endingTimestamp=1_700_000_000_002) == ["0", "1"]


def test_what_is_not_committed_is_not_read(
    source: Source, broker: Broker, topic: str, create_topic: Make, produce: Make
) -> None:
    create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions(60)
    for value, end in ((b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value, partition=0)
        producer.flush(60)
        end(60)
    assert source.values(subscribe=topic) == ["committed"]
    assert source.values(subscribe=topic, **{"kafka.isolation.level": "read_uncommitted"}) == ["aborted", "committed"]


def test_a_stream_goes_on_where_it_was_and_notices_new_partitions(
    source: Source, broker: Broker, topic: str, create_topic: Make, produce: Make
) -> None:
    """Its consumer group has no lag then: told by a consumer that others wrote."""
    create_topic(topic, 1)
    options = {"subscribePattern": f"{topic}.*", "maxOffsetsPerTrigger": 4, "kafka.group.id": f"group-of-{topic}"}
    produce(topic, [b"%d" % n for n in range(6)])
    assert source.stream(**options) == [["0", "1", "2", "3"], ["4", "5"]]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(60)
    create_topic(f"{topic}.more", 1)
    produce(topic, [b"6"], partition=1)
    produce(f"{topic}.more", [b"7"])
    assert [value for batch in source.stream(**options) for value in batch] == ["6", "7"]
    assert source.stream(**options) == []
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": f"group-of-{topic}"})
    committed = consumer.committed(
        [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(f"{topic}.more", 0)]
    )
    consumer.close()
    assert [each.offset for each in committed] == [6, 1, 1]


def test_offsets_that_are_gone(source: Source, broker: Broker, topic: str, create_topic: Make, produce: Make) -> None:
    create_topic(topic, 1)
    produce(topic, [b"0"])
    assert source.stream(subscribe=topic) == [["0"]]
    produce(topic, [b"1", b"2", b"3"])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(60)
    with pytest.raises(PySparkException, match="Data was lost before it could be read"):
        source.stream(subscribe=topic)
    with pytest.raises(PySparkException, match="Data was lost before it could be read"):
        source.values(subscribe=topic, startingOffsets=f'{{"{topic}": {{"0": 1}}}}')
    assert source.stream(subscribe=topic, failOnDataLoss=False) == [["3"]]


def test_a_topic_that_is_not_there(source: Source, topic: str) -> None:
    with pytest.raises(PySparkException, match="There is no topic"):
        source.values(subscribe=topic)


def test_wrong_options_say_what_is_wrong(source: Source, topic: str) -> None:
    with pytest.raises(PySparkException, match=r"The option .maxoffsetpertrigger. is not known"):
        source.values(subscribe=topic, maxOffsetPerTrigger=5)
