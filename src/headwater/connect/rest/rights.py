"""What each call of Connect needs, as rights on Kafka's groups and on the cluster. Pure, but for asking the caller.

A connector is the group `connect-<name>`, which a sink's consumers are in. Who may DESCRIBE it sees the connector, who
may READ it starts and stops it, who may DELETE it forgets its offsets. To make a connector or to change its config
needs ALTER on the cluster: a connector acts with the rights of the worker, and reads what the worker can.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from headwater.base.acls import Operation
from headwater.web.callers import Caller, Need, cluster, group
from headwater.web.messages import Request, Response
from headwater.web.rights import require

Guard: TypeAlias = Callable[[Request], tuple[Need, ...]]
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def group_of(connector: str) -> str:
    return f"connect-{connector}"


def any_login(_request: Request) -> tuple[Need, ...]:
    """Also for the listing, which leaves out what the caller may not see."""
    return ()


def _connector(operation: Operation) -> Guard:
    return lambda request: (group(operation, group_of(request.parameters["connector"])),)


def _cluster(operation: Operation) -> Guard:
    return lambda _request: (cluster(operation),)


SEE: Final = _connector(Operation.DESCRIBE)
OPERATE: Final = _connector(Operation.READ)
FORGET: Final = _connector(Operation.DELETE)
SEE_WORKER: Final = _cluster(Operation.DESCRIBE)
CHANGE: Final = _cluster(Operation.ALTER)


def guarded(guard: Guard, handler: Handler) -> Handler:
    async def checked(request: Request) -> Response:
        if not request.caller.may_everything:
            await require(request.caller, *guard(request))
        return await handler(request)

    return checked


async def seen(caller: Caller, names: Iterable[str]) -> list[str]:
    """Those of the connectors that the caller may see."""
    if caller.may_everything:
        return list(names)
    needs = {name: group(Operation.DESCRIBE, group_of(name)) for name in names}
    have = await caller.allowed(needs.values())
    return [name for name, need in needs.items() if need in have]
