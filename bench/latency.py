"""The rows about how late things come at one broker: librdkafka from end to end, and small requests while a log is
compacted.

Compaction: a topic is filled under `delete`, then set to `compact`; the broker's cleaner looks often, so it begins at
once. From then until the log has shrunk, one connection produces small requests into another topic. Registered by
`rows.scenarios`.
"""

import contextlib
import time
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench import requests
from bench.replay import Replayed, Running, replay
from bench.replicated import RATE, end_to_end, wait_until
from bench.report import LESS, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import LARGE_RECORDS, LARGE_VALUE_BYTES, Bench, Figures, Scenario, check

PARTITIONS = 4
CLEANED = "cleaned"
QUIET = "quiet"
BATCHES, DISTINCT_BATCHES = 1500, 60  # of about 1 MB each
SEGMENT_BYTES = 128 << 20
CLEANER = ("log.cleaner.backoff.ms=100",)
READY_S = 30
WARM_S, ALONE_S = 3.0, 3.0
CLEANING_S_MAX = 240


def end_to_end_alone(bench: Bench) -> Figures:
    with bench.topic(PARTITIONS) as topic:
        return end_to_end(bench, f"127.0.0.1:{bench.port()}", topic, PARTITIONS, "end-to-end")


def during_compaction(bench: Bench) -> Figures:
    directory = bench.directory()
    with bench.start(directory, CLEANER) as broker:
        log = directory / f"{CLEANED}-0"
        with Calls(broker.port) as calls:
            calls.create_topic(QUIET, 1)
            calls.create_topic(CLEANED, 1, {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"})
        small = bench.frames("quiet", [requests.produce(QUIET, 0, requests.batch(1, 100))])
        fill(bench, broker.port)
        *closed_mb, active_mb = sizes_mb(log)
        left_mb_max = active_mb + 1.5 * DISTINCT_BATCHES  # each key once, and what is not compacted yet
        load(broker.port, small, bench.seconds(WARM_S))
        alone = load(broker.port, small, bench.seconds(ALONE_S))
        began = time.perf_counter()
        with Running(broker.port, small, connections=1, depth=1, seconds=CLEANING_S_MAX) as running:
            compact(broker.port)
            wait_until(lambda: sum(sizes_mb(log)) < left_mb_max, "the log compacted", CLEANING_S_MAX)
            seconds = time.perf_counter() - began
            running.stop()
            found = running.result()
    also = f"{sum(closed_mb):,.0f} MB compacted in {seconds:.1f} s; p50 {found.p50_us / 1e3:.2f} ms"
    return {"compaction-p99": Figure(found.p99_us / 1e3, alone.p99_us / 1e3, also)}


def load(port: int, frames: Path, seconds: float) -> Replayed:
    return replay(port, frames, connections=1, depth=1, seconds=seconds)


def fill(bench: Bench, port: int) -> None:
    """Every key comes up again and again."""
    frames = [
        requests.produce(CLEANED, 0, requests.batch(LARGE_RECORDS, LARGE_VALUE_BYTES, first_key=number * LARGE_RECORDS))
        for number in range(DISTINCT_BATCHES)
    ]
    path = bench.frames("keyed", frames)
    count = max(4 * DISTINCT_BATCHES, bench.count(BATCHES))
    done = replay(port, path, connections=1, depth=2, seconds=60, requests=count)
    with Calls(port) as calls:
        check("records in the log", sum(calls.end_offsets(CLEANED, 1)), done.requests * LARGE_RECORDS)
    check("requests", done.requests, count)


def sizes_mb(log: Path) -> list[float]:
    """Of its segments, not of files that wait to be swapped in or deleted; the active one is the last."""
    found = []
    for path in sorted(log.glob("*.log")):
        with contextlib.suppress(FileNotFoundError):  # just swapped
            found.append(path.stat().st_size / 1e6)
    return found


def compact(port: int) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, CLEANED, incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([resource])[resource].result(READY_S)
    except KafkaException as problem:
        raise Broken(f"the topic's policy was not changed: {problem}") from problem


def latency_scenarios() -> list[Scenario]:
    alone = "the same without compaction"
    return [
        Scenario(
            (
                Kind("end-to-end-p50", f"librdkafka end to end at {RATE} records/s, p50", "ms", LESS, ""),
                Kind("end-to-end-p99", f"librdkafka end to end at {RATE} records/s, p99", "ms", LESS, ""),
            ),
            end_to_end_alone,
            2,
        ),
        Scenario(
            (Kind("compaction-p99", "one connection, p99 while a log is compacted", "ms", LESS, alone),),
            during_compaction,
            1,
            needs_broker=False,
        ),
    ]
