"""DescribeClientQuotas (key 48), versions 0 and 1: the quotas of entities that a filter means. Any broker answers.

A filter has a part for each type that an entity must have: by its name, as the default, or with any name. With `strict`
an entity has no other parts besides. A filter without parts means all.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.quotas.entities import CLIENT_ID, IP, USER, all_quotas
from headwater.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_EXACT, _DEFAULT, _ANY = 0, 1, 2
_ENTRIES_MAX: Final = 100_000


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse:
    try:
        wanted = _checked(request.components)
    except KafkaError as problem:
        return DescribeClientQuotasResponse(
            throttle_time_ms=0, error_code=int(problem.code), error_message=problem.message, entries=None
        )
    entries = []
    for entity, quotas in all_quotas(broker.image):
        parts = entity.parts
        if _is_meant(parts, wanted, strict=request.strict):
            named = [EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()]
            values = [ValueData(key=key, value=value) for key, value in sorted(quotas.items())]
            entries.append(EntryData(entity=named, values=values))
        if len(entries) >= _ENTRIES_MAX:
            break
    return DescribeClientQuotasResponse(throttle_time_ms=0, error_code=0, error_message=None, entries=entries)


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    wanted: dict[str, ComponentData] = {}
    for each in components:
        kind = each.entity_type
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in wanted:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate {kind} filter component entity type")
        if each.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {each.match_type}")
        if each.match_type == _EXACT and each.match is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set matchString to null."
            )
        if each.match_type != _EXACT and each.match is not None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "A name was given for a match that takes none.")
        wanted[kind] = each
    if IP in wanted and len(wanted) > 1:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with "
            "user or clientId filter component.",
        )
    return wanted


def _is_meant(parts: dict[str, str | None], wanted: dict[str, ComponentData], *, strict: bool) -> bool:
    if strict and parts.keys() != wanted.keys():
        return False
    for kind, each in wanted.items():
        if kind not in parts:
            return False
        if each.match_type == _EXACT and parts[kind] != each.match:
            return False
        if each.match_type == _DEFAULT and parts[kind] is not None:
            return False
    return True
