"""Copies of other slots' tasks: their state, kept up to date from their changelogs, so that one of them may go on here
at once (standby replicas).

A copy lies where the task's own state would lie in this place, and nobody else has it open here. It has only what is
committed in the changelogs, at most up to their last stable offsets, so it is never ahead of them. It writes nothing
but itself. It is marked as a copy, so that nobody takes it for the state of a task (`query.state_reader`). Whoever
opens the task closes the copy first and replays the rest. Stores in memory are not copied: they would end with it.

Driven by the thread of the application in its slot, between the turns of the tasks that it owns. That thread never
waits for brokers here: where the changelogs begin and end is asked in a thread of its own, for one copy at a time. What
goes wrong costs that copy, and nothing else: it is closed, the status tells why, and it is opened again after a pause
that grows while the trouble lasts.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.types import LATEST, READ_UNCOMMITTED
from headwater.streams.slot.changelogs import ChangelogBounds, ask_bounds, changelogs_of, offsets_of, read_from
from headwater.streams.slot.program import Program
from headwater.streams.slot.slot_report import SlotReport
from headwater.streams.slot.stale_state import is_stale, note_saved, went_on
from headwater.streams.stores.build import build_store
from headwater.streams.stores.combined_state import OpenState, open_state
from headwater.streams.stores.spec import StoreSpec, StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner, mark_copy
from headwater.streams.topology.topology import SubTopology

_log: Final = logging.getLogger("headwater.streams")
_SLICE_S: Final = 0.03
_POLLED: Final = 2_000
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 60.0  # also how long a copy must be well for its troubles to be forgotten


@dataclass(slots=True)
class _Copy:
    task: str
    state: OpenState
    stores: dict[TopicPartition, Any]
    positions: dict[TopicPartition, int]  # as they are saved
    records: int = 0
    lag: int | None = None  # not known before the first answer
    changed: set[TopicPartition] = field(default_factory=set)
    opened_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Of one copy that is to be opened: its changelogs, and what the brokers will say of them."""

    task: str
    epoch: int
    plan: SubTopology
    changelogs: Mapping[ChangelogPartition, StoreSpec]
    bounds: Future[ChangelogBounds]


@dataclass(slots=True)
class _Pause:
    """Of a copy that met trouble. `length_s` doubles each time."""

    length_s: float = 0.0
    ends_at: float = 0.0

    def grow(self, now: float) -> None:
        self.length_s = min(self.length_s * 2 or _PAUSE_S, _PAUSE_MAX_S)
        self.ends_at = now + self.length_s


