"""AlterPartitionReassignments (key 45), versions 0 and 1: moves partitions to other replicas, or cancels that (null).

Replicas are checked as for a new topic. With one broker the only legal replicas are those that are there: that is done at
once, and nothing is ever in progress, so there is nothing to cancel. v1 may forbid another number of replicas.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.assignments import check_replicas
from headwater.broker.context import RequestContext
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    may_change_factor = request.allow_replication_factor_change
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _answer(broker, topic.name, each.partition_index, each.replicas, may_change_factor)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor, error_code=0, error_message=None, responses=responses
    )


def _answer(
    broker: "Broker", topic: str, index: int, replicas: list[int] | None, may_change_factor: bool
) -> ReassignablePartitionResponse:
    result = ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)
    try:
        _reassign(broker, topic, index, replicas, may_change_factor)
    except KafkaError as problem:
        result.error_code, result.error_message = int(problem.code), problem.message
    return result


def _reassign(broker: "Broker", topic: str, index: int, replicas: list[int] | None, may_change_factor: bool) -> None:
    topic_id = broker.image.ids_by_name.get(topic)
    if topic_id is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    partitions = broker.image.topics[topic_id].partitions
    if not 0 <= index < len(partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(replicas, broker.image.brokers)
    existing = partitions[index].replicas
    if not may_change_factor and len(replicas) != len(existing):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {len(existing)} to {len(replicas)}",
        )
    if list(replicas) != list(existing):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "This broker cannot move partitions to another broker yet."
        )
