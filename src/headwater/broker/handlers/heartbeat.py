"""Heartbeat (key 12), versions 0 to 4: a member of a classic group lives."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: HeartbeatRequest) -> Any:
    def refused(code: ErrorCode) -> HeartbeatResponse:
        return HeartbeatResponse(error_code=int(code))

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.heartbeat(who, request, ticket, now_ms),
        refused,
        may_write=lambda shard: shard.heartbeat_may_write(request.group_id),
    )
