"""The topics as clients know them, keyed by id, and what Metadata may say about them.

A topic whose creation was acknowledged is there until its deletion is asked for; one whose deletion was acknowledged
never comes back. Both hold across a power loss: the metadata is synced before anything is acknowledged.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headwater.sim.history import PartitionHistory
from headwater.sim.trace import Violation
from headwater.wire.messages.metadata import MetadataResponse

Tell = Callable[[str, str], None]
"""Of a story: what happened to a partition."""


class Topic:
    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_durable = name.startswith("durable")
        self.may_be_named = "again" not in name  # others are deleted and made again, so only the id says which is meant
        self.delete_asked = False
        self.delete_done = False
        self.partitions: list[PartitionHistory] = []
        self.tell: Tell | None = None

    def has_partitions(self, count: int) -> None:
        while len(self.partitions) < count:
            history = self.new_history(len(self.partitions))
            if self.tell is not None:
                history.tell = partial(self.tell, history.name)
            self.partitions.append(history)

    def new_history(self, index: int) -> PartitionHistory:
        return PartitionHistory(f"{self.name}-{index}", self.is_durable)


class Expected(NamedTuple):
    """As of the moment a question was sent."""

    there: dict[bytes, int]  # topic id -> at least so many partitions
    gone: set[bytes]


class Catalog:
    def __init__(self) -> None:
        self.topics: dict[bytes, Topic] = {}
        self.tell: Tell | None = None

    def created(self, name: str, topic_id: bytes, partition_count: int) -> None:
        topic = self.topics.get(topic_id)
        if topic is None:
            topic = self.topics[topic_id] = self.new_topic(name, topic_id)
            topic.tell = self.tell
        topic.has_partitions(partition_count)

    def new_topic(self, name: str, topic_id: bytes) -> Topic:
        return Topic(name, topic_id)

    def partition(self, topic_id: bytes, index: int) -> PartitionHistory | None:
        """None if it is not there, or was added and nobody has heard of it yet."""
        topic = self.topics.get(topic_id)
        return topic.partitions[index] if topic is not None and index < len(topic.partitions) else None

    def usable(self) -> list[Topic]:
        return [topic for topic in self.topics.values() if not topic.delete_asked]

    def expected(self) -> Expected:
        return Expected(
            {topic.topic_id: len(topic.partitions) for topic in self.usable()},
            {topic.topic_id for topic in self.topics.values() if topic.delete_done},
        )

    def told(self, response: MetadataResponse, expected: Expected) -> None:
        seen: dict[bytes, int] = {}
        for answer in response.topics:
            if answer.topic_id in expected.gone:
                raise Violation(f"the topic {answer.name} was deleted and is back")
            seen[answer.topic_id] = len(answer.partitions)
            self.created(answer.name or "", answer.topic_id, len(answer.partitions))
        for topic_id, count in expected.there.items():
            topic = self.topics[topic_id]
            if seen.get(topic_id, 0) < count and not topic.delete_asked:
                raise Violation(f"the topic {topic.name} had {count} partitions and now has {seen.get(topic_id, 0)}")
