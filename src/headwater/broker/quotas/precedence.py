"""Which quota holds for a client of a user, and who shares it. Pure.

The most specific one that sets the key at all: of the user and the client id, of the user with any client, of the user;
then the same of the default user; then of the client id, and of any. What a default says is meant for each one: two
users below the default of users have a rate each. A quota of a user is shared by all of the user's clients, one of a
client id by all users of it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headwater.broker.quotas.entities import Entity

_DEFAULT: Final = ""


class ApplicableQuota(NamedTuple):
    """A bound, and whose rate is measured against it: None where the quota does not look at that."""

    bound: float
    user: str | None
    client_id: str | None
    is_made_up: bool = False  # the client id, which no quota names: clients may make up any number


def applicable_quota(
    table: Mapping[Entity, Mapping[str, float]], key: str, user: str, client_id: str
) -> ApplicableQuota | None:
    """`table` has the quotas of all entities; None if none of them holds."""
    for entity in (
        Entity(user, client_id),
        Entity(user, _DEFAULT),
        Entity(user),
        Entity(_DEFAULT, client_id),
        Entity(_DEFAULT, _DEFAULT),
        Entity(_DEFAULT),
        Entity(None, client_id),
        Entity(None, _DEFAULT),
    ):
        quotas = table.get(entity)
        bound = None if quotas is None else quotas.get(key)
        if bound is not None:
            return ApplicableQuota(
                bound,
                None if entity.user is None else user,
                None if entity.client_id is None else client_id,
                entity.client_id == _DEFAULT and client_id != _DEFAULT,
            )
    return None
