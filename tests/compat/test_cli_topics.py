"""The real `headwater` command against a broker: topics, configs, and what it says when things are wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def headwater(broker_address: str) -> Run:
    """`headwater("topic", "list", input="", code=0)`, with the broker in the environment."""

    def run(*arguments: str, input: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:  # noqa: A002
        result = subprocess.run(
            [sys.executable, "-m", "headwater.cli.main", *arguments],
            env={**os.environ, "HEADWATER_BOOTSTRAP_SERVER": broker_address},
            input=input,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert result.returncode == code, result.stderr
        return result

    return run


def _json(result: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(result.stdout)


def test_a_topic_from_creation_to_deletion(headwater: Run, topic: str) -> None:
    created = _json(headwater("topic", "create", topic, "-p", "3", "-c", "retention.ms=3600000", "-o", "json"))
    assert created[0]["status"] == "created"
    assert created[0]["partitions"] == 3
    assert {"name": topic, "partitions": 3, "replicas": 1, "internal": False} in _json(
        headwater("topic", "list", "-o", "json")
    )

    headwater("topic", "alter", topic, "-p", "4", "-s", "cleanup.policy=compact", "-u", "retention.ms")
    described = _json(headwater("topic", "describe", topic, "-o", "json"))[0]
    assert described["topic_id"] == created[0]["topic_id"]
    assert len(described["partitions"]) == 4
    assert described["configs"]["cleanup.policy"] == "compact"
    assert "retention.ms" not in described["configs"]
    assert {row["high_watermark"] for row in described["partitions"]} == {0}

    assert "deleted" in headwater("topic", "delete", topic).stdout
    assert topic not in headwater("topic", "list").stdout


def test_creating_twice_fails_unless_told_that_it_may_exist(headwater: Run, topic: str) -> None:
    headwater("topic", "create", topic)
    again = headwater("topic", "create", topic, code=1)
    assert "TOPIC_ALREADY_EXISTS" in again.stderr
    assert "exists" in headwater("topic", "create", topic, "--if-not-exists").stdout


def test_a_dry_run_creates_nothing(headwater: Run, topic: str) -> None:
    assert "would be created" in headwater("topic", "create", topic, "--dry-run").stdout
    assert topic not in headwater("topic", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-r", "9"], "INVALID_REPLICATION_FACTOR"),
        (["-c", "no.such.config=1"], "INVALID_CONFIG"),
        (["-c", "retention.ms=x"], "INVALID_CONFIG"),
    ],
)
def test_what_the_broker_refuses_is_said_and_fails(headwater: Run, topic: str, arguments: list[str], said: str) -> None:
    result = headwater("topic", "create", topic, *arguments, code=1)
    assert said in result.stderr
    assert "failed" in result.stdout


def test_a_mistyped_topic_is_guessed(headwater: Run, topic: str) -> None:
    headwater("topic", "create", topic)
    for verb in (
        ["consume", topic[:-1] + "x"],
        ["topic", "describe", topic + "s"],
        ["config", "get", "topic", topic + "s"],
    ):
        result = headwater(*verb, code=1)
        assert "There is no topic" in result.stderr
        assert "Did you mean" in result.stderr
        assert topic in result.stderr
        assert result.stdout == ""


def test_deleting_what_is_not_there(headwater: Run, topic: str) -> None:
    assert "There is no topic" in headwater("topic", "delete", topic, code=1).stderr
    assert "not there" in headwater("topic", "delete", topic, "--if-exists").stdout


def test_configs_of_a_topic(headwater: Run, topic: str) -> None:
    headwater("topic", "create", topic)
    headwater("config", "set", "topic", topic, "retention.ms=1000", "max.message.bytes=2000")
    rows = {row["name"]: row for row in _json(headwater("config", "get", "topic", topic, "-o", "json"))}
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["source"]) == ("1000", "topic")
    headwater("config", "unset", "topic", topic, "retention.ms")
    everything = {row["name"]: row for row in _json(headwater("config", "get", "topic", topic, "-a", "-o", "json"))}
    assert everything["retention.ms"]["source"] in ("default", "static-broker")
    assert everything["max.message.bytes"]["value"] == "2000"
    assert everything["retention.ms"]["documentation"]
    assert "INVALID_CONFIG" in headwater("config", "set", "topic", topic, "retention.ms=x", code=1).stderr
    assert "no setting 'nonsense'" in headwater("config", "get", "topic", topic, "nonsense", code=1).stderr


def test_configs_of_a_broker(headwater: Run, broker_address: str) -> None:
    status = _json(headwater("status", "--bootstrap-server", broker_address, "-o", "json"))
    broker = status["brokers"][0]
    assert broker["ready"]
    assert broker["log_dirs"]
    rows = _json(headwater("config", "get", "broker", str(broker["id"]), "log.dirs", "-o", "json"))
    assert [row["name"] for row in rows] == ["log.dirs"]
    assert "no broker 99" in headwater("config", "get", "broker", "99", code=1).stderr


def test_offsets_and_trim(headwater: Run, topic: str) -> None:
    headwater("topic", "create", topic, "-p", "2")
    headwater("produce", topic, "-p", "0", input="a\nb\nc\n")
    rows = _json(headwater("topic", "offsets", topic, "-o", "json"))
    assert [(row["start"], row["end"], row["records"]) for row in rows] == [(0, 3, 3), (0, 0, 0)]
    headwater("topic", "trim", topic, "--before", "2", "-y")
    rows = _json(headwater("topic", "offsets", topic, "-o", "json", "-t", "-1h"))
    assert [(row["start"], row["end"], row["at_time"]) for row in rows] == [(2, 3, 2), (0, 0, 0)]
    assert headwater("consume", topic, "-e").stdout == "c\n"
    assert headwater("topic", "trim", topic, "--before", "end", input="n\n", code=1).stdout == ""
    assert "no partition 5" in headwater("topic", "offsets", topic, "-p", "5", code=1).stderr


def test_looking_at_brokers(headwater: Run, topic: str) -> None:
    headwater("topic", "create", topic)
    dirs = _json(headwater("broker", "log-dirs", "-o", "json"))
    assert topic in {replica["topic"] for row in dirs for replica in row["replicas"]}
    versions = {row["name"]: row for row in _json(headwater("broker", "api-versions", "-o", "json"))}
    assert versions["Produce"]["max_version"] >= 9
    assert versions["ApiVersions"]["key"] == 18


def test_topic_names_are_completed_from_the_cluster(headwater: Run, topic: str, broker_address: str) -> None:
    headwater("topic", "create", topic)
    words = f"headwater consume {topic[:-1]}"
    completed = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main"],
        env={
            **os.environ,
            "HEADWATER_BOOTSTRAP_SERVER": broker_address,
            "_HEADWATER_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"plain,{topic}" in completed.stdout.splitlines()


def test_yaml_output(headwater: Run, topic: str) -> None:
    import yaml

    headwater("topic", "create", topic)
    assert topic in {row["name"] for row in yaml.safe_load(headwater("topic", "list", "-o", "yaml").stdout)}


def test_a_compacted_topic_shows_what_is_dirty(headwater: Run, topic: str, apache: bool) -> None:
    headwater("topic", "create", topic, "-c", "cleanup.policy=compact")
    (partition,) = _json(headwater("topic", "describe", topic, "-o", "json"))[0]["partitions"]
    assert partition["dirty_bytes"] == (None if apache else 0)
    assert "DIRTY-BYTES" in headwater("topic", "describe", topic).stdout
