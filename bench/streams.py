"""Streams beside Kafka Streams (Java) and Quix Streams: the same topologies, on one broker, in one run, exactly once,
record cache off.

Each runs in a process of its own (`streams_apps`, `StreamsPeer.java`, `streams_quix`) over topics of its own with the
same records, one after the other. The pace is taken from the group's committed offsets, between a tenth of the records
and all of them: neither interpreters nor the JVM's first seconds count. What each wrote, results and changelog records,
is counted by a reader of committed records and told under `also`. Quix Streams gets an environment of its own in
`bench/build`, made when it is first measured (or HEADWATER_BENCH_QUIX names a Python that has it); where it cannot be
installed, the row says why.
"""

import functools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.brokers import JARS, ROOT, die_with_parent
from bench.replay import BUILD
from bench.report import MORE, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario, check
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.consumer import Consumer
from headwater.client.producer.producer import Producer

PARTITIONS = 4
RECORDS = 1_000_000
QUIX_SHARE = 10
QUIX_VERSION = "3.28.1"
INSTALL_S = 600
KEYS = 100_000
FILLED = 1_000_000  # records that are made at once
COMMIT_MS = 100
PATIENCE_S = 240
HOUR_MS = 3_600_000
# Of a row's first record: records that are older than their retention would be deleted while they are read.
FIRST_MS = (int(time.time() * 1000) // HOUR_MS - 1) * HOUR_MS
TOPIC_CONFIGS = {"file.delete.delay.ms": "1", "retention.ms": "-1"}
SCENARIOS = {
    "count": ("keyed count", 3.0),
    "windowed": ("windowed count", 3.0),
    "table": ("stream-table join", 3.0),
    "stream": ("stream-stream join", 1.0),
    "function": ("a function per record", 1.0),
}
CHANGELOGS = ("counts-changelog", "rows-changelog", "KSTREAM-JOINTHIS-", "KSTREAM-JOINOTHER-")


class Pace(NamedTuple):
    records_s: float
    outputs: int
    changes: int


@functools.cache
def quix_python() -> str:
    """A Python that has Quix Streams. Raises Broken."""
    given = os.environ.get("HEADWATER_BENCH_QUIX")
    if given:
        return given
    home = BUILD / f"quix-{QUIX_VERSION}"
    if not home.exists():
        BUILD.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=BUILD, prefix="quix-") as fresh:
            _run_quietly([sys.executable, "-m", "venv", fresh], "an environment for Quix Streams")
            install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"quixstreams=={QUIX_VERSION}"]
            _run_quietly([f"{fresh}/bin/python", *install], "Quix Streams")
            Path(fresh).rename(home)
            Path(fresh).mkdir()  # for whoever wants to remove it
    return str(home / "bin/python")


