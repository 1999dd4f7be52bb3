"""The records of `status.storage.topic`, in Kafka Connect's own format. Pure.

Keys are plain text, values JSON without schemas:

    status-connector-<name>                    {"state":"RUNNING","trace":null,"worker_id":"host:port","generation":1,
                                                "version":"1.0"}
    status-task-<name>-<number>                the same
    status-topic-<topic>:connector-<name>      {"topic":{"name":..,"connector":..,"task":0,"discoverTimestamp":ms}}

No value: the connector, its task or its use of the topic is forgotten.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from headwater.connect.data.json_text import dumps
from headwater.connect.distributed.config_records import Entry
from headwater.connect.runtime.task import State, TaskId

_CONNECTOR: Final = "status-connector-"
_TASK: Final = "status-task-"
_TOPIC: Final = "status-topic-"
_OF: Final = ":connector-"
_TRACE_MAX: Final = 100_000  # characters: however they are escaped, a request has room for them


@dataclass(frozen=True, slots=True)
class Status:
    """`generation` is the group's when the worker said so: what an older owner says later does not count."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    runs_on: str | None = None  # Apache's workers pass over it


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    connector: str
    status: Status | None


@dataclass(frozen=True, slots=True)
class TaskStatus:
    task: TaskId
    status: Status | None


@dataclass(frozen=True, slots=True)
class TopicUse:
    topic: str
    connector: str
    task: int = 0
    discovered_ms: int | None = None  # None: forgotten


StatusRecord = ConnectorStatus | TaskStatus | TopicUse


def encode(record: StatusRecord) -> Entry:
    match record:
        case ConnectorStatus(name, status):
            return Entry(_CONNECTOR + name, _status_json(status))
        case TaskStatus(task, status):
            return Entry(f"{_TASK}{task.connector}-{task.number}", _status_json(status))
        case TopicUse(topic, connector, task, discovered_ms):
            key = f"{_TOPIC}{topic}{_OF}{connector}"
            if discovered_ms is None:
                return Entry(key, None)
            found = {"name": topic, "connector": connector, "task": task, "discoverTimestamp": discovered_ms}
            return Entry(key, dumps({"topic": found}).encode())


def _status_json(status: Status | None) -> bytes | None:
    if status is None:
        return None
    trace = status.trace if status.trace is None else status.trace[:_TRACE_MAX]
    made = {"state": str(status.state), "trace": trace, "worker_id": status.worker_id}
    more = {} if status.runs_on is None else {"runs_on": status.runs_on}
    text = dumps({**made, "generation": status.generation, "version": status.version, **more})
    return text.encode("utf-8", "replace")  # a trace may cite half a character


def decode(key: bytes | None, value: bytes | None) -> StatusRecord | None:
    """None for a record that says nothing here."""
    try:
        text = (key or b"").decode()
        document = None if value is None else json.loads(value)
        if text.startswith(_CONNECTOR):
            return ConnectorStatus(text.removeprefix(_CONNECTOR), _status(document))
        if text.startswith(_TASK):
            name, _, number = text.removeprefix(_TASK).rpartition("-")
            return TaskStatus(TaskId(name, int(number)), _status(document))
        if text.startswith(_TOPIC) and _OF in text:
            topic, _, connector = text.removeprefix(_TOPIC).partition(_OF)
            if document is None:
                return TopicUse(topic, connector)
            found = document["topic"]
            return TopicUse(topic, connector, int(found["task"]), int(found["discoverTimestamp"]))
    except (ValueError, OverflowError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return None


def _status(document: Any) -> Status | None:
    if document is None:
        return None
    trace, version = document.get("trace"), document.get("version")
    state, worker_id, runs_on = State(document["state"]), str(document["worker_id"]), document.get("runs_on")
    return Status(state, worker_id, int(document["generation"]), trace, version, runs_on)
