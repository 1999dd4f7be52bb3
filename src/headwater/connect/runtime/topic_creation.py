"""Which settings a topic is made with that a source writes to for the first time: `topic.creation.*` of the
connector.
"""

from collections.abc import Mapping
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Admin
from headwater.client.types import NewTopic
from headwater.connect.config.definition import own_config
from headwater.connect.errors import ConfigError
from headwater.connect.java_regex import compile_java

_COUNTS = ("replication.factor", "partitions")
_OWN = frozenset({"include", "exclude", *_COUNTS})
NO_RIGHT: Final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class TopicCreation:
    """The first group that includes a topic counts, then `default`; without any, topics are left to the broker. A group
    that does not say how many partitions and replicas it has, has those of `default`.
    """

    def __init__(self, props: Mapping[str, str], groups: list[str]) -> None:
        default = own_config("topic.creation.default.", props)
        counts = {name: default[name] for name in _COUNTS if name in default}
        self._groups = [_Group(counts | own_config(f"topic.creation.{name}.", props), name) for name in groups]
        self._default = _Group(default, "default") if default else None

    @property
    def wanted(self) -> bool:
        return self._default is not None or bool(self._groups)

    def new_topic(self, topic: str) -> NewTopic | None:
        found = next((each for each in self._groups if each.includes(topic)), self._default)
        return None if found is None else found.new_topic(topic)


class _Group:
    def __init__(self, own: Mapping[str, str], name: str) -> None:
        try:
            self._partitions = int(own.get("partitions", "-1"))
            self._replicas = int(own.get("replication.factor", "-1"))
        except ValueError:
            raise ConfigError(f"topic.creation.{name}: partitions and replication.factor are whole numbers") from None
        self._include = [compile_java(each.strip()) for each in own.get("include", "").split(",") if each.strip()]
        self._exclude = [compile_java(each.strip()) for each in own.get("exclude", "").split(",") if each.strip()]
        self._configs: dict[str, Any] = {key: value for key, value in own.items() if key not in _OWN}

    def includes(self, topic: str) -> bool:
        return any(each.fullmatch(topic) for each in self._include) and not any(
            each.fullmatch(topic) for each in self._exclude
        )

    def new_topic(self, topic: str) -> NewTopic:
        return NewTopic(topic, self._partitions, self._replicas, self._configs)


def is_there(admin: Admin, topic: str, refusal: KafkaError) -> bool:
    """Whether a topic that could not be made is there. Who may not make topics is told so of every topic, and may write
    to those that others made.
    """
    if refusal.code in NO_RIGHT:
        return not isinstance(admin.describe_topics([topic])[topic], KafkaError)
    return refusal.code is ErrorCode.TOPIC_ALREADY_EXISTS
