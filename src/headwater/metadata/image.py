"""The cluster image: what one broker knows of topics, brokers and configs, and the changes that make it.

An image is owned by one broker and changed only by `apply`, with changes that a `MetadataStore` has committed. Topics are
keyed by id; names live at the edge, in `ids_by_name`. The same changes in the same order give the same image, so a store
may keep the changes themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId
from headwater.base.names import INTERNAL_TOPICS


@dataclass(slots=True)
class PartitionState:
    """Who holds a partition. `replicas[0]` is the preferred leader."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: list[BrokerId]
    in_sync_replicas: list[BrokerId]


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: TopicId
    partitions: list[PartitionState]
    config: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(slots=True, frozen=True)
class Endpoint:
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int


@dataclass(slots=True)
class BrokerState:
    broker_id: BrokerId
    endpoints: list[Endpoint]
    rack: str | None = None


@dataclass(slots=True, frozen=True)
class TopicCreated:
    name: str
    topic_id: TopicId
    assignments: tuple[tuple[int, ...], ...]
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class TopicDeleted:
    topic_id: TopicId


@dataclass(slots=True, frozen=True)
class PartitionsAdded:
    topic_id: TopicId
    assignments: tuple[tuple[int, ...], ...]


@dataclass(slots=True, frozen=True)
class TopicConfigured:
    """The topic's overrides from now on: the whole of them."""

    topic_id: TopicId
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class BrokerConfigured:
    """The dynamic config of one broker (its id as text) or of all (the empty string): the whole of it."""

    broker: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class ProducerIdsReserved:
    """Ids below `next_producer_id` belong to blocks that brokers hold."""

    next_producer_id: int


Change = TopicCreated | TopicDeleted | PartitionsAdded | TopicConfigured | BrokerConfigured | ProducerIdsReserved


class MetadataStore(Protocol):
    """Keeps the changes. `done` comes after the changes were applied, with None, or with the reason that they were not."""

    def commit(self, changes: Sequence[Change], done: Callable[[KafkaError | None], None]) -> None: ...


@dataclass(slots=True)
class ClusterImage:
    cluster_id: str
    controller_id: BrokerId = NO_BROKER
    brokers: dict[BrokerId, BrokerState] = field(default_factory=dict)
    topics: dict[TopicId, TopicState] = field(default_factory=dict)
    ids_by_name: dict[str, TopicId] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    deleted_topics: set[TopicId] = field(
        default_factory=set
    )  # a directory that a crash left behind is not adopted again

    def topic(self, name: str) -> TopicState:
        """By name; raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic_id = self.ids_by_name.get(name)
        if topic_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return self.topics[topic_id]

    def topic_by_id(self, topic_id: TopicId) -> TopicState:
        """By id; raises UNKNOWN_TOPIC_ID."""
        topic = self.topics.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic

    def apply(self, change: Change) -> None:
        match change:
            case TopicCreated(name, topic_id, assignments, config):
                assert name not in self.ids_by_name, name
                self.topics[topic_id] = TopicState(
                    name, topic_id, [_new_partition(a) for a in assignments], dict(config)
                )
                self.ids_by_name[name] = topic_id
            case TopicDeleted(topic_id):
                self.deleted_topics.add(topic_id)
                topic = self.topics.pop(topic_id, None)
                if topic is not None:
                    del self.ids_by_name[topic.name]
            case PartitionsAdded(topic_id, assignments):
                self.topics[topic_id].partitions.extend(_new_partition(a) for a in assignments)
            case TopicConfigured(topic_id, config):
                self.topics[topic_id].config = dict(config)
            case BrokerConfigured(broker, config):
                self.broker_configs[broker] = dict(config)
            case ProducerIdsReserved(next_producer_id):
                assert next_producer_id >= self.next_producer_id
                self.next_producer_id = next_producer_id


def _new_partition(replicas: Sequence[int]) -> PartitionState:
    ids = [BrokerId(replica) for replica in replicas]
    return PartitionState(leader=ids[0], leader_epoch=LeaderEpoch(0), replicas=ids, in_sync_replicas=list(ids))
