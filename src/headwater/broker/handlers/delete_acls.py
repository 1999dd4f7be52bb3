"""DeleteAcls (key 31), versions 1 to 3: without an authorizer each filter is refused on its own."""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.handlers.create_acls import NO_AUTHORIZER
from headwater.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: DeleteAclsRequest,
) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(
                error_code=int(ErrorCode.SECURITY_DISABLED), error_message=NO_AUTHORIZER, matching_acls=[]
            )
            for _ in request.filters
        ]
    )
