"""DeleteAcls (key 31), versions 1 to 3: takes away the access rules that filters mean, and tells which they were."""

import logging
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

audit = logging.getLogger("headwater.audit")


def handle(broker: "Broker", context: RequestContext, request: DeleteAclsRequest) -> DeleteAclsResponse | Deferred:
    if broker.authorizer is None:
        disabled = KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return DeleteAclsResponse(filter_results=[_refused(disabled) for _ in request.filters])
    return _Deletion(broker, context.connection.principal, request).submit()


class _Deletion(RequestedChange):
    """A rule that two filters mean is told by both."""

    def __init__(self, broker: "Broker", principal: str, request: DeleteAclsRequest) -> None:
        super().__init__(broker)
        self._principal = principal
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
        for result in self._results:
            for told in result.matching_acls:
                pattern = Pattern(told.resource_type, told.pattern_type, told.resource_name)
                rule = Rule(told.principal, told.host, told.operation, told.permission_type)
                audit.info("event=acl-deleted by=%r pattern=%r rule=%r", self._principal, tuple(pattern), tuple(rule))
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
