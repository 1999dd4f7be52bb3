"""OffsetDelete (key 47), version 0: committed offsets of topics that nobody in the group reads any more."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: OffsetDeleteRequest) -> Any:
    def refused(code: ErrorCode) -> OffsetDeleteResponse:
        return OffsetDeleteResponse(error_code=int(code))

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.offset_delete(who, request, ticket, now_ms),
        refused,
    )
