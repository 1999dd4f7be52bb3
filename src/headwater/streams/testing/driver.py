"""`app.test()`: pipe records in, read what comes out, advance the clock, look into stores.

Each record is processed completely, through repartition topics and topics that are written and read again, before the
next, and committed: a record cache, where the application has one, is flushed then. With one partition the order is
that of Kafka Streams' TopologyTestDriver: what waits in internal topics is merged by time. With `partitions=N` there is
a task per sub-topology and partition, and keys meet as on a broker.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.streams.engine.failures import dead_letter_topic
from headwater.streams.engine.partition_group import PartitionGroup
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.model.record import NO_HEADERS, Headers, InputRecord, OutputRecord, checked_headers
from headwater.streams.model.time import whole
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.memory import MemoryState
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SinkNode, SourceNode, Topology, global_topology

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


class TestRecord:
    """A record that came out, decoded."""

    __test__ = False  # for pytest: not a class of tests
    __slots__ = ("headers", "key", "partition", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers, partition: int) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers
        self.partition = partition

    def __repr__(self) -> str:
        return f"TestRecord({self.key!r}, {self.value!r}, timestamp={self.timestamp})"

    def __iter__(self) -> Iterator[Any]:
        return iter((self.key, self.value, self.timestamp))


class Driver:
    """Owns the tasks, their stores in memory, and the clock."""

    def __init__(
        self,
        app: "App",
        *,
        partitions: int = 1,
        now_ms: int = 0,
        cache_max_bytes: int = 0,
        commit_each_record: bool = True,
    ) -> None:
        if partitions < 1:
            raise UserError(f"A driver cannot have {partitions} partitions of each topic", "there is one at least")
        self.app = app
        self._commit_each_record = commit_each_record
        self.partitions = partitions
        self.now_ms = now_ms
        self._group = PartitionGroup()  # the inputs of all tasks, so that one order goes over all
        self._owner: dict[tuple[str, int], Task] = {}
        self._next_offset: dict[tuple[str, int], int] = {}
        self._outputs: dict[str, list[OutputRecord]] = {}
        self.changelog: dict[str, list[OutputRecord]] = {}
        self.dropped: dict[str, int] = {}
        self.tasks: list[Task] = []
        self._states: dict[Task, MemoryState] = {}
        topology = app.topology()
        self._serdes = _serdes_of_topics(topology.nodes.values(), app.name, set(topology.internal_topics))
        self._written = _written_topics(app, topology)
        settings = app.settings(
            emit_interval_ms=0,
            partition_count=lambda topic: partitions,  # noqa: ARG005
            cache_max_bytes=cache_max_bytes,
        ).with_cache()
        plans = topology.sub_topologies()
        together = global_topology(plans)
        self._state_of_globals = MemoryState()
        self._globals = [] if together is None else [Task(together, 0, settings, self._state_of_globals, now_ms=now_ms)]
        shared = {name: store for task in self._globals for name, store in task.stores.items()}
        for plan in plans:
            for partition in () if plan.is_global else range(partitions):
                state = MemoryState()
                task = Task(plan, partition, settings, state, shared, now_ms)
                self.tasks.append(task)
                self._states[task] = state
                for queue in task.group.queues.values():
                    self._group.register(queue)
                    self._owner[queue.topic_partition] = task
        self._settle()

    # -- what a test does

    def pipe(
        self,
        topic: str,
        key: Any,
        value: Any,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, bytes | None]] = NO_HEADERS,
        partition: int | None = None,
    ) -> None:
        """One record. Key and value are encoded as the topic's source reads them; bytes are taken as they are."""
        if (topic, 0) not in self._owner:
            self._take_topic(topic)
        if (topic, 0) not in self._owner and self._global_of(topic) is None:
            raise UserError(
                f"Nothing reads the topic {topic}", f"these are read: {', '.join(sorted(self.input_topics))}"
            )
        key_serde, value_serde = self._serdes_of(topic)
        raw_key, raw_value = _encode(key_serde, key), _encode(value_serde, value)
        at = whole(self.now_ms if timestamp is None else timestamp)
        if at is None:
            raise UserError(
                f"A record cannot have the timestamp {timestamp!r}", "times are whole numbers of milliseconds"
            )
        where = self._partition(raw_key) if partition is None else partition
        record = OutputRecord(topic, where, raw_key, raw_value, at, checked_headers(headers))
        if (topic, 0) in self._owner:
            self._enqueue(record)
            self._settle()
        self._update_global(record)

    def read(self, topic: str, *, key: Any = None, value: Any = None) -> list[TestRecord]:
        """What was written to a topic since it was last read, decoded by its serdes or by those given."""
        from headwater.streams.serdes.resolving import resolve_optional

        self.check_written(topic)
        known_key, known_value = self._serdes_of(topic)
        read_key = (resolve_optional(key) or known_key).deserialize
        read_value = (resolve_optional(value) or known_value).deserialize
        records = self._outputs.pop(topic, [])
        return [
            TestRecord(
                None if record.key is None else read_key(record.key),
                None if record.value is None else read_value(record.value),
                record.timestamp,
                record.headers,
                record.partition or 0,
            )
            for record in records
        ]

    def read_raw(self, topic: str) -> list[OutputRecord]:
        """The same, in bytes."""
        self.check_written(topic)
        return self._outputs.pop(topic, [])

    def advance(self, by_ms: int) -> None:
        """Moves the wall clock on, and calls the punctuators that are due."""
        if by_ms < 0:
            raise UserError(f"The clock cannot be moved by {by_ms} ms", "it never goes back")
        self.now_ms += by_ms
        for task in self.tasks:
            task.punctuate(self.now_ms)
            self._collect(task)
        self._settle()

    def commit(self) -> None:
        """Flushes record caches, and again when what came out of them has been processed, until no record waits in an
        internal topic: of a driver that does not commit each record.
        """
        while True:
            for task in self.tasks:
                task.flush_cache()
                output = task.collect()
                self._states[task].commit({})
                self._take(output)
            if not self._group.buffered:
                return
            self._settle()

    def store(self, name: str, partition: int = 0) -> Any:
        """A store of the task that has this partition."""
        for task in [*self._globals, *(task for task in self.tasks if task.partition == partition)]:
            if name in task.stores:
                return task.stores[name]
        raise UserError(
            f"There is no store {name}", f"these are there: {', '.join(sorted(self.store_names)) or 'none'}"
        )

    def serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        """Of keys and values: what the topic's source reads, else what its sink writes, else the application's."""
        return self._serdes_of(topic)

    def serdes_of_store(self, name: str) -> tuple[Serde, Serde]:
        plan = self.plan_of_store(name)
        return plan.key or self.app.default_key, plan.value or self.app.default_value

    def plan_of_store(self, name: str) -> StorePlan:
        for task in [*self.tasks, *self._globals]:
            for plan in task.plan.stores:
                if plan.name == name:
                    return plan
        self.store(name)
        raise AssertionError("a store without a plan")

    @property
    def store_names(self) -> set[str]:
        return {name for task in [*self.tasks, *self._globals] for name in task.stores}

    @property
    def input_topics(self) -> set[str]:
        owned = [*self._owner] + [key for task in self._globals for key in task.group.queues]
        return {topic for topic, _ in owned}

    @property
    def output_topics(self) -> set[str]:
        return set(self._outputs)

    def close(self) -> None:
        for task in [*self.tasks, *self._globals]:
            task.close()

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def feed(self, records: Iterable[InputRecord]) -> None:
        """Records as they were read, with their own partitions and offsets: all wait, and are then taken in the order
        of their times.
        """
        for raw in records:
            self._group.add((raw.topic, raw.partition), [raw])
        self._settle()

    def forget(self) -> None:
        """Lets go of what was written: for a driver that lives long and whose outputs nobody reads."""
        self._outputs.clear()
        self.changelog.clear()

    # -- one record after the other

    def _settle(self) -> None:
        """Until nothing waits any more."""
        for task in self.tasks:
            self._collect(task)
        while (found := self._group.poll()) is not None:
            queue, raw, record = found
            task = self._owner[queue.topic_partition]
            task.wall_clock_ms = self.now_ms
            task.process_record(queue, raw, record)
            self._collect(task)

    def _collect(self, task: Task) -> None:
        if self._commit_each_record:
            task.flush_cache()
        output = task.collect()
        if self._commit_each_record:
            self._states[task].commit({})
        self._take(output)

    def _take(self, output: TaskOutput) -> None:
        for reason, count in output.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        for record in output.changelog:
            self.changelog.setdefault(record.topic, []).append(record)
        for record in output.records:
            where = self._partition(record.key) if record.partition is None else record.partition
            placed = record._replace(partition=where)
            self._outputs.setdefault(record.topic, []).append(placed)
            if (record.topic, where) in self._owner:
                self._enqueue(placed)
            self._update_global(placed)

    def _enqueue(self, record: OutputRecord) -> None:
        assert record.partition is not None
        at = (record.topic, record.partition)
        if at not in self._owner:
            raise UserError(
                f"{record.topic} has no partition {record.partition}", f"the driver has {self.partitions} of each topic"
            )
        offset = self._next_offset.get(at, 0)
        self._next_offset[at] = offset + 1
        raw = InputRecord(
            record.topic, record.partition, offset, record.timestamp, record.key, record.value, record.headers
        )
        self._group.add(at, [raw])

    def _take_topic(self, topic: str) -> None:
        """A topic that nobody names may match a pattern."""
        for task in self.tasks:
            if task.take_topic(topic):
                queue = task.group.queues[topic, task.partition]
                self._group.register(queue)
                self._owner[queue.topic_partition] = task

    def _global_of(self, topic: str) -> Task | None:
        return next((task for task in self._globals if (topic, 0) in task.group.queues), None)

    def _update_global(self, record: OutputRecord) -> None:
        """Global tables are one for all partitions, and up to date at once."""
        task = self._global_of(record.topic)
        if task is None:
            return
        offset = self._next_offset.get((record.topic, 0), 0)
        self._next_offset[record.topic, 0] = offset + 1
        raw = InputRecord(record.topic, 0, offset, record.timestamp, record.key, record.value, record.headers)
        task.wall_clock_ms = self.now_ms
        task.add(record.topic, [raw])
        task.process_next()
        output = task.collect()
        self._state_of_globals.commit({})
        self._take(output)

    def _partition(self, key: bytes | None) -> int:
        if key is None or self.partitions == 1:
            return 0
        from headwater.client.partitioner import partition_for_key

        return partition_for_key(key, self.partitions)

    def check_written(self, topic: str) -> None:
        """A misspelt name would read as nothing, which is what some tests wait for."""
        if self._written is not None and topic not in self._written:
            raise UserError(
                f"Nothing writes to the topic {topic}",
                f"these are written: {', '.join(sorted(self._written)) or 'none'}",
            )

    def _serdes_of(self, topic: str) -> tuple[Serde, Serde]:
        key, value = self._serdes.get(topic, (None, None))
        return key or self.app.default_key, value or self.app.default_value


