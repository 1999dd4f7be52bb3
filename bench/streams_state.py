"""State of a million keys: a restart with the state in place, a restore from the changelog, and queries over HTTP
beside half the load that the application bears.

A start is counted from the process to its `ready`, when all tasks are open: the interpreter is in it. The broker has
`group.initial.rebalance.delay.ms=0`, as `headwater up` and Apache's quick start have it: with its default, the first
member of a group waits 3 s for others, whoever it is. The query server
is `headwater stream serve`, a process of its own, and so are the application and the load.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import limits
from bench.brokers import ROOT, cpu_seconds, die_with_parent
from bench.report import LESS, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario
from bench.streams import FIRST_MS, PARTITIONS, PATIENCE_S, TOPIC_CONFIGS, commands, fill, pace, running
from bench.streams_latency import quantile
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.streams.query import connect
from headwater.streams.query.short_slice import take_short_slice

KEYS = 1_000_000
QUERIES = 4_000
QUERIES_S = 200
_OWN_MEMORY: Final = re.compile(r"RssAnon:\s+(\d+) kB")
TOKEN = "the-secret-of-this-measurement"


class OwnMemory:
    """The most that a process had of its own until it ended, looked at every 50 ms."""

    def __init__(self, pid: int) -> None:
        self._file = Path(f"/proc/{pid}/status")
        self.most_mb = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        with suppress(OSError):  # it has ended
            while found := _OWN_MEMORY.search(self._file.read_text()):
                self.most_mb = max(self.most_mb, int(found[1]) / 1e3)
                time.sleep(0.05)


class Counted:
    """An application that has counted these keys and was stopped."""

    def __init__(self, bench: Bench, numbers: "np.ndarray[Any, Any]", patience_s: float = PATIENCE_S) -> None:
        bench._used += 1
        self.bench = bench
        self.name = f"bench-state-{bench._used}"
        self.brokers = f"127.0.0.1:{bench.port()}"
        self.state = bench.folder / self.name
        self.command = commands("headwater", "count", bench.port(), self.name, self.state)
        self.topics = [f"{self.name}.in", f"{self.name}.out", f"{self.name}-counts-changelog"]
        with Calls(bench.port()) as calls:
            for topic in self.topics[:2]:
                calls.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
        fill(self.brokers, self.topics[0], numbers, FIRST_MS)
        self.memory: OwnMemory | None = None  # of the process that ran last
        with self.running() as process, Admin(bootstrap_servers=self.brokers) as admin:
            self.records_s = pace(admin, process, self.name, self.partitions, patience_s)
            self.cpu_s = cpu_seconds(process.pid)

    @property
    def memory_mb(self) -> float:
        return 0.0 if self.memory is None else self.memory.most_mb

    def _started(self, pid: int) -> None:
        self.memory = OwnMemory(pid)

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topics[0], partition) for partition in range(PARTITIONS)]

    @contextmanager
    def running(self) -> Iterator[subprocess.Popen[str]]:
        with running(self.command, self.bench.folder / f"{self.name}.said", self._started) as process:
            yield process

    def start_ms(self) -> float:
        began = time.perf_counter()
        with self.running() as process:
            taken_ms = (time.perf_counter() - began) * 1e3
            self.cpu_s = cpu_seconds(process.pid)
        return taken_ms

    def close(self) -> None:
        with Calls(self.bench.port()) as calls:
            for topic in self.topics:
                calls.delete_topic(topic)
        shutil.rmtree(self.state, ignore_errors=True)


def on_own_broker(measure: Callable[[Bench], Figures]) -> Callable[[Bench], Figures]:
    """On a broker that lets the first member of a group begin at once."""

    def measured(bench: Bench) -> Figures:
        with bench.start(bench.directory(), ["group.initial.rebalance.delay.ms=0"]) as broker:
            bench.broker = broker
            return measure(bench)

    return measured


@contextmanager
def counted(bench: Bench) -> Iterator[Counted]:
    made = Counted(bench, np.arange(bench.count(KEYS)))
    try:
        yield made
    finally:
        made.close()


def starts(bench: Bench) -> Figures:
    limit = limits.interpreter_start_ms()
    with counted(bench) as application:
        restart = min(application.start_ms() for _ in range(2))
        shutil.rmtree(application.state)
        restore = application.start_ms()
    keys = f"{bench.count(KEYS):,} keys"
    return {"streams-restart": Figure(restart, limit, keys), "streams-restore": Figure(restore, limit, keys)}


def queries(bench: Bench) -> Figures:
    """Asked from a thread that has its turn soon when an answer is there, and from an ordinary one, which waits for a
    processor behind whoever computes: that is told beside it.
    """
    keys = bench.count(KEYS)
    with counted(bench) as application, ThreadPoolExecutor(1, initializer=take_short_slice) as prompt:
        load_s, asked = application.records_s / 2, bench.count(QUERIES)
        seconds = 2 * asked / QUERIES_S
        with application.running(), _served(application) as url:
            load = _load(application, load_s, seconds + 4, keys)
            try:
                found = prompt.submit(_ask, url, keys, asked).result()
                ordinary = _ask(url, keys, asked)
                if load.poll() is not None:
                    raise Broken("the load ended before the queries")
            finally:
                load.terminate()
                load.wait()
    return {
        "streams-query-p99": Figure(
            quantile(found, 0.99),
            None,
            f"p50 {quantile(found, 0.5):.2f} ms, beside {load_s:,.0f} records/s, {keys:,} keys; "
            f"of an ordinary thread p99 {quantile(ordinary, 0.99):.2f}, p50 {quantile(ordinary, 0.5):.2f}",
        )
    }


@contextmanager
def _served(application: Counted) -> Iterator[str]:
    """`headwater stream serve` beside it."""
    file = application.bench.folder / f"{application.name}.py"
    file.write_text(
        f"from bench.streams_apps import make\n\napp = make('count', {application.brokers!r}, {application.name!r})\n"
    )
    command = [sys.executable, "-m", "headwater.cli.main", "stream", "serve", str(file), "--port", "0"]
    environment = {**os.environ, "HEADWATER_QUERY_TOKEN": TOKEN, "PYTHONPATH": str(ROOT)}
    said = application.bench.folder / f"{application.name}.served"
    with said.open("ab") as errors:
        process = subprocess.Popen(
            [*command, "--state-dir", str(application.state)],
            cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True, preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        addresses = [word.partition("=")[2] for word in line.split() if "http://" in word]
        if not addresses:
            raise Broken(f"stream serve did not start: {line} {said.read_text(errors='replace')[-500:]}")
        yield addresses[0]
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _load(application: Counted, records_s: float, seconds: float, keys: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bench.streams_load", application.brokers, application.topics[0]]
    return subprocess.Popen(
        [*command, str(int(records_s)), str(seconds), str(keys)], cwd=ROOT, preexec_fn=die_with_parent
    )


def _ask(url: str, keys: int, count: int) -> list[float]:
    """How long each took, in milliseconds; one after the other, at their pace."""
    numbers = np.random.default_rng(11).integers(0, keys, count).tolist()
    taken = []
    with connect(url, token=TOKEN) as client:
        store = client.store("counts")
        began = time.perf_counter()
        for place, number in enumerate(numbers):
            pause = began + place / QUERIES_S - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            asked = time.perf_counter()
            if store.get(f"key-{number:07d}") is None:
                raise Broken(f"key-{number:07d} is not in the store")
            taken.append((time.perf_counter() - asked) * 1e3)
    return sorted(taken)


def test_driver(bench: Bench) -> Figures:
    """In a process that has imported nothing."""
    command = [sys.executable, "-m", "bench.streams_driver", str(bench.count(1_000))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    found = json.loads(done.stdout)
    each = f"{found['topologies']:,} topologies, {found['seconds'] / found['topologies'] * 1e3:.2f} ms each"
    return {
        "streams-driver-first": Figure(found["first_ms"], limits.interpreter_start_ms()),
        "streams-driver-1000": Figure(found["seconds"] * 1000 / found["topologies"], None, each),
    }


def state_scenarios() -> list[Scenario]:
    started = "a Python that starts and does nothing"
    return [
        Scenario(
            (
                Kind("streams-restart", "Streams: restart with 1 M keys", "ms", LESS, started, 1_000),
                Kind("streams-restore", "Streams: restore of 1 M keys", "ms", LESS, started, 3_000),
            ),
            on_own_broker(starts),
            1,
            needs_broker=False,
            about_broker=False,
        ),
        Scenario(
            (Kind("streams-query-p99", "Streams: query over HTTP at half load, p99", "ms", LESS, "", 2),),
            on_own_broker(queries),
            1,
            needs_broker=False,
            about_broker=False,
        ),
        Scenario(
            (
                Kind("streams-driver-first", "Streams: test driver, import to first output", "ms", LESS, started, 150),
                Kind("streams-driver-1000", "Streams: test driver, 1,000 small topologies", "s", LESS, "", 2),
            ),
            test_driver,
            3,
            needs_broker=False,
            about_broker=False,
        ),
    ]
