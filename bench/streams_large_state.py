"""State of ten million keys on one machine: how an application grows to it, what memory of its own that takes, a
restart, a restore, and how soon the tasks of a slot that is killed go on where a standby has their state.

Keys come in no order, so that a write touches pages all over the state. Memory is that of a process itself: the pages
of LMDB's file belong to the system, which takes them back when others need them. Slots are processes that work in
directories of their own, as if they were on two machines; Spark supplies them elsewhere. `--quick` takes two million.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from bench import limits
from bench.brokers import ROOT, die_with_parent
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario
from bench.streams import COMMIT_MS, FIRST_MS, PARTITIONS, TOPIC_CONFIGS, fill, pace
from bench.streams_apps import make
from bench.streams_state import Counted, OwnMemory, on_own_broker
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.producer.producer import Producer
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.slot.program import prepare
from headwater.streams.slot.settings import RunSettings

KEYS: Final = 10_000_000
PATIENCE_S: Final = 3_600
STATE: Final = Path("state")  # within the directory of each slot


def in_no_order(keys: int) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(10).permutation(keys)


def growth(bench: Bench) -> Figures:
    keys, limit = bench.count(KEYS), limits.interpreter_start_ms()
    application = Counted(bench, in_no_order(keys), PATIENCE_S)
    try:
        grown = Figure(application.records_s, None, f"{keys:,} keys, {application.cpu_s / keys * 1e6:.1f} s CPU per M")
        size_mb = sum(file.stat().st_blocks * 512 for file in application.state.rglob("*") if file.is_file()) / 1e6
        most = Figure(application.memory_mb, None, f"{keys:,} keys in {PARTITIONS} tasks, {size_mb:,.0f} MB on disk")
        restart = Figure(min(application.start_ms() for _ in range(2)), limit, f"{keys:,} keys")
        shutil.rmtree(application.state)
        restore_ms = application.start_ms()
        also = f"{keys:,} keys in {restore_ms / 1e3:.1f} s, {application.cpu_s / keys * 1e6:.1f} s CPU per M, "
        also += f"{application.memory_mb:,.0f} MB of its own"
        restore = Figure(restore_ms / keys * 1e6, None, also)
    finally:
        application.close()
    return {
        "streams-10m-growth": grown,
        "streams-10m-memory": most,
        "streams-10m-restart": restart,
        "streams-10m-restore": restore,
    }


class Slots:
    """Two, in directories of their own, and the lead of one application."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.runtime = SlotRuntime(2)
        self.processes = [self.start(number) for number in range(2)]
        self.memory = [OwnMemory(process.pid) for process in self.processes]

    def start(self, number: int) -> subprocess.Popen[str]:
        directory = self._folder / f"machine-{number}"
        directory.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.streams_slot", str(number), str(self.runtime.port)],
            cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, text=True, preexec_fn=die_with_parent,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(self.runtime.secret.hex() + "\n")
        process.stdin.flush()
        return process

    def close(self) -> None:
        self.runtime.close()
        self.runtime.close_port()
        for process in self.processes:
            process.kill()
            process.communicate()


@contextmanager
def slots_below(folder: Path) -> Iterator[Slots]:
    folder.mkdir()
    with contextlib.chdir(folder):
        slots = Slots(folder)
        try:
            yield slots
        finally:
            slots.close()


def takeover(bench: Bench) -> Figures:
    """From the kill of a slot until all of its partitions have a commit of records that came after it."""
    from headwater.streams.on_spark import pickled_program  # imports PySpark, which no other row needs

    keys = bench.count(KEYS)
    bench._used += 1
    name, brokers = f"bench-standby-{bench._used}", f"127.0.0.1:{bench.port()}"
    topics = [f"{name}.in", f"{name}.out", f"{name}-counts-changelog"]
    partitions = [TopicPartition(topics[0], partition) for partition in range(PARTITIONS)]
    with Calls(bench.port()) as calls:
        for topic in topics[:2]:
            calls.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
    try:
        fill(brokers, topics[0], in_no_order(keys), FIRST_MS)
        with slots_below(bench.folder / name) as slots, Admin(bootstrap_servers=brokers) as admin:
            settings = RunSettings(brokers, STATE, commit_interval_ms=COMMIT_MS, num_standby_replicas=1)
            program = prepare(make("count", brokers, name), settings)
            application = slots.runtime.run(program, pickled_program(program))
            application.wait_started()
            pace(admin, slots.processes[0], name, partitions, PATIENCE_S)
            tasks = _tasks(application, lambda tasks: all(map(_is_copied, tasks)))
            lost = [partitions[int(task["task"].rpartition("_")[2])] for task in tasks if task["slot"] == 0]
            taken_ms = _taken_over_ms(slots, admin, name, brokers, lost)
            application.ask_to_stop()
            application.wait()
            memory = f"{max(each.most_mb for each in slots.memory):,.0f} MB of its own in a slot"
    finally:
        shutil.rmtree(bench.folder / name, ignore_errors=True)
        with Calls(bench.port()) as calls:
            for topic in topics:
                calls.delete_topic(topic)
    return {"streams-10m-takeover": Figure(taken_ms, None, f"{keys:,} keys, {len(lost)} tasks, {memory}")}


def _is_copied(task: dict[str, Any]) -> bool:
    return bool(task["standbys"]) and all(copy["lag"] == 0 for copy in task["standbys"])


def _tasks(application: ApplicationLead, are_so: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        tasks: list[dict[str, Any]] = application.status["tasks"]
        if are_so(tasks):
            return tasks
        if time.monotonic() > give_up_at:
            raise Broken(f"standbys are not at the end of their changelogs: {tasks}")
        time.sleep(0.2)


def _taken_over_ms(slots: Slots, admin: Admin, name: str, brokers: str, lost: list[TopicPartition]) -> float:
    if not lost:
        raise Broken("the slot that is to be killed has no task")
    before = {each: found.offset for each, found in admin.list_group_offsets(name, lost).items() if found is not None}
    with Producer(bootstrap_servers=brokers) as producer:
        slots.processes[0].kill()
        began = time.perf_counter()
        for partition in lost:
            producer.send(partition.topic, b"one more", key=b"key-0000000", partition=partition.partition)
        producer.flush()
        while time.perf_counter() < began + 120:
            after = admin.list_group_offsets(name, lost)
            if all((found := after[each]) is not None and found.offset > before[each] for each in lost):
                return (time.perf_counter() - began) * 1e3
            time.sleep(0.005)
    raise Broken(f"tasks of a slot that was killed did not go on: {slots.runtime}")


def large_state_scenarios() -> list[Scenario]:
    started = "a Python that starts and does nothing"
    return [
        Scenario(
            (
                Kind("streams-10m-growth", "Streams: growth to 10 M keys", "records/s", MORE, ""),
                Kind("streams-10m-memory", "Streams: memory of its own at 10 M keys", "MB", LESS, "", 1_000),
                Kind("streams-10m-restart", "Streams: restart with 10 M keys", "ms", LESS, started, 1_000),
                Kind("streams-10m-restore", "Streams: restore of 10 M keys, per million", "ms", LESS, "", 3_000),
            ),
            on_own_broker(growth),
            1,
            needs_broker=False,
            about_broker=False,
        ),
        Scenario(
            (Kind("streams-10m-takeover", "Streams: 10 M keys go on with a standby", "ms", LESS, "", 3_000),),
            on_own_broker(takeover),
            1,
            needs_broker=False,
            about_broker=False,
        ),
    ]
