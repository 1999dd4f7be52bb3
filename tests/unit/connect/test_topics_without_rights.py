"""Topics that are there, and a user who may write to them and not make any: brokers refuse to make them before they
look whether they are there.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client import NewTopic
from headwater.connect.connector_config.common import connector_def
from headwater.connect.distributed.topic_log import ensure_topic
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import dead_letters, source
from headwater.connect.runtime.dead_letters import DeadLetters
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import TaskId

PROPS = {
    "name": "c",
    "connector.class": "C",
    "topic.creation.default.partitions": "1",
    "topic.creation.default.replication.factor": "1",
}
DEAD = {
    "errors.deadletterqueue.topic.name": "t",
    "errors.deadletterqueue.context.headers.enable": False,
    "errors.deadletterqueue.topic.replication.factor": 1,
}


class Cluster:
    """An admin client: `refusal` is what it is told when it makes topics, `there` which ones there are."""

    def __init__(
        self, refusal: ErrorCode | None, *there: str, configs: ErrorCode | dict[str, str] | None = None
    ) -> None:
        self._refusal, self._there, self._configs = refusal, there, configs or {}
        self.asked: list[str] = []

    def __call__(self, _settings: object) -> "Cluster":
        return self

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_error: object) -> None: ...

    def create_topics(self, topics: list[NewTopic]) -> dict[str, KafkaError | None]:
        self.asked += [each.name for each in topics]
        error = None if self._refusal is None else KafkaError(self._refusal)
        return {each.name: error for each in topics}

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {each: SimpleNamespace(partitions=[0]) if each in self._there else unknown for each in names}

    def describe_topic(self, name: str) -> Any:
        return self.describe_topics([name])[name]

    def describe_configs(self, resources: list[Any]) -> dict[Any, Any]:
        if isinstance(self._configs, ErrorCode):
            return dict.fromkeys(resources, KafkaError(self._configs))
        entries = [SimpleNamespace(name=name, value=each) for name, each in self._configs.items()]
        return dict.fromkeys(resources, entries)


def source_task() -> SourceWorkerTask:
    config = connector_def(Catalog(), Kind.SOURCE).parse(PROPS)
    nothing: Any = None
    offsets = ConnectorOffsets(MemoryOffsetStore(), "c")
    return SourceWorkerTask(
        TaskId("c", 0), nothing, nothing, PROPS, config, offsets, {}, {},
        flush_interval_s=60.0, flush_timeout_s=1.0, topic_creation=True, on_topic=lambda _topic: None,
    )  # fmt: skip


DENIED = [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("refusal", DENIED)
def test_a_source_writes_to_a_topic_that_is_there(monkeypatch: pytest.MonkeyPatch, refusal: ErrorCode) -> None:
    """With `topic.creation.default.*`, its task failed at the first record."""
    cluster = Cluster(refusal, "t")
    monkeypatch.setattr(source, "Admin", cluster)
    source_task().make_topic("t")
    assert cluster.asked == ["t"]


@pytest.mark.parametrize("refusal", [*DENIED, ErrorCode.INVALID_REPLICATION_FACTOR])
def test_a_topic_that_is_not_there_and_cannot_be_made_is_told(
    monkeypatch: pytest.MonkeyPatch, refusal: ErrorCode
) -> None:
    monkeypatch.setattr(source, "Admin", Cluster(refusal))
    with pytest.raises(ConnectError, match=f"Cannot make the topic 't'.*{refusal.name}"):
        source_task().make_topic("t")


@pytest.mark.parametrize("there", [True, False])
def test_dead_letters_go_to_a_topic_that_is_there(monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    monkeypatch.setattr(dead_letters, "Admin", Cluster(DENIED[0], *(["t"] if there else [])))
    monkeypatch.setattr(dead_letters, "Producer", lambda _settings: None)
    if there:
        DeadLetters(TaskId("c", 0), DEAD, {}, {}, str)
        return
    with pytest.raises(ConnectError, match="Cannot make the dead letter topic 't'"):
        DeadLetters(TaskId("c", 0), DEAD, {}, {}, str)


def ensure(cluster: Any) -> None:
    ensure_topic(cluster, "t", 1, 1, {})


def test_workers_use_storage_topics_that_are_there() -> None:
    ensure(Cluster(DENIED[0], "t", configs={"cleanup.policy": "compact"}))
    ensure(Cluster(DENIED[0], "t", configs=DENIED[0]))  # DESCRIBE_CONFIGS is a right of its own


def test_a_storage_topic_that_is_not_right_is_refused_as_before() -> None:
    with pytest.raises(UserError, match="cannot be made"):
        ensure(Cluster(DENIED[0]))
    with pytest.raises(UserError, match="would forget"):
        ensure(Cluster(DENIED[0], "t", configs={"cleanup.policy": "delete"}))
    with pytest.raises(UserError, match="cannot be looked at"):
        ensure(Cluster(ErrorCode.TOPIC_ALREADY_EXISTS, "t", configs=ErrorCode.UNKNOWN_SERVER_ERROR))