def _run_quietly(command: list[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S)
    except subprocess.TimeoutExpired:
        raise Broken(f"{what}: not there after {INSTALL_S} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise Broken(f"{what}: {lines[-1]}")


def commands(
    who: str, scenario: str, port: int, application: str, state: Path, commit_ms: int = COMMIT_MS
) -> list[str]:
    brokers = f"127.0.0.1:{port}"
    common = [scenario, brokers, application, str(state), str(commit_ms)]
    if who == "headwater":
        return [sys.executable, "-m", "bench.streams_apps", *common, "0"]
    if who == "Kafka Streams":
        return ["java", "-Xmx2g", "-cp", f"{JARS}/*", str(ROOT / "bench/StreamsPeer.java"), *common, "0", "2"]
    return [quix_python(), str(ROOT / "bench/streams_quix.py"), *common]


@contextmanager
def running(
    command: list[str], said: Path, started: Callable[[int], None] = lambda _: None
) -> Iterator[subprocess.Popen[str]]:
    """Its standard input is open as long as it shall run; who does not end then is killed. `started` is told its
    process id before it is ready.
    """
    with said.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, preexec_fn=die_with_parent
        )  # fmt: skip
    try:
        started(process.pid)
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise Broken(f"{command[:3]} did not start: {said.read_text(errors='replace')[-800:]}")
        yield process
        if process.poll() is not None:
            raise Broken(f"{command[:3]} ended: {said.read_text(errors='replace')[-800:]}")
    finally:
        process.stdin.close() if process.stdin is not None else None
        if "streams_quix.py" in " ".join(command):
            process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def key_numbers(count: int, keys: int) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(7).integers(0, keys, count)


def fill(brokers: str, topic: str, numbers: "np.ndarray[Any, Any]", first_ms: int) -> None:
    """A record each millisecond: text keys, values of 20 characters."""
    with Producer(bootstrap_servers=brokers) as producer:
        for begin in range(0, len(numbers), FILLED):
            some = range(begin, min(begin + FILLED, len(numbers)))
            keys = [f"key-{number:07d}".encode() for number in numbers[begin : begin + FILLED].tolist()]
            columns = {
                "key": pa.array(keys, pa.binary()),
                "value": pa.array([f"value-{number:014d}".encode() for number in some], pa.binary()),
                "timestamp": pa.array(np.arange(some.start, some.stop) + first_ms, pa.int64()),
            }
            producer.send_arrow(pa.table(columns), topic, key="key", timestamp="timestamp")
            producer.flush()


def inputs(scenario: str, application: str, count: int, keys: int) -> dict[str, tuple["np.ndarray[Any, Any]", int]]:
    """By topic: the numbers of its keys, and the time of its first record."""
    begin_ms = FIRST_MS
    if scenario == "table":
        rows = np.arange(keys)
        return {
            f"{application}.other": (rows, begin_ms - len(rows)),
            f"{application}.in": (key_numbers(count, keys), begin_ms),
        }
    if scenario == "stream":
        half = key_numbers(count // 2, keys)
        return {f"{application}.in": (half, begin_ms), f"{application}.other": (half, begin_ms)}
    return {f"{application}.in": (key_numbers(count, keys), begin_ms)}


def pace(
    admin: Admin,
    process: subprocess.Popen[str],
    application: str,
    partitions: list[TopicPartition],
    patience_s: float = PATIENCE_S,
) -> float:
    """Records a second by what the group commits."""
    ends = {each: answer.offset for each, answer in admin.list_offsets(dict.fromkeys(partitions, -1)).items()}  # type: ignore[union-attr]
    total, began, at_first, done, deadline = sum(ends.values()), 0.0, 0, 0, time.perf_counter() + patience_s
    while time.perf_counter() < deadline and process.poll() is None:
        committed = admin.list_group_offsets(application, partitions)
        done = sum(min(found.offset, ends[each]) for each, found in committed.items() if found is not None)
        if not began and done > total // 10:
            began, at_first = time.perf_counter(), done
        if done == total:
            return (total - at_first) / max(time.perf_counter() - began, 1e-3)
        time.sleep(0.01)
    ended = "" if process.poll() is None else f", and ended with {process.returncode}"
    raise Broken(f"{application} committed {done:,} of its {total:,} records within {patience_s} s{ended}")


def count_records(brokers: str, topic: str, partitions: int) -> int:
    """Committed records of a topic."""
    with Consumer(
        bootstrap_servers=brokers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        consumer.assign(places)
        found = 0
        while any(consumer.current_lag(each) != 0 for each in places):
            found += consumer.poll_arrow(1.0).num_rows
    return found


def measure_one(bench: Bench, who: str, scenario: str, records: int) -> Pace:
    bench._used += 1
    application = f"bench-{scenario}-{bench._used}"
    brokers = f"127.0.0.1:{bench.port()}"
    given = inputs(scenario, application, records, KEYS)
    topics = [*given, f"{application}.out"]
    with Calls(bench.port()) as calls:
        for topic in topics:
            calls.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
    for topic, (numbers, first_ms) in given.items():
        fill(brokers, topic, numbers, first_ms)
    state = bench.folder / application
    try:
        with Admin(bootstrap_servers=brokers) as admin:
            partitions = [TopicPartition(topic, partition) for topic in given for partition in range(PARTITIONS)]
            with running(
                commands(who, scenario, bench.port(), application, state), bench.folder / f"{application}.said"
            ) as process:
                found = pace(admin, process, application, partitions)
            changelogs = [
                each.name
                for each in admin.list_topics()
                if each.name.startswith((f"{application}-", f"changelog__{application}-"))
            ]
            topics += changelogs
        outputs = count_records(brokers, f"{application}.out", PARTITIONS)
        changes = sum(count_records(brokers, name, PARTITIONS) for name in changelogs)
        return Pace(found, outputs, changes)
    finally:
        with Calls(bench.port()) as calls:
            for topic in topics:
                calls.delete_topic(topic)


def beside_quix(bench: Bench, scenario: str, ours_s: float, records: int) -> str:
    """A tenth of the records is enough: it is that much slower. That it is not here breaks nothing."""
    try:
        quix_python()
    except Broken as error:
        return f"; Quix Streams: not here ({error})"
    found = measure_one(bench, "Quix Streams", scenario, records)
    told = f"of {records:,} records {found.outputs:,} results, {found.changes:,} changelog records"
    return f"; Quix Streams {found.records_s:,.0f} (1/{ours_s / found.records_s:.1f}; {told})"


def beside_the_others(scenario: str) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        count = bench.count(RECORDS)
        theirs = measure_one(bench, "Kafka Streams", scenario, count)
        ours = measure_one(bench, "headwater", scenario, count)
        check("results", ours.outputs, theirs.outputs)
        also = f"{ours.outputs:,} results, as Kafka Streams; changelog records {ours.changes:,} and {theirs.changes:,}"
        also += beside_quix(bench, scenario, ours.records_s, count // QUIX_SHARE)
        return {f"streams-{scenario}": Figure(ours.records_s, theirs.records_s, also)}

    return measure


def streams_scenarios() -> list[Scenario]:
    return [
        Scenario(
            (Kind(f"streams-{name}", f"Streams: {title}", "records/s", MORE, "Kafka Streams", target, of_limit=True),),
            beside_the_others(name),
            2,
            about_broker=False,
        )
        for name, (title, target) in SCENARIOS.items()
    ]
