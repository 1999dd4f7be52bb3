"""`format("headwater")`, read in batches and as a stream, from a real broker."""

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from headwater.testing import Broker


def test_a_batch(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Callable[..., None], produce: Callable[..., None]
) -> None:
    create_topic(topic, 2)
    produce(topic, [b"a", b"b"], partition=0, key=b"k", timestamp=1_700_000_000_123)
    produce(topic, [b"c"], partition=1)
    frame = (
        spark.read.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .load()
    )
    rows = sorted(
        frame.selectExpr("*", "unix_millis(timestamp) ms").collect(), key=lambda row: (row.partition, row.offset)
    )
    assert [(row.partition, row.offset, bytes(row.value)) for row in rows] == [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]
    assert rows[0].key == b"k"
    assert rows[2].key is None
    assert rows[0].topic == topic
    assert rows[0].ms == 1_700_000_000_123
    assert rows[0].timestampType == 0


def test_a_stream_goes_on_where_it_was(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    create_topic: Callable[..., None],
    produce: Callable[..., None],
    tmp_path: Path,
) -> None:
    create_topic(topic, 2)

    def run() -> list[str]:
        batches: list[list[str]] = []
        query = (
            spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("kafka.group.id", f"group-of-{topic}")
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 4)
            .load()
            .selectExpr("cast(value as string) value")
            .writeStream.foreachBatch(lambda frame, _: batches.append([row.value for row in frame.collect()]))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert all(len(each) <= 4 for each in batches)
        return sorted(value for each in batches for value in each)

    produce(topic, [b"%02d" % n for n in range(7)], partition=0)
    produce(topic, [b"10", b"11"], partition=1)
    assert run() == ["00", "01", "02", "03", "04", "05", "06", "10", "11"]
    produce(topic, [b"12"], partition=1)
    assert run() == ["12"]
    assert run() == []
