"""Persistent queries of a SQL server on two executors that are killed: of `make soak` alone."""

import os
import signal
from pathlib import Path

import pytest

from compat.support.sql_server import SqlServer
from headwater.testing import Broker
from spark.support import executors
from spark.support.copying import command_line, descendants
from spark.support.sql_rows import STATEMENTS, Given

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
ROUNDS = 4


def test_results_are_there_once_though_executors_are_killed(
    tmp_path: Path, archived_classes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", executors.spark_home())
    settings = {"spark.master": executors.MASTER, **executors.settings(archived_classes)}
    with (
        Broker({"group.initial.rebalance.delay.ms": 0}) as broker,
        SqlServer(broker.bootstrap_servers, tmp_path, "killed_", **settings) as server,
    ):
        server.run(STATEMENTS)
        given = Given(server, broker.bootstrap_servers)
        given.send()
        given.check()
        for _ in range(ROUNDS):
            victim = next(pid for pid in executors.executors(server.pid) if runs_slots(pid))
            given.send()
            os.kill(victim, signal.SIGKILL)
            given.send()
            given.check()
        assert server.stop() == 0


def runs_slots(executor: int) -> bool:
    """Whether a Python is there besides the one that starts others."""
    return sum(b"pyspark.daemon" in command_line(pid) for pid in descendants(executor)) > 1
