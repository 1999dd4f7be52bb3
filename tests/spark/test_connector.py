"""Spark's own Kafka connector, from Maven Central, against our broker; and our source in its place.

Its newest version there is for the Spark before ours; it works with ours (tests/spark/connector/pom.xml).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.demo import demo_run
from headwater.testing import Broker

Make = Callable[..., None]


@pytest.fixture
def connector(spark: SparkSession) -> SparkSession:
    if "spark-sql-kafka" not in spark.conf.get("spark.jars", ""):
        pytest.skip("the jars of tests/spark/connector are not there (tests/tools.sh gets them)")
    return spark


def test_what_it_reads_is_what_we_read(
    connector: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make
) -> None:
    create_topic(topic, 2)
    produce(topic, [b"a", b"b"], key=b"k", headers=[("h", b"1"), ("h", None)])
    produce(topic, [b"c"], partition=1, timestamp=1_700_000_000_123)
    frames = [
        connector.read.format(name)
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
        for name in ("kafka", "headwater")
    ]
    theirs, ours = frames
    assert ours.schema == theirs.schema
    rows = [sorted(frame.collect(), key=lambda row: (row.partition, row.offset)) for frame in frames]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 3


def test_it_writes_and_its_checkpoint_is_taken_over_by_one_word(
    connector: SparkSession, broker: Broker, topic: str, create_topic: Make, produce: Make, tmp_path: Path
) -> None:
    create_topic(topic, 2)
    create_topic(f"{topic}.out", 1)

    def run(source: str) -> None:
        options: dict[str, Any] = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 3}
        query = demo_run.start(
            connector.readStream.format(source)
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .options(**options)
            .load()
            .selectExpr(f"concat('{source} ', cast(value as string)) value")
            .writeStream.format("kafka")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("topic", f"{topic}.out")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
        )
        assert query.awaitTermination(300)

    produce(topic, [b"0", b"1", b"2"])
    produce(topic, [b"3", b"4"], partition=1)
    run("kafka")
    produce(topic, [b"5"])
    run("headwater")
    produce(topic, [b"6"], partition=1)
    run("kafka")
    written = (
        connector.read.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", f"{topic}.out")
        .load()
    )
    found = sorted(row.value for row in written.selectExpr("cast(value as string) value").collect())
    assert found == ["headwater 5", "kafka 0", "kafka 1", "kafka 2", "kafka 3", "kafka 4", "kafka 6"]
