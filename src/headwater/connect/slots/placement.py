"""Which slot runs which task. Pure: events in, actions out; owned by `task_slots`.

A task is known by a key for as long as the worker wants it, and by a run for as long as it stays in one slot: whatever
is said about an earlier run does not count. Shared tasks go to the slot that has the fewest; a task with
`task.isolation=slot` has one alone, and one slot always stays for the others. Slots that come get their share: a task
moves when it evens out a difference of two, by ending where it is before it begins elsewhere.

    WAITING --start--> RUNNING --stop--> MOVING --ended--> WAITING       a slot that goes: WAITING
                          |     \\--stop--> STOPPING --ended--> forgotten
                          \\--ended by itself--> OVER               it has failed, and stays so until it is unwanted

A slot is OPEN, or RETIRING: its lease ends, it gets nothing any more, and what ends there begins again elsewhere.
"""

from dataclasses import dataclass
from enum import Enum, auto


class Phase(Enum):
    WAITING = auto()
    RUNNING = auto()
    MOVING = auto()
    STOPPING = auto()
    OVER = auto()


@dataclass(slots=True)
class Placed:
    key: int
    isolated: bool
    phase: Phase = Phase.WAITING
    slot: int | None = None
    run: int = 0  # the one that counts; 0: none
    target: int | None = None  # of one that moves

    @property
    def is_there(self) -> bool:
        return self.phase in (Phase.RUNNING, Phase.MOVING, Phase.STOPPING)


@dataclass(slots=True)
class OpenSlot:
    retiring: bool = False
    reserved_for: int | None = None  # the key of a task that is alone there, or will be


@dataclass(frozen=True, slots=True)
class Start:
    key: int
    run: int
    slot: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The task is to end where it is; `ended` or `left` follows."""

    key: int
    run: int
    slot: int


@dataclass(frozen=True, slots=True)
class Lost:
    """The task ran in a slot that is gone, and waits."""

    key: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A task that is not wanted any more has ended: nothing more is said of it."""

    key: int


Action = Start | Stop | Lost | Finished


