"""Whether a batch of a SparkSink is in its target, by what the batch left there."""

import sqlite3
from pathlib import Path
from typing import Any

from headwater.connect.connectors.spark.marks import is_written
from headwater.spark.sinks.options import Column, SinkOptions
from headwater.spark.sinks.sqlite import SqliteStore
from headwater.spark.sinks.staging import Batch
from unit.spark.sinks.test_batch_files import MemoryFiles

NO_FILES: Any = None


def test_files_are_marked_by_their_manifest() -> None:
    files = MemoryFiles({"/out/_manifests/0000000007-q": "{}", "/out/0000000007-q/part-0": "x"})

    def asked(query: str, batch: int) -> bool:
        return is_written(files, "Parquet", {"path": "/out/"}, of_files=True, query=query, batch=batch)

    assert asked("q", 7)
    assert not asked("q", 8)
    assert not asked("another", 7)


def test_a_table_is_marked_by_its_progress_whatever_its_keys(tmp_path: Path) -> None:
    path = str(tmp_path / "d.db")
    store = SqliteStore(SinkOptions(path, "t", (Column("n", "long"),), ("n",), sink="t"))
    store.prepare()
    store.publish(Batch("q", 3), [])

    def asked(batch: int, **more: str) -> bool:
        options = {"path": path, "table": "t", "Keys": "n", **more}
        return is_written(NO_FILES, "headwater-SQLite", options, of_files=False, query="q", batch=batch)

    assert asked(3)
    assert asked(2)
    assert not asked(4)
    assert not asked(3, sink="another")
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_of_other_formats_nobody_knows_so_their_batch_comes_again() -> None:
    assert not is_written(NO_FILES, "jdbc", {"dbtable": "t"}, of_files=False, query="q", batch=0)
