"""Files on a real HDFS: collected only under `make soak`, because its jars are some 100 MB (see conftest.py)."""

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.demo import demo_run
from headwater.spark import sinks
from headwater.spark.sinks.hadoop import HadoopFiles
from headwater.testing import Broker
from spark.support.hdfs import JARS, Hdfs

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    assert any(JARS.glob("*.jar")), "the jars of tests/spark/hdfs/pom.xml are missing: HEADWATER_SOAK=1 tests/tools.sh"
    with Hdfs(tmp_path_factory.mktemp("hdfs") / "run") as running:
        yield running


@pytest.fixture
def copy(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    create_topic: Callable[..., None],
    hdfs: Hdfs,
    request: pytest.FixtureRequest,
) -> Callable[[Callable[[DataFrame, int], None]], None]:
    """Copies what is new in the topic; the checkpoint is on HDFS too."""
    create_topic(topic, 2)

    def query(write: Callable[[DataFrame, int], None]) -> None:
        started = demo_run.start(
            spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", f"{hdfs.root}/checkpoints/{request.node.name}")
            .trigger(availableNow=True)
        )
        assert started.awaitTermination(300)

    return query


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def test_topics_to_files_on_hdfs(
    spark: SparkSession, topic: str, produce: Callable[..., None], copy: Callable[..., None], hdfs: Hdfs
) -> None:
    out = f"{hdfs.root}/views"
    produce(topic, [b"a", b"b"], partition=0)
    copy(sinks.topic_files(out))
    produce(topic, [b"c"], partition=1)
    copy(sinks.topic_files(out))
    assert values(spark.read.parquet(out)) == ["a", "b", "c"]
    assert sinks.starting_offsets(spark, out) == f'{{"{topic}": {{"0": 2, "1": 1}}}}'


def test_a_failure_before_the_rename_on_hdfs_leaves_each_record_once(
    spark: SparkSession,
    topic: str,
    produce: Callable[..., None],
    copy: Callable[..., None],
    hdfs: Hdfs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = f"{hdfs.root}/again"
    produce(topic, [b"a", b"b", b"c"], partition=0)

    def killed(self: HadoopFiles, source: str, target: str) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(HadoopFiles, "rename", killed)
        with pytest.raises(Exception, match="killed here"):
            copy(sinks.topic_files(out))
    copy(sinks.topic_files(out))
    assert values(spark.read.parquet(out)) == ["a", "b", "c"]


def test_batches_with_a_manifest_on_hdfs(
    spark: SparkSession, topic: str, produce: Callable[..., None], copy: Callable[..., None], hdfs: Hdfs
) -> None:
    out = f"{hdfs.root}/batches"
    for value in (b"a", b"b"):
        produce(topic, [value], partition=0)
        copy(sinks.batch_files(out))
    assert values(sinks.read_committed_files(spark, out)) == ["a", "b"]
