"""A caller must have what a request needs, or is refused."""

from collections.abc import Callable
from typing import Final

from headwater.web.callers import Caller, Need
from headwater.web.messages import HttpError

FORBIDDEN: Final = 40301


async def require(caller: Caller, *needs: Need, told: Callable[[Need], str] = str) -> None:
    """Raises HttpError 403 unless the caller has all of them. `told`: how the one that is missing is named."""
    if caller.may_everything or not needs:
        return
    have = await caller.allowed(needs)
    missing = next((need for need in needs if need not in have), None)
    if missing is not None:
        raise HttpError(403, f"User {caller.name!r} is denied {told(missing)}", FORBIDDEN)
