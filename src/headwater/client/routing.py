"""What the cluster last said about itself, and which broker a partition's requests go to.

Pure: responses go in, decisions come out. A `MetadataView` is owned by one `Session`.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.errors import UnknownTopic, error_for
from headwater.client.types import Broker, Partition, Topic

if TYPE_CHECKING:
    from headwater.wire.messages.describe_topic_partitions import DescribeTopicPartitionsResponsePartition
    from headwater.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic


class Routes(NamedTuple):
    """Partitions by the id of their leader, and those that have none for now."""

    by_leader: dict[int, list[TopicPartition]]
    without_leader: dict[TopicPartition, KafkaError]


class MetadataView:
    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, Broker] = {}
        self.topics: dict[str, Topic] = {}

    def apply(self, response: "MetadataResponse") -> list[Topic]:
        """Takes a response in; gives its topics in its order. Topics that it does not speak of stay as they were."""
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack) for each in response.brokers
        }
        topics = [_topic(topic) for topic in response.topics]
        topics = [_newest(topic, self.topics.get(topic.name)) for topic in topics]
        for topic in topics:
            self.topics[topic.name] = topic
        return topics

    def topic_name(self, topic_id: bytes) -> str | None:
        return next((topic.name for topic in self.topics.values() if topic.topic_id == topic_id), None)

    def route(self, partitions: Iterable[TopicPartition]) -> Routes:
        routes = Routes({}, {})
        for wanted in partitions:
            leader = self.leader_of(wanted)
            if isinstance(leader, KafkaError):
                routes.without_leader[wanted] = leader
            else:
                routes.by_leader.setdefault(leader, []).append(wanted)
        return routes

    def leader_of(self, wanted: TopicPartition) -> int | KafkaError:
        topic = self.topics.get(wanted.topic)
        if topic is None or topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return UnknownTopic(wanted.topic, sorted(self.topics))
        if topic.error:
            return KafkaError(topic.error, f"topic {wanted.topic!r}")
        found = next((each for each in topic.partitions if each.partition == wanted.partition), None)
        if found is None:
            return KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"topic {wanted.topic!r} has {len(topic.partitions)} partitions, none with number {wanted.partition}",
            )
        if found.leader not in self.brokers:
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{wanted} has no leader")
        return found.leader


def _newest(came: Topic, known: Topic | None) -> Topic:
    """A broker that lags behind may tell of a leader of yesterday: then what is known already stays."""
    if known is None or came.topic_id != known.topic_id or came.error:
        return came
    epochs = {each.partition: each for each in known.partitions}
    partitions = [
        epochs[each.partition]
        if each.partition in epochs and 0 <= each.leader_epoch < epochs[each.partition].leader_epoch
        else each
        for each in came.partitions
    ]
    return came._replace(partitions=partitions)


def _topic(topic: "MetadataResponseTopic") -> Topic:
    name = topic.name or ""
    partitions = [partition_of(name, each) for each in topic.partitions]
    partitions.sort(key=lambda each: each.partition)
    return Topic(name, topic.topic_id, topic.is_internal, partitions, error_for(topic.error_code).code)


def partition_of(topic: str, each: "MetadataResponsePartition | DescribeTopicPartitionsResponsePartition") -> Partition:
    """A partition as Metadata and DescribeTopicPartitions tell of it."""
    return Partition(
        topic=topic,
        partition=each.partition_index,
        leader=each.leader_id,
        leader_epoch=each.leader_epoch,
        replicas=list(each.replica_nodes),
        in_sync_replicas=list(each.isr_nodes),
        offline_replicas=list(each.offline_replicas),
        error=error_for(each.error_code).code,
    )
