"""ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates. v4 filters by state, v5 by type.

While a shard is loading the answer says so, and holds what is there: a list with holes is not a list.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:  # noqa: ARG001
    runtime = broker.groups.runtime
    groups = [
        group
        for hosted in runtime.active()
        for group in hosted.shard.list_groups(request.states_filter, request.types_filter)
    ]
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE
    return ListGroupsResponse(error_code=int(code), groups=groups)
