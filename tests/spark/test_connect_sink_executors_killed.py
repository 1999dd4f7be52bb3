"""Batches of SparkSink whose executors are killed on the way: of `make soak` alone.

When a kill comes is chance: it may find the executor with nothing to do. So there are rounds until enough tasks of
batches were lost with their executor, which Spark's event log tells.
"""

import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet
import pytest

from headwater.client import Producer
from headwater.testing import Broker
from spark.support import executors
from spark.support.event_log import batch_jobs, task_ends
from spark.test_connect_slots import Bench

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
LOST_MIN = 4  # tasks of batches
ROUNDS_MAX = 30


def test_a_batch_whose_executor_is_killed_is_written_once(
    tmp_path: Path, archived_classes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", executors.spark_home())
    settings = {**executors.settings(archived_classes), "task.slots": "1"}
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        bench = Bench(tmp_path, broker.bootstrap_servers, master=executors.MASTER, **settings)
        with bench.worker:
            kill_executors(bench)


def kill_executors(bench: Bench) -> None:
    written = Written(bench)
    written.send()
    written.check()
    turn = 0
    while lost_in_batches(bench) < LOST_MIN:
        assert turn < ROUNDS_MAX, "no executor was killed within a batch"
        bench.until(lambda: len(executors.executors(bench.worker.process.pid)) == 2, lambda: "two executors")
        before = batch_jobs(bench.log)
        written.send()
        bench.until(lambda was=before: batch_jobs(bench.log) > was, lambda: "a batch begins")
        os.kill(executors.executors(bench.worker.process.pid)[turn % 2], signal.SIGKILL)
        written.check()
        turn += 1


def lost_in_batches(bench: Bench) -> int:
    """Once a batch has ended, the log has all of it."""
    return sum(reason == "ExecutorLostFailure" and not is_slot for reason, is_slot in task_ends(bench.log))


class Written:
    """Numbers of a topic that become rows of Parquet files and of a table."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._topic, self._sent = bench, bench.topic("numbers", partitions=2), 0
        self._files, self._table = bench.folder / "files", bench.folder / "table.db"
        common = {
            "connector.class": "SparkSink",
            "topics": self._topic,
            "batch.interval.ms": "0",
            "batch.records.max": "3000",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "value.schema": "n BIGINT",
        }
        places = {
            "files": {"format": "parquet", "options.path": str(self._files)},
            "table": {"format": "headwater-sqlite", "options.path": str(self._table), "options.table": "numbers"},
        }
        for name, place in places.items():
            checkpoint = str(bench.folder / f"checkpoint-{name}")
            bench.create(name, {**common, **place, "checkpoint.location": checkpoint})

    def send(self) -> None:
        with Producer(bootstrap_servers=self._bench.servers) as producer:
            for number in range(self._sent, self._sent + 10_000):
                producer.send(self._topic, b'{"n": %d}' % number, partition=number % 2)
        self._sent += 10_000

    def check(self) -> None:
        """Each number is there once, and both tasks run."""
        for found, name in ((self._in_files, "files"), (self._in_table, "table")):
            self._bench.until(
                lambda found=found: len(found()) >= self._sent, lambda name=name: str(self._bench.task(name))
            )
            assert sorted(found()) == list(range(self._sent))
            self._bench.until_state(name)

    def _in_files(self) -> list[int]:
        """Of the batches that have a manifest."""
        batches = [self._files / each.name for each in (self._files / "_manifests").glob("[0-9]*")]
        parts = [part for batch in batches for part in batch.glob("part-*")]
        return [n for part in parts for n in pyarrow.parquet.read_table(part)["n"].to_pylist()]

    def _in_table(self) -> list[int]:
        try:
            with closing(sqlite3.connect(self._table)) as connection:
                return [n for (n,) in connection.execute("SELECT n FROM numbers")]
        except sqlite3.OperationalError:
            return []
