"""Who has which task of an application, and when it may go to another slot. Pure: events in, what to do out.

Invariant: a task is granted to a slot only if nobody else may write its results. Whoever had it has said that it is committed and released
(`owned` without it, and with no earlier grant of it unanswered; `released`), or its producer id has been taken anew (`fenced`). So of the slots that
are not fenced, at most one has a task.

Slots are known by their number; a slot that comes again under a number is another *life* of it, and what an earlier one still says counts for
nothing. While slots are expected (at the start, and between two leases) free tasks wait for them, but not longer than until a given
time. Owned by the thread of the application's lead.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headwater.streams.lead.assignment import assign


@dataclass(frozen=True, slots=True)
class Grant:
    """Tell the slot all tasks that it shall have. `number` is higher than any before."""

    slot: int
    life: int
    number: int
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Take the slot's producer id anew; then call `fenced`."""

    slot: int
    life: int


Action = Grant | Fence


@dataclass(slots=True)
class _Slot:
    life: int
    states: frozenset[str]
    opened: set[str] = field(default_factory=set)  # it says that it has these
    unanswered: list[Grant] = field(default_factory=list)  # it may act on each of these, one after the other
    told: tuple[str, ...] | None = None  # the last one

    @property
    def granted(self) -> set[str]:
        """What it may have now, or may still open."""
        return self.opened.union(*(grant.tasks for grant in self.unanswered))


class TaskMoves:
    def __init__(self, tasks: Iterable[str], load: Callable[[], Mapping[int, int]] = dict) -> None:
        self.tasks = tuple(tasks)
        self._load = load
        self._slots: dict[int, _Slot] = {}
        self._lost: dict[tuple[int, int], set[str]] = {}  # (slot, life) -> what it may still write
        self._last_owner: dict[str, int] = {}
        self._grant = 0
        self._expected: dict[int, int] = {}  # slot -> its life until now, which does not count
        self._expected_until_ms = 0
        self._closed = False

    # What is known

    def owner(self, task: str) -> int | None:
        """The slot that has it open."""
        return next((number for number, slot in self._slots.items() if task in slot.opened), None)

    @property
    def all_open(self) -> bool:
        return all(self.owner(task) is not None for task in self.tasks)

    def tasks_of(self, slot: int) -> list[str]:
        found = self._slots.get(slot)
        return sorted(found.opened) if found is not None else []

    @property
    def had_owner(self) -> set[str]:
        """Tasks that were granted to some slot."""
        return set(self._last_owner)

    def is_current(self, slot: int, life: int) -> bool:
        return slot in self._slots and self._slots[slot].life == life

    @property
    def slots(self) -> list[int]:
        return sorted(self._slots)

    @property
    def idle(self) -> bool:
        """Nobody may write anything."""
        return not self._lost and not any(slot.granted for slot in self._slots.values())

    # Events

    def expect(self, slots: Iterable[int], until_ms: int) -> None:
        """These slots will come, or come again: free tasks wait for them."""
        self._expected = {slot: self._slots[slot].life if slot in self._slots else -1 for slot in slots}
        self._expected_until_ms = until_ms

    def ready(self, slot: int, life: int, states: Iterable[str], now_ms: int) -> list[Action]:
        actions = self._lose(slot) if slot in self._slots else []
        self._slots[slot] = _Slot(life, frozenset(states))
        return actions + self._grants(now_ms)

    def owned(self, slot: int, life: int, grant: int, tasks: Iterable[str], now_ms: int) -> list[Action]:
        """The slot has followed a grant. Those before it are settled, too; those after it are still to come."""
        if not self.is_current(slot, life):
            return []
        mine = self._slots[slot]
        mine.opened = set(tasks)
        mine.unanswered = [each for each in mine.unanswered if each.number > grant]
        return self._grants(now_ms)

    def lost(self, slot: int, life: int, now_ms: int) -> list[Action]:
        """It does not answer, or gave up in the middle: nobody knows what it still writes."""
        if not self.is_current(slot, life):
            return []
        return self._lose(slot) + self._grants(now_ms)

    def released(self, slot: int, life: int, now_ms: int) -> list[Action]:
        """It has committed and let go of everything, and opens nothing any more."""
        if not self.is_current(slot, life):
            return []
        del self._slots[slot]
        return self._grants(now_ms)

    def close(self) -> None:
        """Nothing is granted any more."""
        self._closed = True

    def fenced(self, slot: int, life: int, now_ms: int) -> list[Action]:
        self._lost.pop((slot, life), None)
        return self._grants(now_ms)

    def unfenced(self) -> list[Fence]:
        """Those that are still to be fenced."""
        return [Fence(*key) for key in self._lost]

    def tick(self, now_ms: int) -> list[Action]:
        return self._grants(now_ms)

    # Decisions

    def _lose(self, slot: int) -> list[Action]:
        gone = self._slots.pop(slot)
        self._lost[slot, gone.life] = set(gone.granted)
        return [Fence(slot, gone.life)]

    def _waits(self, now_ms: int) -> bool:
        come = all(slot in self._slots and self._slots[slot].life != life for slot, life in self._expected.items())
        if come or now_ms >= self._expected_until_ms:
            self._expected = {}
        return bool(self._expected)

    def _grants(self, now_ms: int) -> list[Action]:
        if self._closed or self._waits(now_ms):
            return []
        states = {number: slot.states for number, slot in self._slots.items()}
        target = assign(self.tasks, self._slots, self._last_owner, states, self._load())
        taken = {task: number for number, slot in self._slots.items() for task in slot.granted}
        barred = set().union(*self._lost.values()) if self._lost else set()
        actions: list[Action] = []
        for number, slot in sorted(self._slots.items()):
            mine = [task for task in self.tasks if target.get(task) == number]
            told = tuple(task for task in mine if taken.get(task, number) == number and task not in barred)
            if told == slot.told or (not told and slot.told is None):
                continue
            self._grant += 1
            grant = Grant(number, slot.life, self._grant, told)
            slot.told = told
            slot.unanswered.append(grant)
            for task in told:
                self._last_owner[task] = number
            actions.append(grant)
        return actions