def _written_topics(app: "App", topology: Topology) -> set[str] | None:
    """None where a function names topics: then it may be any."""
    found = {app.late_records_to} if app.late_records_to is not None else set()
    errors = app.errors
    if any(stage not in ("fail", "skip") for stage in (errors.deserialization, errors.processing, errors.production)):
        found.add(dead_letter_topic(errors, app.name))
    for node in topology.nodes.values():
        if isinstance(node, SinkNode):
            if not isinstance(node.topic, str):
                return None
            found.add(f"{app.name}-{node.topic}" if node.topic in topology.internal_topics else node.topic)
    return found


def _serdes_of_topics(nodes: Iterable[Any], application_id: str, internal: set[str]) -> dict[str, tuple[Any, Any]]:
    """By topic: what its source reads, else what its sink writes."""
    found: dict[str, tuple[Any, Any]] = {}
    for node in sorted(nodes, key=lambda node: isinstance(node, SourceNode)):
        if isinstance(node, SinkNode) and isinstance(node.topic, str):
            names: tuple[str, ...] = (node.topic,)
        elif isinstance(node, SourceNode):
            names = node.topics
        else:
            continue
        for name in names:
            found[f"{application_id}-{name}" if name in internal else name] = (node.key, node.value)
    return found


def _encode(serde: Serde, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return serde.serialize(value)
