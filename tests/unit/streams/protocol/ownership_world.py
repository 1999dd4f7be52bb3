"""A small world for the protocol of tasks: a coordinator, a changelog, a group, a disk, runs of an application, and
faults.

One task counts the records of one partition; its results must be 1, 2, 3, ... The runs execute the real generators of
`headwater.streams.protocol.task_ownership`. Every step of every run is one choice of a scheduler. Between any two steps
a run may crash, or be replaced while it lives on (a zombie), a transaction may time out, the answer to EndTxn may be
lost, the markers of a decided transaction may come late and one by one, the task may move to the run's other slot, a
disk may be lost. The lead may give up a slot that lives on: it fences it, and goes on with the other one.

`World.run` raises `Violation` when results, changelog, offsets or the state on disk are not what once each would give.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from headwater.streams.stores.state import Owner, StateFenced

Choose = Callable[[int], int]  # of so many options, the first is what would happen without faults
NOBODY = Owner(-1, -1)
SLOTS = ("slot-0", "slot-1")


class Violation(Exception):
    pass


class Fenced(Exception):
    """The epoch of the producer is over."""


class GivenUp(Exception):
    """The lead does not answer a slot that it has given up."""


class Wait(Exception):
    """The answer is not there yet: the step is tried again later."""


@dataclass
class Faults:
    """How many of each kind a run of the world may have."""

    crashes: int = 0
    zombies: int = 0
    timeouts: int = 0
    lost_answers: int = 0
    slow_markers: int = 0
    moves: int = 0
    lost_disks: int = 0
    lost_slots: int = 0


@dataclass
class Disk:
    value: int = 0
    position: int = 0
    owner: Owner = NOBODY


@dataclass
class Transaction:
    epoch: int = 0
    results: list[int] = field(default_factory=list)
    entries: list[int] = field(default_factory=list)  # places in the changelog
    offset: int | None = None
    markers: list[str] = field(default_factory=list)  # decided, and still to be written
    seen_epoch: int = -1  # of the last commit, for an EndTxn that comes again

    @property
    def is_open(self) -> bool:
        return not self.markers and (bool(self.entries) or self.offset is not None or bool(self.results))


class Cluster:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.member = 0
        self.run_number = 0
        self.offset = 0
        self.results: list[int] = []
        self.changelog: list[tuple[int, str]] = []  # value, and "open", "committed" or "aborted"
        self.transactions = {name: Transaction() for name in SLOTS}

    def abort(self, name: str) -> None:
        transaction = self.transactions[name]
        for place in transaction.entries:
            self.changelog[place] = (self.changelog[place][0], "aborted")
        self.transactions[name] = Transaction(transaction.epoch + 1)

    def commit(self, name: str) -> None:
        transaction = self.transactions[name]
        self.results += transaction.results
        transaction.results = []
        transaction.markers = ["changelog", "offsets"]
        if not self.faults.slow_markers:
            self.write_marker(name, "changelog")
            self.write_marker(name, "offsets")

    def write_marker(self, name: str, kind: str) -> None:
        transaction = self.transactions[name]
        transaction.markers.remove(kind)
        if kind == "offsets":
            if transaction.offset is not None:
                self.offset = transaction.offset
            transaction.offset = None
        else:
            for place in transaction.entries:
                self.changelog[place] = (self.changelog[place][0], "committed")
            transaction.entries = []

    def stable_end(self) -> int:
        return next((i for i, (_, status) in enumerate(self.changelog) if status == "open"), len(self.changelog))


class Process:
    """One run of the application: a lead and two slots, of which one has the task."""

    def __init__(self, world: "World", instead_of: "Process | None" = None) -> None:
        """`instead_of`: the run goes on without a slot of its, which may live on as that process."""
        self.world = world
        self.slot = SLOTS[0]
        self.run: Any = None
        self.producers: dict[str, Any] = {}
        self.opened = 0
        self.working = False  # it is the slot that does something, not the lead
        self.given_up = False
        self.alive = True
        self.done = False
        self.generation = 0
        self.claimed = Owner(-1, -1)
        self.value = self.position = 0  # what is pending, over the disk
        self.result: int | None = None
        self.next_offset = 0
        self.steps = self._main() if instead_of is None else self._go_on(instead_of)
        self.pending = next(self.steps)

    @property
    def disk(self) -> Disk:
        """Of the slot: each is on a machine of its own."""
        return self.world.disks[self.slot]

    def _main(self) -> Generator[Any, Any, None]:
        self.run = yield from self.world.protocol.start_steps(SLOTS)
        self.generation = self.run.member.generation
        self.producers = dict(self.run.producers)
        self.slot = SLOTS[self.run.number % 2]
        yield from self._process()

    def _go_on(self, lost: "Process") -> Generator[Any, Any, None]:
        """The lead fences the slot; then its task is opened in the other one, by a grant with a higher number."""
        self.run, self.generation = lost.run, lost.generation
        self.producers, self.opened = dict(lost.producers), lost.opened + 100
        taken = yield from self.world.protocol.fence_steps(lost.slot, self.run.member)
        self.producers[lost.slot] = taken
        self.slot = SLOTS[1 - SLOTS.index(lost.slot)]
        yield from self._process()

    def _process(self) -> Generator[Any, Any, None]:
        protocol, run, producers = self.world.protocol, self.run, self.producers
        self.working = True
        while True:
            self.opened += 1
            offsets = yield from protocol.open_steps("task", Owner(run.number, self.opened))
            self.next_offset = offsets["input"]
            committed = True
            while committed and self.next_offset < self.world.records:
                yield "process"
                try:
                    committed = yield from protocol.commit_steps(("task",), producers[self.slot], run.member)
                except Fenced:
                    committed = False
                if committed and not self.given_up and self.world.wants_to_move():
                    break
            if committed and self.next_offset == self.world.records:
                return
            if committed:
                self.slot = SLOTS[1 - SLOTS.index(self.slot)]
            else:
                producers[self.slot] = yield from protocol.recover_steps(("task",), producers[self.slot], run.member)

    def step(self) -> None:
        try:
            try:
                answer = self.world.answer(self.pending, self)
            except Fenced as error:
                self.pending = self.steps.throw(error)
            else:
                self.pending = self.steps.send(answer)
        except StopIteration:
            self.alive, self.done = False, True
        except (self.world.protocol.Replaced, StateFenced, Fenced, GivenUp):
            self.alive = False


class World:
    def __init__(
        self, protocol: ModuleType, faults: Faults, choose: Choose, records: int = 2, broken: str | None = None
    ) -> None:
        self.protocol = protocol
        self.faults = faults
        self.choose = choose
        self.records = records
        self.broken = broken
        self.cluster = Cluster(faults)
        self.disks = {name: Disk() for name in SLOTS}
        self.processes = [Process(self)]
        self.last_moved = self.processes[0]

    def run(self) -> None:
        for _ in range(600):
            living = [process for process in self.processes if process.alive]
            if not living:
                last = max(reversed(self.processes), key=lambda process: process.generation)
                if last.done:  # one that was replaced may find everything done, and nobody counts on its state
                    self._check(last)
                    return
                self._replace()
                continue
            options = list(self._options(living))
            if not options:  # all wait for a transaction of one that crashed: it times out in the end
                options = [self._end_open]
            options[self.choose(len(options))]()
        raise Violation("it does not come to an end")

    def _options(self, living: list[Process]) -> Iterator[Callable[[], None]]:
        """Whoever moved last goes on, then others, then faults. What nobody can go on without comes first."""
        living = sorted(living, key=lambda process: process is self.last_moved)
        movable = [process for process in reversed(living) if not self._waits(process)]
        markers = [(n, kind) for n, t in self.cluster.transactions.items() for kind in t.markers]
        if movable:
            yield lambda: self._move(movable[0])
        for name, kind in markers:
            yield lambda name=name, kind=kind: self.cluster.write_marker(name, kind)  # type: ignore[misc]
        for process in movable[1:]:
            yield lambda process=process: self._move(process)  # type: ignore[misc]
        if self.faults.crashes:
            yield lambda: self._crash(living[-1])
        if self.faults.zombies:
            yield self._leave_zombie
        if self.faults.lost_slots and living[-1].working and not living[-1].given_up:
            yield lambda: self._lose_slot(living[-1])
        if self.faults.timeouts:
            for name, transaction in self.cluster.transactions.items():
                if transaction.is_open:
                    yield lambda name=name: self._time_out(name)  # type: ignore[misc]

    def _move(self, process: Process) -> None:
        self.last_moved = process
        process.step()

    def _waits(self, process: Process) -> bool:
        try:
            self._check_wait(process.pending, process)
        except Wait:
            return True
        return False

    def _crash(self, process: Process) -> None:
        self.faults.crashes -= 1
        process.alive = False

    def _leave_zombie(self) -> None:
        self.faults.zombies -= 1
        self._replace()

    def _lose_slot(self, process: Process) -> None:
        self.faults.lost_slots -= 1
        process.given_up = True
        self.processes.append(Process(self, instead_of=process))
        self.last_moved = self.processes[-1]

    def _time_out(self, name: str) -> None:
        self.faults.timeouts -= 1
        self.cluster.abort(name)

    def _end_open(self) -> None:
        for name, transaction in self.cluster.transactions.items():
            if transaction.is_open:
                self.cluster.abort(name)

    def _replace(self) -> None:
        if self.faults.lost_disks and self.choose(2):
            self.faults.lost_disks -= 1
            self.disks = {name: Disk() for name in SLOTS}
        self.processes.append(Process(self))
        self.last_moved = self.processes[-1]

    def wants_to_move(self) -> bool:
        if self.faults.moves and self.choose(2):
            self.faults.moves -= 1
            return True
        return False

    # What the steps do

    def _check_wait(self, step: Any, process: Process) -> None:
        transactions = self.cluster.transactions
        match type(step).__name__:
            case "TakeProducerId" if transactions[step.transactional_id].markers:
                raise Wait
            case "SendRecords" if transactions[step.producer.transactional_id].markers:
                raise Wait
            case "ReadOffsets" if step.stable and any(t.offset is not None for t in transactions.values()):
                raise Wait
            case "ReplayChangelog" if self.cluster.stable_end() < step.ends["changelog"]:
                raise Wait

    def answer(self, step: Any, process: Process) -> Any:
        self._check_wait(step, process)
        if step == "process":
            process.value += 1
            process.result = process.value
            process.next_offset += 1
            return None
        name = type(step).__name__
        if name in ("Join", "TakeRunNumber", "StillMember", "FindSlotIds", "TakeProducerId"):
            if process.given_up and name == "TakeProducerId" and self.broken != "a slot takes its id by itself":
                raise GivenUp
            return self._of_lead(name, step)
        if name in ("SendRecords", "SendOffsets", "EndTransaction"):
            return self._of_transaction(name, step, process)
        return self._of_task(name, step, process)

    def _of_lead(self, name: str, step: Any) -> Any:
        cluster, protocol = self.cluster, self.protocol
        if name == "Join":
            cluster.member += 1
            return protocol.Member("group", cluster.member, str(cluster.member), "lead")
        if name == "TakeRunNumber":
            cluster.run_number += 1
            return cluster.run_number
        if name == "StillMember":
            self._check_member(step.member)
            return None
        if name == "FindSlotIds":
            return SLOTS
        if cluster.transactions[step.transactional_id].is_open:
            cluster.abort(step.transactional_id)
        cluster.transactions[step.transactional_id].epoch += 1
        return protocol.SlotProducer(step.transactional_id, 1, cluster.transactions[step.transactional_id].epoch)

    def _check_member(self, member: Any) -> None:
        if member is not None and member.generation != self.cluster.member:
            raise self.protocol.Replaced("app")

    def _of_transaction(self, name: str, step: Any, process: Process) -> Any:
        cluster = self.cluster
        transaction = cluster.transactions[step.producer.transactional_id]
        if step.producer.epoch != transaction.epoch:
            raise Fenced
        if name == "SendRecords":
            assert process.result is not None
            transaction.results.append(process.result)
            transaction.entries.append(len(cluster.changelog))
            cluster.changelog.append((process.value, "open"))
            process.position = len(cluster.changelog)
            return None
        if name == "SendOffsets":
            self._check_member(step.member)
            transaction.offset = process.next_offset
            return None
        fate = self.choose(3) if self.faults.lost_answers else 0
        self.faults.lost_answers -= fate > 0
        if fate < 2:
            cluster.commit(step.producer.transactional_id)
        return fate == 0

    def _of_task(self, name: str, step: Any, process: Process) -> Any:
        disk, cluster = process.disk, self.cluster
        if name == "ClaimState":
            if disk.owner > step.owner:
                disk.value, disk.position = 0, 0  # wiped; here also under a process that lives, which no lock allows
            disk.owner = process.claimed = step.owner
            process.value, process.position = disk.value, disk.position
        elif name == "ReadEnds":
            return {
                "changelog": len(cluster.changelog) if step.isolation == "read_uncommitted" else cluster.stable_end()
            }
        elif name == "ReplayChangelog":
            begin = process.position + (self.broken == "replay from position + 1" and process.position > 0)
            for value, status in cluster.changelog[begin : step.ends["changelog"]]:
                if status == "committed":
                    process.value = value
            process.position = max(process.position, step.ends["changelog"])
        elif name == "SaveState":
            if disk.owner != process.claimed and self.broken != "no owner check":
                raise StateFenced("disk", process.claimed, disk.owner)
            disk.value, disk.position = process.value, process.position
            if self.broken == "no owner check":  # who lives on reads what is on the disk
                for other in self.processes:
                    if other.alive and other.disk is disk and other.pending == "process":
                        other.value = disk.value
        elif name == "ReadOffsets":
            return {"input": cluster.offset}
        elif name == "DropPending":
            process.value, process.position = disk.value, disk.position
        return None

    def _check(self, last: Process) -> None:
        for name, transaction in self.cluster.transactions.items():
            for kind in list(transaction.markers):
                self.cluster.write_marker(name, kind)
        committed = [value for value, status in self.cluster.changelog if status == "committed"]
        expected = list(range(1, self.records + 1))
        if self.cluster.results != expected:
            raise Violation(f"results {self.cluster.results}")
        if committed != expected:
            raise Violation(f"changelog {committed}")
        if self.cluster.offset != self.records:
            raise Violation(f"offset {self.cluster.offset}")
        if last.disk.value != self.records:
            raise Violation(f"state {last.disk.value}")
