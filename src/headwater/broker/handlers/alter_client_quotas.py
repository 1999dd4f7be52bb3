"""AlterClientQuotas (key 49), versions 0 and 1: sets quotas of users, clients and addresses and takes them away. The
controller answers.

Each entity succeeds or fails on its own; one that stands in a request twice is refused the second time. Quotas of a
user are kept beside its credentials.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.quotas.entities import Entity, altered, entity_of
from headwater.metadata.image import Change
from headwater.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

ENTITIES_MAX: Final = 100_000  # users, clients and addresses that have, or had, a config


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: AlterClientQuotasRequest,
) -> Deferred:
    alteration = _Alteration(broker, request)
    broker.changes.submit(alteration.plan, alteration.done)
    return alteration.deferred


class _Alteration:
    """One request on its way through the queue of changes."""

    def __init__(self, broker: "Broker", request: AlterClientQuotasRequest) -> None:
        self.deferred = Deferred()
        self._broker = broker
        self._request = request
        self._outcomes: list[KafkaError | None] = []

    def plan(self) -> Sequence[Change]:
        changes: list[Change] = []
        self._outcomes = []
        seen: set[Entity] = set()
        for entry in self._request.entries:
            try:
                change = self._plan_one(entry, seen, len(changes))
            except KafkaError as problem:
                self._outcomes.append(problem)
            else:
                self._outcomes.append(None)
                if change is not None:
                    changes.append(change)
        return [] if self._request.validate_only else changes

    def _plan_one(self, entry: EntryData, seen: set[Entity], planned: int) -> Change | None:
        """None if nothing changes."""
        entity = entity_of([(part.entity_type, part.entity_name) for part in entry.entity])
        if entity in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity.parts}")
        seen.add(entity)
        image = self._broker.image
        config = entity.config_in(image)
        becomes = altered(entity, config, [(op.key, None if op.remove else op.value) for op in entry.ops])
        if becomes == config:
            return None
        known = len(image.user_configs) + len(image.client_configs) + len(image.address_configs)
        if not entity.is_known_in(image) and known + planned >= ENTITIES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"There are configs of {ENTITIES_MAX} users and clients already"
            )
        return entity.configured(becomes)

    def done(self, error: KafkaError | None) -> None:
        results = [
            EntryResult(
                error_code=int(problem.code) if problem is not None else 0,
                error_message=problem.message if problem is not None else None,
                entity=entry.entity,
            )
            for entry, problem in (
                (entry, outcome or error) for entry, outcome in zip(self._request.entries, self._outcomes, strict=True)
            )
        ]
        self.deferred.complete(AlterClientQuotasResponse(throttle_time_ms=0, entries=results))
