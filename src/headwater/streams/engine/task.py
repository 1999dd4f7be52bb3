"""A task: the nodes of one sub-topology over one partition of its topics.

Whoever drives it (a slot, the test driver) gives it records and time, and takes what it wants written:

    task.add(topic, records)      buffers what was fetched
    task.process(...)             the next records, merged by time
    task.punctuate(now_ms)        wall-clock punctuators that are due
    task.collect()                outputs, changelog records and positions since the last time

What `collect` gave belongs into one transaction. The task does no I/O and reads no clock; it is driven by one thread
and owns its nodes, its stores' handles and its stream time, which never goes back.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.context import NodeContext
from headwater.streams.engine.emit_on_close import ClosingProcessor
from headwater.streams.engine.expiry import expiring_rows
from headwater.streams.engine.failures import (
    ClusterFailure,
    FailureHandler,
    StreamsError,
    initialization_failed,
    innermost_node,
)
from headwater.streams.engine.forwarding import checked, is_of_a_user
from headwater.streams.engine.late_records import LateRecords
from headwater.streams.engine.opening import AnyStore, is_cached, open_bytes, typed
from headwater.streams.engine.operator_times import OperatorTimes
from headwater.streams.engine.output_buffer import OutputBuffer
from headwater.streams.engine.partition_group import Decode, PartitionGroup, PartitionQueue
from headwater.streams.engine.punctuation import PunctuationQueue, Schedule, check_schedule
from headwater.streams.engine.record_caches import flush_all, in_order_of_nodes
from headwater.streams.engine.runs import RUN, Runs
from headwater.streams.engine.sink import Sink, check_partitions
from headwater.streams.engine.source_decoding import global_decoder, is_table_of, source_decoder
from headwater.streams.engine.suppress_buffer import SuppressBuffer
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.model.processor import Cancellable, Forward, Processor, TimeKind, fan_out
from headwater.streams.model.record import (
    NO_HEADERS,
    Headers,
    InputRecord,
    Origin,
    OutputRecord,
    Record,
    RecordMetadata,
)
from headwater.streams.stores.cache import ChangeContext, StoreCache
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState
from headwater.streams.topology.topology import Partitioner, ProcessorNode, SinkNode, SourceNode, SubTopology

if TYPE_CHECKING:
    from headwater.streams.engine.lane.lane import Lane


class Task:
    """See the module. Its stores lie on `state`; they are restored through `byte_stores` before the first record.

    `global_stores` are read by name; the task of global tables and stores has all of them as its own.
    """

    def __init__(
        self,
        plan: SubTopology,
        partition: int,
        settings: TaskSettings,
        state: TaskState | None = None,
        global_stores: Mapping[str, Any] | None = None,
        now_ms: int = 0,
    ) -> None:
        self.plan = plan
        self.partition = partition
        self.settings = settings
        self.task_id = "-1_-1" if plan.is_global else f"{plan.number}_{partition}"
        self.stream_time_ms = -1
        self.wall_clock_ms = now_ms
        self._held_back: Origin | None = None  # of what goes on now, if it was held back
        self._keeps_records = not settings.errors.only_fails  # with what is held back
        self.commit_requested = False
        self.restoring = False  # of global ones: their topics are read for the first time
        self.global_stores = global_stores or {}
        self.group = PartitionGroup()
        self._current: InputRecord | None = None
        self.record_timestamp = -1  # of the record that is being processed, for the changelog
        self.record_headers: Headers = NO_HEADERS  # the same, for what a cached store tells later
        self.caches: list[StoreCache] = []
        self.byte_stores: dict[str, AnyStore] = {}
        self.stores: dict[str, Any] = {}
        self._buffers: list[SuppressBuffer] = []
        self.nodes: dict[str, Processor] = {}
        self.dropped: dict[str, int] = {}
        self._late = None if settings.late_records_topic is None else LateRecords(settings.late_records_topic)
        self._sources: dict[str, Forward] = {}  # topic -> what its records are given to
        self._patterns: list[tuple[str, Forward, Decode]] = []
        self.outputs = OutputBuffer()
        self._failures = FailureHandler(
            settings.errors, settings.application_id, self.task_id, self.outputs.records.append, self.drop
        )
        self._lane: Lane | None = None
        self._lane_known = False  # it is made when records come by column
        self._scheduled: list[Schedule] | None = []  # by `init` of the nodes; None when they are through
        self._stream_schedules = PunctuationQueue()
        self._wall_schedules = PunctuationQueue()
        for store in plan.stores:
            assert state is not None, f"task {self.task_id} has stores and needs a state for them"
            self.byte_stores[store.name] = open_bytes(store, self, state)
            self.stores[store.name] = opened = typed(store, self.byte_stores[store.name], self)
            if isinstance(opened, SuppressBuffer):
                self._buffers.append(opened)
                state.on_discard(opened.reload)
        self.caches = in_order_of_nodes(self.caches, plan.nodes)
        self._times = None if state is None else OperatorTimes(state.times)
        self._build()
        self._expiring = expiring_rows(plan.stores, self.byte_stores, self.nodes, settings.key, settings.value)

    def _build(self) -> None:
        contexts: dict[str, NodeContext] = {}
        for node in self.plan.nodes:
            if isinstance(node, ProcessorNode):
                self.nodes[node.name] = node.supplier()
                connected = self.stores if self.plan.is_global else node.stores
                stores = {name: self.stores[name] for name in connected if name in self.stores}
                contexts[node.name] = NodeContext(self, node.name, stores)
            elif isinstance(node, SinkNode):
                self.nodes[node.name] = self._sink(node)
                contexts[node.name] = NodeContext(self, node.name, {})
        children: dict[str, dict[str, Forward]] = {node.name: {} for node in self.plan.nodes}
        for node in self.plan.nodes:
            if not isinstance(node, SourceNode):
                process = self._guarded(node.name, self._entry(node))
                for parent in node.parents:
                    children[parent][node.name] = process
        for name, processor in self.nodes.items():
            by_child, together = children[name], fan_out(list(children[name].values()))
            if is_of_a_user(processor):
                by_child = {child: checked(name, forward) for child, forward in by_child.items()}
                together = checked(name, together)
            processor.context = context = contexts[name]
            processor.forward = together
            context.link(processor.forward, by_child)
        for node in self.plan.nodes:
            if isinstance(node, SourceNode):
                self._source(node, fan_out(list(children[node.name].values())))
        for name, processor in self.nodes.items():
            try:
                processor.init(contexts[name])
            except Exception as error:
                self._close_before(name)
                if isinstance(error, (UserError, ClusterFailure)):
                    raise
                raise initialization_failed(error, name, self.task_id) from error
            if self._times is not None and processor.kept_times:
                self._times.load(name, processor)
        scheduled, self._scheduled = self._scheduled or [], None
        if self._times is not None and self._times.load_schedules(scheduled):
            self._stream_schedules.moved()
            self._wall_schedules.bring_near(self.wall_clock_ms)

    def _entry(self, node: ProcessorNode | SinkNode) -> Forward:
        """What parents call. Stores without timestamps log changes at the time of the record that their own node
        processes, and cached ones tell them as coming from that record.
        """
        process = self.nodes[node.name].process
        stores = (
            [self.plan_of(name) for name in node.stores if name in self.stores]
            if isinstance(node, ProcessorNode)
            else []
        )
        if isinstance(node, ProcessorNode) and any(is_cached(self.stores.get(name)) for name in node.stores):
            return self._noting_record(process)
        if all(store.timestamped for store in stores):
            return process

        def timed(record: Record) -> None:
            outside = self.record_timestamp
            self.record_timestamp = record.timestamp
            try:
                process(record)
            finally:  # a failure may be survived, and the node before goes on
                self.record_timestamp = outside

        return timed

    def _noting_record(self, process: Forward) -> Forward:
        def noting(record: Record) -> None:
            outside = self.record_timestamp, self.record_headers
            self.record_timestamp, self.record_headers = record.timestamp, record.headers
            try:
                process(record)
            finally:
                self.record_timestamp, self.record_headers = outside

        return noting

    def plan_of(self, name: str) -> StoreSpec:
        return next(store.spec for store in self.plan.stores if store.name == name)

    def _sink(self, node: SinkNode) -> Sink:
        topic = self.topic_name(node.topic) if isinstance(node.topic, str) else node.topic
        partitions = self._partitions(node.partitioner) if node.partitioner is not None else None
        key, value = node.key or self.settings.key, node.value or self.settings.value
        return Sink(topic, key, value, partitions, self.outputs.records.append, self._production_failed)

    def _partitions(self, partitioner: Partitioner) -> Callable[[str, Any, Any], list[int | None]]:
        def choose(topic: str, key: Any, value: Any) -> list[int | None]:
            count = self.settings.partition_count(topic) if self.settings.partition_count is not None else 1
            chosen = partitioner(topic, key, value, count)
            found: list[int | None] = [chosen] if chosen is None or isinstance(chosen, int) else list(chosen)
            if self.settings.checks_partitions:
                check_partitions(topic, found, count)
            return found

        return choose

    def _source(self, node: SourceNode, forward: Forward) -> None:
        if node.is_global:
            is_table = any(is_table_of(each, node.name) for each in self.plan.nodes)
            decode = global_decoder(node, self.settings, self._failures, lambda: self.restoring, is_table)
        else:
            decode = source_decoder(node, self.settings, self._failures, lambda: self.wall_clock_ms)
        if node.pattern is not None:
            self._patterns.append((node.pattern, forward, decode))
        for name in node.topics:
            topic = self.topic_name(name)
            self._sources[topic] = forward
            self.group.register(PartitionQueue((topic, self.partition), decode))

    def take_topic(self, topic: str) -> bool:
        """A topic that has come up: whether a pattern of this task matches it. It is an input from then on."""
        for pattern, forward, decode in self._patterns:
            if re.fullmatch(pattern, topic) is not None:
                self._sources[topic] = forward
                self.group.register(PartitionQueue((topic, self.partition), decode))
                return True
        return False

    def topic_name(self, name: str) -> str:
        """Internal topics begin with the application's id."""
        return f"{self.settings.application_id}-{name}" if name in self.plan.internal_names else name

    # -- driven from outside

    def add(self, topic: str, records: Iterable[InputRecord]) -> None:
        """Buffers records of the task's partition of a topic, in the order of their offsets."""
        self.group.add((topic, self.partition), records)

    def add_columns(self, chunk: Chunk) -> None:
        """The same, by column: the quick way for those tasks that have a lane."""
        if not self._lane_known:
            from headwater.streams.engine.lane.lane import compile_lane

            self._lane, self._lane_known = compile_lane(self), True
        if self._lane is not None and self._lane.takes(chunk):
            self.group.add_chunk((chunk.topic, chunk.partition), chunk)
        else:
            self.group.add_later((chunk.topic, chunk.partition), chunk)

    def process_next(self, most: int = 1) -> int:
        """The next buffered record, or a run of up to `most`; how many."""
        if self._lane is not None and self.group.in_columns:
            self.outputs.begin_columns()
            done = self._lane.step(most)
            if done:
                for cache in self.caches:  # not within the run: what fails there would do the run again
                    cache.make_room()
                return done
        found = self.group.poll()
        if found is None:
            return 0
        queue, raw, record = found
        self.process_record(queue, raw, record)
        return 1

    def process(
        self, limit: int | None = None, leave: Callable[[], bool] | None = None, runs: Runs | None = None
    ) -> int:
        """Buffered records, while every input has one (then nothing with a lower time can come before); how many.

        `leave` is asked behind each, or each run of a lane, of which `runs` says how long they may be: what else there
        is to do may not wait for slow functions.
        """
        done = 0
        while (limit is None or done < limit) and self.group.all_buffered:
            most = RUN if runs is None else runs.most
            taken = self.process_next(most if limit is None else min(most, limit - done))
            if not taken:
                break
            done += taken
            if leave is not None and leave():
                break
        return done

    def process_record(self, queue: PartitionQueue, raw: InputRecord, record: Record) -> None:
        """One record through all nodes, then the stream-time punctuators that it makes due."""
        self.outputs.begin_records()
        self.observe(record.timestamp)
        if self._expiring:
            self._expire()
        self.record_timestamp = record.timestamp
        self._current = raw
        try:
            self._sources[queue.topic_partition[0]](record)
        except (StreamsError, ClusterFailure):
            raise
        except Exception as error:
            node = innermost_node(error, self.nodes) or "?"
            raise StreamsError(self._failures.of("processing", error, raw, record.timestamp, node)) from error
        self._current = None
        if self._late is not None:
            self.outputs.records += self._late.take(raw)
        if self._stream_schedules.due_ms <= self.stream_time_ms:
            self._stream_schedules.fire(self.stream_time_ms, self._call)

    def _expire(self) -> None:
        """Rows whose time to live is over go before the record is processed that makes it so."""
        self.record_timestamp = now_ms = self.stream_time_ms
        for rows in self._expiring:
            rows.expire(now_ms, lambda error, node: self._expiry_failed(error, now_ms, node))

    def _expiry_failed(self, error: Exception, now_ms: int, node: str) -> None:
        if isinstance(error, (StreamsError, ClusterFailure)):
            raise error
        self._failures.handle(self._failures.of("processing", error, None, now_ms, node))

    def punctuate(self, now_ms: int) -> bool:
        """Sets the wall clock, and calls the punctuators that are due."""
        self.wall_clock_ms = now_ms
        return self._wall_schedules.fire(now_ms, self._call)

    def flush_cache(self) -> None:
        """Changes that wait in record caches go to the changelog and through the nodes behind: before the `collect` of
        a commit. Nothing waits afterwards: the offsets of its records are committed, and nobody would come back to it.
        """
        self.outputs.begin_records()
        flush_all(self.caches)

    def next_punctuation_ms(self) -> int | None:
        """When `punctuate` has something to do."""
        return self._wall_schedules.next_due_ms()

    def collect(self) -> TaskOutput:
        """What was made since the last call, for one transaction."""
        for buffer in self._buffers:
            buffer.flush()
        if self._times is not None:
            self._times.save()
        records, changelog, pieces, changelog_pieces = self.outputs.take()
        output = TaskOutput(records, changelog, self.group.positions(), self.dropped, pieces, changelog_pieces)
        self.dropped = {}
        self.commit_requested = False
        return output

    @property
    def close_times(self) -> dict[str, int]:
        """By store: up to where the results of windows that are emitted on close have gone out. To be committed with
        the offsets.
        """
        closing = [node for node in self.nodes.values() if isinstance(node, ClosingProcessor)]
        return {node.store_name: node.last_close_time for node in closing if node.last_close_time != -1}

    def pass_over_schedules(self) -> None:
        """Stream time is that of the last commit. Whatever is due at it was called before that commit, as it is behind
        each record; the due times that were saved may be older, or lost: a process that was killed did not save them.
        """
        self._stream_schedules.pass_over(self.stream_time_ms)

    def load_close_times(self, times: Mapping[str, int]) -> None:
        """What was committed; the notes may be older, or lost."""
        for node in self.nodes.values():
            if isinstance(node, ClosingProcessor):
                node.last_close_time = max(node.last_close_time, times.get(node.store_name, -1))

    def close(self) -> None:
        for cache in self.caches:
            cache.clear()
        failed: Exception | None = None
        for processor in self.nodes.values():  # all of them, also behind one that raises
            try:
                processor.close()
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the first is told
                failed = failed or error
        if failed is not None:
            raise failed

    def _close_before(self, failed: str) -> None:
        """Nodes that came to life before one that did not: nobody will have them. What they say is not the cause."""
        for name, processor in self.nodes.items():
            if name == failed:
                return
            with suppress(Exception):
                processor.close()

    # -- for nodes and stores

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Where the record came from that is being processed; None in a punctuator."""
        if self._held_back is not None:
            return self._held_back.metadata
        raw = self._current
        return None if raw is None else RecordMetadata(raw.topic, raw.partition, raw.offset)

    @property
    def origin(self) -> Origin:
        """Of what is held back now. The record itself only where a failure may be survived: else nobody asks for it."""
        if self._held_back is not None:
            return self._held_back
        raw = self._current
        return Origin(self.record_metadata, raw if self._keeps_records else None)

    def change_context(self) -> ChangeContext:
        """Of a change that a cached store tells later."""
        return ChangeContext(self.record_timestamp, self.record_headers, *self.origin)

    def resume(self, node: str, record: Record, origin: Origin, step: Forward) -> None:
        """`step(record)` with what a node has held back. The record that is being processed has nothing to do with it:
        what fails is a failure of the one that it came from, as in Kafka Streams, whose buffers keep that record's
        context.
        """
        outside = self.leave_record(origin, record.timestamp)
        try:
            step(record)
        except (StreamsError, ClusterFailure):
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the policy decides
            at = innermost_node(error, self.nodes) or node
            self._failures.handle(self._failures.of("processing", error, None, record.timestamp, at, origin))
        finally:
            self.return_to_record(*outside)

    def leave_record(self, origin: Origin, timestamp: int) -> tuple[Origin | None, int]:
        """What was held back goes on, of that time. Gives what to return to."""
        outside = self._held_back, self.record_timestamp
        self._held_back, self.record_timestamp = origin, timestamp
        return outside

    def return_to_record(self, origin: Origin | None, timestamp: int) -> None:
        self._held_back, self.record_timestamp = origin, timestamp

    def change_failed(self, store: str, made_by: ChangeContext, error: Exception) -> StreamsError:
        """A change from the record cache of a store, told with the record that made it."""
        node = innermost_node(error, self.nodes) or store
        origin = Origin(made_by.metadata, made_by.record)
        return StreamsError(self._failures.of("processing", error, None, made_by.timestamp, node, origin))

    def observe(self, timestamp: int) -> None:
        """Stream time never goes back."""
        if timestamp > self.stream_time_ms:
            self.stream_time_ms = timestamp

    def log_change(self, record: OutputRecord) -> None:
        """A change of a store, for its changelog."""
        self.outputs.changelog.append(record)

    def tombstone_at(self, timestamp: int) -> None:
        """The changelog record of a deletion has the timestamp of the update that deletes."""
        self.record_timestamp = timestamp

    def schedule(self, node: str, interval_ms: int, kind: TimeKind, callback: Callable[[int], None]) -> Cancellable:
        interval_ms = check_schedule(node, interval_ms, kind, callback)
        if self.plan.is_global:
            raise UserError(f"{node} schedules a punctuator", "the processor of a global store has none")
        if kind == "stream":
            schedule = Schedule(node, 0, interval_ms, callback)
            self._stream_schedules.add(schedule)
        else:
            schedule = Schedule(node, self.wall_clock_ms + interval_ms, interval_ms, callback)
            self._wall_schedules.add(schedule)
        if self._scheduled is not None:
            self._scheduled.append(schedule)
        return schedule

    def _call(self, schedule: Schedule, now_ms: int) -> None:
        self.record_timestamp, self.record_headers = now_ms, NO_HEADERS
        try:
            schedule.callback(now_ms)
        except (StreamsError, ClusterFailure):
            raise
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the policy decides
            self._failures.handle(self._failures.of("processing", error, None, now_ms, schedule.node_name))

    # -- failures

    def _guarded(self, name: str, process: Forward) -> Forward:
        """Where a failure in a node may be survived, each node is watched; where it may not, nothing is in the way."""
        if self.settings.errors.processing == "fail":
            return process

        def guarded(record: Record) -> None:
            try:
                process(record)
            except (StreamsError, ClusterFailure):
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; the policy decides
                self._failures.handle(
                    self._failures.of("processing", error, self._current, record.timestamp, name, self._held_back)
                )

        return guarded

    def _production_failed(self, error: Exception, node: str) -> None:
        self._failures.handle(
            self._failures.of("production", error, self._current, self.record_timestamp, node, self._held_back)
        )

    def drop_late(self, node: str, by_ms: int, reason: str = "late") -> None:
        self.drop(reason)
        if self._late is not None and self._current is not None and self._held_back is None:
            self._late.add(node, by_ms)

    def drop(self, reason: str, count: int = 1) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + count
