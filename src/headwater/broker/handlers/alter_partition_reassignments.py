"""AlterPartitionReassignments (key 45), versions 0 and 1: moves partitions to other replicas, or cancels that (null).

Replicas are checked as for a new topic. In a cluster the controller begins or cancels the moves; the answer does not
wait for their end. A broker alone can only keep the replicas that are there: nothing is ever in progress, so there is
nothing to cancel. v1 may forbid another number of replicas.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.assignments import check_replicas
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.controller.controller import Controller


def handle(
    broker: "Broker",
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse | Deferred:
    if broker.controller is not None:
        return _by_controller(broker.controller, context, request)
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


def _by_controller(
    controller: "Controller", context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> Deferred:
    from headwater.broker.refusals import refusal  # a broker alone needs none of it
    from headwater.controller.reassignment import Move

    moves = [
        Move(topic.name, each.partition_index, each.replicas) for topic in request.topics for each in topic.partitions
    ]
    deferred = Deferred()

    def answer(error: KafkaError | None, results: list[KafkaError | None]) -> None:
        if error is not None:
            deferred.complete(refusal(request, context.api_version, error))
        else:
            deferred.complete(_begun(request, results))

    controller.reassign(moves, request.allow_replication_factor_change, request.timeout_ms, answer)
    return deferred


def _begun(
    request: AlterPartitionReassignmentsRequest, results: list[KafkaError | None]
) -> AlterPartitionReassignmentsResponse:
    answered = iter(results)
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[_told(each.partition_index, next(answered)) for each in topic.partitions]
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=0,
        error_message=None,
        responses=responses,
    )


def _told(index: int, problem: KafkaError | None) -> ReassignablePartitionResponse:
    if problem is None:
        return ReassignablePartitionResponse(partition_index=index, error_code=0, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=int(problem.code), error_message=problem.message
    )


# A broker that is alone


def _answer(
    broker: "Broker", topic: str, index: int, replicas: list[int] | None, may_change_factor: bool
) -> ReassignablePartitionResponse:
    try:
        _reassign(broker, topic, index, replicas, may_change_factor)
    except KafkaError as problem:
        return _told(index, problem)
    return _told(index, None)


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
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A broker that is alone has no other to move partitions to."
        )
