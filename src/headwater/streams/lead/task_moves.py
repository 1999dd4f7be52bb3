"""Who has which task of an application, and when it may go to another slot. Pure: events in, what to do out.

Invariant: a task is granted to a slot only if nobody else may write its results. Whoever had it has said that it is
committed and released (`owned` without it, and with no earlier grant of it unanswered; `released`), or its producer id
has been taken anew (`fenced`). So of the slots that are not fenced, at most one has a task. And of the slots that keep
state in one place, at most one has a task's state open, be it as its owner or as a standby, which writes nothing but
its copy (`standbys`).

Slots are known by their number; a slot that comes again under a number is another *life* of it, and what an earlier one
still says counts for nothing. While slots are expected (at the start, and between two leases) free tasks wait for them,
but for no more than are surely there, and not longer than until a given time. Owned by the thread of the application's
lead.

A move that has begun goes on: from when its owner is told to release a task, it belongs to where it goes, until it is
granted there, or one of the two is gone. Lags change with every report, so without that the owner would be told now to
release it and now to keep it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from headwater.streams.lead.assignment import assign
from headwater.streams.lead.standbys import WARMUPS_MAX, Copies, assign_standbys, owners_for_now

_ACCEPTABLE_LAG = 10_000


@dataclass(frozen=True, slots=True)
class Grant:
    """Tell the slot all tasks that it shall have, and all that it shall keep a copy of. `number` is higher than any
    before.
    """

    slot: int
    life: int
    number: int
    tasks: tuple[str, ...]
    standbys: tuple[str, ...] = ()


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
    place: str = ""
    opened: set[str] = field(default_factory=set)  # it says that it has these
    unanswered: list[Grant] = field(default_factory=list)  # it may act on each of these, one after the other
    told: tuple[tuple[str, ...], tuple[str, ...]] | None = None  # the last one: tasks, standbys
    copied: set[str] = field(default_factory=set)  # it says that it keeps copies of these
    lags: dict[str, int] = field(default_factory=dict)  # of those whose lag it knows

    @property
    def granted(self) -> set[str]:
        """What it may have now, or may still open."""
        return self.opened.union(*(grant.tasks for grant in self.unanswered))

    @property
    def held(self) -> set[str]:
        """Tasks whose state it may have open."""
        return self.granted.union(self.copied, *(grant.standbys for grant in self.unanswered))


class TaskMoves:
    def __init__(
        self,
        tasks: Iterable[str],
        load: Callable[[], Mapping[int, int]] = dict,
        *,
        stateful: Iterable[str] = (),
        standbys: int = 0,
        acceptable_lag: int = _ACCEPTABLE_LAG,
        warmups_max: int = WARMUPS_MAX,
    ) -> None:
        """`stateful`: tasks with changelogs. `standbys`: how many copies there shall be of each, beside its owner's.
        `warmups_max`: how many tasks warm up elsewhere at a time.
        """
        self.tasks = tuple(tasks)
        self._load = load
        self._stateful = frozenset(stateful)
        self._standby_count = standbys
        self._acceptable_lag = acceptable_lag
        self._warmups_max = warmups_max
        self._standbys: dict[str, tuple[int, ...]] = {}  # as they were decided last
        self._last_place: dict[str, str] = {}
        self._slots: dict[int, _Slot] = {}
        self._lost: dict[tuple[int, int], set[str]] = {}  # (slot, life) -> what it may still write
        self._last_owner: dict[str, int] = {}
        self._moving: dict[
            str, tuple[int, int]
        ] = {}  # task -> slot and life that get it once its owner has released it
        self._grant = 0
        self._expected: dict[int, int] = {}  # slot -> its life until now, which does not count
        self._expected_until_ms = 0
        self._enough = 0
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

    def expect(self, slots: Iterable[int], until_ms: int, enough: int | None = None) -> None:
        """These slots will come, or come again: free tasks wait for them, or for `enough` of them, whichever these are.
        The others may be waiting for an executor.
        """
        self._expected = {slot: self._slots[slot].life if slot in self._slots else -1 for slot in slots}
        self._expected_until_ms = until_ms
        self._enough = len(self._expected) if enough is None else min(enough, len(self._expected))

    def ready(self, slot: int, life: int, states: Iterable[str], now_ms: int, place: str = "") -> list[Action]:
        """`place`: the host and the directory in which it keeps state."""
        actions = self._lose(slot) if slot in self._slots else []
        self._slots[slot] = _Slot(life, frozenset(states), place)
        return actions + self._grants(now_ms)

    def owned(
        self, slot: int, life: int, grant: int, tasks: Iterable[str], now_ms: int, standbys: Iterable[str] = ()
    ) -> list[Action]:
        """The slot has followed a grant. Those before it are settled, too; those after it are still to come."""
        if not self.is_current(slot, life):
            return []
        mine = self._slots[slot]
        mine.opened, mine.copied = set(tasks), set(standbys)
        mine.unanswered = [each for each in mine.unanswered if each.number > grant]
        return self._grants(now_ms)

    def lags(self, slot: int, life: int, lags: Mapping[str, int], now_ms: int) -> list[Action]:
        """How far the copies are behind that the slot keeps."""
        if not self.is_current(slot, life):
            return []
        self._slots[slot].lags = dict(lags)
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
        come = sum(slot in self._slots and self._slots[slot].life != life for slot, life in self._expected.items())
        if come >= self._enough or now_ms >= self._expected_until_ms:
            self._expected = {}
        return bool(self._expected)

    def _grants(self, now_ms: int) -> list[Action]:
        if self._closed or self._waits(now_ms):
            return []
        owners = self._decide()
        taken = {task: number for number, slot in self._slots.items() for task in slot.granted}
        barred = set().union(*self._lost.values()) if self._lost else set()
        actions: list[Action] = []
        for number, slot in sorted(self._slots.items()):
            elsewhere = self._held_beside(number)
            mine = [task for task in self.tasks if owners.get(task) == number and task not in elsewhere]
            told = tuple(task for task in mine if taken.get(task, number) == number and task not in barred)
            copies = tuple(
                task
                for task in self.tasks
                if task not in told and task not in elsewhere and self._keeps(number, task, owners)
            )
            if (told, copies) == slot.told or (not told and not copies and slot.told is None):
                continue
            self._grant += 1
            grant = Grant(number, slot.life, self._grant, told, copies)
            slot.told = told, copies
            slot.unanswered.append(grant)
            for task in told:
                self._last_owner[task] = number
                self._last_place[task] = slot.place
            actions.append(grant)
        return actions

    def _decide(self) -> dict[str, int]:
        """Who shall have each task now. Also which slots keep copies."""
        copies = Copies(
            {number: slot.place for number, slot in self._slots.items()},
            {number: slot.lags for number, slot in self._slots.items()},
            {number: slot.states for number, slot in self._slots.items()},
            self._last_place,
            self._stateful,
            self._acceptable_lag,
        )
        before = self._owners_before()
        targets = assign(self.tasks, self._slots, before, copies.preferred(self.tasks), self._load())
        owners = owners_for_now(targets, before, copies)
        self._standbys = assign_standbys(
            owners, targets, self._standbys, self._standby_count, copies, self._warmups_max
        )
        self._moving = {
            task: (number, self._slots[number].life)
            for task, number in owners.items()
            if self._last_owner.get(task, number) != number and self._last_owner[task] in self._slots
        }
        return owners

    def _owners_before(self) -> dict[str, int]:
        """Who had each task last; of one that is on its way, who shall have it."""
        before = {task: number for task, number in self._last_owner.items() if self._still_in_place(task, number)}
        for task, (number, life) in self._moving.items():
            if self.is_current(number, life) and self._last_owner[task] in self._slots:
                before[task] = number
        return before

    def _still_in_place(self, task: str, number: int) -> bool:
        """False if the slot of that number is on another machine now: then it is none that has the task."""
        return number not in self._slots or self._slots[number].place == self._last_place.get(task)

    def _held_beside(self, number: int) -> set[str]:
        """Tasks whose state another slot of the same place may have open."""
        place = self._slots[number].place
        others = [slot for each, slot in self._slots.items() if each != number and slot.place == place]
        return set().union(*(slot.held for slot in others))

    def _keeps(self, number: int, task: str, owners: Mapping[str, int]) -> bool:
        """Whether it shall have a copy: as a standby, or until the task that comes to it is free."""
        slot = self._slots[number]
        return number in self._standbys.get(task, ()) or (
            owners.get(task) == number and task in slot.held - slot.granted
        )
