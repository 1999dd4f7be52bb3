"""A slot: reads the inputs of its tasks, processes them merged by time, and commits everything in one transaction per
interval.

Driven by one thread, which owns its consumer, its producer and its tasks: `open`, then `turn` again and again, then
`close`. What its tasks make between two commits waits in memory, so no transaction is open while records are processed.
When a commit fails or its outcome is unknown, everything since the last one is dropped, the lead takes the producer id
anew, and the tasks are opened again.
"""

import contextlib
import dataclasses
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.consumer.ranges import RangeReader
from headwater.client.errors import passes
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot import collector_pauses
from headwater.streams.slot.commit_writer import CommitWriter
from headwater.streams.slot.fetched import Inputs
from headwater.streams.slot.global_tables import GlobalTables
from headwater.streams.slot.held_inputs import HeldInputs
from headwater.streams.slot.hopeless import pause_s, raise_if_hopeless
from headwater.streams.slot.lead_port import LeadPort
from headwater.streams.slot.offset_metadata import OffsetMetadata, encode_metadata
from headwater.streams.slot.open_task import Clients, OpenTask, write_one
from headwater.streams.slot.partition_counts import PartitionCounts
from headwater.streams.slot.program import Program
from headwater.streams.slot.purging import Purge
from headwater.streams.slot.refusals import Refused
from headwater.streams.slot.slot_report import SlotReport
from headwater.streams.slot.start_offsets import StartOffsets
from headwater.streams.stores.state import Owner
from headwater.streams.stores.task_counts import write_task_counts
from headwater.streams.topics.internal import partitions_of, topics_gone

_log: Final = logging.getLogger("headwater.streams")
_AT_ONCE: Final = 20_000  # records of a task before the next one has its turn
_SLICE_S: Final = 0.05  # of a task, at least: also where a commit takes longer than the interval between two
_POLLED: Final = 20_000
_POLLED_BYTES: Final = 16 * 1024 * 1024
_IDLE_S: Final = 0.1
_BETWEEN: Final = 0.75  # of the commit interval: lies between the end of a commit and the next one, at least
_PATIENCE_S: Final = 600.0
_PAUSE_S: Final = 0.25


