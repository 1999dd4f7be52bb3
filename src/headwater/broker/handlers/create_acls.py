"""CreateAcls (key 30), versions 1 to 3: without an authorizer each rule is refused on its own."""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

NO_AUTHORIZER: Final = "No Authorizer is configured."


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: CreateAclsRequest,
) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_code=int(ErrorCode.SECURITY_DISABLED), error_message=NO_AUTHORIZER)
            for _ in request.creations
        ]
    )
