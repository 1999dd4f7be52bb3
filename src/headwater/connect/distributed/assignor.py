"""Who runs what: connectors and tasks spread over the workers of a group. Pure.

Incremental and cooperative: a worker keeps what it has, unless it has too much. What is to move is taken away in one
round and given to another worker in the next, so that nothing runs twice. What a worker had that is gone (`Departed`)
waits for it to come back, for `scheduled.rebalance.max.delay.ms`; a new worker gets it at once, since it is likely the
same one after its restart. While something waits, nothing is moved. A connector counts as the task with the number -1.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.connect.runtime.task import TaskId

CONNECTOR: Final = -1
Resources = frozenset[TaskId]


@dataclass(frozen=True, slots=True)
class Departed:
    """What the workers that are gone had, and until when it waits for them."""

    resources: Resources
    until_ms: int


@dataclass(frozen=True, slots=True)
class Memory:
    """What a leader knows from the round before; an empty one after it was elected."""

    assigned: Mapping[str, Resources] = field(default_factory=dict)
    departed: Departed | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's. `revoked` is what it has and must stop; the rest of what it has is in `assigned`."""

    assigned: Resources
    revoked: Resources


@dataclass(frozen=True, slots=True)
class Decision:
    shares: Mapping[str, Share]
    memory: Memory
    delay_ms: int  # after which the group is to be balanced again; 0: no need


def assign(
    held: Mapping[str, Resources], configured: Iterable[TaskId], memory: Memory, now_ms: int, delay_max_ms: int
) -> Decision:
    """`held`: what each worker runs, as it says itself."""
    wanted = frozenset(configured)
    twice = _held_twice(held)
    kept = {member: set((resources & wanted) - twice) for member, resources in held.items()}
    departed = _departed(held, wanted, memory, now_ms, delay_max_ms)
    waiting = departed.resources if departed is not None else frozenset()
    free = wanted - waiting - twice - {each for resources in kept.values() for each in resources}
    for group in (_connectors, _tasks):
        if departed is None:
            _take_surplus(kept, group(wanted - twice))
        _give(kept, group(free))
    shares = {
        member: Share(frozenset(resources), held[member] - frozenset(resources)) for member, resources in kept.items()
    }
    assigned = {member: share.assigned for member, share in shares.items()}
    return Decision(shares, Memory(assigned, departed), 0 if departed is None else departed.until_ms - now_ms)


def _departed(
    held: Mapping[str, Resources], wanted: Resources, memory: Memory, now_ms: int, delay_max_ms: int
) -> Departed | None:
    before = memory.departed
    if memory.assigned and any(member not in memory.assigned for member in held):
        return None  # somebody new: it takes what is there
    gone = {each for member, resources in memory.assigned.items() if member not in held for each in resources}
    if before is not None:
        gone |= before.resources
    lost = frozenset(gone & wanted) - {each for resources in held.values() for each in resources}
    until_ms = before.until_ms if before is not None else now_ms + delay_max_ms
    return Departed(lost, until_ms) if lost and until_ms > now_ms else None


def _held_twice(held: Mapping[str, Resources]) -> Resources:
    """Whoever has such a thing must stop it first: nobody knows whose it is."""
    seen: set[TaskId] = set()
    twice: set[TaskId] = set()
    for resources in held.values():
        twice |= resources & seen
        seen |= resources
    return frozenset(twice)


def _connectors(resources: Iterable[TaskId]) -> list[TaskId]:
    return sorted(each for each in resources if each.number == CONNECTOR)


def _tasks(resources: Iterable[TaskId]) -> list[TaskId]:
    return sorted(each for each in resources if each.number != CONNECTOR)


def _take_surplus(kept: dict[str, set[TaskId]], kind: list[TaskId]) -> None:
    """No worker has two more than another after this and `_give`, and one next round."""
    each, more = divmod(len(kind), len(kept))
    mine = {member: sorted(resources & set(kind)) for member, resources in kept.items()}
    ranked = sorted(mine, key=lambda member: (-len(mine[member]), member))
    for place, member in enumerate(ranked):
        quota = each + (1 if place < more else 0)
        kept[member] -= set(mine[member][quota:])


def _give(kept: dict[str, set[TaskId]], kind: list[TaskId]) -> None:
    """To whoever has the least of this kind, then the least of all."""
    connectors = bool(kind) and kind[0].number == CONNECTOR
    load = {
        member: [sum((each.number == CONNECTOR) == connectors for each in resources), len(resources)]
        for member, resources in kept.items()
    }
    for resource in kind:
        member = min(load, key=lambda each: (*load[each], each))
        kept[member].add(resource)
        load[member][0] += 1
        load[member][1] += 1
