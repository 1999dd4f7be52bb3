"""DescribeAcls (key 29), versions 1 to 3: the access rules that a filter means. Without an authorizer there are none,
and Kafka says so.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeAclsRequest,
) -> DescribeAclsResponse:
    if broker.authorizer is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
        return _refused(disabled)
    from headwater.broker.rights.acl_requests import Filter

    wanted = Filter(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.resource_name_filter,
        request.principal_filter,
        request.host_filter,
        request.operation,
        request.permission_type,
    )
    try:
        wanted.check()
    except KafkaError as problem:
        return _refused(problem)
    return DescribeAclsResponse(
        error_code=0,
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=pattern.resource_type,
                resource_name=pattern.name,
                pattern_type=pattern.pattern_type,
                acls=[
                    AclDescription(
                        principal=rule.principal,
                        host=rule.host,
                        operation=rule.operation,
                        permission_type=rule.permission,
                    )
                    for rule in rules
                ],
            )
            for pattern, rules in sorted(wanted.matching(broker.image.acls))
        ],
    )


def _refused(problem: KafkaError) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=int(problem.code), error_message=problem.message, resources=[])
