"""`format("headwater")` as a sink: exactly once and at least once, in streams and batches, with a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.client.admin import Admin
from headwater.demo import demo_run
from headwater.testing import Broker

Make = Callable[..., None]


class Pipe:
    """From one topic to another, batches of three records."""

    def __init__(self, spark: SparkSession, broker: Broker, topic: str, directory: Path) -> None:
        self.spark = spark
        self.servers = broker.bootstrap_servers
        self.topic = topic
        self.checkpoint = directory / "checkpoint"

    def run(self, **options: Any) -> None:
        query = demo_run.start(
            self.spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", self.topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 3)
            .load()
            .selectExpr("key", "concat('<', cast(value as string), '>') value")
            .writeStream.format("headwater")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", f"{self.topic}.out")
            .options(**options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(300)

    def forget_last_commit(self) -> None:
        """As if the driver had died after the sink's commit, before Spark wrote it down."""
        commits = self.checkpoint / "commits"
        last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
        last.unlink()
        (commits / f".{last.name}.crc").unlink(missing_ok=True)

    def written(self) -> list[str]:
        frame = (
            self.spark.read.format("headwater")
            .option("kafka.bootstrap.servers", self.servers)
            .option("subscribe", f"{self.topic}.out")
            .load()
        )
        return sorted(row.value for row in frame.selectExpr("cast(value as string) value").collect())


@pytest.fixture
def pipe(spark: SparkSession, broker: Broker, topic: str, create_topic: Make, tmp_path: Path) -> Pipe:
    create_topic(topic, 2)
    create_topic(f"{topic}.out", 2)
    return Pipe(spark, broker, topic, tmp_path)


def test_exactly_once(pipe: Pipe, broker: Broker, produce: Make) -> None:
    produce(pipe.topic, [b"0", b"1", b"2", b"3"])
    produce(pipe.topic, [b"4"], partition=1)
    pipe.run()
    assert pipe.written() == ["<0>", "<1>", "<2>", "<3>", "<4>"]
    pipe.forget_last_commit()
    produce(pipe.topic, [b"5"], partition=1)
    pipe.run()
    assert pipe.written() == ["<0>", "<1>", "<2>", "<3>", "<4>", "<5>"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        ended = ("CompleteCommit", "CompleteAbort", "Empty")  # other tests of this broker abort theirs
        assert [each for each in admin.list_transactions() if each.state not in ended] == []


def test_a_driver_that_died_while_it_wrote_down_its_first_batch_can_be_started_again(pipe: Pipe, produce: Make) -> None:
    """Spark writes a temporary file and renames it. It refused what such a death leaves behind:
    STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY, "offsets should be empty on batch 0".
    """
    produce(pipe.topic, [b"0", b"1"])
    offsets = pipe.checkpoint / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.5ac85d7c-1f6a-4a4a-8ae4-8f4c1e0a4e35.tmp").write_text("v1\n")
    pipe.run()
    assert pipe.written() == ["<0>", "<1>"]


def test_at_least_once(pipe: Pipe, produce: Make) -> None:
    """The same fault writes a batch twice: so it is the fault that the test above stands up to."""
    produce(pipe.topic, [b"0", b"1"])
    pipe.run(delivery="at-least-once")
    pipe.forget_last_commit()
    pipe.run(delivery="at-least-once")
    assert pipe.written() == ["<0>", "<0>", "<1>", "<1>"]


def test_a_batch_with_topics_and_headers_in_columns(pipe: Pipe, spark: SparkSession) -> None:
    def save(frame: DataFrame) -> None:
        frame.write.format("headwater").option("kafka.bootstrap.servers", pipe.servers).mode("append").save()

    headers = "array(named_struct('key', 'h', 'value', cast('1' as binary))) headers"
    save(spark.range(3).selectExpr(f"'{pipe.topic}.out' topic", "cast(id as string) value", headers, "1 partition"))
    assert pipe.written() == ["0", "1", "2"]
    with pytest.raises(PySparkException, match="No topic is given"):
        save(spark.range(3).selectExpr("cast(id as string) value"))
    with pytest.raises(PySparkException, match="has no place in a record"):
        save(spark.range(3).selectExpr("'t' topic", "cast(id as string) value", "id"))
