"""DescribeAcls (key 29), versions 1 to 3: without an authorizer there are no rules, and Kafka says so."""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: DescribeAclsRequest,  # noqa: ARG001
) -> DescribeAclsResponse:
    return DescribeAclsResponse(
        error_code=int(ErrorCode.SECURITY_DISABLED),
        error_message="No Authorizer is configured on the broker",
        resources=[],
    )