class Placement:
    def __init__(self) -> None:
        self._tasks: dict[int, Placed] = {}  # in the order in which they came
        self._slots: dict[int, OpenSlot] = {}
        self._runs = 0
        self._actions: list[Action] = []

    # Looking

    def is_current(self, key: int, run: int) -> bool:
        task = self._tasks.get(key)
        return task is not None and task.is_there and task.run == run

    def slot_of(self, key: int) -> tuple[int, int] | None:
        """The slot and the run of a task that is in one."""
        task = self._tasks.get(key)
        return (task.slot, task.run) if task is not None and task.is_there and task.slot is not None else None

    def in_slot(self, slot: int) -> list[int]:
        return [each.key for each in self._tasks.values() if each.is_there and each.slot == slot]

    @property
    def waiting(self) -> list[int]:
        return [each.key for each in self._tasks.values() if each.phase is Phase.WAITING]

    # Events

    def wanted(self, key: int, *, isolated: bool) -> list[Action]:
        assert key not in self._tasks
        self._tasks[key] = Placed(key, isolated)
        return self._settled()

    def unwanted(self, key: int) -> list[Action]:
        task = self._tasks.get(key)
        if task is None:
            return []
        if task.phase is Phase.RUNNING:
            self._stop(task, Phase.STOPPING)
        elif task.phase is Phase.MOVING:
            task.phase, task.target = Phase.STOPPING, None
        elif task.phase is not Phase.STOPPING:
            self._forget(task)
        return self._settled()

    def ended(self, key: int, run: int) -> list[Action]:
        task = self._tasks.get(key)
        if task is None or not task.is_there or task.run != run:
            return []
        if task.phase is Phase.STOPPING:
            self._forget(task)
        elif task.phase is Phase.MOVING or self._slots[self._place(task)].retiring:
            self._wait(task)
        else:
            task.phase, task.slot = Phase.OVER, None
            self._release(task)
        return self._settled()

    def joined(self, slot: int) -> list[Action]:
        """A slot, or another one under the number of one that is gone."""
        self._empty(slot)
        self._slots[slot] = OpenSlot()
        return self._settled()

    def retiring(self) -> list[Action]:
        """The lease of all slots that are there ends."""
        for each in self._slots.values():
            each.retiring, each.reserved_for = True, None
        return self._settled()

    def left(self, slot: int) -> list[Action]:
        self._empty(slot)
        return self._settled()

    # Inside

    def _place(self, task: Placed) -> int:
        assert task.slot is not None
        return task.slot

    def _stop(self, task: Placed, phase: Phase) -> None:
        task.phase = phase
        self._actions.append(Stop(task.key, task.run, self._place(task)))

    def _forget(self, task: Placed) -> None:
        del self._tasks[task.key]
        self._release(task)
        self._actions.append(Finished(task.key))

    def _release(self, task: Placed) -> None:
        for each in self._slots.values():
            if each.reserved_for == task.key:
                each.reserved_for = None

    def _wait(self, task: Placed) -> None:
        task.phase, task.slot, task.run = Phase.WAITING, None, 0

    def _empty(self, slot: int) -> None:
        if self._slots.pop(slot, None) is None:
            return
        for task in list(self._tasks.values()):
            if not task.is_there or task.slot != slot:
                continue
            if task.phase is Phase.STOPPING:
                self._forget(task)
            else:
                task.target = None
                self._wait(task)
                self._actions.append(Lost(task.key))

    def _settled(self) -> list[Action]:
        """What is to be done now that something has changed."""
        for task in list(self._tasks.values()):
            if task.phase is Phase.WAITING:
                self._find_slot(task)
        self._even_out()
        actions, self._actions = self._actions, []
        return actions

    def _shared(self) -> list[int]:
        return sorted(n for n, each in self._slots.items() if not each.retiring and each.reserved_for is None)

    def _load(self, slot: int) -> int:
        """Tasks that will be there when everything under way is done."""
        staying = sum(1 for each in self._tasks.values() if each.phase is Phase.RUNNING and each.slot == slot)
        return staying + sum(1 for each in self._tasks.values() if each.target == slot)

    def _find_slot(self, task: Placed) -> None:
        if task.isolated:
            self._find_own_slot(task)
            return
        shared = self._shared()
        if not shared:
            return
        meant, task.target = task.target, None
        self._start(task, meant if meant in shared else min(shared, key=self._load))

    def _find_own_slot(self, task: Placed) -> None:
        own = next((number for number, each in self._slots.items() if each.reserved_for == task.key), None)
        if own is None:
            shared = self._shared()
            if len(shared) < 2:  # the last one is everybody's
                return
            own = min(shared, key=lambda number: (self._load(number), -number))
            self._slots[own].reserved_for = task.key
            for other in self._tasks.values():
                if other.target == own:
                    other.target = None
                if other.phase is Phase.RUNNING and other.slot == own:
                    self._stop(other, Phase.MOVING)
        if not self.in_slot(own):
            self._start(task, own)

    def _start(self, task: Placed, slot: int) -> None:
        self._runs += 1
        task.phase, task.slot, task.run = Phase.RUNNING, slot, self._runs
        self._actions.append(Start(task.key, task.run, slot))

    def _even_out(self) -> None:
        shared = self._shared()
        while len(shared) > 1:
            loads = {number: self._load(number) for number in shared}
            most, least = max(shared, key=loads.__getitem__), min(shared, key=loads.__getitem__)
            if loads[most] - loads[least] < 2:
                return
            moved = [each for each in self._tasks.values() if each.phase is Phase.RUNNING and each.slot == most]
            if not moved:
                return
            moved[-1].target = least
            self._stop(moved[-1], Phase.MOVING)
