"""Topics to files, and any query to files, from a real broker: names, restarts, and failures at each step."""

import contextlib
import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headwater.base.errors import UserError
from headwater.demo import demo_run
from headwater.spark import sinks
from headwater.spark.sinks.hadoop import HadoopFiles
from headwater.testing import Broker

Write = Callable[[DataFrame, int], None]


@pytest.fixture
def run(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Callable[..., None], tmp_path: Path
) -> Callable[..., None]:
    """Runs a query over the topic until it has read all; each call goes on from the checkpoint."""
    create_topic(topic, 2)

    def query(write: Write, checkpoint: str = "checkpoint", **options: Any) -> None:
        started = demo_run.start(
            spark.readStream.format("headwater")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("subscribe", topic)
            .options(**{"startingOffsets": "earliest", **options})
            .load()
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
        )
        assert started.awaitTermination(300)

    return query


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def files_in(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*.parquet"))


def test_files_are_named_by_what_they_hold(
    spark: SparkSession, topic: str, produce: Callable[..., None], run: Callable[..., None], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    produce(topic, [b"a", b"b", b"c"], partition=0)
    produce(topic, [b"d"], partition=1)
    run(sinks.topic_files(str(out)))
    produce(topic, [b"e", b"f"], partition=1)
    run(sinks.topic_files(str(out)))
    assert files_in(out) == [
        f"topic={topic}/partition=0/{topic}+0+0000000000+0000000002.parquet",
        f"topic={topic}/partition=1/{topic}+1+0000000000+0000000000.parquet",
        f"topic={topic}/partition=1/{topic}+1+0000000001+0000000002.parquet",
    ]
    frame = spark.read.parquet(str(out))
    assert values(frame) == ["a", "b", "c", "d", "e", "f"]
    assert sorted((row.partition, row.offset) for row in frame.collect())[-1] == (1, 2)
    assert list((out / "_staging").iterdir()) == []


def test_names_alone_say_where_to_go_on(
    spark: SparkSession, topic: str, produce: Callable[..., None], run: Callable[..., None], tmp_path: Path
) -> None:
    """The checkpoint is lost: a new query reads from the beginning, and what files hold is not written again."""
    out = tmp_path / "out"
    produce(topic, [b"a", b"b"], partition=0)
    run(sinks.topic_files(str(out)))
    produce(topic, [b"c"], partition=0)
    produce(topic, [b"d"], partition=1)
    run(sinks.topic_files(str(out)), checkpoint="another")
    assert values(spark.read.parquet(str(out))) == ["a", "b", "c", "d"]
    assert json.loads(sinks.starting_offsets(spark, str(out))) == {topic: {"0": 3, "1": 1}}


def records(spark: SparkSession, offsets: range, partitions: int = 1) -> DataFrame:
    """Rows as the source gives them, without a broker: a batch that comes again is the same call again."""
    rows = [
        ("t", partition, offset, b"%d-%02d" % (partition, offset))
        for partition in range(partitions)
        for offset in offsets
    ]
    return spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")


def expected(offsets: range, partitions: int = 1) -> list[str]:
    return sorted(f"{partition}-{offset:02d}" for partition in range(partitions) for offset in offsets)


def test_a_failure_at_each_step_leaves_each_record_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files are renamed in a batch: killed before the first, before the second, and after both."""
    out = str(tmp_path / "out")
    rename = HadoopFiles.rename
    for step in range(3):
        renamed: list[str] = []

        def failing(self: HadoopFiles, source: str, target: str, step: int = step, done: list[str] = renamed) -> None:
            if len(done) == step:
                raise OSError("killed here")
            done.append(target)
            rename(self, source, target)

        batch = records(spark, range(5 * step, 5 * step + 5), partitions=2)
        with monkeypatch.context() as patched:
            patched.setattr(HadoopFiles, "rename", failing)
            with contextlib.nullcontext() if step == 2 else pytest.raises(OSError, match="killed here"):
                sinks.topic_files(out)(batch, step)
        assert len(renamed) == step
        sinks.topic_files(out)(batch, step)
        assert values(spark.read.parquet(out)) == expected(range(5 * step + 5), partitions=2)


def test_rows_that_were_mixed_are_sorted_into_files_that_do_not_overlap(spark: SparkSession, tmp_path: Path) -> None:
    """Also those of records that became several rows each."""
    out = tmp_path / "out"
    twice = records(spark, range(20)).union(records(spark, range(20)))
    sinks.topic_files(str(out))(twice.repartition(2), 0)
    assert files_in(out) == ["topic=t/partition=0/t+0+0000000000+0000000019.parquet"]
    assert values(spark.read.parquet(str(out))) == sorted(2 * expected(range(20)))


def test_a_partition_that_several_tasks_read_becomes_several_files(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sinks.topic_files(str(out))(records(spark, range(20)).repartitionByRange(3, "offset"), 0)
    assert len(files_in(out)) == 3
    assert values(spark.read.parquet(str(out))) == expected(range(20))


def test_rows_without_an_offset_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no column 'topic'"):
        sinks.topic_files(str(tmp_path))(spark.range(3), 0)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_batch_is_visible_with_its_manifest(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Killed before the rename, and between it and the manifest: not visible. Then a directory that has the batch's
    name stays where a rename is one step, and is replaced elsewhere. With a manifest it is never touched.
    """
    out = str(tmp_path / "out")
    monkeypatch.setattr(HadoopFiles, "renames_at_once", lambda *_: at_once)
    with pytest.raises(UserError, match="nothing in"):
        sinks.read_committed_files(spark, out)
    for method, offsets in (("rename_once" if at_once else "rename", range(3)), ("write_text", range(5))):

        def killed(*_: object) -> None:
            raise OSError("killed here")

        with monkeypatch.context() as patched:
            patched.setattr(HadoopFiles, method, killed)
            with pytest.raises(OSError, match="killed here"):
                sinks.batch_files(out)(records(spark, offsets), 0)
        assert sinks.read_committed_files(spark, out, "value binary").count() == 0
    for batch_id, offsets in ((0, range(4)), (0, range(9)), (1, range(5, 7))):
        sinks.batch_files(out)(records(spark, offsets), batch_id)
    found = [*range(5 if at_once else 4), 5, 6]
    assert values(sinks.read_committed_files(spark, out)) == [f"0-{offset:02}" for offset in found]
    assert list((tmp_path / "out/_staging").iterdir()) == []
    assert {each.name[:10] for each in (tmp_path / "out/_manifests").glob("[!.]*")} == {"0000000000", "0000000001"}


def test_a_column_that_came_later_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """The columns were those of one batch, whichever Spark looked at: what others had beside them was left out in
    silence.
    """
    out = str(tmp_path / "out")
    for batch_id, columns in enumerate((["id"], ["id", "id + 10 AS more"], ["id"])):
        sinks.batch_files(out)(spark.range(batch_id, batch_id + 1).selectExpr(*columns), batch_id)
    found = sinks.read_committed_files(spark, out)
    assert {(row.id, row.more) for row in found.collect()} == {(0, None), (1, 11), (2, None)}


def test_any_query_into_files(
    spark: SparkSession, topic: str, produce: Callable[..., None], run: Callable[..., None], tmp_path: Path
) -> None:
    """Killed after the manifest of the first batch; then once more, with another checkpoint."""
    out = str(tmp_path / "out")
    produce(topic, [b"a", b"b"], partition=0)
    write = sinks.batch_files(out)

    def killed_afterwards(frame: DataFrame, batch_id: int) -> None:
        write(frame, batch_id)
        raise OSError("killed here")

    with pytest.raises(StreamingQueryException, match="killed here"):
        run(killed_afterwards)
    run(write)
    assert values(sinks.read_committed_files(spark, out)) == ["a", "b"]
    run(write, checkpoint="another")
    assert values(sinks.read_committed_files(spark, out)) == ["a", "a", "b", "b"]


def test_a_disk_that_takes_no_more_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk: to the writer it is the same failed write."""
    out = tmp_path / "out"
    batch = records(spark, range(3000))
    records(spark, range(1)).write.parquet(str(tmp_path / "first"))  # its codec unpacks a library into a file, once
    jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())
    before = resource.prlimit(jvm, resource.RLIMIT_FSIZE)
    resource.prlimit(jvm, resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        with pytest.raises(Py4JJavaError, match="File too large"):
            sinks.topic_files(str(out))(batch, 0)
    finally:
        resource.prlimit(jvm, resource.RLIMIT_FSIZE, before)
    assert files_in(out) == []
    sinks.topic_files(str(out))(batch, 0)
    assert spark.read.parquet(str(out)).count() == 3000


def test_paths_go_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    """A path with a scheme is Hadoop's to open: the same classes serve hdfs:// and file://."""
    out = f"file://{tmp_path}/out"
    sinks.topic_files(out)(records(spark, range(3)), 0)
    sinks.batch_files(f"{out}-batches")(records(spark, range(3)), 0)
    assert values(spark.read.parquet(out)) == expected(range(3))
    assert values(sinks.read_committed_files(spark, f"{out}-batches")) == expected(range(3))
