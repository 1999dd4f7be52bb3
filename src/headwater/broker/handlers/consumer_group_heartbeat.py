"""ConsumerGroupHeartbeat (key 68), versions 0 to 1: the one request of the consumer protocol (KIP-848).
coordinator/groups/consumer decides.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> Any:
    def refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(error_code=int(code))

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.consumer_group_heartbeat(who, request, ticket, now_ms),
        refused,
    )
