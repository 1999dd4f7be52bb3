"""The records of the storage topics: the bytes below are what Apache's Connect 4.3 wrote when it made, paused,
restarted, stopped and deleted a file source.
"""

import pytest

from headwater.connect.distributed import config_records, status_records
from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    LoggerLevel,
    Restart,
    SessionKey,
    TargetState,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from headwater.connect.distributed.status_records import ConnectorStatus, Status, StatusRecord, TaskStatus, TopicUse
from headwater.connect.runtime.task import State, TaskId

CONFIGS: list[tuple[bytes, bytes | None, ConfigRecord]] = [
    (
        b"session-key",
        b'{"key":"SNmuTdl8naLobR6LI/m0bkS1EocSY5sFf8dUojznHoA=","algorithm":"HmacSHA256","creation-timestamp":1794874236303}',
        SessionKey(
            bytes.fromhex("48d9ae4dd97c9da2e86d1e8b23f9b46e44b5128712639b057fc754a23ce71e80"),
            "HmacSHA256",
            1794874236303,
        ),
    ),
    (
        b"connector-src",
        b'{"properties":{"connector.class":"FileStreamSource","file":"in.txt","topic":"t","name":"src"}}',
        ConnectorConfig("src", {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "t", "name": "src"}),
    ),
    (
        b"task-src-0",
        b'{"properties":{"file":"in.txt","task.class":"org.apache.kafka.connect.file.FileStreamSourceTask"}}',
        TaskConfig(
            TaskId("src", 0), {"file": "in.txt", "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask"}
        ),
    ),
    (b"commit-src", b'{"tasks":1}', TasksCommit("src", 1)),
    (b"tasks-fencing-src", b'{"task-count":1}', TaskCount("src", 1)),
    (b"target-state-src", b'{"state":"PAUSED","state.v2":"PAUSED"}', TargetState("src", State.PAUSED)),
    (b"target-state-src", b'{"state":"STARTED","state.v2":"STARTED"}', TargetState("src", State.RUNNING)),
    (b"target-state-src", b'{"state":"PAUSED","state.v2":"STOPPED"}', TargetState("src", State.STOPPED)),
    (b"restart-connector-src", b'{"include-tasks":true,"only-failed":false}', Restart("src", True, False)),
    (b"logger-cluster-x.y", b'{"level":"DEBUG"}', LoggerLevel("x.y", "DEBUG")),
    (b"connector-src", None, ConnectorConfig("src", None)),
    (b"target-state-src", None, TargetState("src", None)),
]
RUNS = Status(State.RUNNING, "127.0.0.1:47843", 3, None, "4.3.0")
STATUSES: list[tuple[bytes, bytes | None, StatusRecord]] = [
    (
        b"status-task-src-0",
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:47843","generation":3,"version":"4.3.0"}',
        TaskStatus(TaskId("src", 0), RUNS),
    ),
    (
        b"status-connector-src",
        b'{"state":"RESTARTING","trace":null,"worker_id":"127.0.0.1:47843","generation":3,"version":null}',
        ConnectorStatus("src", Status(State.RESTARTING, "127.0.0.1:47843", 3)),
    ),
    (
        b"status-topic-t:connector-src",
        b'{"topic":{"name":"t","connector":"src","task":0,"discoverTimestamp":1794874236816}}',
        TopicUse("t", "src", 0, 1794874236816),
    ),
    (b"status-task-src-0", None, TaskStatus(TaskId("src", 0), None)),
    (b"status-connector-src", None, ConnectorStatus("src", None)),
    (b"status-topic-t:connector-src", None, TopicUse("t", "src")),
]


@pytest.mark.parametrize(("key", "value", "record"), CONFIGS)
def test_config_records_are_apaches_to_the_byte(key: bytes, value: bytes | None, record: ConfigRecord) -> None:
    assert config_records.decode(key, value) == record
    made = config_records.encode(record)
    assert (made.key.encode(), made.value) == (key, value)


@pytest.mark.parametrize(("key", "value", "record"), STATUSES)
def test_status_records_are_apaches_to_the_byte(key: bytes, value: bytes | None, record: StatusRecord) -> None:
    assert status_records.decode(key, value) == record
    made = status_records.encode(record)
    assert (made.key.encode(), made.value) == (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"\xff", b"{}"),
        (b"unknown", b"{}"),
        (b"connector-c", b"not json"),
        (b"connector-c", b"[]"),
        (b"connector-c", b'{"properties":5}'),
        (b"task-c-x", b'{"properties":{}}'),
        (b"commit-c", b'{"tasks":-1}'),
        (b"commit-c", b'{"tasks":"1"}'),
        (b"target-state-c", b'{"state":"DANCING"}'),
        (b"target-state-c", b"[]"),
        (b"restart-connector-c", b"5"),
        (b"connector-c", b"[" * 100_000),
        (b"status-connector-c", b"[]"),
        (b"status-task-c-0", b'"RUNNING"'),
        (b"session-key", b'{"key":"?","algorithm":"a","creation-timestamp":1}'),
        (b"task-c-0", None),
        (b"status-task-c-x", b"{}"),
        (b"status-connector-c", b'{"state":"DANCING","worker_id":"w","generation":1}'),
        (b"status-topic-t:connector-c", b'{"topic":null}'),
        (b"status-connector-c", b'{"state":"RUNNING","worker_id":"w","generation":1e999}'),
        (b"session-key", b'{"key":"a2V5","algorithm":"a","creation-timestamp":1e999}'),
    ],
)
def test_what_has_another_form_is_skipped(key: bytes | None, value: bytes | None) -> None:
    assert config_records.decode(key, value) is None
    assert status_records.decode(key, value) is None


def test_targets_of_workers_that_know_no_stopped_are_read() -> None:
    assert config_records.decode(b"target-state-c", b'{"state":"PAUSED"}') == TargetState("c", State.PAUSED)


def test_statuses_without_a_version_are_read() -> None:
    """Those of Connect before 4.1."""
    value = b'{"state":"FAILED","trace":"why","worker_id":"w:1","generation":7}'
    assert status_records.decode(b"status-task-a-b-12", value) == TaskStatus(
        TaskId("a-b", 12), Status(State.FAILED, "w:1", 7, "why")
    )


@pytest.mark.parametrize(("trace", "begins"), [("half \ud83d", "half ?"), ("\u00e9\x01" * 5_000_000, "\u00e9\x01")])
def test_a_failure_is_told_whatever_its_trace_is(trace: str, begins: str) -> None:
    """What no text in UTF-8 is ended the thread of the task; what no record has room for was dropped. Either way the
    task was shown as RUNNING from then on."""
    status = Status(State.FAILED, "w:1", 1, trace)
    for record in (ConnectorStatus("c", status), TaskStatus(TaskId("c", 0), status)):
        key, value = status_records.encode(record)
        assert value is not None
        assert len(value) < 900_000  # max.request.size is 1 MiB
        found = status_records.decode(key.encode(), value)
        assert isinstance(found, ConnectorStatus | TaskStatus)
        assert found.status is not None
        assert found.status.state is State.FAILED
        assert (found.status.trace or "").startswith(begins)
