"""Persistent queries of a SQL server on two executors that are killed: of `make soak` alone."""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from compat.support.local_cluster import until
from compat.support.sql_server import SqlServer
from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer
from headwater.testing import Broker
from spark.support import executors
from spark.support.copying import command_line, descendants

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
ROUNDS = 4
ROWS = 300  # of each round
PARTITIONS = 4
PATIENCE_S = 600
STATEMENTS = f"""
CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='given', value_format='JSON', partitions={PARTITIONS});
CREATE TABLE totals AS SELECT n, COUNT(*) AS c, SUM(v) AS total FROM s GROUP BY n;
CREATE STREAM copies WITH (kafka_topic='copies') AS SELECT id, v * 2 AS twice FROM s;
"""


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


class Given:
    """Rows for the queries, and what they make of them."""

    def __init__(self, server: SqlServer, servers: str) -> None:
        self._server, self._servers = server, servers
        self._sent = 0

    def send(self) -> None:
        with Producer(bootstrap_servers=self._servers) as producer:
            for number in range(self._sent, self._sent + ROWS):
                row = {"n": f"n{number % 7}", "v": number}
                producer.send("given", json.dumps(row).encode(), key=number.to_bytes(4), partition=number % PARTITIONS)
        self._sent += ROWS

    def check(self) -> None:
        """Each row was taken once, and the states that are shown are those of queries that do their work."""
        names = sorted({number % 7 for number in range(self._sent)})
        totals = [[f"n{n}", len(range(n, self._sent, 7)), sum(range(n, self._sent, 7))] for n in names]
        self._until(lambda: self._server.ask("SELECT * FROM totals ORDER BY n;") == totals)
        self._until(lambda: len(self._copies()) >= self._sent)
        assert self._copies() == Counter((number, 2 * number) for number in range(self._sent))
        told = self._server.run("SHOW QUERIES;")[0]["queries"]
        assert {each["state"] for each in told} == {"RUNNING"}

    def _until(self, condition: Any) -> None:
        until(condition, self._server.log[-3000:], PATIENCE_S)

    def _copies(self) -> Counter[tuple[int, int]]:
        """What a reader of committed records finds."""
        places = [TopicPartition("copies", partition) for partition in range(PARTITIONS)]
        found: Counter[tuple[int, int]] = Counter()
        with Consumer(
            bootstrap_servers=self._servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                for record in consumer.poll(1.0):
                    found[int.from_bytes(record.key), json.loads(record.value)["TWICE"]] += 1
        return found
