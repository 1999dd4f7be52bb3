"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where a leader epoch ends, for a consumer that wants to know whether
its position still stands in the leader's log. Replicas truncate by Fetch's diverging epoch instead.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import KafkaError
from headwater.broker.context import RequestContext
from headwater.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_find(broker, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _find(broker: "Broker", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(error_code=0, partition=asked.partition)
    try:
        partition = broker.partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as problem:
        answer.error_code = int(problem.code)
        return answer
    answer.leader_epoch, answer.end_offset = partition.end_offset_for_epoch(asked.leader_epoch)
    return answer
