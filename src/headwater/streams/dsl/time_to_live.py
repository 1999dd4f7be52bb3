"""`ttl=` of stores: what it may be, and where it is refused."""

from headwater.base.errors import UserError
from headwater.streams.dsl.windows import Duration, milliseconds
from headwater.streams.stores.expiring import TTL_MS_MAX


def time_to_live(ttl: Duration | None) -> int | None:
    """In milliseconds; None: rows stay."""
    if ttl is None:
        return None
    found = milliseconds(ttl, "time to live")
    if not 0 < found <= TTL_MS_MAX:
        raise UserError(f"The time to live of a store is {found} ms", f"it must be from 1 to {TTL_MS_MAX} ms")
    return found


def refuse_ttl(name: str, ttl: Duration | None, what: str, why: str) -> None:
    if ttl is not None:
        raise UserError(f"The store {name} is {what} and has no ttl", why, "ttl= is for key-value stores")
