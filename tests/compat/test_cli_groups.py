"""`headwater group` and `headwater cluster` against a broker, with groups of real consumers."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, Producer, TopicPartition

from compat.support.offsets import when_loaded
from compat.support.raw import wait_until

PATIENCE_S = 60
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def headwater(broker_address: str) -> Run:
    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env={**os.environ, "HEADWATER_BOOTSTRAP_SERVER": broker_address},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == code, result.stderr
        return result

    return run


@pytest.fixture
def filled(create_topic: Callable[..., None], broker_address: str, topic: str) -> str:
    create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker_address})
    for number in range(10):
        producer.produce(topic, f"v{number}", partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    return topic


@contextmanager
def member(bootstrap: str, group: str, topic: str, **config: str) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "me", "auto.offset.reset": "earliest"}
    consumer = Consumer(
        {**settings, "enable.auto.commit": False, **{k.replace("_", "."): v for k, v in config.items()}}
    )
    consumer.subscribe([topic])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not consumer.assignment():
            consumer.poll(0.1)
            assert time.monotonic() < deadline
        yield consumer
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    partitions = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    when_loaded(lambda: consumer.commit(offsets=partitions, asynchronous=False))
    consumer.close()


def _json(result: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(result.stdout)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_a_member(headwater: Run, broker_address: str, filled: str, protocol: str) -> None:
    group = f"group.{filled}"
    with member(broker_address, group, filled, group_protocol=protocol) as consumer:
        consumer.commit(offsets=[TopicPartition(filled, 0, 2)], asynchronous=False)
        listed = {row["group"]: row for row in _json(headwater("group", "list", "-o", "json"))}
        assert listed[group] == {"group": group, "type": protocol, "state": "Stable", "protocol": "consumer"}
        described = _json(headwater("group", "describe", group, "-o", "json"))[0]
        assert (described["type"], described["state"]) == (protocol.capitalize(), "Stable")
        assert [(row["current_offset"], row["log_end_offset"], row["lag"]) for row in described["partitions"]] == [
            (2, 5, 3),
            (None, 5, None),
        ]
        (one,) = described["members"]
        assert (one["client_id"], one["partitions"]) == ("me", [f"{filled}-0", f"{filled}-1"])
        assert {row["member"] for row in described["partitions"]} == {one["member"]}
        table = headwater("group", "describe", group, "-m").stdout
        assert one["member"] in table
        refused = headwater("group", "reset", group, "--to", "earliest", "-t", filled, "--execute", code=1)
        assert "Stop its consumers" in refused.stderr
        assert "has members" in headwater("group", "delete", group, code=1).stderr
        stuck = _json(headwater("group", "delete-offsets", group, "-t", filled, "-o", "json", code=1))
        assert {row["error"] for row in stuck} == {"GROUP_SUBSCRIBED_TO_TOPIC"}


def offsets(headwater: Run, group: str) -> list[tuple[int, int]]:
    described = _json(headwater("group", "describe", group, "-o", "json"))[0]
    return [(row["partition"], row["current_offset"]) for row in described["partitions"]]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--to", "earliest"], [0, 0]),
        (["--to", "end"], [5, 5]),
        (["--to", "current"], [2, 3]),
        (["--to", "4"], [4, 4]),
        (["--to", "99"], [5, 5]),
        (["--to", "s@-1h"], [0, 0]),
        (["--to", "s@2020-01-01"], [0, 0]),
        (["--shift", "-2"], [0, 1]),
        (["--shift", "1"], [3, 4]),
    ],
)
def test_a_reset_is_shown_and_then_done(
    headwater: Run, broker_address: str, filled: str, where: list[str], expected: list[int]
) -> None:
    group = f"group.{filled}"
    commit(broker_address, group, filled, 2, 3)
    shown = headwater("group", "reset", group, *where, "-t", filled, "-o", "json")
    assert [row["new_offset"] for row in _json(shown)] == expected
    assert [row["current_offset"] for row in _json(shown)] == [2, 3]
    assert "Nothing was changed" in shown.stderr
    assert offsets(headwater, group) == [(0, 2), (1, 3)]
    done = _json(headwater("group", "reset", group, *where, "--all-topics", "--execute", "-o", "json"))
    assert {row["status"] for row in done} == {"reset"}
    assert offsets(headwater, group) == list(enumerate(expected))


def test_a_reset_of_some_partitions_and_from_a_file(
    headwater: Run, broker_address: str, filled: str, tmp_path: Path
) -> None:
    group = f"group.{filled}"
    headwater("group", "reset", group, "--to", "1", "-t", f"{filled}:1", "--execute")  # before the group was ever there
    assert offsets(headwater, group) == [(1, 1)]
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{filled},0,3\n{filled},1,4\n")
    headwater("group", "reset", group, "--from-file", str(plan), "--execute")
    assert offsets(headwater, group) == [(0, 3), (1, 4)]
    headwater("group", "delete-offsets", group, "-t", f"{filled}:0")
    assert offsets(headwater, group) == [(1, 4)]
    assert "deleted" in headwater("group", "delete", group).stdout
    assert "There is no group" in headwater("group", "describe", group, code=1).stderr
    assert "not there" in headwater("group", "delete", group, "--if-exists").stdout


def test_wrong_usage_is_told_before_anything_is_asked(headwater: Run) -> None:
    for arguments in (
        ["reset", "g", "-t", "t"],
        ["reset", "g", "--to", "earliest"],
        ["reset", "g", "--to", "earliest", "--shift", "1", "-a"],
        ["reset", "g", "--to", "5:9", "-a"],
        ["delete-offsets", "g"],
        ["list", "--state", "Sleepy"],
    ):
        headwater("group", *arguments, "--bootstrap-server", "127.0.0.1:1", code=2)


def test_the_cluster_and_its_health(headwater: Run, filled: str) -> None:
    info = _json(headwater("cluster", "info", "-o", "json"))
    assert [broker["id"] for broker in info["brokers"]] == [0]
    assert info["controller"] == 0
    assert info["partitions"] >= 2
    health = _json(headwater("cluster", "health", "-o", "json"))
    assert health
    assert all(check["ok"] for check in health)
    assert "brokers answer" in headwater("cluster", "health").stdout


def test_transactions(headwater: Run, broker_address: str, filled: str) -> None:
    name = f"tx.{filled}"
    patient = {"transaction.timeout.ms": 600_000}  # many commands are run while it is open
    producer = Producer({"bootstrap.servers": broker_address, "transactional.id": name, **patient})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(filled, "v", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    listed = {row["transactional_id"]: row for row in _json(headwater("cluster", "transactions", "-o", "json"))}
    assert listed[name]["state"] == "Ongoing"
    one = _json(headwater("cluster", "transactions", "--id", name, "-o", "json"))
    assert (one["state"], one["partitions"]) == ("Ongoing", [f"{filled}-0"])
    rows = _json(headwater("cluster", "transactions", "--producers", f"{filled}:0", "-o", "json"))
    assert [row["transaction_start_offset"] for row in rows if row["producer_id"] == one["producer_id"]] == [5]
    assert name not in headwater("cluster", "transactions", "--longer-than", "1h").stdout
    assert name not in headwater("cluster", "transactions", "-s", "Empty").stdout
    producer.commit_transaction(PATIENCE_S)

    def state() -> str:
        rows = yaml.safe_load(headwater("cluster", "transactions", "-o", "yaml").stdout)
        return next(str(row["state"]) for row in rows if row["transactional_id"] == name)

    wait_until(lambda: state() == "CompleteCommit", "complete")  # its markers are written when the producer is answered
