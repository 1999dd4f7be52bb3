"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page.

Topics come sorted by name; no names means all. An answer holds at most `response_partition_limit` partitions, and no
more than `max.request.partition.size.limit`. When more are left, `next_cursor` says where: the client sends it back
with the same names. A topic that the client named and that is not there is answered with its error and takes no room. A
leader that the client cannot reach is none (LEADER_NOT_AVAILABLE).
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import validate_topic_name
from headwater.broker.context import RequestContext
from headwater.broker.handlers.metadata import TOPIC_OPERATIONS, ListenerView
from headwater.metadata.image import PartitionState, TopicState
from headwater.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse:
    try:
        names = _names(broker, request)
    except KafkaError as problem:
        return DescribeTopicPartitionsResponse(topics=[_failed(topic.name, problem) for topic in request.topics])
    limit = broker.config.int("max.request.partition.size.limit")
    room = max(1, min(request.response_partition_limit, limit))
    view = ListenerView(broker, context.connection.listener)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in names:
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=topics, next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        try:
            validate_topic_name(name)
            topic = broker.image.topic(name)
        except KafkaError as problem:
            topics.append(_failed(name, problem, TOPIC_OPERATIONS))
            continue
        first = request.cursor.partition_index if request.cursor and request.cursor.topic_name == name else 0
        topics.append(_describe(view, topic, first, first + room))
        room -= len(topics[-1].partitions)
        if first + len(topics[-1].partitions) < len(topic.partitions):
            cursor = Cursor(topic_name=name, partition_index=first + len(topics[-1].partitions))
            return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)
    return DescribeTopicPartitionsResponse(topics=topics)


def _names(broker: "Broker", request: DescribeTopicPartitionsRequest) -> list[str]:
    """What is to be described, in order, from the cursor on."""
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None and (cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "The cursor must name a topic of the request and a valid partition."
        )
    start = cursor.topic_name if cursor is not None else ""
    return sorted(name for name in asked or broker.image.ids_by_name if name >= start)


def _describe(view: ListenerView, topic: TopicState, first: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            _describe_partition(view, index, state)
            for index, state in enumerate(topic.partitions[first:end], start=first)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _describe_partition(
    view: ListenerView, index: int, state: PartitionState
) -> DescribeTopicPartitionsResponsePartition:
    leader, code = view.leader(state)
    return DescribeTopicPartitionsResponsePartition(
        error_code=int(code),
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.in_sync_replicas),
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=view.offline(state),
    )


def _failed(name: str, problem: KafkaError, operations: int = -(2**31)) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(problem.code), name=name, partitions=[], topic_authorized_operations=operations
    )
