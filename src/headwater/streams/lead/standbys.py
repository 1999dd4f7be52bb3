"""Which slots keep copies of other slots' tasks, and who processes a task while its new owner is still behind. Pure.

A *place* is where a slot keeps state: a machine and a directory there, `<host>:<directory>`. Slots in one place share
what lies there: a task that goes from one to the other goes on at once, and a copy beside the original would be of no
use. So a copy is never in its owner's place, and there is one in a place at most. A *lag* is how many offsets of its
changelogs a copy does not have yet.

* A lost task goes to a copy within the acceptable lag; else to where its state lies on disk;
  else to the copy that is least behind.
* A task whose owner lives and whose target is elsewhere stays; its target warms up a copy, of few tasks at a time. When
  that is within the acceptable lag the task moves, once. Stateless tasks move at once.
* Standby copies are on distinct hosts as far as there are so many; those that are there stay unless that needs another;
  who has
  state of the task already is preferred, then who has the fewest copies.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

WARMUPS_MAX: Final = 2  # at a time, where nobody says otherwise


@dataclass(frozen=True, slots=True)
class Copies:
    """What is known of where state lies. `lags`: slot -> task -> how far its copy is behind; `states`: slot -> tasks
    with state on its disk, however old.
    """

    places: Mapping[int, str]
    lags: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    states: Mapping[int, Collection[str]] = field(default_factory=dict)
    last_places: Mapping[str, str] = field(default_factory=dict)  # task -> where its last owner kept it
    stateful: Collection[str] = ()
    acceptable_lag: int = 0

    def lag(self, task: str, slot: int) -> int | None:
        """Of the copy in the slot's place."""
        place = self.places[slot]
        lags = [told[task] for each, told in self.lags.items() if self.places.get(each) == place and task in told]
        return min(lags, default=None)

    def is_warm(self, task: str, slot: int) -> bool:
        lag = self.lag(task, slot)
        return lag is not None and lag <= self.acceptable_lag

    def preferred(self, tasks: Iterable[str]) -> dict[int, set[str]]:
        """Slot -> tasks that should rather go there than elsewhere if nobody has them."""
        found: dict[int, set[str]] = {slot: set() for slot in self.places}
        for task in tasks:
            warm = [slot for slot in self.places if self.is_warm(task, slot)]
            for slot in warm or [slot for slot in self.places if self.has_some(task, slot)]:
                found[slot].add(task)
        return found

    def has_some(self, task: str, slot: int) -> bool:
        if task in self.states.get(slot, ()) or self.lag(task, slot) is not None:
            return True
        return task in self.stateful and self.is_last_place(task, slot)

    def is_last_place(self, task: str, slot: int) -> bool:
        return bool(self.places[slot]) and self.places[slot] == self.last_places.get(task)


def owners_for_now(target: Mapping[str, int], owners: Mapping[str, int], copies: Copies) -> dict[str, int]:
    """Each task's slot at the moment: its target, unless another can process it while the target is still behind."""
    return {
        task: slot if task not in copies.stateful else _owner_for_now(task, slot, owners.get(task), copies)
        for task, slot in target.items()
    }


def _owner_for_now(task: str, target: int, owner: int | None, copies: Copies) -> int:
    if owner in copies.places:
        assert owner is not None
        can_move = copies.places[owner] == copies.places[target] or copies.is_warm(task, target)
        return target if can_move else owner
    if copies.is_warm(task, target):
        return target
    lags = {slot: told[task] for slot, told in copies.lags.items() if slot in copies.places and task in told}
    best = min(lags, key=lambda slot: (lags[slot], slot), default=None)
    if best is None:
        return target
    return target if copies.is_last_place(task, target) and lags[best] > copies.acceptable_lag else best


def assign_standbys(
    owners: Mapping[str, int],
    targets: Mapping[str, int],
    before: Mapping[str, Collection[int]],
    count: int,
    copies: Copies,
    warmups_max: int = WARMUPS_MAX,
) -> dict[str, tuple[int, ...]]:
    """Of each stateful task the slots that keep a copy: its target if that is still behind and its turn has come, and
    up to `count` others. `warmups_max`: how many tasks' targets warm up at a time.
    """
    load = dict.fromkeys(copies.places, 0)
    warming = _warming(owners, targets, before, copies)[:warmups_max]
    found: dict[str, tuple[int, ...]] = {}
    for task in sorted(set(copies.stateful) & owners.keys()):
        owner = owners[task]
        chosen: list[int] = []
        if task in warming:
            chosen.append(targets[task])
        for _ in range(count):
            slot = _next_standby(task, owner, chosen, before.get(task, ()), load, copies)
            if slot is None:
                break
            chosen.append(slot)
        for slot in chosen:
            load[slot] += 1
        found[task] = tuple(sorted(chosen))
    return found


def _warming(
    owners: Mapping[str, int], targets: Mapping[str, int], before: Mapping[str, Collection[int]], copies: Copies
) -> list[str]:
    """Tasks whose targets are behind, those first that warm up already:
    a copy that is begun is not left for another.
    """
    elsewhere = [
        task
        for task in set(copies.stateful) & owners.keys()
        if copies.places[targets[task]] != copies.places[owners[task]]
    ]
    return sorted(elsewhere, key=lambda task: (targets[task] not in before.get(task, ()), task))


def _next_standby(
    task: str, owner: int, chosen: list[int], before: Collection[int], load: Mapping[int, int], copies: Copies
) -> int | None:
    used = {copies.places[slot] for slot in (owner, *chosen)}
    hosts = {host_of(place) for place in used}
    open_slots = [slot for slot, place in copies.places.items() if place not in used]
    return min(
        open_slots,
        key=lambda slot: (
            host_of(copies.places[slot]) in hosts,
            slot not in before,
            not copies.has_some(task, slot),
            load[slot],
            slot,
        ),
        default=None,
    )


def host_of(place: str) -> str:
    return place.partition(":")[0]
