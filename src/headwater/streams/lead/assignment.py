"""Which slot has which task: balanced, sticky, with as few moves as that allows. Pure.

* Balanced: the slots' numbers of tasks differ by one at most.
* Sticky: among all balanced ways, as many tasks as possible stay where they are.
* What must move, or is nobody's, goes where its state lies, if there is room; else to the slot that has the fewest
  tasks of its
  sub-topology, so that the work of each sub-topology is spread, too.

Tasks are names, `<sub-topology>_<partition>`; slots are numbers. The same arguments give the same answer.
"""

from collections.abc import Collection, Iterable, Mapping


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
    wanted = sorted(tasks, key=_order)
    if not slots:
        return {}
    kept: dict[int, list[str]] = {slot: [] for slot in slots}
    for task in wanted:
        if owners.get(task) in kept:
            kept[owners[task]].append(task)
    quotas = _quotas(len(wanted), kept, load or {})
    for slot, mine in kept.items():
        while len(mine) > quotas[slot]:
            mine.remove(_dispensable(mine))
    placed = {task: slot for slot, mine in kept.items() for task in mine}
    free = [task for task in wanted if task not in placed]
    has = states or {}
    free.sort(key=lambda task: not any(task in has.get(slot, ()) for slot in kept))  # stable: by name beyond that
    for task in free:
        open_slots = [slot for slot in kept if len(kept[slot]) < quotas[slot]]
        chosen = min(open_slots, key=lambda slot: (task not in has.get(slot, ()), *_crowd(task, kept[slot]), slot))
        kept[chosen].append(task)
        placed[task] = chosen
    return placed


def _quotas(count: int, kept: Mapping[int, list[str]], load: Mapping[int, int]) -> dict[int, int]:
    """How many each slot shall have. One more goes to those who have the most, so that they keep them; then to the
    idle.
    """
    share, more = divmod(count, len(kept))
    order = sorted(kept, key=lambda slot: (-len(kept[slot]), load.get(slot, 0), slot))
    return {slot: share + (place < more) for place, slot in enumerate(order)}


def _dispensable(mine: list[str]) -> str:
    """Of the sub-topology that has the most tasks here, the last one."""
    counts: dict[int, int] = {}
    for task in mine:
        counts[_order(task)[0]] = counts.get(_order(task)[0], 0) + 1
    return max(mine, key=lambda task: (counts[_order(task)[0]], _order(task)))


def _crowd(task: str, mine: list[str]) -> tuple[int, int]:
    sub = _order(task)[0]
    return sum(_order(other)[0] == sub for other in mine), len(mine)


def _order(task: str) -> tuple[int, int]:
    sub, _, partition = task.partition("_")
    return int(sub), int(partition)
