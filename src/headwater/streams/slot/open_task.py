"""A task and its state in a slot: claimed, replayed from changelog topics, processed, saved.

Owned by the slot. Its state on disk is never ahead of the changelogs: what is replayed is committed there, and what the
task changes is saved after the transaction that wrote it; while the task is behind its inputs, every five seconds (a
killed process replays those). A store that does not fit its changelog is wiped and replayed from the beginning
(`changelogs`).
"""

import logging
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.ranges import RangeReader
from headwater.client.types import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from headwater.streams.engine.runs import Runs
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.query.readable import NotReady
from headwater.streams.slot.changelog_rows import changelog_runs
from headwater.streams.slot.changelogs import (
    ChangelogBounds,
    RestoreProgress,
    ask_bounds,
    changelogs_of,
    offsets_of,
    read_from,
)
from headwater.streams.slot.offset_metadata import decode_metadata
from headwater.streams.slot.stale_state import is_stale, note_saved, went_on
from headwater.streams.stores.build import build_store
from headwater.streams.stores.combined_state import OpenState, open_state
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.spec import StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner, is_copied, mark_copy
from headwater.streams.stores.state_directory import StateInUse, remove_unused
from headwater.streams.topology.topology import SubTopology

_log: Final = logging.getLogger("headwater.streams")
_SAVE_EVERY: Final = 25_000  # records of a replay, so that memory stays small: each may change another page of LMDB
_WRITE_EVERY_S: Final = (
    5.0  # while there is more to do: a row that is changed again or expires before that is never written
)


class Stopped(Exception):
    """The run was asked to end in the middle of something that is not waited for. What was not committed is left to the
    next run.
    """


@dataclass(frozen=True, slots=True)
class Clients:
    """What tasks ask with: of one slot."""

    admin: Admin
    reader: RangeReader
    stopping: threading.Event

    def check(self) -> None:
        """In whatever may take long. Raises Stopped when the run is to end."""
        if self.stopping.is_set():
            raise Stopped


