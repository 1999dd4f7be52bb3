"""ListPartitionReassignments (key 46), version 0: the partitions that are on the move. With one broker none ever is.

Topics and partitions that are not there, or do not move, are left out, as in Apache Kafka. Only the active controller
answers: what others know may be older than a move that it has begun.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.controller.reassignment import Moving


def handle(
    broker: "Broker", context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    if broker.controller is None:
        return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[])
    if not broker.controller.is_active:
        from headwater.broker.refusals import refusal  # a broker alone needs none of it

        refused: ListPartitionReassignmentsResponse = refusal(
            request, context.api_version, KafkaError(ErrorCode.NOT_CONTROLLER)
        )
        return refused
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    listed = [each for each in broker.controller.listing() if wanted is None or (each.topic, each.partition) in wanted]
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=_by_topic(listed))


def _by_topic(listed: "list[Moving]") -> list[OngoingTopicReassignment]:
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for each in listed:
        by_topic.setdefault(each.topic, []).append(
            OngoingPartitionReassignment(
                partition_index=each.partition,
                replicas=each.replicas,
                adding_replicas=each.adding,
                removing_replicas=each.removing,
            )
        )
    return [OngoingTopicReassignment(name=name, partitions=partitions) for name, partitions in by_topic.items()]
