"""Admin calls about client quotas: how much users, clients and addresses may do. No state.

An entity is made of parts, of types `user`, `client-id` and `ip`: `(("user", "alice"), ("client-id", None))` is alice
with any client that has no quota of its own. None as a name stands for the default of its type.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.errors import KafkaError
from headwater.client.admin.call_routing import failure, of_any, of_controller
from headwater.client.errors import raise_for
from headwater.client.session import Session
from headwater.wire.messages import alter_client_quotas as alter_wire
from headwater.wire.messages import describe_client_quotas as describe_wire

QuotaEntity = tuple[tuple[str, str | None], ...]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ANY_NAME: Final = "*"  # in a filter: every entity that has a part of the type

_EXACT, _DEFAULT, _ANY = 0, 1, 2


def quota_entity(*, user: str | None = "", client_id: str | None = "", ip: str | None = "") -> QuotaEntity:
    """`quota_entity(user="alice", client_id=None)`: the parts that are named; None for the default of a type."""
    parts = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
    return tuple((kind, name) for kind, name in parts if name != "")


async def describe_client_quotas(
    session: Session, parts: Iterable[tuple[str, str | None]] = (), *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """The quotas of entities with these parts: a name, None for the default, ANY_NAME for any. Without parts: all.

    `strict` leaves out entities that have other parts besides.
    """
    request = describe_wire.DescribeClientQuotasRequest(
        components=[
            describe_wire.ComponentData(
                entity_type=kind,
                match_type=_DEFAULT if name is None else _ANY if name == ANY_NAME else _EXACT,
                match=None if name is None or name == ANY_NAME else name,
            )
            for kind, name in parts
        ],
        strict=strict,
    )
    response = await of_any(session, request, describe_wire.DescribeClientQuotasResponse)
    raise_for(response.error_code, response.error_message)
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            each.key: each.value for each in entry.values
        }
        for entry in response.entries or ()
    }


async def alter_client_quotas(
    session: Session, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
) -> dict[QuotaEntity, KafkaError | None]:
    """Sets quotas (`producer_byte_rate` and the like) of entities; None takes one away."""
    request = alter_wire.AlterClientQuotasRequest(
        entries=[
            alter_wire.EntryData(
                entity=[alter_wire.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[
                    alter_wire.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops.items()
                ],
            )
            for entity, ops in changes.items()
        ],
        validate_only=validate_only,
    )
    response = await of_controller(
        session,
        request,
        alter_wire.AlterClientQuotasResponse,
        lambda answer: [each.error_code for each in answer.entries],
    )
    by_parts = {frozenset(entity): entity for entity in changes}
    outcome: dict[QuotaEntity, KafkaError | None] = {}
    for entry in response.entries:
        parts = tuple((part.entity_type, part.entity_name) for part in entry.entity)
        outcome[by_parts.get(frozenset(parts), parts)] = failure(entry.error_code, entry.error_message)
    return outcome
