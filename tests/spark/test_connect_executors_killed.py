"""Connector tasks in slots of two executors that are killed: of `make soak` alone."""

import os
import signal
from pathlib import Path

import pytest

from headwater.testing import Broker
from spark.support import executors
from spark.support.event_log import given_up, task_ends
from spark.test_connect_slots import Bench

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
ROUNDS = 4
SLOTS = 3  # four cores but one


def test_tasks_of_an_executor_that_is_killed_go_on_elsewhere(
    tmp_path: Path, archived_classes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", executors.spark_home())
    settings = executors.settings(archived_classes)
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        bench = Bench(tmp_path, broker.bootstrap_servers, master=executors.MASTER, **settings)
        with bench.worker:
            kill_executors(bench)
    assert [reason for reason, _ in task_ends(bench.log)].count("ExecutorLostFailure") >= ROUNDS
    assert given_up(bench.log) == [], "slots that were well were ended with others"


def kill_executors(bench: Bench) -> None:
    copied = Copied(bench)
    for turn in range(ROUNDS):
        bench.until(lambda: len(slots_with_tasks(bench)) == SLOTS, lambda: str(slots_with_tasks(bench)))
        copied.append(turn)
        victim = "sink" if turn % 2 else "one"
        was = kill_executor_of(bench, victim)
        copied.check()
        bench.running(victim, but=was)
        for name in (*copied.sources, "sink"):
            bench.until(lambda name=name: runs_truly(bench, name), lambda name=name: str(bench.task(name)))


def slots_with_tasks(bench: Bench) -> set[int]:
    """All of them, when all have come and the tasks are dealt out evenly."""
    return {place[0] for place in map(bench.place, (*Copied.sources, "sink")) if place is not None}


def kill_executor_of(bench: Bench, name: str) -> int:
    """-> the process in which the task ran."""
    found: list[tuple[int, int]] = []

    def is_found() -> bool:
        process = bench.running(name)[1]
        executor = executors.executor_of(bench.worker.process.pid, process)
        found[:] = [] if executor is None else [(executor, process)]
        return executor is not None

    bench.until(is_found, lambda: str(bench.task(name)))
    ((executor, process),) = found
    os.kill(executor, signal.SIGKILL)
    return process


def runs_truly(bench: Bench, name: str) -> bool:
    """In a process that lives, as its status says."""
    place = bench.place(name)
    return place is not None and Path(f"/proc/{place[1]}").exists()


class Copied:
    """Lines of three files in a topic each, all of which a sink writes to another file."""

    sources = ("one", "two", "three")

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._lines = {name: [f"{name} first"] for name in self.sources}
        self._files = {name: bench.source(name, bench.topic(name), self._lines[name]) for name in self.sources}
        self._out = bench.folder / "out.txt"
        config = {"connector.class": "FileStreamSink", "file": str(self._out), "topics": ",".join(self.sources)}
        bench.create("sink", config)

    def append(self, turn: int) -> None:
        for name, file in self._files.items():
            more = [f"{name} turn {turn} line {n}" for n in range(200)]
            with file.open("a") as appended:
                appended.write("".join(f"{each}\n" for each in more))
            self._lines[name] += more

    def check(self) -> None:
        """Each line of a source is there once, and all of them are in the sink's file."""
        for name in self.sources:
            self._bench.until_there(name, self._lines[name])
        wanted = {line for each in self._lines.values() for line in each}
        self._bench.until(lambda: self._written() >= wanted, lambda: f"not written: {wanted - self._written()}")

    def _written(self) -> set[str]:
        return set(self._out.read_text().splitlines())
