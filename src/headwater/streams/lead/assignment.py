"""Which slot has which task: balanced, sticky, with as few moves as that allows. Pure.

* Balanced: the slots' numbers of tasks differ by one at most.
* Sticky: among all balanced ways, as many tasks as possible stay where they are.
* What must move, or is nobody's, goes where its state lies, if there is room; else to the slot that has the fewest
  tasks of its
  sub-topology, so that the work of each sub-topology is spread, too.

Tasks are names, `<sub-topology>_<partition>`; slots are numbers. The same arguments give the same answer.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain


def assign(
    tasks: Iterable[str],
    slots: Collection[int],
    owners: Mapping[str, int],
    states: Mapping[int, Collection[str]] | None = None,
    load: Mapping[int, int] | None = None,
) -> dict[str, int]:
    """Each task's slot. `owners`: where tasks are now; `states`: tasks whose state a slot has; `load`: of slots, by
    other applications.
    """
    orders = {task: _order(task) for task in tasks}
    wanted = sorted(orders, key=orders.__getitem__)
    if not slots:
        return {}
    kept = {slot: _Share() for slot in slots}
    for task in wanted:
        if owners.get(task) in kept:
            kept[owners[task]].add(task, orders[task][0])
    quotas = _quotas(len(wanted), kept, load or {})
    for slot, mine in kept.items():
        while len(mine) > quotas[slot]:
            mine.drop_one()
    placed = {task: slot for slot, mine in kept.items() for task in mine.tasks()}
    free = [task for task in wanted if task not in placed]
    has = states or {}
    free.sort(key=lambda task: not any(task in has.get(slot, ()) for slot in kept))  # stable: by name beyond that
    for task in free:
        sub = orders[task][0]
        open_slots = [slot for slot in kept if len(kept[slot]) < quotas[slot]]
        chosen = min(open_slots, key=lambda slot: (task not in has.get(slot, ()), *kept[slot].crowd(sub), slot))
        kept[chosen].add(task, sub)
        placed[task] = chosen
    return placed


class _Share:
    """The tasks of a slot, by sub-topology. There may be thousands: nothing here looks at all of them for one."""

    def __init__(self) -> None:
        self._by_sub: dict[int, list[str]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def tasks(self) -> Iterable[str]:
        return chain.from_iterable(self._by_sub.values())

    def add(self, task: str, sub: int) -> None:
        self._by_sub.setdefault(sub, []).append(task)
        self._count += 1

    def drop_one(self) -> None:
        """Of the sub-topology that has the most tasks here, the last one."""
        self._by_sub[max(self._by_sub, key=lambda sub: (len(self._by_sub[sub]), sub))].pop()
        self._count -= 1

    def crowd(self, sub: int) -> tuple[int, int]:
        return len(self._by_sub.get(sub, ())), self._count


def _quotas(count: int, kept: Mapping[int, _Share], load: Mapping[int, int]) -> dict[int, int]:
    """How many each slot shall have. One more goes to those who have the most, so that they keep them; then to the
    idle.
    """
    share, more = divmod(count, len(kept))
    order = sorted(kept, key=lambda slot: (-len(kept[slot]), load.get(slot, 0), slot))
    return {slot: share + (place < more) for place, slot in enumerate(order)}


def _order(task: str) -> tuple[int, int]:
    sub, _, partition = task.partition("_")
    return int(sub), int(partition)
