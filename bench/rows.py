"""The rows, and how each is measured: a limit, then the broker, and so on in turns, so that both see the same noise.

Every produce row is checked by the log end offsets, every fetch row by the bytes that came.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import limits, requests
from bench.brokers import ROOT, Broker, Start, cpu_seconds, memory_mb
from bench.replay import Replayed, Running, replay
from bench.report import Figure, Kind
from bench.requests import Broken, Calls

PARTITIONS = 8
LARGE_RECORDS, LARGE_VALUE_BYTES = 960, 1024  # just under 1 MiB, the largest batch by default
FETCH_BYTES = 1 << 20
CLIENT_PARTITIONS = 4
CLIENT_LOADS = [(100, 1_000_000), (1000, 300_000)]  # bytes of a value, records
CODECS = ["none", "lz4"]
CONSUME_ROUNDS = 3
IDLE_S = 2

Figures = dict[str, Figure]


@dataclass(slots=True)
class Bench:
    """One broker being measured. `folder` takes its files and the prebuilt requests, `scale` below 1 makes all
    shorter.
    """

    start: Start
    folder: Path
    scale: float = 1.0
    broker: Broker | None = None
    _used: int = field(default=0)

    def port(self) -> int:
        assert self.broker is not None
        return self.broker.port

    def directory(self) -> Path:
        """A directory that nobody has used."""
        self._used += 1
        return self.folder / f"broker-{self._used}"

    def seconds(self, seconds: float) -> float:
        return max(0.5, seconds * self.scale)

    def count(self, count: int) -> int:
        return max(50, int(count * self.scale))

    @contextmanager
    def topic(self, partitions: int = PARTITIONS) -> Iterator[str]:
        """A topic of its own for a round. Deleted afterwards, at once, so that its pages are never written to disk."""
        self._used += 1
        name = f"bench-{self._used}"
        with Calls(self.port()) as calls:
            calls.create_topic(name, partitions, {"file.delete.delay.ms": "1"})
        try:
            yield name
        finally:
            with Calls(self.port()) as calls:
                calls.delete_topic(name)

    def frames(self, name: str, all_frames: list[bytes]) -> Path:
        path = self.folder / f"{name}.bin"
        path.write_bytes(b"".join(all_frames))
        return path

    def produced(self, topic: str, partitions: int = PARTITIONS) -> int:
        with Calls(self.port()) as calls:
            return sum(calls.end_offsets(topic, partitions))


def check(what: str, found: float, expected: float) -> None:
    if found != expected:
        raise Broken(f"{what}: {found:,.0f} where {expected:,.0f} were expected")


def small_frames(bench: Bench, topic: str) -> Path:
    data = requests.batch(1, 100)
    return bench.frames("small", [requests.produce(topic, partition, data) for partition in range(PARTITIONS)])


def large_frames(bench: Bench, topic: str) -> Path:
    data = requests.batch(LARGE_RECORDS, LARGE_VALUE_BYTES)
    return bench.frames("large", [requests.produce(topic, partition, data) for partition in range(PARTITIONS)])


def produce_large(bench: Bench) -> Figures:
    limit = limits.loopback_send_mb_s()
    with bench.topic() as topic:
        done = replay(
            bench.port(), large_frames(bench, topic), connections=1, depth=4, seconds=20, requests=bench.count(1000)
        )
        check("records in the log", bench.produced(topic), done.requests * LARGE_RECORDS)
    return {"produce-1mb": Figure(done.out_mb_s, limit)}


def fetch_large(bench: Bench) -> Figures:
    limit = limits.loopback_sendfile_mb_s(str(bench.folder))
    usual = limits.congestion_control()
    usual_limit = limits.loopback_sendfile_mb_s(str(bench.folder), usual.encode())
    with bench.topic() as topic:
        filled = replay(
            bench.port(), large_frames(bench, topic), connections=1, depth=1, seconds=20, requests=8 * PARTITIONS
        )
        check("records in the log", bench.produced(topic), filled.requests * LARGE_RECORDS)
        frames = [
            requests.fetch(topic, partition, LARGE_RECORDS * index, FETCH_BYTES)
            for index in range(8)
            for partition in range(PARTITIONS)
        ]
        path = bench.frames("fetch", frames)
        with Calls(bench.port()) as calls:
            sizes = [8 + len(calls.call(frame)) for frame in frames]  # with length and correlation id
        if min(sizes) < LARGE_RECORDS * LARGE_VALUE_BYTES:
            raise Broken(f"a fetch of {FETCH_BYTES} bytes gave {min(sizes)}")
        done = replay(bench.port(), path, connections=1, depth=4, seconds=20, requests=bench.count(3000))
        check("bytes received", done.bytes_in, sum(sizes[index % len(sizes)] for index in range(done.requests)))
    also = f"{done.in_mb_s / usual_limit:.2f}x of loopback sendfile with the system's {usual}"
    return {"fetch-1mb": Figure(done.in_mb_s, limit, also)}


def produce_small(bench: Bench) -> Figures:
    def load(port: int, pid: int, frames: Path) -> tuple[Replayed, float]:
        before = cpu_seconds(pid)
        done = replay(port, frames, connections=50, depth=1, seconds=bench.seconds(3))
        return done, (cpu_seconds(pid) - before) / done.requests * 1e6

    assert bench.broker is not None
    with bench.topic() as topic:
        frames = small_frames(bench, topic)
        with limits.bare_server_of_many() as (port, pid):
            bare, bare_us = load(port, pid, frames)
        done, cpu_us = load(bench.port(), bench.broker.pid, frames)
        check("records in the log", bench.produced(topic), done.requests)
    return {
        "produce-small": Figure(done.requests_s, bare.requests_s, f"p99 {done.p99_us / 1e3:.2f} ms"),
        "produce-small-cpu": Figure(cpu_us, bare_us),
    }


def round_trip(bench: Bench) -> Figures:
    with bench.topic() as topic:
        frames = small_frames(bench, topic)
        p50_us, p99_us = limits.round_trip_us()
        with limits.bare_server_of_one() as (port, _):
            bare = replay(port, frames, connections=1, depth=1, seconds=bench.seconds(1))
        done = replay(bench.port(), frames, connections=1, depth=1, seconds=bench.seconds(1.5))
        check("records in the log", bench.produced(topic), done.requests)
    return {
        "round-trip-p50": Figure(done.p50_us, p50_us, f"{done.p50_us / bare.p50_us:.2f}x of an echo asked from C"),
        "round-trip-p99": Figure(done.p99_us, p99_us, f"{done.p99_us / bare.p99_us:.2f}x of an echo asked from C"),
    }


def small_beside_large(bench: Bench) -> Figures:
    def load(port: int, small: Path, large: Path) -> tuple[Replayed, Replayed]:
        with Running(port, large, connections=1, depth=2, seconds=bench.seconds(1.5) + 0.3) as beside:
            done = replay(port, small, connections=1, depth=1, seconds=bench.seconds(1.5))
            return done, beside.result()

    with bench.topic() as topic:
        small, large = small_frames(bench, topic), large_frames(bench, topic)
        with limits.bare_server_of_many() as (port, _):
            bare, _ = load(port, small, large)
        done, beside = load(bench.port(), small, large)
        check("records in the log", bench.produced(topic), done.requests + beside.requests * LARGE_RECORDS)
    also = f"beside {beside.out_mb_s:,.0f} MB/s; p50 {done.p50_us / 1e3:.2f} ms"
    return {"beside-1mb-p99": Figure(done.p99_us / 1e3, bare.p99_us / 1e3, also)}


def client_row(what: str, size: int, codec: str) -> str:
    return f"librdkafka-{what}-{size}b-{codec}"


def librdkafka(size: int, records: int, codec: str) -> Callable[[Bench], Figures]:
    def run(*arguments: object) -> Figure:
        command = [sys.executable, "-m", "bench.client", *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        if done.returncode:
            raise Broken(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
        found = json.loads(done.stdout)
        also = f"{found['bytes'] / found['seconds'] / 1e6:,.0f} MB/s"
        return Figure(found["records"] / found["seconds"], found["records"] / found["busiest"], also)

    def measure(bench: Bench) -> Figures:
        count = bench.count(records)
        with bench.topic(CLIENT_PARTITIONS) as topic:
            producer = run("produce", bench.port(), topic, count, size, codec)
            check("records in the log", bench.produced(topic, CLIENT_PARTITIONS), count)
        # How large batches get depends on how quickly a broker answers: what is read is written anew, in equal ones.
        with bench.topic(CLIENT_PARTITIONS) as topic:
            run("fill", bench.port(), topic, count, size, codec, CLIENT_PARTITIONS)
            check("records in the log", bench.produced(topic, CLIENT_PARTITIONS), count)
            reads = [run("consume", bench.port(), topic, count, CLIENT_PARTITIONS) for _ in range(CONSUME_ROUNDS)]
            consumer = max(reads, key=lambda figure: figure.value)
        return {client_row("produce", size, codec): producer, client_row("consume", size, codec): consumer}

    return measure


def start_empty(bench: Bench) -> Figures:
    with bench.start(bench.directory()) as broker:
        return {"start-empty": Figure(broker.ready_ms, limits.interpreter_start_ms())}


def start_full(bench: Bench) -> Figures:
    """1,000 partitions with something in each, after a clean stop."""
    directory = bench.directory()
    with bench.start(directory) as broker, Calls(broker.port) as calls:
        data = requests.batch(1, 100)
        frames = []
        for index in range(10):
            calls.create_topic(f"full-{index}", 100)
            frames += [requests.produce(f"full-{index}", partition, data) for partition in range(100)]
        path = bench.frames("full", frames)
        replay(broker.port, path, connections=1, depth=1, seconds=30, requests=1000)
        for index in range(10):
            check("records in the log", sum(calls.end_offsets(f"full-{index}", 100)), 100)
    taken = []
    for _ in range(2):
        with bench.start(directory) as broker, Calls(broker.port) as calls:
            taken.append(broker.ready_ms)
            calls.wait_for_topic("full-9", 100)
            check("records in the log", sum(calls.end_offsets("full-9", 100)), 100)
    return {"start-1000-partitions": Figure(min(taken), limits.interpreter_start_ms())}


def memory_idle(bench: Bench) -> Figures:
    with bench.start(bench.directory()) as broker:
        time.sleep(IDLE_S)
        return {"memory-idle": Figure(memory_mb(broker.pid), limits.interpreter_memory_mb())}


@dataclass(frozen=True, slots=True)
class Scenario:
    kinds: tuple[Kind, ...]
    measure: Callable[[Bench], Figures]
    rounds: int
    needs_broker: bool = True  # the one that runs all the time; the others start their own
    about_broker: bool = True  # False: about clients and pipelines, which have others beside them already
