"""The rows about Spark: our source and sink beside Spark's own Kafka connector, against one broker, in one session.

Each scenario is one driver process (`bench.spark_driver`), because a session takes six to ten seconds to start; ours
and the connector are measured in turns in it. Every row that is read is counted. The connector's jars come from
tests/tools.sh.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.brokers import ROOT
from bench.clients import PARTITIONS, run
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario, check

SOURCE_ROWS = 2_000_000
SINK_BATCH_ROWS = 100_000
SINK_BATCHES = 8
SINK_ROUNDS = 4  # of each delivery, in turns; the first warms the JVM
SMALL_BATCHES = 150
VALUE_BYTES = 100
CONNECTOR = "Spark's own connector"
DRIVER_TIMEOUT_S = 400


def driver(what: str, bench: Bench, **told: Any) -> dict[str, float]:
    """What a driver process found."""
    with tempfile.TemporaryDirectory(dir=bench.folder) as folder:
        given = {"servers": f"127.0.0.1:{bench.port()}", "folder": folder, "master": "local[2]", **told}
        command = [sys.executable, "-m", "bench.spark_driver", what, json.dumps(given)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S)
    if done.returncode:
        raise Broken(f"{what}: {done.stderr.strip()[-1500:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def filled(bench: Bench, topic: str, count: int) -> None:
    run("produce", "send_arrow", bench, topic, count, VALUE_BYTES)
    check("records in the log", bench.produced(topic, PARTITIONS), count)


def source(bench: Bench) -> Figures:
    count = bench.count(SOURCE_ROWS)
    with bench.topic(PARTITIONS) as topic:
        filled(bench, topic, count)
        found = driver("source", bench, topic=topic, count=count)
    return {
        "spark-source-noop": Figure(found["noop headwater"], found["noop kafka"]),
        "spark-source-window": Figure(found["window headwater"], found["window kafka"]),
    }


def micro_batches(bench: Bench) -> Figures:
    with bench.topic(1) as topic:
        found = driver("micro-batches", bench, topic=topic, count=bench.count(SMALL_BATCHES))
    return batch_figures(found)


def batch_figures(found: dict[str, float]) -> Figures:
    """Ours beside the connector's; and what a source takes that does nothing, which no Python source can go below."""
    ours, floor, connector = (found[f"p50 {name}"] for name in ("headwater", "floor", "kafka"))
    return {
        "spark-batch-p50": Figure(ours, connector, f"{ours / floor:.2f} of a Python source that does nothing"),
        "spark-batch-p99": Figure(found["p99 headwater"], found["p99 kafka"]),
        "spark-batch-floor-p50": Figure(floor, connector),
    }


def sink(bench: Bench) -> Figures:
    batches = max(3, int(SINK_BATCHES * bench.scale))  # the first is not counted
    count = SINK_BATCH_ROWS * batches
    with bench.topic(PARTITIONS) as topic, bench.topic(PARTITIONS) as once, bench.topic(PARTITIONS) as plain:
        filled(bench, topic, count)
        targets = {"exactly-once": once, "at-least-once": plain}
        found = driver(
            "sink", bench, topic=topic, count=count, batch=SINK_BATCH_ROWS, targets=targets, rounds=SINK_ROUNDS
        )
        check("records in the log, at least once", bench.produced(plain, PARTITIONS), count * SINK_ROUNDS)
        # Each transaction has a marker in each partition, too.
        if bench.produced(once, PARTITIONS) <= count * SINK_ROUNDS:
            raise Broken("not all records are in the log")
    also = f"a batch of {SINK_BATCH_ROWS:,} in {SINK_BATCH_ROWS / found['exactly-once'] * 1000:,.0f} ms"
    return {"spark-sink-exactly-once": Figure(found["exactly-once"], found["at-least-once"], also)}


def cluster(bench: Bench) -> Figures:
    """The source into a no-op on a standalone cluster on this machine; two workers beside one."""
    from tests.spark.support.standalone import StandaloneCluster

    count = bench.count(SOURCE_ROWS)
    found = {}
    with bench.topic(PARTITIONS) as topic:
        filled(bench, topic, count)
        for workers in (1, 2):
            logs = tempfile.mkdtemp(dir=bench.folder)
            with StandaloneCluster(Path(logs), workers) as standalone:
                told = {"master": standalone.master, "workers": workers}
                found[workers] = driver("cluster", bench, topic=topic, count=count, **told)["noop headwater"]
    return {"spark-workers-1": Figure(found[1]), "spark-workers-2": Figure(found[2], found[1])}


def spark_scenarios() -> list[Scenario]:
    def rows(name: str, title: str, limit: str = CONNECTOR, target: float | None = 1) -> Kind:
        return Kind(name, title, "rows/s", MORE, limit, target, of_limit=True)

    def batch(percent: int) -> Kind:
        return Kind(f"spark-batch-p{percent}", f"Spark: a small micro-batch, p{percent}", "ms", LESS, CONNECTOR)

    nothing = "Spark: a micro-batch of a Python source that does nothing, p50"
    floor = Kind("spark-batch-floor-p50", nothing, "ms", LESS, CONNECTOR)

    made: list[tuple[tuple[Kind, ...], Callable[[Bench], Figures]]] = [
        (
            (
                rows("spark-source-noop", "Spark: source into a no-op, 100 B"),
                rows("spark-source-window", "Spark: source into a window count, 100 B"),
            ),
            source,
        ),
        ((batch(50), batch(99), floor), micro_batches),
        ((rows("spark-sink-exactly-once", "Spark: exactly-once sink, 100 B", "at least once", 0.8),), sink),
        (
            (
                rows("spark-workers-1", "Spark: source into a no-op, one worker", "", None),
                rows("spark-workers-2", "Spark: source into a no-op, two workers", "one worker", None),
            ),
            cluster,
        ),
    ]
    return [Scenario(kinds, measure, 1, about_broker=False) for kinds, measure in made]
