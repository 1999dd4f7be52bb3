"""ListPartitionReassignments (key 46), version 0: the partitions that are on the move. With one broker none ever is.

Topics and partitions that are not there are left out, as in Apache Kafka.
"""

from typing import TYPE_CHECKING

from headwater.broker.context import RequestContext
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: ListPartitionReassignmentsRequest,  # noqa: ARG001
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=[])
