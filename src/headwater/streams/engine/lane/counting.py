"""Counts of a whole run at once, in C (`streams/native`), where a source is counted by key, perhaps in tumbling
windows, and the counts go to topics.

The most common aggregate, and the one where Python's share per record is the largest. `counting_run` gives None where
the topology is another one, or without the compiled module; a run that it leaves (rows behind the retention) is done by
the lane's own function. Both give the same, which the property test of the lane compares. A run changes nothing before
all of it is counted.

Where the store is cached, a run puts its counts into the store and leaves it to the record cache to tell the last of
each key, by column too (`cached_counting_run`): what a run would have sent twice is not even made. A cache that is too
small makes room behind a run, not behind each record.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from headwater.base.compiled import is_pure_wanted
from headwater.records.codec import partition_keys
from headwater.records.columns import BinaryColumn
from headwater.streams.engine.columns import PackedRows
from headwater.streams.engine.lane.code import NotInLane
from headwater.streams.engine.sink import Sink
from headwater.streams.engine.stream_aggregate import StreamAggregateProcessor
from headwater.streams.engine.table_to_stream import TableToStream
from headwater.streams.engine.window_aggregate import WindowAggregateProcessor
from headwater.streams.model.record import NO_HEADERS, RecordMetadata
from headwater.streams.model.windows import TimeWindows
from headwater.streams.serdes.native_cells import Cells, Column, NativeCells, native_cells
from headwater.streams.serdes.stock import LONG
from headwater.streams.serdes.windowed import WindowedSerde
from headwater.streams.stores.cache import ChangeContext, StoreCache
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.topology.partitioning import ByInnerKey
from headwater.streams.topology.topology import ProcessorNode, SinkNode, SourceNode

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task

_SEGMENT_BYTES: Final = 8  # before the key of a window in a row's

Run = Callable[..., None]
Check = Callable[[list[bytes | None]], Any]


class Counting(Protocol):
    """The compiled module."""

    def count_rows(
        self,
        rows: list[bytes],
        times: list[int],
        fresh: dict[bytes, bytes | None],
        layers: tuple[dict[bytes, bytes | None], ...],
        end: bytes | None,
        get: Callable[[bytes], bytes | None],
        /,
    ) -> tuple[bytes, bytes]: ...

    def last_changes(
        self, rows: list[bytes], counts: bytes, fresh: dict[bytes, bytes | None], skipped: int, /
    ) -> tuple[list[bytes], list[bytes]]: ...

    def split_counts(self, rows: list[bytes], /) -> tuple[bytes, bytes]: ...

    def window_columns(self, keys: list[bytes], /) -> tuple[Column, Column, Column]: ...

    def window_rows(self, keys: Cells, times: list[int], /, *numbers: int) -> Any: ...


def compiled_counting() -> Counting | None:
    if is_pure_wanted():
        return None
    try:
        from headwater.streams import _counting
    except ImportError:
        return None
    found: Counting = _counting
    return found


@dataclass(frozen=True, slots=True)
class Shape:
    """A source that is counted, and the topics that get the counts."""

    processor: StreamAggregateProcessor | WindowAggregateProcessor
    topics: list[str]
    log: str | None


def counting_run(task: "Task", checks: tuple[Check, Check], otherwise: Run) -> "_KeyCounts | _WindowCounts | None":
    """For a task that has a lane, whose function is `otherwise`."""
    native, cells = compiled_counting(), native_cells()
    shape = None if native is None else _shape(task)
    if native is None or cells is None or shape is None:
        return None
    if isinstance(shape.processor, WindowAggregateProcessor):
        return _WindowCounts(task, shape, native, checks, otherwise, cells)
    return _KeyCounts(task, shape, native, checks, otherwise, cells)


def cached_counting_run(task: "Task", checks: tuple[Check, Check]) -> Run | None:
    """The same for a task whose only cached store is that of the counts. What it leaves goes through the nodes."""
    made = counting_run(task, checks, _leave_to_nodes)
    if made is None or len(task.caches) != 1 or not made.hold_back(task.caches[0]):
        return None
    return made


def _leave_to_nodes(*_: object) -> None:
    raise NotInLane("a run of counts in a cached store")


def _shape(task: "Task") -> Shape | None:
    children: dict[str, list[str]] = {node.name: [] for node in task.plan.nodes}
    for node in task.plan.nodes:
        if not isinstance(node, SourceNode):
            for parent in node.parents:
                children[parent].append(node.name)
    sources = [node for node in task.plan.nodes if isinstance(node, SourceNode)]
    if len(sources) != 1 or len(children[sources[0].name]) != 1:
        return None
    (counting,) = children[sources[0].name]
    processor = task.nodes[counting]
    if not isinstance(processor, StreamAggregateProcessor | WindowAggregateProcessor) or not processor.is_count:
        return None
    store = next(each for each in task.plan.stores if each.name == processor.store_name)
    processors = [node for node in task.plan.nodes if isinstance(node, ProcessorNode)]
    if [node.name for node in processors if store.name in node.stores] != [counting]:
        return None  # who puts other rows there, or deletes them, is a matter for nodes
    key = sources[0].key or task.settings.key
    if (store.key or task.settings.key) is not key or (store.value or task.settings.value) is not LONG:
        return None
    if not getattr(key, "exact", False) or not all(
        isinstance(task.nodes[name], TableToStream) for name in children[counting]
    ):
        return None
    names = [sink for name in children[counting] for sink in children[name]]
    windowed = isinstance(processor, WindowAggregateProcessor)
    if isinstance(processor, WindowAggregateProcessor) and not _is_tumbling(processor):
        return None
    if not all(isinstance(task.nodes[name], Sink) and not children[name] for name in names):
        return None
    sinks = [node for node in task.plan.nodes if isinstance(node, SinkNode) and node.name in names]
    for sink in sinks:
        sink_key = sink.key or task.settings.key
        if windowed and not (isinstance(sink_key, WindowedSerde) and isinstance(sink.partitioner, ByInnerKey)):
            return None  # the nodes tell what is wrong with such keys, or know where they go
        inner = sink_key.inner if isinstance(sink_key, WindowedSerde) else sink_key
        if inner is not key or (sink.value or task.settings.value) is not LONG:
            return None
    topics = [task.nodes[name].topic for name in names]  # type: ignore[attr-defined]
    if len(set(topics)) < len(topics):
        return None  # what goes to one topic is interleaved, record by record
    topic = store.changelog_topic(task.settings.application_id)
    log = topic if store.spec.logged and store.source_topic is None else None
    return Shape(processor, topics, log) if all(isinstance(each, str) for each in topics) else None


def _is_tumbling(processor: WindowAggregateProcessor) -> bool:
    windows = processor.windows
    return isinstance(windows, TimeWindows) and windows.size_ms == windows.advance_ms


class _Counts(ABC):
    def __init__(
        self,
        task: "Task",
        shape: Shape,
        native: Counting,
        checks: tuple[Check, Check],
        otherwise: Run,
        cells: NativeCells,
    ) -> None:
        self._pack_cells = cells.pack_cells
        self._cache: StoreCache | None = None
        source = next(node for node in task.plan.nodes if isinstance(node, SourceNode))
        origin = RecordMetadata(task.topic_name(source.topics[0]), task.partition, -1)
        self.context = ChangeContext(-1, NO_HEADERS, origin)
        self._task = task
        self._shape = shape
        self._native = native
        self._check_keys, self._check_values = checks
        self._otherwise = otherwise
        self._store: Any = cast(Any, task.byte_stores[shape.processor.store_name])
        self._rows: PendingMap = self._store.rows  # of a key-value or a window store

    def _count(self, rows: list[bytes], times: list[int]) -> tuple[bytes, bytes, dict[bytes, bytes | None]]:
        fresh: dict[bytes, bytes | None] = {}
        layers, end = self._rows.layers()
        counts, stamps = self._native.count_rows(rows, times, fresh, layers, end, self._rows.get)
        return counts, stamps, fresh

    def hold_back(self, cache: StoreCache) -> bool:
        """Runs go to the cache from now on; False: nodes see to that."""
        if self._shape.processor.send_old_values or cache is not getattr(self._store, "cache", None):
            return False
        self._cache = cache
        cache.run_teller = self
        return True

    @abstractmethod
    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None: ...

    def _packed(self, keys: Column, counts: bytes, stamps: bytes, places: bytes | None = None) -> PackedRows:
        offsets, data = keys
        return PackedRows(len(counts) // 8, offsets, data, counts, stamps, places)

    def _log(self, keys: Column, counts: bytes, stamps: bytes) -> None:
        if self._shape.log is not None:
            columns = self._task.outputs.packed_of(self._shape.log, self._task.partition)
            columns.add(self._packed(keys, counts, stamps))

    def _drop(self, reason: str, count: int) -> None:
        if count:
            self._task.drop(reason, count)


class _KeyCounts(_Counts):
    def __call__(self, order: bytes, keys: Cells, values: Cells, times: list[int]) -> None:  # noqa: ARG002 - as a lane's function
        self._check_keys(keys)
        self._check_values(values)
        kept: list[Any] = keys
        if None in keys or None in values:
            whole = [i for i, key in enumerate(keys) if key is not None and values[i] is not None]
            kept, times = [keys[i] for i in whole], [times[i] for i in whole]
        packed = None if self._cache is not None else self._pack_cells(kept)
        counts, stamps, fresh = self._count(kept, times)
        self._rows.put_all(fresh)
        if self._cache is not None:
            self._cache.put_run(*self._native.last_changes(kept, counts, fresh, 0))
        elif packed is not None:
            self._send(packed, counts, stamps)
        self._drop("null key or value", len(keys) - len(kept))

    def _send(self, packed: Column, counts: bytes, stamps: bytes) -> None:
        self._log(packed, counts, stamps)
        for topic in self._shape.topics:
            self._task.outputs.packed_of(topic, None).add(self._packed(packed, counts, stamps))

    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None:
        self._task.outputs.begin_columns()
        self._send(self._pack_cells(keys), *self._native.split_counts(values))


class _WindowCounts(_Counts):
    def __call__(self, order: bytes, keys: Cells, values: Cells, times: list[int]) -> None:
        self._check_keys(keys)
        self._check_values(values)
        segments, processor = self._store.segments, self._shape.processor
        assert isinstance(processor, WindowAggregateProcessor)
        windows: Any = processor.windows
        found = self._native.window_rows(
            keys,
            times,
            windows.size_ms,
            windows.grace_ms,
            segments.interval_ms,
            segments.retention_ms,
            processor.observed_stream_time,
            segments.stream_time,
            segments.oldest,
        )
        if found is None:
            self._otherwise(order, keys, values, times)
            return
        rows, kept_times, logged, told, kept, observed, latest, late, nulls = found
        counts, stamps, fresh = self._count(rows, kept_times)
        if self._cache is None:
            self._send(logged, told, kept, counts, stamps)
        self._rows.put_all(fresh)
        processor.observed_stream_time = observed
        segments.observe(latest)
        self._drop("late", late)
        self._drop("null key", nulls)
        if self._cache is not None:
            self._cache.put_run(*self._native.last_changes(rows, counts, fresh, _SEGMENT_BYTES))

    def _send(self, logged: Column, told: Column, kept: Column, counts: bytes, stamps: bytes) -> None:
        """Keys in the changelog, in the results, and alone."""
        places = {topic: self._places(topic, len(counts) // 8, kept) for topic in self._shape.topics}
        self._log(logged, counts, stamps)
        for topic in self._shape.topics:
            self._task.outputs.packed_of(topic, None).add(self._packed(told, counts, stamps, places[topic]))

    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None:
        self._task.outputs.begin_columns()
        self._send(*self._native.window_columns(keys), *self._native.split_counts(values))

    def _places(self, topic: str, size: int, keys: Column) -> bytes:
        """Windows lie where their keys do."""
        partition_count = self._task.settings.partition_count
        count = 1 if partition_count is None else partition_count(topic)
        if count == 1 or not size:
            return bytes(4 * size)
        offsets, data = keys
        return bytes(partition_keys(size, BinaryColumn(None, offsets, data, 8, 0), count))
