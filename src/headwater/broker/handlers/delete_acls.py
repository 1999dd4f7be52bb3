"""DeleteAcls (key 31), versions 1 to 3: takes away the access rules that filters mean, and tells which they were."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.base.acls import Pattern, Rule, Rules
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.handlers.create_acls import NO_AUTHORIZER
from headwater.broker.requested_change import RequestedChange
from headwater.metadata.image import AclsSet
from headwater.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DeleteAclsRequest,
) -> DeleteAclsResponse | Deferred:
    if broker.authorizer is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[_refused(disabled) for _ in request.filters])
    return _Deletion(broker, request).submit()


class _Deletion(RequestedChange):
    """A rule that two filters mean is told by both."""

    def __init__(self, broker: "Broker", request: DeleteAclsRequest) -> None:
        super().__init__(broker)
        self._filters = request.filters
        self._results: list[DeleteAclsFilterResult] = []

    def plan(self) -> Sequence[AclsSet]:
        known = self._broker.image.acls
        left: dict[Pattern, Rules] = {}
        self._results = []
        for each in self._filters:
            try:
                found = _matching(each, known)
            except KafkaError as problem:
                self._results.append(_refused(problem))
                continue
            for pattern, rules in found:
                left[pattern] = tuple(rule for rule in left.get(pattern, known[pattern]) if rule not in rules)
            self._results.append(_deleted(found))
        return [AclsSet(*pattern, rules) for pattern, rules in left.items()]

    def done(self, error: KafkaError | None) -> None:
        if error is not None:
            self._results = [_refused(error) for _ in self._filters]
        self.deferred.complete(DeleteAclsResponse(filter_results=self._results))


def _matching(each: DeleteAclsFilter, known: dict[Pattern, Rules]) -> list[tuple[Pattern, Rules]]:
    from headwater.broker.rights.acl_requests import Filter

    wanted = Filter(
        each.resource_type_filter,
        each.pattern_type_filter,
        each.resource_name_filter,
        each.principal_filter,
        each.host_filter,
        each.operation,
        each.permission_type,
    )
    wanted.check()
    return list(wanted.matching(known))


def _deleted(found: list[tuple[Pattern, Rules]]) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=int(ErrorCode.NONE),
        error_message=None,
        matching_acls=[_told(pattern, rule) for pattern, rules in found for rule in rules],
    )


def _told(pattern: Pattern, rule: Rule) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=0,
        error_message=None,
        resource_type=pattern.resource_type,
        resource_name=pattern.name,
        pattern_type=pattern.pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )


def _refused(problem: KafkaError) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=int(problem.code), error_message=problem.message, matching_acls=[])