class StandbyTasks:
    def __init__(self, program: Program, admin: Admin, directory: Path, run: int) -> None:
        self._program = program
        self._admin = admin
        self._directory = directory
        self._run = run
        self._consumer: Consumer | None = None
        self._copies: dict[str, _Copy] = {}
        self._wanted: dict[str, int] = {}  # -> the epoch of its state, if it is opened
        self._pauses: dict[str, _Pause] = {}
        self._asked: _Asked | None = None
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="headwater-standbys")
        self._report = SlotReport()

    def __len__(self) -> int:
        return len(self._wanted)

    def rows(self) -> list[dict[str, Any]]:
        """For the status and the lead; called by any thread. The lag is None until it is known."""
        copies = list(self._copies.values())
        return [{"task": each.task, "lag": each.lag, "restored_records": each.records} for each in copies]

    @property
    def errors(self) -> list[dict[str, Any]]:
        """What went wrong lately, as in the status of the application; called by any thread."""
        return self._report.errors

    def keep(self, wanted: Collection[str]) -> None:
        """Lets go of all others: whoever opens such a task finds its state here, unless that is in use."""
        self._wanted = {task: epoch for task, epoch in self._wanted.items() if task in wanted}
        self._pauses = {task: pause for task, pause in self._pauses.items() if task in wanted}
        for task in [task for task in self._copies if task not in wanted]:
            self._drop(task)

    def add(self, wanted: Iterable[str], epoch: int) -> None:
        """`epoch`: of the owner under whom copies are written, lower than that of whoever opens the task later."""
        for task in wanted:
            self._wanted.setdefault(task, epoch)

    def turn(self) -> None:
        """Opens what is still to be opened, and reads on for a moment. Raises nothing that the application would end
        by.
        """
        self._open_missing()
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 - of the consumer, so nobody knows whose it is
            for task in list(self._copies):  # begins anew from what is saved
                self._give_up(task, error)

    def close(self) -> None:
        self._asker.shutdown(wait=False, cancel_futures=True)
        self.keep(())
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open_missing(self) -> None:
        """One at a time: asks for it in one turn, and opens it in another, when the answer is there."""
        if self._asked is None:
            now = time.monotonic()
            missing = [task for task in self._wanted if task not in self._copies]
            ready = [task for task in missing if task not in self._pauses or now >= self._pauses[task].ends_at]
            if ready:  # those without trouble first
                self._asked = self._ask(min(ready, key=lambda task: task in self._pauses))
        elif self._asked.bounds.done():
            asked, self._asked = self._asked, None
            if self._wanted.get(asked.task) != asked.epoch:
                return  # it was opened as a task in between: the answer may be too old
            try:
                self._open(asked, asked.bounds.result())
            except Exception as error:  # noqa: BLE001 - brokers are away, a stopped process holds it, the disk is full
                self._give_up(asked.task, error)

    def _ask(self, task: str) -> _Asked:
        number, _, partition = task.partition("_")
        plan = next(each for each in self._program.sub_topologies if each.number == int(number))
        default = self._program.task_settings.store_type
        every = changelogs_of(plan, int(partition), self._program.name)
        changelogs = {where: spec for where, spec in every.items() if spec.lies_in(default) is not StoreType.IN_MEMORY}
        return _Asked(task, self._wanted[task], plan, changelogs, self._asker.submit(self._bounds, changelogs))

    def _bounds(self, changelogs: Mapping[ChangelogPartition, StoreSpec]) -> ChangelogBounds:
        return ask_bounds(self._admin, changelogs, offsets_of(self._admin, changelogs, LATEST, READ_UNCOMMITTED))

    def _open(self, asked: _Asked, bounds: ChangelogBounds) -> None:
        task, changelogs, ends = asked.task, asked.changelogs, bounds.ends
        state = open_state(
            self._directory / task,
            [store.spec for store in asked.plan.stores],
            changelogs_of(asked.plan, int(task.partition("_")[2]), self._program.name),  # also of what is in memory now
            self._program.task_settings.store_type,
        )
        try:
            state.claim(Owner(self._run, self._wanted[task]))
            begins = read_from(asked.plan, state, bounds)
            if is_stale(state, _now_ms()):
                for where, end in ends.items():
                    if bounds.begins[where] < begins[where] and went_on(begins[where], end):
                        state.forget_store(changelogs[where], [where])
                        begins[where] = bounds.begins[where]
            mark_copy(state, is_copy=True)
            note_saved(state, _now_ms())
            state.commit(begins)
            stores = {TopicPartition(each.topic, each.partition): build_store(changelogs[each], state) for each in ends}
        except BaseException:
            state.close()
            raise
        positions = {TopicPartition(each.topic, each.partition): offset for each, offset in begins.items()}
        self._copies[task] = _Copy(task, state, stores, positions)
        self._assign(positions)

    def _assign(self, begin: dict[TopicPartition, int]) -> None:
        if self._consumer is None:
            settings = {"isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "none"}
            self._consumer = Consumer({**self._program.settings.for_consumers, **settings})
        self._consumer.assign([partition for copy in self._copies.values() for partition in copy.positions])
        for partition, offset in begin.items():
            self._consumer.seek(partition, offset)

    def _follow(self) -> None:
        if self._consumer is None or not self._copies:
            return
        owners = {partition: copy for copy in self._copies.values() for partition in copy.positions}
        leave_at = time.monotonic() + _SLICE_S
        while owners:  # none, where all their stores are in memory
            records = self._consumer.poll(0.0, max_records=_POLLED)
            for record in records:
                copy = owners[TopicPartition(record.topic, record.partition)]
                if copy.task in self._copies:
                    self._take(copy, record)
            if not records or time.monotonic() >= leave_at:
                break
        for copy in list(self._copies.values()):
            try:
                self._save(copy, self._consumer)
            except Exception as error:  # noqa: BLE001 - of this copy alone
                self._give_up(copy.task, error)

    def _take(self, copy: _Copy, record: ConsumerRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        try:
            copy.stores[partition].restore(record.key, record.value, record.timestamp_ms)
        except Exception as error:  # noqa: BLE001 - of this copy alone
            self._give_up(copy.task, error)
            return
        copy.records += 1
        copy.changed.add(partition)

    def _save(self, copy: _Copy, consumer: Consumer) -> None:
        """Rows and positions together. A position that only went on over markers is saved with the next rows."""
        positions = {partition: consumer.position(partition) for partition in copy.positions}
        if copy.changed:
            note_saved(copy.state, _now_ms())
            copy.state.commit({ChangelogPartition(p.topic, p.partition): offset for p, offset in positions.items()})
            copy.positions, copy.changed = positions, set()
        behind = [consumer.current_lag(partition) for partition in copy.positions]
        copy.lag = None if None in behind else sum(each for each in behind if each is not None)

    def _drop(self, task: str) -> None:
        """What was not saved is read again."""
        copy = self._copies.pop(task)
        if self._consumer is not None:
            self._consumer.assign([partition for each in self._copies.values() for partition in each.positions])
        try:
            copy.state.close()
        except Exception as error:  # noqa: BLE001 - whoever opens the task finds it in use, and begins beside it
            self._report.note_error(f"The standby copy of {task} is not closed", error)
            _log.warning(
                "a standby copy is not closed application=%s task=%s", self._program.name, task, exc_info=error
            )

    def _give_up(self, task: str, error: Exception) -> None:
        """Until its pause is over."""
        now, copy = time.monotonic(), self._copies.get(task)
        if copy is not None:
            if now > copy.opened_at + _PAUSE_MAX_S:
                self._pauses.pop(task, None)
            self._drop(task)
        self._pauses.setdefault(task, _Pause()).grow(now)
        self._report.note_error(f"The standby copy of {task} is tried again", error)
        _log.warning("a standby copy is tried again application=%s task=%s error=%r", self._program.name, task, error)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