class Slot:
    _failed_in_a_row = 0  # commits
    is_paused: Callable[[], bool] = staticmethod(lambda: False)
    """Whether no record is to be processed and no punctuator called for now; everything else goes on."""

    def __init__(
        self,
        lead: LeadPort,
        run: protocol.Run,
        transactional_id: str,
        program: Program,
        counts: PartitionCounts,
        tasks: Iterable[str],
        stopping: threading.Event,
    ) -> None:
        """`tasks`: the names of those that it begins with."""
        self._lead = lead
        self._directory = program.state_directory(lead.admin.describe_cluster().cluster_id)  # first: it may fail
        write_task_counts(self._directory, program.topics.tasks)
        self._run = run
        self._identity = run.producers[transactional_id]
        self._settings = settings = program.settings
        self._topics = program.topics
        self._counts = counts
        self._opened = 0
        self._stopping = stopping
        subs = program.sub_topologies
        self._subs = {sub.number: sub for sub in subs if not sub.is_global}
        found = dataclasses.replace(program.task_settings, partition_count=counts, checks_partitions=True)
        self._task_settings = found.with_cache()
        # Before there are clients that would stay open: a processor of the user's may raise when it comes to life.
        self._globals = GlobalTables([sub for sub in subs if sub.is_global], self._task_settings, self._topics.globals)
        # Of changelogs: whatever the user wants to read of inputs, what was aborted there is no state.
        self._reader = RangeReader({**settings.for_consumers, "isolation.level": "read_committed"})
        self._clients = Clients(lead.admin, self._reader, stopping)
        self._start_offsets = StartOffsets(self._clients, lead.application_id, program.sub_topologies, program.reset)
        self._consumer = Consumer({**settings.for_inputs, "auto.offset.reset": self._start_offsets.consumer_reset})
        self._inputs = Inputs(self._consumer, self._globals)
        self.tasks: list[OpenTask] = []
        self._owner_of: dict[tuple[str, int], OpenTask] = {}
        self._add_tasks(tasks)
        self._held = HeldInputs(self._consumer, settings.buffered_records_per_partition)
        self._writer = CommitWriter(
            settings, program.task_settings.errors, lead.application_id, self._globals.pending, stopping
        )
        self._purge = Purge(program.topics, settings.repartition_purge_interval_ms)
        self._commit_at = 0.0
        self.report = SlotReport()
        self.dropped: dict[str, int] = {}

    # Life

    def open(self) -> None:
        """`close` is called afterwards, also if this raises."""
        collector_pauses.OF_SLOTS.begin()
        self._counts.refresh(time.monotonic())
        follow = self._globals.restore(self._clients, self._stopping.is_set)
        self._clients.check()
        self._open_all(follow)

    def _open_all(self, follow: dict[TopicPartition, int]) -> None:
        self._writer.connect(self._identity)
        begin = follow | self._open_tasks(self.tasks)
        self._read_from(begin, ())
        self._commit_at = next_commit_s(now := time.monotonic(), now, self._settings.commit_interval_ms)

    def _open_tasks(self, tasks: list[OpenTask]) -> dict[TopicPartition, int]:
        """Where their inputs are read from."""
        begin: dict[TopicPartition, int] = {}
        for task in tasks:
            self._opened += 1
            offsets = self._drive(protocol.open_steps(task, Owner(self._run.number, self._opened)))
            begin |= {partition: offset for partition, (offset, _) in offsets.items()}
            metadata = {partition: text for partition, (_, text) in offsets.items()}
            task.start(metadata, _now_ms())
        return begin

    def _read_from(self, begin: Mapping[TopicPartition, int], also: Iterable[TopicPartition]) -> None:
        """`also`: what is read on where it is."""
        self._consumer.assign([*also, *begin])
        self._held.begin(begin)
        for partition, offset in begin.items():
            self._consumer.seek(partition, offset)

    def change_tasks(self, wanted: Collection[str], epoch: int) -> None:
        """Commits, lets go of tasks that are not wanted any more, and opens new ones. The others go on.

        `epoch`: of the state of tasks that are opened from now on, higher than that of any owner before.
        """
        self.commit()
        self._opened = max(self._opened, epoch)
        for task in [task for task in self.tasks if task.name not in wanted]:
            task.close()
            self.tasks.remove(task)
        self._owner_of = {place: task for place, task in self._owner_of.items() if task in self.tasks}
        self._held.keep(self._owner_of)
        stay = [p for p in self._consumer.assignment() if p.topic in self._globals or tuple(p) in self._owner_of]
        known = {task.name for task in self.tasks}
        added = self._add_tasks(name for name in wanted if name not in known)
        try:
            self._read_from(self._open_tasks(added), stay)
        except (KafkaError, TimeoutError) as error:
            self._warn("tasks are opened again", error)
            self._recover()

    def _add_tasks(self, names: Iterable[str]) -> list[OpenTask]:
        added = []
        for name in names:
            number, _, partition = name.partition("_")
            plan = self._subs[int(number)]
            task = OpenTask(
                plan, int(partition), self._task_settings, self._directory, self._clients, self._globals.stores
            )
            self._owner_of |= {(each.topic, each.partition): task for each in task.inputs(self._topics.sources)}
            added.append(task)
        self.tasks += added
        return added

    def give_up(self) -> None:
        """Before `close`, where something has failed: that is told, and not what tasks raise at their end."""
        for task in reversed(self.tasks):
            task.give_up()

    def close(self) -> None:
        """Without a commit: what is pending is left to the next run."""
        with contextlib.ExitStack() as all_of_it:  # each one, whatever becomes of the others; the last one first
            all_of_it.callback(collector_pauses.OF_SLOTS.end)
            for each in (self._reader.close, self._consumer.close, self._writer.disconnect):
                all_of_it.callback(each)
            for task in reversed(self.tasks):
                all_of_it.callback(task.close)
            all_of_it.callback(self._globals.close)

    @property
    def fetched(self) -> int:
        """How many records, since it was opened."""
        return self._inputs.fetched

    # One turn

    def turn(self) -> None:
        """Reads for a moment, processes what is there, commits when it is time. Raises what a record's processing
        raised.
        """
        self._tick()
        self._counts.refresh(time.monotonic())
        try:
            wants_commit = self._read_and_process()
        except ClusterFailure as failure:
            self._process_again(failure)
            return
        self.report.note_inputs(self.tasks, self._topics.sources, self._consumer)
        due = time.monotonic() >= self._commit_at
        if wants_commit or due or self._writer.is_full():
            self.commit()
            self._after_commit()

    def _after_commit(self) -> None:
        """What fell due while it was on its way comes first: nothing may run within it (see NON_OBVIOUS.md)."""
        try:
            wants_commit = self._punctuate()
        except ClusterFailure as failure:
            self._process_again(failure)
            return
        if wants_commit:
            self._commit_at = time.monotonic()
        self._purge.run(self._lead.admin, time.monotonic())
        collector_pauses.OF_SLOTS.freeze()  # here what was processed is gone, and modules are loaded

    def _process_again(self, failure: ClusterFailure) -> None:
        """Everything since the last commit."""
        if isinstance(failure.cause, UserError):
            raise failure.cause from None
        self._warn("records are processed again", failure)
        self._recover()

    def _warn(self, what: str, error: object) -> None:
        _log.warning("%s application=%s error=%s", what, self._name, error)
        self.report.note_error(what, error)

    def _tick(self) -> None:
        """The membership; a coordinator that is away or moves is asked again the next time."""
        try:
            self._lead.tick()
        except (KafkaError, TimeoutError) as error:
            if not passes(error):
                raise
            self._warn("the group does not answer", error)

    def _read_and_process(self) -> bool:
        """Whether a record's processing asked for a commit."""
        for chunk in self._inputs.poll(self._patience(), _POLLED, _POLLED_BYTES):
            self._take(chunk)
        wants_commit = self._punctuate()
        write_one(self.tasks)
        due_ms = self._punctuation_due_ms(self.tasks)
        for task in self.tasks:
            self._process(task, due_ms)
            wants_commit = wants_commit or task.task.commit_requested
            self._collect(task)
            due_ms = min(due_ms, self._punctuation_due_ms((task,)))  # it alone may have scheduled something
            if _now_ms() >= due_ms:
                wants_commit = self._punctuate() or wants_commit
                due_ms = self._punctuation_due_ms(self.tasks)
        self._held.update(self._owner_of)
        return wants_commit

    def _punctuate(self) -> bool:
        """Calls what is due by the clock, in all tasks. Whether a commit was asked for."""
        now_ms, wants_commit = _now_ms(), False
        if self.is_paused():
            return False
        for task in self.tasks:
            if task.task.punctuate(now_ms):
                wants_commit = wants_commit or task.task.commit_requested
                self._collect(task)
        return wants_commit

    def _punctuation_due_ms(self, tasks: Iterable[OpenTask]) -> float:
        """When something of these is due by the clock, and called."""
        dues = () if self.is_paused() else (task.task.next_punctuation_ms() for task in tasks)
        return min((due for due in dues if due is not None), default=math.inf)

    def _patience(self) -> float:
        """How long to wait for records: not at all while buffered ones can be processed."""
        if not self.is_paused() and any(task.task.group.buffered and self._is_ready(task) for task in self.tasks):
            return 0.0
        wait = _IDLE_S
        if self._writer.has_outputs():
            wait = min(wait, max(self._commit_at - time.monotonic(), 0.0))
        return min(wait, max((self._punctuation_due_ms(self.tasks) - _now_ms()) / 1000, 0.0))

    def _take(self, chunk: Chunk) -> None:
        if chunk.topic in self._globals:
            for record in chunk.records():
                self._globals.update(record)
        else:
            self._owner_of[chunk.topic, chunk.partition].task.add_columns(chunk)

    def _is_ready(self, task: OpenTask) -> bool:
        """Every input has a record, or is known to have none: then the next by time is surely the next."""
        group = task.task.group
        return group.all_buffered or all(
            len(queue) or self._consumer.current_lag(TopicPartition(*queue.topic_partition)) == 0
            for queue in group.queues.values()
            if queue.topic_partition in self._owner_of
        )

    def _is_behind(self, task: OpenTask) -> bool:
        """Whether there are records that it has not processed."""
        return task.is_started and any(
            len(queue) or self._consumer.current_lag(TopicPartition(*place)) != 0
            for place, queue in task.task.group.queues.items()
            if place in self._owner_of
        )

    def _process(self, task: OpenTask, due_ms: float) -> None:
        """What is buffered, until the commit, or until `due_ms`, when something is due by the clock in any task."""
        if task.task.group.buffered and not self.is_paused() and self._is_ready(task):
            began, task.task.wall_clock_ms = time.monotonic(), (now_ms := _now_ms())
            leave_at = min(max(self._commit_at, began + _SLICE_S), began + (due_ms - now_ms) / 1000)

            def leave() -> bool:
                nonlocal began
                before, began = began, time.monotonic()
                task.runs.took(began - before)
                return began >= leave_at or self._stopping.is_set() or self.is_paused()

            done = task.task.process(_AT_ONCE, leave, task.runs)
            if not done:  # some inputs are at their end
                while done < _AT_ONCE and self._is_ready(task):
                    taken = task.task.process_next(task.runs.most)
                    done += taken
                    if not taken or leave():
                        break

    def _collect(self, task: OpenTask) -> None:
        output = task.collect()
        self._writer.add(output)
        for reason, count in itertools.chain(output.dropped.items(), self._globals.take_dropped().items()):
            self.dropped[reason] = self.dropped.get(reason, 0) + count

    # Commits

    def commit(self) -> None:
        began = time.monotonic()
        try:
            self._flush_caches()  # through nodes, so what is true of processing is true here
        except ClusterFailure as failure:
            self._process_again(failure)
            return
        if self._writer.has_outputs():
            self._commit_outputs()
        self._commit_at = next_commit_s(began, time.monotonic(), self._settings.commit_interval_ms)

    def _flush_caches(self) -> None:
        """What waits in record caches belongs to this commit: its records are in the offsets."""
        for task in self.tasks:
            if task.is_started and task.task.caches:
                task.task.flush_cache()
                self._collect(task)

    def _commit_outputs(self) -> None:
        try:
            committed = self._drive_commit()
        except (KafkaError, TimeoutError) as error:
            raise_if_hopeless(self._name, error)
            self._warn("a commit failed, its records are processed again", error)
            committed = False
        if not committed:
            self._failed_in_a_row += 1
            self._recover()  # first: others may wait for the end of the transaction
            if pause := pause_s(self._failed_in_a_row):
                self._stopping.wait(pause)
            return
        self._failed_in_a_row = 0
        self._purge.committed(self._writer.offsets)
        self._writer.forget()
        self._writer.forget_globals()

    def _drive_commit(self) -> bool:
        """Until brokers take all that is left of it. Raises UserError for a record that they refuse and that is not
        left out.
        """
        tasks = tuple(self.tasks)
        while True:
            member = self._lead.member()
            steps = (
                protocol.commit_steps(tasks, self._identity, member)
                if self._settings.exactly_once
                else protocol.commit_at_least_once_steps(tasks, member)
            )
            try:
                return bool(self._drive(steps))
            except Refused as refused:
                if self._writer.leave_out(refused):
                    self.dropped["production error"] = self.dropped.get("production error", 0) + len(refused.records)
                self._identity = self._drive(protocol.recover_steps((), self._identity, self._lead.member()))
                self._writer.connect(self._identity)
            finally:
                self._writer.end_attempt()

    def _recover(self) -> None:
        """Until it works again, or another run has taken over, or this one is to end: nothing is pending then."""
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            self._writer.forget()
            self._clients.check()
            try:
                steps = protocol.recover_steps(tuple(self.tasks), self._identity, self._lead.member())
                self._identity = self._drive(steps)
                self._writer.look_for_globals(self._reader)
                follow = {
                    p: self._consumer.position(p) for p in self._consumer.assignment() if p.topic in self._globals
                }
                self._open_all(follow)
                return
            except (KafkaError, TimeoutError) as error:
                raise_if_hopeless(self._name, error)
                if time.monotonic() > give_up_at:
                    raise
                self._warn("the slot does not recover yet", error)
                self._stopping.wait(_PAUSE_S)
                self._tick()

    @property
    def _name(self) -> str:
        return self._lead.application_id

    def _drive(self, steps: protocol.Steps) -> Any:
        try:
            step = next(steps)
            while True:
                step = steps.send(self._do(step))
        except StopIteration as stop:
            return stop.value

    def _do(self, step: protocol.Step) -> Any:
        match step:
            case protocol.ClaimState(task, owner):
                return task.claim(owner)
            case protocol.ReadEnds(task, isolation):
                return task.ends(isolation)
            case protocol.ReplayChangelog(task, ends):
                return task.replay(ends)
            case protocol.SaveState(task):
                return task.save(self._is_behind(task))
            case protocol.ReadOffsets(task, stable):
                return self._start_offsets.of(task.inputs(self._topics.sources), stable=stable)
            case protocol.SendRecords(producer):
                return self._writer.send_records(self.tasks, transactional=producer is not None)
            case protocol.SendOffsets(producer, member):
                return self._send_offsets(member, transactional=producer is not None)
            case protocol.EndTransaction():
                return self._writer.end_transaction()
            case protocol.DropPending(task):
                return task.drop()
        return self._lead.do(step)

    def _send_offsets(self, member: protocol.Member | None, *, transactional: bool) -> None:
        offsets = {}
        for partition, offset in self._writer.offsets.items():
            place = (partition.topic, partition.partition)
            task = self._owner_of[place].task
            queue = task.group.queues[place]
            if not len(queue):  # behind the last record may be a marker: with it the group has no lag
                offset = max(offset, self._consumer.position(partition))
            metadata = OffsetMetadata(queue.partition_time, task.close_times)
            offsets[partition] = OffsetAndMetadata(offset, encode_metadata(metadata))
        if not transactional:
            self._lead.commit(offsets)
        elif offsets:
            assert member is not None
            self._writer.send_offsets(offsets, member)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def next_commit_s(began: float, ended: float, interval_ms: int) -> float:
    """When the commit behind one is due. The interval lies between the beginnings of two, so a record does not wait for
    the time that commits take as well; but where they take long, most of it still belongs to processing.
    """
    interval_s = interval_ms / 1000
    return max(began + interval_s, ended + interval_s * _BETWEEN)


def new_slot(
    program: Program, lead: LeadPort, run: protocol.Run, name: str, tasks: Iterable[str], stopping: threading.Event
) -> Slot:
    """A slot that is still to be opened. `name`: its transactional id."""
    counts = PartitionCounts(
        lambda names: partitions_of(lead.admin, names),
        program.topics.sources | program.topics.globals,
        program.partitioned_outputs,
        lambda names: topics_gone(lead.admin, names),
        program.topics.of_patterns,
    )
    return Slot(lead, run, name, program, counts, tasks, stopping)
