"""SparkSource in a group: its worker is killed between two batches and within them, another goes on, each row once."""

import json
from pathlib import Path

import pytest

from compat.support.local_cluster import until
from compat.test_connect_distributed import WorkerProcess, committed, owner, runs
from headwater.client import Admin, NewTopic
from headwater.testing import Broker
from spark.test_connect_on_spark import put

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
ROUNDS = 4


def test_rows_of_a_stream_of_files_come_once_though_workers_are_killed(topic: str, tmp_path: Path) -> None:
    numbers: list[int] = []
    spark = {"spark.master": "local[1]", "spark.ui.enabled": "false", "task.slots": "1"}
    settings = {**spark, "value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    config = {
        "connector.class": "SparkSource",
        "topic": topic,
        "format": "json",
        "options.path": str(tmp_path / "in"),
        "options.maxFilesPerTrigger": "1",
        "schema": "n INT",
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "batch.interval.ms": "0",
        "exactly.once.support": "required",
    }
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        servers = broker.bootstrap_servers
        with Admin({"bootstrap.servers": servers}) as admin:
            admin.create_topics([NewTopic(topic, 1, 1)])

        def found() -> list[int]:
            return [json.loads(each)["n"] for each in committed(servers, topic)]

        def feed(turn: int) -> None:
            for part in range(3):
                more = list(range(len(numbers), len(numbers) + 200))
                numbers.extend(more)
                put(tmp_path, f"{turn}-{part}.json", *more)

        feed(0)
        workers = [WorkerProcess(tmp_path, servers, topic, **settings) for _ in range(2)]
        try:
            assert workers[0].door.ask("PUT", "/connectors/files/config", config)[0] == 201
            for turn in range(1, ROUNDS + 1):
                until(lambda: _runs_in(workers), "it runs in a worker that lives")
                victim = next(each for each in workers if each.id == owner(workers[0].door, "files"))
                feed(turn)
                wanted = len(numbers) if turn % 2 else len(numbers) - 300
                until(lambda wanted=wanted: len(found()) >= wanted, f"{wanted} rows")  # type: ignore[misc]
                workers.remove(victim)
                victim.kill()
                workers.append(WorkerProcess(tmp_path, servers, topic, **settings))
            until(lambda: len(found()) >= len(numbers), "all rows")
        finally:
            for each in workers:
                each.kill()
        assert sorted(found()) == numbers


def _runs_in(workers: list[WorkerProcess]) -> bool:
    """A worker that was killed is the owner for as long as its group does not know."""
    door = workers[0].door
    return runs(door, "files") and owner(door, "files") in {each.id for each in workers}
