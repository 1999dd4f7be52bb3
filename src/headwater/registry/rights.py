"""What each call of the registry needs: a table from calls to rights on Kafka's topics and on the cluster. Pure, but
for asking the caller.

A subject is its topic: `orders-key` and `orders-value` are `orders`, in whatever context; any other subject is the
topic of its whole name, whether there is one or not. A name that no topic could have, and a context by itself, are the
cluster's business. Schemas that a caller may not see are absent from lists, and not found by id.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from headwater.base.acls import Operation
from headwater.registry.decisions.documents import SchemaRequest
from headwater.registry.subjects import beside, normalized, parse_subject
from headwater.web.callers import Caller, Need, cluster, topic
from headwater.web.messages import Request
from headwater.web.rights import require

Guard: TypeAlias = Callable[[Request], tuple[Need, ...]]

_SUFFIXES: Final = ("-key", "-value")


def topic_of(subject: str) -> str:
    """Empty for a context by itself."""
    name = parse_subject(subject).name
    for suffix in _SUFFIXES:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix)
    return name


def of_subject(operation: Operation, subject: str) -> Need:
    name = topic_of(subject)
    if name:
        return topic(operation, name)
    return cluster(Operation.DESCRIBE if operation is Operation.DESCRIBE else Operation.ALTER)


# Guards: any login; rights on the subject of the path; rights on the cluster, or on a subject where the path has one.


def any_login(_request: Request) -> tuple[Need, ...]:
    """Also for listings, which leave out what the caller may not see."""
    return ()


def subject(operation: Operation) -> Guard:
    return lambda request: (of_subject(operation, normalized(request.parameters["subject"])),)


def of_cluster(operation: Operation) -> Guard:
    return lambda _request: (cluster(operation),)


def registration(request: Request) -> tuple[Need, ...]:
    """By force, a read-only mode is passed over: that is a change of its settings."""
    name = normalized(request.parameters["subject"])
    needs = (of_subject(Operation.WRITE, name),)
    return (*needs, of_subject(Operation.ALTER_CONFIGS, name)) if request.query.boolean("force") else needs


READ: Final = subject(Operation.DESCRIBE)
DELETE: Final = subject(Operation.DELETE)
READ_SETTINGS: Final = READ
CHANGE_SETTINGS: Final = subject(Operation.ALTER_CONFIGS)
READ_ALL_SETTINGS: Final = of_cluster(Operation.DESCRIBE)
CHANGE_ALL_SETTINGS: Final = of_cluster(Operation.ALTER)


def guarded(guard: Guard, answer: Callable[[Request], Awaitable[object]]) -> Callable[[Request], Awaitable[object]]:
    async def checked(request: Request) -> object:
        if not request.caller.may_everything:
            await require(request.caller, *guard(request))
        return await answer(request)

    return checked


async def require_references(caller: Caller, own_subject: str, wanted: SchemaRequest) -> None:
    """A schema that refers to others is read with them: the caller must be allowed to see those."""
    names = {beside(own_subject, each.subject) for each in wanted.content.references}
    await require(caller, *(of_subject(Operation.DESCRIBE, each) for each in sorted(names)))


async def visible_of(caller: Caller, subjects: Iterable[str]) -> Callable[[str], bool]:
    """Which of them the caller may see."""
    if caller.may_everything:
        return lambda _subject: True
    needs = {each: of_subject(Operation.DESCRIBE, each) for each in subjects}
    have = await caller.allowed(needs.values())
    return lambda each: each in needs and needs[each] in have
