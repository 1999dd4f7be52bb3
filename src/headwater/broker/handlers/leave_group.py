"""LeaveGroup (key 13), versions 0 to 5: members leave a classic group."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: LeaveGroupRequest) -> Any:
    def refused(code: ErrorCode) -> LeaveGroupResponse:
        return LeaveGroupResponse(error_code=int(code))

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.leave_group(who, request, ticket, now_ms),
        refused,
    )
