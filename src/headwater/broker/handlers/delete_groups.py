"""DeleteGroups (key 42), versions 0 to 2: groups without members, and their offsets."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: DeleteGroupsRequest) -> Any:
    parts = [_delete(broker, context, group_id) for group_id in dict.fromkeys(request.groups_names)]
    return gather(parts, lambda results: DeleteGroupsResponse(results=results))


def _delete(broker: "Broker", context: RequestContext, group_id: str) -> Any:
    def refused(code: ErrorCode) -> DeletableGroupResult:
        return DeletableGroupResult(group_id=group_id, error_code=int(code))

    return broker.groups.call(
        context,
        group_id,
        lambda shard, who, ticket, now_ms: shard.delete_group(who, group_id, ticket, now_ms),
        refused,
    )
