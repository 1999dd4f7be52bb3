"""What a request of an administrator has changed, by its answer:
told by the broker that was asked, which knows by whom.

Only what was done is told: what was refused for missing rights is told by the authorizer. Of configs the names are told
and not the values, which may be secret; of users the mechanisms. No state.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from headwater.base.acls import Operation, PatternType, Permission, ResourceType
from headwater.base.security.scram import BY_NUMBER
from headwater.broker.deferred import Deferred
from headwater.broker.rights.broker_connections import is_sent_on

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

Event = tuple[str, dict[str, Any]]
_RESOURCES: Final = {2: "TOPIC", 4: "BROKER", 32: "GROUP"}
_LINE_MAX: Final = 1000

logger = logging.getLogger("headwater.audit")


def audited(broker: "Broker", context: "RequestContext", request: Any, answer: Any) -> Any:
    """The same answer, now or later. What is done is told although whoever asked is gone by then: only the answer can
    be given up, not the change.
    """
    if getattr(request, "validate_only", False) or is_sent_on(broker, context):
        return answer
    if not isinstance(answer, Deferred):
        _tell(broker, context, request, answer)
        return answer
    outer = Deferred(None, holds_order=answer.holds_order)

    def answered(response: Any) -> None:
        if not isinstance(response, BaseException):
            _tell(broker, context, request, response)
        outer.complete(response)

    answer.listen(answered)
    return outer


def _tell(broker: "Broker", context: "RequestContext", request: Any, response: Any) -> None:
    connection = context.connection
    try:
        events = list(EVENTS[context.api_key](request, response))
    except Exception:  # the client gets its answer in any case
        logger.exception("event=audit-failed api=%d", context.api_key)
        return
    for event, details in events:
        words = " ".join(f"{name}={value!r}" for name, value in details.items())[:_LINE_MAX]
        logger.info("event=%s principal=%r host=%s %s", event, connection.principal, connection.client_host, words)
        broker.audit.record_change(event, connection.principal, connection.client_host, **details)


def _acls_created(request: Any, response: Any) -> Iterator[Event]:
    for rule, result in zip(request.creations, response.results, strict=True):
        if not result.error_code:
            yield "acl-created", _acl(rule, rule.resource_pattern_type)


def _acls_deleted(_request: Any, response: Any) -> Iterator[Event]:
    for result in response.filter_results:
        for rule in result.matching_acls:
            if not result.error_code and not rule.error_code:
                yield "acl-deleted", _acl(rule, rule.pattern_type)


def _acl(rule: Any, pattern_type: int) -> dict[str, Any]:
    return {
        "resource": ResourceType(rule.resource_type).name,
        "name": rule.resource_name,
        "pattern": PatternType(pattern_type).name,
        "for_principal": rule.principal,
        "for_host": rule.host,
        "operation": Operation(rule.operation).name,
        "permission": Permission(rule.permission_type).name,
    }


def _users_altered(request: Any, response: Any) -> Iterator[Event]:
    done = {result.user for result in response.results if not result.error_code}
    for event, entries in (("user-changed", request.upsertions), ("user-deleted", request.deletions)):
        for entry in entries:
            if entry.name in done:
                yield event, {"user": entry.name, "mechanism": BY_NUMBER[entry.mechanism].value}


def _quotas_altered(request: Any, response: Any) -> Iterator[Event]:
    for entry, result in zip(request.entries, response.entries, strict=True):
        if not result.error_code:
            entity = [f"{part.entity_type}={part.entity_name or '<default>'}" for part in entry.entity]
            quotas = [f"{op.key}={'' if op.remove else op.value}" for op in entry.ops]
            yield "quotas-changed", {"entity": entity, "quotas": quotas}


def _configs_altered(request: Any, response: Any) -> Iterator[Event]:
    done = {(each.resource_type, each.resource_name) for each in response.responses if not each.error_code}
    for resource in request.resources:
        if (resource.resource_type, resource.resource_name) in done:
            yield (
                "configs-changed",
                {
                    "resource": _RESOURCES.get(resource.resource_type, str(resource.resource_type)),
                    "name": resource.resource_name,
                    "configs": [config.name for config in resource.configs],
                },
            )


def _topics_created(_request: Any, response: Any) -> Iterator[Event]:
    for topic in response.topics:
        if not topic.error_code:
            yield "topic-created", {"topic": topic.name}


def _topics_deleted(_request: Any, response: Any) -> Iterator[Event]:
    for topic in response.responses:
        if not topic.error_code:
            yield "topic-deleted", {"topic": topic.name}


def _partitions_created(_request: Any, response: Any) -> Iterator[Event]:
    for topic in response.results:
        if not topic.error_code:
            yield "partitions-created", {"topic": topic.name}


EVENTS: Final[dict[int, Callable[[Any, Any], Iterator[Event]]]] = {
    19: _topics_created,
    20: _topics_deleted,
    30: _acls_created,
    31: _acls_deleted,
    33: _configs_altered,
    37: _partitions_created,
    44: _configs_altered,
    49: _quotas_altered,
    51: _users_altered,
}
