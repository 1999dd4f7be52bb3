"""A query that fails or is stopped in the middle of a batch, and is not started again, holds up no reader of committed
records.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headwater.client.admin import Admin
from headwater.spark.abandoned_transactions import sink_of
from headwater.testing import Broker

PATIENCE_S = 300
MANY = 50_000  # rows: so many that Spark hands the first of them on before the last have come


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.parametrize("way", ["fails", "is stopped"])
def test_what_a_query_has_left_open_is_aborted(
    spark: SparkSession,
    broker: Broker,
    topic: str,
    create_topic: Callable[..., None],
    produce: Callable[..., None],
    tmp_path: Path,
    way: str,
) -> None:
    """One task has reported, and another is in the middle of its rows: it never comes to their end."""
    create_topic(topic, 2)
    create_topic(f"{topic}.out", 1)
    for partition in range(2):
        produce(topic, [b"%d" % partition] * 3, partition=partition)
    let_fail = tmp_path / "let it fail"
    prefix = topic.replace(".", "-").replace(" ", "-")

    def slowly(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            is_second = batch.column("value")[0].as_py() == b"1"
            yield pyarrow.RecordBatch.from_pydict({"value": [b"many"] * MANY}) if is_second else batch
            if is_second:
                while not let_fail.exists():
                    time.sleep(0.1)
                raise OSError("the task fails here")

    servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    query = (
        spark.readStream.format("headwater")
        .options(**servers, subscribe=topic, startingOffsets="earliest")
        .load()
        .select("value")
        .mapInArrow(slowly, "value binary")
        .writeStream.format("headwater")
        .options(**servers, topic=f"{topic}.out", transactionalIdPrefix=prefix)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:

        def opened() -> int:
            found = admin.list_transactions(states=["Ongoing"])
            return sum(each.transactional_id.startswith(f"{prefix}-{query.id}-") for each in found)

        wait_for(lambda: opened() == 2, "the tasks write nothing")
        if way == "fails":
            let_fail.touch()
            with pytest.raises(StreamingQueryException, match="the task fails here"):
                query.awaitTermination(PATIENCE_S)
        else:
            query.stop()
        wait_for(lambda: opened() == 0, f"{opened()} transactions are open still")
    let_fail.touch()


@pytest.mark.parametrize("sink", ["foreachBatch", "memory", "noop"])
def test_queries_with_other_sinks_are_told_nothing_of_transactions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: str
) -> None:
    """Each query of Connect said that what it had left open was not looked for: the name of its sink raised."""
    writing = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", str(tmp_path))
    if sink == "foreachBatch":
        writing = writing.foreachBatch(lambda _batch, _number: None)
    else:
        writing = writing.format(sink).queryName("rates")
    query = writing.start()  # the listener is called within it
    assert sink_of(spark, str(query.id)) is None
    query.stop()
    assert "headwater sink" not in capsys.readouterr().err
