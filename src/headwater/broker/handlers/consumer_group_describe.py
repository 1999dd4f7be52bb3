"""ConsumerGroupDescribe (key 69), versions 0 to 1: epochs, members and assignments of groups with the consumer
protocol.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.broker.handlers.describe_groups import GROUP_OPERATIONS
from headwater.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: ConsumerGroupDescribeRequest) -> Any:
    def finished(groups: list[DescribedGroup]) -> ConsumerGroupDescribeResponse:
        if request.include_authorized_operations:
            for group in groups:
                if not group.error_code:
                    group.authorized_operations = GROUP_OPERATIONS
        return ConsumerGroupDescribeResponse(groups=groups)

    return gather([_describe(broker, context, group_id) for group_id in request.group_ids], finished)


def _describe(broker: "Broker", context: RequestContext, group_id: str) -> Any:
    def refused(code: ErrorCode) -> DescribedGroup:
        return DescribedGroup(error_code=int(code), group_id=group_id)

    return broker.groups.call(
        context,
        group_id,
        lambda shard, who, ticket, _now_ms: shard.consumer_group_describe(who, group_id, ticket),
        refused,
        may_write=False,
    )
