"""What a Spark application needs until tasks in Python have run on its executors, whatever it does: the floor of a
driver that is started again. `python -m bench.spark_first_task MASTER TASKS` is that application; its session is that
of a streams application, without one.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.brokers import ROOT
from bench.requests import Broken

if TYPE_CHECKING:
    import pyarrow

_PATIENCE_S: Final = 600.0


def first_task_ms(master: str, home: Path, tasks: int) -> float:
    """From the start of its interpreter; its end is not counted."""
    command = [sys.executable, "-m", "bench.spark_first_task", master, str(tasks)]
    began = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, "SPARK_HOME": str(home)}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        took_ms = (time.perf_counter() - began) * 1e3
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
    if line != "done\n":
        raise Broken(f"a bare application of Spark said {line!r}")
    return took_ms


def same(batches: "Iterator[pyarrow.RecordBatch]") -> "Iterator[pyarrow.RecordBatch]":
    yield from batches


def main(master: str, tasks: str) -> None:
    from bench.streams_on_cluster import open_session

    spark = open_session(master)
    spark.range(int(tasks), numPartitions=int(tasks)).mapInArrow(same, "id long").collect()
    print("done", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
