"""Copies of other slots' tasks: their state, kept up to date from their changelogs, so that one of them may go on here at once (standby replicas).

A copy lies where the task's own state would lie in this place, and nobody else has it open here. It has only what is committed in the
changelogs, at most up to their last stable offsets, so it is never ahead of them. It writes nothing but itself. It is marked as a copy, so that
nobody takes it for the state of a task (`query.state_reader`). Whoever opens the task closes the copy first and replays the rest.

Driven by the thread of the application in its slot, between the turns of the tasks that it owns. What goes wrong here costs the copy's
being up to date, and nothing else: it is noted, and tried again.
"""

import logging
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.types import LATEST, READ_UNCOMMITTED
from headwater.streams.slot.changelogs import changelogs_of, offsets_of, read_from
from headwater.streams.slot.program import Program
from headwater.streams.stores.build import build_store
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.state import ChangelogPartition, Owner, mark_copy

_log: Final = logging.getLogger("headwater.streams")
_SLICE_S: Final = 0.03
_POLLED: Final = 2_000
_AGAIN_S: Final = 1.0


@dataclass(slots=True)
class _Copy:
    task: str
    state: LmdbState
    stores: dict[TopicPartition, Any]
    positions: dict[TopicPartition, int]  # as they are saved
    records: int = 0
    lag: int | None = None  # not known before the first answer
    changed: set[TopicPartition] = field(default_factory=set)


class StandbyTasks:
    def __init__(self, program: Program, admin: Admin, directory: Path, run: int) -> None:
        self._program = program
        self._admin = admin
        self._directory = directory
        self._run = run
        self._consumer: Consumer | None = None
        self._copies: dict[str, _Copy] = {}
        self._wanted: dict[str, int] = {}  # -> the epoch of its state, if it is opened
        self._again_at = 0.0
        self.last_error = ""

    def __len__(self) -> int:
        return len(self._wanted)

    def rows(self) -> list[dict[str, Any]]:
        """For the status and the lead; called by any thread. The lag is None until it is known."""
        copies = list(self._copies.values())
        return [{"task": each.task, "lag": each.lag, "restored_records": each.records} for each in copies]

    def keep(self, wanted: Collection[str]) -> None:
        """Lets go of all others: whoever opens such a task finds its state here, unless that is in use."""
        self._wanted = {task: epoch for task, epoch in self._wanted.items() if task in wanted}
        for task in [task for task in self._copies if task not in wanted]:
            self._drop(task)

    def add(self, wanted: Iterable[str], epoch: int) -> None:
        """`epoch`: of the owner under whom copies are written, lower than that of whoever opens the task later."""
        for task in wanted:
            self._wanted.setdefault(task, epoch)
        self._again_at = 0.0

    def turn(self) -> None:
        """Opens what is still to be opened, and reads on for a moment. Raises nothing that the application would end by."""
        try:
            self._open_missing()
            self._follow()
        except (KafkaError, TimeoutError, UserError) as error:
            self._trouble(error)
            for task in list(self._copies):  # begins anew from what is saved
                self._drop(task)

    def close(self) -> None:
        self.keep(())
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open_missing(self) -> None:
        missing = [task for task in self._wanted if task not in self._copies]
        if not missing or time.monotonic() < self._again_at:
            return
        self._again_at = time.monotonic() + _AGAIN_S
        for task in missing:
            try:
                self._open(task)
            except (KafkaError, TimeoutError, UserError) as error:  # brokers are away, or a stopped process holds it
                self._trouble(error)

    def _open(self, task: str) -> None:
        number, _, partition = task.partition("_")
        plan = next(each for each in self._program.sub_topologies if each.number == int(number))
        changelogs = changelogs_of(plan, int(partition), self._program.name)
        ends = offsets_of(self._admin, changelogs, LATEST, READ_UNCOMMITTED)
        state = LmdbState(self._directory / task)
        try:
            state.claim(Owner(self._run, self._wanted[task]))
            begins = read_from(self._admin, plan, changelogs, state, ends)
            mark_copy(state, is_copy=True)
            state.commit(begins)
        except BaseException:
            state.close()
            raise
        stores = {TopicPartition(each.topic, each.partition): build_store(changelogs[each], state) for each in ends}
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
        while True:
            records = self._consumer.poll(0.0, max_records=_POLLED)
            for record in records:
                self._take(owners, record)
            if not records or time.monotonic() >= leave_at:
                break
        for copy in self._copies.values():
            self._save(copy, self._consumer)

    def _take(self, owners: dict[TopicPartition, _Copy], record: ConsumerRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        copy = owners[partition]
        copy.stores[partition].restore(record.key, record.value, record.timestamp_ms)
        copy.records += 1
        copy.changed.add(partition)

    def _save(self, copy: _Copy, consumer: Consumer) -> None:
        """Rows and positions together. A position that only went on over markers is saved with the next rows."""
        positions = {partition: consumer.position(partition) for partition in copy.positions}
        if copy.changed:
            copy.state.commit({ChangelogPartition(p.topic, p.partition): offset for p, offset in positions.items()})
            copy.positions, copy.changed = positions, set()
        behind = [consumer.current_lag(partition) for partition in copy.positions]
        copy.lag = None if None in behind else sum(each for each in behind if each is not None)

    def _drop(self, task: str) -> None:
        copy = self._copies.pop(task)
        copy.state.close()  # what was not saved is read again
        if self._consumer is not None:
            self._consumer.assign([partition for each in self._copies.values() for partition in each.positions])

    def _trouble(self, error: Exception) -> None:
        self.last_error = str(error) or type(error).__name__
        _log.warning("a standby copy is tried again application=%s error=%s", self._program.name, self.last_error)
