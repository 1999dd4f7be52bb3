"""SyncGroup (key 14), versions 0 to 5: the leader hands in the assignment, each member gets its own."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: SyncGroupRequest) -> Any:
    def refused(code: ErrorCode) -> SyncGroupResponse:
        return SyncGroupResponse(error_code=int(code))

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.sync_group(who, request, ticket, now_ms),
        refused,
    )
