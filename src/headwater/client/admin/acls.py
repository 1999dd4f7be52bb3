"""Admin calls about access rules: who may do what with which resource, from where. No state."""

from collections.abc import Iterable
from typing import NamedTuple

from headwater.base import acls
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import failure, of_any, of_controller
from headwater.client.errors import error_for, raise_for
from headwater.client.session import Session
from headwater.wire.messages import create_acls as create_wire
from headwater.wire.messages import delete_acls as delete_wire
from headwater.wire.messages import describe_acls as describe_wire

# The numbers are those of the brokers. UNKNOWN is none that a rule may have.
AclResourceType = acls.ResourceType
PatternType = acls.PatternType
AclOperation = acls.Operation
AclPermission = acls.Permission


class AclBinding(NamedTuple):
    """One rule. A principal is `User:name`, a host an address, or `*` for all."""

    resource_type: AclResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


class AclFilter(NamedTuple):
    """Which rules are meant. None and ANY leave out a condition."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


async def describe_acls(session: Session, which: AclFilter | None = None) -> list[AclBinding]:
    """The rules that the filter lets through; without one, all."""
    wanted = which or AclFilter()
    request = describe_wire.DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = await of_any(session, request, describe_wire.DescribeAclsResponse)
    raise_for(response.error_code, response.error_message)
    return sorted(
        AclBinding(
            AclResourceType(resource.resource_type),
            resource.resource_name,
            each.principal,
            AclOperation(each.operation),
            AclPermission(each.permission_type),
            each.host,
            PatternType(resource.pattern_type),
        )
        for resource in response.resources
        for each in resource.acls
    )


async def create_acls(session: Session, bindings: Iterable[AclBinding]) -> dict[AclBinding, KafkaError | None]:
    wanted = list(dict.fromkeys(bindings))
    request = create_wire.CreateAclsRequest(
        creations=[
            create_wire.AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
    )
    response = await of_controller(
        session, request, create_wire.CreateAclsResponse, lambda answer: [each.error_code for each in answer.results]
    )
    results = [failure(each.error_code, each.error_message) for each in response.results]
    return _in_order(wanted, results)


async def delete_acls(session: Session, filters: Iterable[AclFilter]) -> dict[AclFilter, list[AclBinding] | KafkaError]:
    """Takes the rules away that each filter lets through; gives those that are gone."""
    wanted = list(dict.fromkeys(filters))
    request = delete_wire.DeleteAclsRequest(
        filters=[
            delete_wire.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in wanted
        ]
    )
    response = await of_controller(
        session,
        request,
        delete_wire.DeleteAclsResponse,
        lambda answer: [each.error_code for each in answer.filter_results],
    )
    return dict(zip(wanted, [_deleted(each) for each in response.filter_results], strict=True))


def _deleted(result: delete_wire.DeleteAclsFilterResult) -> list[AclBinding] | KafkaError:
    """One rule that could not be deleted is an error of its filter: what else it names may be gone."""
    if result.error_code:
        return error_for(result.error_code, result.error_message)
    for each in result.matching_acls:
        if each.error_code:
            return error_for(each.error_code, each.error_message)
    return sorted(
        AclBinding(
            AclResourceType(each.resource_type),
            each.resource_name,
            each.principal,
            AclOperation(each.operation),
            AclPermission(each.permission_type),
            each.host,
            PatternType(each.pattern_type),
        )
        for each in result.matching_acls
    )


def _in_order(wanted: list[AclBinding], results: list[KafkaError | None]) -> dict[AclBinding, KafkaError | None]:
    """The answers have no names: they come in the order of the request."""
    if len(results) != len(wanted):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(wanted)} rules were sent, {len(results)} were answered")
    return dict(zip(wanted, results, strict=True))
