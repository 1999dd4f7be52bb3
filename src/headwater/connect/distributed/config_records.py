"""The records of `config.storage.topic`, in Kafka Connect's own format. Pure.

Keys are plain text, values JSON without schemas, all in one partition:

    connector-<name>          {"properties":{...}}                      a connector's config; no value: it was deleted
    task-<name>-<number>      {"properties":{...}}                      a task's config; counts with the next commit
    commit-<name>             {"tasks":n}                               the tasks 0..n-1 above are one whole set
    target-state-<name>       {"state":"PAUSED","state.v2":"STOPPED"}   `state` is for workers that know no STOPPED
    tasks-fencing-<name>      {"task-count":n}                          earlier tasks are fenced, and n may begin
    restart-connector-<name>  {"include-tasks":true,"only-failed":false}
    logger-cluster-<logger>   {"level":"DEBUG"}
    session-key               {"key":"<base64>","algorithm":"HmacSHA256","creation-timestamp":ms}

What does not have one of these forms is skipped by readers, as Kafka Connect skips it.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headwater.connect.data.json_text import dumps
from headwater.connect.runtime.task import State, TaskId

_CONNECTOR: Final = "connector-"
_TASK: Final = "task-"
_COMMIT: Final = "commit-"
_TARGET: Final = "target-state-"
_FENCING: Final = "tasks-fencing-"
_RESTART: Final = "restart-connector-"
_LOGGER: Final = "logger-cluster-"
_SESSION_KEY: Final = "session-key"

_STATE_NAMES: Final = {State.RUNNING: "STARTED", State.PAUSED: "PAUSED", State.STOPPED: "STOPPED"}
_STATES: Final = {name: state for state, name in _STATE_NAMES.items()}


class Entry(NamedTuple):
    """A record to write; no value deletes the key."""

    key: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class ConnectorConfig:
    connector: str
    config: Mapping[str, str] | None  # None: it was deleted


@dataclass(frozen=True, slots=True)
class TaskConfig:
    task: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TasksCommit:
    connector: str
    count: int


@dataclass(frozen=True, slots=True)
class TargetState:
    connector: str
    state: State | None


@dataclass(frozen=True, slots=True)
class TaskCount:
    connector: str
    count: int


@dataclass(frozen=True, slots=True)
class Restart:
    connector: str
    include_tasks: bool
    only_failed: bool


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    logger: str
    level: str


@dataclass(frozen=True, slots=True)
class SessionKey:
    """What workers sign their calls to one another with."""

    key: bytes
    algorithm: str
    created_ms: int


ConfigRecord = ConnectorConfig | TaskConfig | TasksCommit | TargetState | TaskCount | Restart | LoggerLevel | SessionKey


def encode(record: ConfigRecord) -> Entry:
    match record:
        case ConnectorConfig(name, config):
            return Entry(_CONNECTOR + name, None if config is None else _json({"properties": dict(config)}))
        case TaskConfig(task, config):
            return Entry(f"{_TASK}{task.connector}-{task.number}", _json({"properties": dict(config)}))
        case TasksCommit(name, count):
            return Entry(_COMMIT + name, _json({"tasks": count}))
        case TargetState(name, state):
            if state is None:
                return Entry(_TARGET + name, None)
            older = State.PAUSED if state is State.STOPPED else state
            return Entry(_TARGET + name, _json({"state": _STATE_NAMES[older], "state.v2": _STATE_NAMES[state]}))
        case TaskCount(name, count):
            return Entry(_FENCING + name, _json({"task-count": count}))
        case Restart(name, include_tasks, only_failed):
            return Entry(_RESTART + name, _json({"include-tasks": include_tasks, "only-failed": only_failed}))
        case LoggerLevel(logger, level):
            return Entry(_LOGGER + logger, _json({"level": level}))
        case SessionKey(key, algorithm, created_ms):
            text = base64.b64encode(key).decode()
            return Entry(_SESSION_KEY, _json({"key": text, "algorithm": algorithm, "creation-timestamp": created_ms}))


def decode(key: bytes | None, value: bytes | None) -> ConfigRecord | None:
    """None for a record that says nothing here."""
    try:
        text = (key or b"").decode()
        document = None if value is None else json.loads(value)
        return _decoded(text, document)
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        return None


def _decoded(key: str, document: Any) -> ConfigRecord | None:
    if document is None:
        if key.startswith(_TARGET):
            return TargetState(key.removeprefix(_TARGET), None)
        return ConnectorConfig(key.removeprefix(_CONNECTOR), None) if key.startswith(_CONNECTOR) else None
    if key == _SESSION_KEY:
        secret = base64.b64decode(document["key"], validate=True)
        return SessionKey(secret, str(document["algorithm"]), int(document["creation-timestamp"]))
    if key.startswith(_TARGET):
        return TargetState(key.removeprefix(_TARGET), _STATES[document.get("state.v2") or document["state"]])
    if key.startswith(_FENCING):
        return TaskCount(key.removeprefix(_FENCING), _count(document["task-count"]))
    if key.startswith(_CONNECTOR):
        return ConnectorConfig(key.removeprefix(_CONNECTOR), _texts(document["properties"]))
    if key.startswith(_TASK):
        name, _, number = key.removeprefix(_TASK).rpartition("-")
        return TaskConfig(TaskId(name, _count(int(number))), _texts(document["properties"]))
    if key.startswith(_COMMIT):
        return TasksCommit(key.removeprefix(_COMMIT), _count(document["tasks"]))
    if key.startswith(_RESTART):
        include, failed = document.get("include-tasks", False), document.get("only-failed", False)
        return Restart(key.removeprefix(_RESTART), include is True, failed is True)
    if key.startswith(_LOGGER):
        return LoggerLevel(key.removeprefix(_LOGGER), str(document["level"]))
    return None


def _json(document: dict[str, Any]) -> bytes:
    return dumps(document).encode()


def _texts(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        raise TypeError("properties are an object")
    return {str(name): value for name, value in found.items() if isinstance(value, str)}


def _count(found: Any) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError("a count is a whole number")
    return found
