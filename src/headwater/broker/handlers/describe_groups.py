"""DescribeGroups (key 15), versions 0 to 6: state and members of classic groups. From v6 on an unknown group is an
error.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

GROUP_OPERATIONS: Final = sum(1 << bit for bit in (3, 6, 8, 10, 11))  # read, delete, describe, and of its configs


def handle(broker: "Broker", context: RequestContext, request: DescribeGroupsRequest) -> Any:
    def finished(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code in (0, ErrorCode.GROUP_ID_NOT_FOUND):
                    group.authorized_operations = GROUP_OPERATIONS
        return DescribeGroupsResponse(groups=groups)

    return gather([_describe(broker, context, group_id) for group_id in request.groups], finished)


def _describe(broker: "Broker", context: RequestContext, group_id: str) -> Any:
    def refused(code: ErrorCode) -> DescribedGroup:
        return DescribedGroup(error_code=int(code), group_id=group_id)

    return broker.groups.call(
        context,
        group_id,
        lambda shard, who, ticket, _now_ms: shard.describe_group(who, group_id, ticket),
        refused,
        may_write=False,
    )