class OpenTask:
    def __init__(
        self,
        plan: SubTopology,
        partition: int,
        settings: TaskSettings,
        directory: Path,
        clients: Clients,
        global_stores: Mapping[str, Any],
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.name = f"{plan.number}_{partition}"
        self.settings = settings
        self._directory = directory / self.name
        self._clients = clients
        self._globals = global_stores
        self._state: OpenState | None = None
        self._positions: dict[ChangelogPartition, int] = {}
        self._task: Task | None = None
        self.runs = Runs()
        self.changelogs = changelogs_of(plan, partition, settings.application_id)
        self.restore = RestoreProgress()  # of the last time that it was opened
        self.written_at = 0.0
        self._waits = False  # whether commits have left something to be written
        self._is_whole = False  # of all stores: where one is read from its changelog's beginning, when the task starts
        self._is_stale = False  # as it was opened: nobody else has the task while it is open
        self._may_wait = len(self.changelogs) == len(plan.stores)  # else there are rows that no replay could bring back

    @property
    def state(self) -> OpenState:
        assert self._state is not None, f"the state of task {self.name} is not claimed"
        return self._state

    @property
    def is_started(self) -> bool:
        return self._task is not None

    @property
    def task(self) -> Task:
        assert self._task is not None, f"task {self.name} has not been started"
        return self._task

    @property
    def is_running(self) -> bool:
        """False while it is opened: its state is being restored, or waits for that."""
        return self._task is not None

    def inputs(self, counts: Mapping[str, int]) -> list[TopicPartition]:
        """The task's partition of each topic it reads, where the topic has so many."""
        internal = self.plan.internal_names
        names = [f"{self.settings.application_id}-{t}" if t in internal else t for t in self.plan.source_topics]
        return [TopicPartition(name, self.partition) for name in names if self.partition < counts[name]]

    def snapshot(self) -> AbstractContextManager[StateSnapshot]:
        """The last commit that is written, for queries of other threads: while the task is behind its inputs, five
        seconds old or more. Half a state, which is still being restored, answers nobody.
        """
        state = self._state
        if state is not None and not self._is_whole:
            raise NotReady(f"The state of task {self.name} is being restored", "not all of it is there", "Ask again")
        if state is None:
            raise NotReady(f"The state of task {self.name} is not open", "it is being opened or closed", "Ask again")
        return state.snapshot()

    # Steps

    def claim(self, owner: Owner) -> None:
        is_opened = self._state is None
        if self._state is None:
            self._is_whole = False
            try:
                self._state = self._opened(self._directory)
                for beside in self._directory.parent.glob(f"{self.name}.*-*"):  # from a time when this one was in use
                    remove_unused(beside)
            except StateInUse:  # by a process that was stopped: it cannot write to where this one goes
                fresh = self._directory.with_name(f"{self.name}.{owner.run}-{owner.epoch}")
                self._state = self._opened(fresh)
        self._state.claim(owner)
        known = self._state.positions
        missing = [each for each in self.changelogs if each not in known]
        self._mark_half(missing)
        if is_opened:
            self._is_whole = not (missing or is_copied(self._state))
            self._is_stale = is_stale(self._state, _now_ms())

    def _opened(self, directory: Path) -> OpenState:
        return open_state(
            directory, [store.spec for store in self.plan.stores], self.changelogs, self.settings.store_type
        )

    def ends(self, isolation: str) -> dict[ChangelogPartition, int]:
        level = READ_UNCOMMITTED if isolation == "read_uncommitted" else READ_COMMITTED
        return offsets_of(self._clients.admin, self.changelogs, LATEST, level)

    def replay(self, ends: Mapping[ChangelogPartition, int]) -> None:
        bounds = ask_bounds(self._clients.admin, self.changelogs, ends)
        begins = read_from(self.plan, self.state, bounds)
        if self._is_stale:
            begins |= self._forget_stale(begins, bounds)
            self._is_stale = False
        self._positions = {}
        known = self.state.positions
        self._mark_half([each for each in ends if each not in known and begins[each] < ends[each]])
        total = sum(ends[each] - begins[each] for each in ends)
        self.restore = progress = RestoreProgress(offsets_total=total, begins=begins, ends=dict(ends))
        for changelog, end in ends.items():
            store = build_store(self.changelogs[changelog], self.state)
            unsaved, through = 0, progress.offsets - begins[changelog]
            partition = TopicPartition(changelog.topic, changelog.partition)
            given_up = self._clients.stopping.is_set
            reader = self._clients.reader
            for rows in changelog_runs(reader, partition, begins[changelog], end, _SAVE_EVERY, given_up):
                store.restore_run(rows.keys, rows.values, rows.timestamps)
                unsaved += len(rows.keys)
                progress.records += len(rows.keys)
                progress.offsets = through + rows.next_offset
                if unsaved >= _SAVE_EVERY:
                    self._positions[changelog] = rows.next_offset
                    self.save()
                    unsaved = 0
            self._clients.check()  # before a position is noted that was not reached
            progress.offsets = through + end
            self._positions[changelog] = end
        mark_copy(self.state, is_copy=False)  # saved with the rest of it

    def _forget_stale(
        self, begins: Mapping[ChangelogPartition, int], bounds: ChangelogBounds
    ) -> dict[ChangelogPartition, int]:
        """Stores whose changelogs went on without old state: where these are read from now."""
        known = self.state.positions
        stale = [each for each, end in bounds.ends.items() if each in known and went_on(begins[each], end)]
        self._mark_half(stale)
        for each in stale:
            self.state.forget_store(self.changelogs[each], [each])
        return {each: bounds.begins[each] for each in stale}

    def _mark_half(self, missing: Collection[ChangelogPartition]) -> None:
        """Readers in this process and in others must not take for the state of the task what is only a part of it: one
        that was empty or is a standby's, or that a process left in the middle of a replay. `missing`: changelogs whose
        stores are not there.
        """
        state = self.state
        if missing or is_copied(state):
            self._is_whole = False
        default = self.settings.store_type
        if any(self.changelogs[each].lies_in(default) is not StoreType.IN_MEMORY for each in missing):
            mark_copy(state, is_copy=True)
            state.commit({})

    def save(self, behind: bool = False) -> None:
        """What was committed stands. `behind`: more records wait already, so it need not be written each time."""
        self._waits = behind and self._may_wait and self.written_at > 0
        note_saved(self.state, _now_ms())
        self.state.commit(self._positions, later=self._waits)
        self._positions = {}
        if not self._waits:
            self._note_written(time.monotonic())

    def write_what_waits(self) -> bool:
        """What commits have left, when its seconds are over: not within a commit, which takes its time as well. Whether
        there was something to write.
        """
        now = time.monotonic()
        if not self._waits or now < self.written_at + _WRITE_EVERY_S:
            return False
        self._waits = False
        self._note_written(now)
        self.state.write_out()
        return True

    def _note_written(self, now: float) -> None:
        """After the first time, at a moment of its own: all tasks of a slot at once would keep it for long."""
        if not self.written_at:
            now -= _WRITE_EVERY_S * (zlib.crc32(self.name.encode()) % 64 / 64)
        self.written_at = now

    def drop(self) -> None:
        """What was not committed."""
        try:
            self.give_up()
        finally:
            if self._state is not None:
                self._state.discard()
            self._positions = {}

    def give_up(self) -> None:
        """Its nodes end because something has failed. That is told, or overcome; what they raise at their end is only
        logged, as in Kafka Streams.
        """
        task, self._task = self._task, None
        try:
            if task is not None:
                task.close()
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            _log.warning("a processor does not close task=%s error=%r", self.name, error)

    # Processing

    def start(self, metadata: Mapping[TopicPartition, str], now_ms: int) -> Task:
        """After the replay: the nodes come to life, with the times at which they were."""
        self._task = task = Task(self.plan, self.partition, self.settings, self.state, self._globals, now_ms)
        for partition, text in metadata.items():
            committed = decode_metadata(text)
            task.load_close_times(committed.close_times)
            queue = task.group.queues.get((partition.topic, partition.partition))
            if queue is not None:
                queue.partition_time = committed.partition_time
                task.stream_time_ms = max(task.stream_time_ms, queue.partition_time)
        task.pass_over_schedules()
        self._is_whole = True
        return task

    def collect(self) -> TaskOutput:
        return self.task.collect()

    def wrote(self, changelog: ChangelogPartition, next_offset: int) -> None:
        """Where the changelog goes on behind what this commit wrote; it is saved with the state."""
        self._positions[changelog] = next_offset

    def close(self) -> None:
        task, self._task = self._task, None
        state, self._state = self._state, None
        try:
            if task is not None:
                task.close()
        finally:
            if state is not None:
                state.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def write_one(tasks: Iterable[OpenTask]) -> None:
    """What waits in one of them: what is due by the clock comes before more. The one that was written longest ago, or
    else the last of many would never have a turn.
    """
    for task in sorted(tasks, key=attrgetter("written_at")):
        if task.write_what_waits():
            break
