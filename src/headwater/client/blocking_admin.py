"""Admin calls: topics, configs, records, offsets, log directories. Each asks the broker that can answer.

No state of its own: everything goes through the `Cluster`. Calls about one thing raise; calls about many give an error
per thing where one failing does not stop the others.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.errors import error_for, raise_for
from headwater.client.types import CreatedTopic, NewTopic, OffsetAt
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def create_topics(
    cluster: Cluster, topics: list[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | KafkaError]:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ],
        timeout_ms=cluster.request_timeout_ms,
        validate_only=validate_only,
    )
    response = cluster.call_controller(
        request, CreateTopicsResponse, lambda answer: _not_controller(each.error_code for each in answer.topics)
    )
    return {
        each.name: error_for(each.error_code, each.error_message)
        if each.error_code
        else CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
        for each in response.topics
    }


def delete_topics(cluster: Cluster, names: list[str]) -> dict[str, KafkaError | None]:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,  # for versions below 6
        timeout_ms=cluster.request_timeout_ms,
    )
    response = cluster.call_controller(
        request, DeleteTopicsResponse, lambda answer: _not_controller(each.error_code for each in answer.responses)
    )
    for name in names:
        cluster.view.topics.pop(name, None)
    return {
        each.name or "": error_for(each.error_code, each.error_message) if each.error_code else None
        for each in response.responses
    }


def create_partitions(cluster: Cluster, topic: str, total: int) -> None:
    """Raises the number of a topic's partitions to `total`."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=total, assignments=None)], timeout_ms=cluster.request_timeout_ms
    )
    response = cluster.call_controller(
        request, CreatePartitionsResponse, lambda answer: _not_controller(each.error_code for each in answer.results)
    )
    for result in response.results:
        raise_for(result.error_code, result.error_message)
    cluster.view.topics.pop(topic, None)


def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The offset for each partition's timestamp in ms, or for LATEST, EARLIEST, MAX_TIMESTAMP."""

    def send(connection: Connection, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | KafkaError]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=each.partition, timestamp=wanted[each]) for each in members
                ],
            )
            for topic, members in _by_topic(partitions).items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=cluster.request_timeout_ms
        )
        if MAX_TIMESTAMP in wanted.values() and connection.version_for(request) < 7:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot look for the largest timestamp")
        response = connection.call(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): error_for(each.error_code)
            if each.error_code
            else OffsetAt(each.offset, each.timestamp, each.leader_epoch)
            for topic in response.topics
            for each in topic.partitions
        }

    return cluster.per_leader(wanted, send)


def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
    """Drops everything below the given offsets (-1: all that is committed). Gives each partition's new start."""

    def send(connection: Connection, partitions: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=each.partition, offset=before[each]) for each in members
                ],
            )
            for topic, members in _by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=cluster.request_timeout_ms)
        response = connection.call(request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): error_for(each.error_code)
            if each.error_code
            else each.low_watermark
            for topic in response.topics
            for each in topic.partitions
        }

    return cluster.per_leader(before, send)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        grouped.setdefault(each.topic, []).append(each)
    return grouped


def _not_controller(codes: Iterable[int]) -> bool:
    return any(code == ErrorCode.NOT_CONTROLLER for code in codes)
