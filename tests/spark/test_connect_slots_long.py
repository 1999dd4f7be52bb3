"""Fifty connectors on two cores; slots that sleep and JVMs that die: of `make soak` alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat.support.local_cluster import until
from headwater.testing import Broker
from spark.support.class_archive import QUICK_JAVA
from spark.test_connect_slots import Bench, descendants

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker.bootstrap_servers


def test_fifty_connectors_run_on_two_cores(servers: str, tmp_path: Path, archived_classes: str) -> None:
    bench = Bench(tmp_path, servers, f"{QUICK_JAVA} {archived_classes}".strip(), master="local[2]")
    with bench.worker:
        topic, names = bench.topic("fifty"), [f"fifty-{number}" for number in range(50)]
        for name in names:
            bench.source(name, topic, [name])
        assert {bench.running(name)[0] for name in names} == {0}
        bench.until_there(topic, names)


def test_slots_that_sleep_and_jvms_that_die_leave_each_line_there_once(
    servers: str, tmp_path: Path, archived_classes: str
) -> None:
    bench = Bench(tmp_path, servers, f"{QUICK_JAVA} {archived_classes}".strip())
    with bench.worker:
        topic, lines = bench.topic("asleep"), ["first"]
        file = bench.source("asleep", topic, lines)
        for turn in range(6):
            victim = bench.running("asleep")[1]
            more = [f"turn {turn} line {n}" for n in range(200)]
            with file.open("a") as appended:
                appended.write("".join(f"{each}\n" for each in more))
            lines += more
            if turn % 2:
                processes = descendants(bench.worker.process.pid)
                os.kill(next(pid for pid, command in processes.items() if command == "java"), signal.SIGKILL)
                bench.running("asleep", but=victim)
            else:
                os.kill(victim, signal.SIGSTOP)
                bench.running("asleep", but=victim)
                bench.until_there(topic, lines)
                os.kill(victim, signal.SIGCONT)  # it goes on to write, and is fenced
                until(lambda was=victim: not Path(f"/proc/{was}").exists(), "it finds that it was given up")
            bench.until_there(topic, lines)
