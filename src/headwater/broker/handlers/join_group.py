"""JoinGroup (key 11), versions 0 to 9: a member enters a classic group. coordinator/groups/classic decides; the answer
waits for the others.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: JoinGroupRequest) -> Any:
    def refused(code: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=int(code), member_id=request.member_id, protocol_name="")

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.join_group(who, request, ticket, now_ms),
        refused,
    )
