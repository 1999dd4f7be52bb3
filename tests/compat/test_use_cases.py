"""The scripts of examples/use_cases, as a person runs them. The one with Spark is in tests/spark."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.quick import quick

USE_CASES = Path(__file__).parents[2] / "examples/use_cases"


class Scripts:
    """`run` waits for a script and gives what it printed;
    `start` leaves it running until `stop`, which gives the same.
    """

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._environment = {**os.environ, "HEADWATER_BOOTSTRAP": bootstrap, "PYTHONUNBUFFERED": "1"}
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []

    def run(self, name: str, *arguments: str) -> str:
        process = self._open(name, arguments, subprocess.PIPE)
        shown, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        return shown.decode()

    def start(self, name: str, *arguments: str) -> Path:
        """The file that takes what it prints."""
        shown = self._directory / f"shown-{len(self._running)}"
        with shown.open("wb") as out:
            self._running.append(self._open(name, arguments, out))
        return shown

    def stop(self) -> None:
        running, self._running = self._running, []
        for process in running:
            process.send_signal(signal.SIGINT)
        for process in running:
            assert process.wait(60) == 0

    def kill_first(self) -> None:
        process = self._running.pop(0)
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in self._running:
            process.kill()
            process.wait()

    def _open(self, name: str, arguments: tuple[str, ...], out: object) -> "subprocess.Popen[bytes]":
        command = [sys.executable, str(USE_CASES / name), *arguments]
        return subprocess.Popen(command, stdout=out, env=self._environment, cwd=self._directory)  # type: ignore[call-overload]


@pytest.fixture
def scripts(broker_factory: Callable[..., BrokerProcess], tmp_path: Path) -> Iterator[Scripts]:
    broker = broker_factory(tmp_path / "broker", **quick())
    made = Scripts(broker.bootstrap, tmp_path)
    yield made
    made.close()


def test_messaging(scripts: Scripts) -> None:
    """Two workers share the jobs; one is killed, and the other takes over."""
    first, second = scripts.start("messaging.py", "work"), scripts.start("messaging.py", "work")
    jobs = [f"job {number}" for number in range(12)]
    assert "waits in partition" in scripts.run("messaging.py", "send", *jobs)

    def done() -> set[str]:
        lines = (first.read_text() + second.read_text()).splitlines()
        return {line.split(" did ")[1].strip("'") for line in lines}

    until(lambda: done() == set(jobs), "the jobs are done")
    scripts.kill_first()
    more = [f"late job {number}" for number in range(6)]
    scripts.run("messaging.py", "send", *more)
    until(lambda: done() == {*jobs, *more}, "the other worker takes over")
    scripts.stop()


def test_activity_tracking(scripts: Scripts) -> None:
    for page, visitor in (("/news", "anna"), ("/news", "anna"), ("/news", "bob"), ("/shop", "bob")):
        scripts.run("activity_tracking.py", "visit", page, visitor)
    shown = scripts.start("activity_tracking.py", "watch")
    until(
        lambda: "3 views by 2 visitors  /news" in shown.read_text() and "1 views by 1" in shown.read_text(),
        "the views are counted",
    )
    scripts.stop()


def test_metrics(scripts: Scripts) -> None:
    scripts.start("metrics.py", "report", "0.1")
    until(lambda: _can_show(scripts), "a report came in")
    scripts.stop()
    table = scripts.run("metrics.py", "show")
    assert {line.split()[1] for line in table.splitlines()[1:]} == {"load", "memory_used", "processes"}


def _can_show(scripts: Scripts) -> bool:
    try:
        return "load" in scripts.run("metrics.py", "show")
    except AssertionError:  # nobody has reported yet
        return False


def test_log_aggregation(scripts: Scripts, tmp_path: Path) -> None:
    """A shipper that runs again sends only what is new, and waits for the end of a line."""
    log = tmp_path / "access.log"
    log.write_text("one\ntwo\nthr")
    scripts.run("log_aggregation.py", "ship", "web", str(log))
    log.write_text("one\ntwo\nthree\nfour\n")
    scripts.run("log_aggregation.py", "ship", "web", str(log))
    scripts.start("log_aggregation.py", "collect", str(tmp_path / "all"))

    def collected() -> list[str]:
        texts = [path.read_text() for path in sorted((tmp_path / "all").glob("web-*.log"))]
        return [line.rpartition(" ")[2] for line in "".join(texts).splitlines()]

    until(lambda: collected() == ["one", "two", "three", "four"], "the lines are collected")
    scripts.stop()
