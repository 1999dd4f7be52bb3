"""Sources whose records go one way only, by column: through maps of values, filters and joins with tables to one topic,
or into the store of a table. No loop over records: each step takes the whole run.

Only with at most one function of the user, which is called for one record after the other, in their order: with two,
one would see all records before the other sees the first. A chain is for runs of one source; where another source's
records are in between, which may change what a join finds, the lane's function takes them. Both give the same, which
the property test of the lane compares.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress
from operator import add
from typing import TYPE_CHECKING, Any

from headwater.streams.engine.lane.topic_results import TopicResults, check_lengths
from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.sink import Sink
from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map_values import StreamMapValues
from headwater.streams.engine.stream_table_join import StreamTableJoin
from headwater.streams.engine.table import StoreGetter
from headwater.streams.engine.table_source import TableSourceProcessor
from headwater.streams.engine.typed_stores import TimestampedKeyValueStore
from headwater.streams.model.processor import Processor
from headwater.streams.serdes.native_cells import Cells, native_cells
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.stock import TEXT
from headwater.streams.serdes.windowed import WindowedSerde
from headwater.streams.stores.formats import LONG as EIGHT
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.topology.topology import SinkNode, SourceNode

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task

Chain = Callable[[Cells, Cells, list[int]], bool]
"""Takes keys, values and timestamps of a run. False: it is one for the lane's function, and nothing has happened."""

Decode = Callable[[Cells], list[Any]]


@dataclass(slots=True)
class Batch:
    """What is left of a run. `keys` are objects, where some function takes them."""

    raw_keys: Cells
    keys: list[Any]
    values: list[Any]
    times: list[int]
    dropped: int = 0

    def keep(self, which: list[bool]) -> None:
        self.raw_keys, self.keys = list(compress(self.raw_keys, which)), list(compress(self.keys, which))
        self.values, self.times = list(compress(self.values, which)), list(compress(self.times, which))


Step = Callable[[Batch], None]


Call = Callable[..., list[Any]]


def _calls(function: Callable[..., Any], alone: str) -> Call:
    """Calls a function of key and other columns for each record;
    under the name `alone` it has one that takes no key.
    """
    short = getattr(function, alone, None)
    if short is not None:
        return lambda keys, *columns: _results_of(short, *columns)  # noqa: ARG005
    return lambda keys, *columns: _results_of(function, keys, *columns)


def _results_of(function: Callable[..., Any], first: list[Any], *more: list[Any]) -> list[Any]:
    """No `map`: it takes a StopIteration of the function for the end of the column, and the rest would be lost."""
    if not more:
        return [function(cell) for cell in first]
    if len(more) == 1:
        return [function(one, other) for one, other in zip(first, more[0], strict=True)]
    return [function(*cells) for cells in zip(first, *more, strict=True)]


class MapStep:
    def __init__(self, node: StreamMapValues) -> None:
        self._call = _calls(node.mapper, "of_value")

    def __call__(self, batch: Batch) -> None:
        batch.values = self._call(batch.keys, batch.values)


class FilterStep:
    def __init__(self, node: StreamFilter) -> None:
        self._call = _calls(node.predicate, "of_value")
        self._negated = node.negated

    def __call__(self, batch: Batch) -> None:
        kept = [bool(found) != self._negated for found in self._call(batch.keys, batch.values)]
        if not all(kept):
            batch.keep(kept)


class JoinStep:
    """Rows are found for all records, then they are joined: nothing changes the table meanwhile."""

    def __init__(self, node: StreamTableJoin, store: KeyValues, value: Serde, decode: Decode) -> None:
        self._call = _calls(node.joiner, "of_values")
        self._rows, self._left = store.rows, node.left
        self._native = native = native_cells()
        self._has_none: Callable[[list[Any]], bool] = _has_none if native is None else native.has_none
        self._texts = value is TEXT and self._native is not None
        self._decode = decode

    def __call__(self, batch: Batch) -> None:
        if self._has_none(batch.values) or (not self._left and None in batch.raw_keys):
            pairs = zip(batch.raw_keys, batch.values, strict=True)
            whole = [value is not None and (self._left or key is not None) for key, value in pairs]
            batch.dropped += whole.count(False)
            batch.keep(whole)
        found = self._find(batch.raw_keys)
        if not self._left and self._has_none(found):
            met = [row is not None for row in found]
            found = list(compress(found, met))
            batch.keep(met)
        rows = found if self._texts else self._decode(found)
        batch.values = self._call(batch.keys, batch.values, rows)

    def _find(self, keys: Cells) -> list[Any]:
        """The value of each row, None where there is no row;
        as bytes, which may stand for None, unless they are texts.
        """
        rows, native = self._rows, self._native
        if native is None:
            listed = [None if key is None else rows.get(key) for key in keys]
            return [None if row is None else row[8:] for row in listed]
        layers, end = rows.layers()
        return native.find_values(keys, layers, end, rows.get, self._texts)


def _has_none(values: list[Any]) -> bool:
    """By identity: objects of users may say that they equal None."""
    return any(value is None for value in values)


class StreamChain:
    """From a source to a topic."""

    def __init__(self, task: "Task", source: "Source", steps: list[Step], results: TopicResults) -> None:
        self._task, self._steps, self._results = task, steps, results
        self._read_keys, self._read_values = source.read_keys, source.read_values
        self._check_keys = source.check_keys

    def __call__(self, keys: Cells, values: Cells, times: list[int]) -> bool:
        if self._read_keys is None:
            self._check_keys(keys)
        batch = Batch(
            keys,
            [None] * len(keys) if self._read_keys is None else self._read_keys(keys),
            self._read_values(values),
            times,
        )
        check_lengths(batch.keys, batch.values, times)
        for step in self._steps:
            step(batch)
        prepared = self._results.prepare(batch.raw_keys, batch.values, batch.times)
        self._results.give(batch.raw_keys, prepared, batch.times)
        if batch.dropped:
            self._task.drop("null key or value", batch.dropped)
        return True


class TableChain:
    """From a source into the store of a table that nobody but joins looks at."""

    def __init__(self, source: "Source", store: KeyValues, changelog: TopicResults | None) -> None:
        self._rows, self._changelog = store.rows, changelog
        self._check_keys, self._check_values = source.check_keys, source.check_values

    def __call__(self, keys: Cells, values: Cells, times: list[int]) -> bool:
        if None in keys or None in values:
            return False
        self._check_keys(keys)
        self._check_values(values)
        fresh: dict[Any, Any] = dict(zip(keys, map(add, map(EIGHT.pack, times), values), strict=True))
        prepared = None if self._changelog is None else self._changelog.prepare(keys, values, times)
        self._rows.put_all(fresh)
        if self._changelog is not None and prepared is not None:
            self._changelog.give(keys, prepared, times)
        return True


@dataclass(frozen=True, slots=True)
class Source:
    """How the cells of a source are read. `read_keys`: None where no function takes them."""

    key: Serde
    value: Serde
    read_keys: Decode | None
    read_values: Decode
    check_keys: Callable[[Cells], Any]
    check_values: Callable[[Cells], Any]


def chain_of(task: "Task", node: SourceNode, children: dict[str, list[str]], readers: "Readers") -> Chain | None:
    """For a source of a task that has a lane; None where its records go otherwise."""
    nodes = [task.nodes[name] for name in _one_way(node.name, children)]
    key, value = node.key or task.settings.key, node.value or task.settings.value
    if not nodes or not getattr(key, "exact", False):
        return None
    last = nodes.pop()
    functions = [function for each in nodes for function in _functions(each)]
    if len(functions) > 1 or any(hasattr(each, "evaluate_all") for each in functions):
        return None
    takes_keys = any(not hasattr(each, "of_value") and not hasattr(each, "of_values") for each in functions)
    source = Source(
        key,
        value,
        readers.decoder(key) if takes_keys else None,
        readers.decoder(value),
        readers.checker(key),
        readers.checker(value),
    )
    if isinstance(last, TableSourceProcessor):
        return None if nodes else _table_chain(task, last, source)
    steps = [_step(task, each, source, readers) for each in nodes if not isinstance(each, PassThrough)]
    results = _results(task, last, source)
    if results is None or not steps or None in steps:
        return None
    return StreamChain(task, source, [step for step in steps if step is not None], results)


@dataclass(frozen=True, slots=True)
class Readers:
    """How a lane reads and checks columns."""

    decoder: Callable[[Serde], Decode]
    checker: Callable[[Serde], Callable[[Cells], Any]]


def _one_way(name: str, children: dict[str, list[str]]) -> list[str]:
    """The nodes behind one, up to the end; none where the way parts."""
    found = []
    while children[name]:
        if len(children[name]) > 1:
            return []
        (name,) = children[name]
        found.append(name)
    return found


def _functions(node: Processor) -> list[Callable[..., Any]]:
    """Those of the user that a node calls."""
    if isinstance(node, StreamMapValues):
        return [node.mapper]
    if isinstance(node, StreamFilter):
        return [node.predicate]
    return [node.joiner] if isinstance(node, StreamTableJoin) else []


def _step(task: "Task", node: Processor, source: Source, readers: Readers) -> Step | None:
    if type(node) is StreamMapValues:
        return MapStep(node)
    if type(node) is StreamFilter:
        return FilterStep(node)
    if type(node) is not StreamTableJoin or type(node.getter) is not StoreGetter:
        return None
    store = task.byte_stores.get(node.getter.name)
    if node.mapper is not None or node.buffer_name is not None or not _is_plain(task, node.getter.name, store):
        return None
    plan = next(each for each in task.plan.stores if each.name == node.getter.name)
    value = plan.value or task.settings.value
    if (plan.key or task.settings.key) is not source.key or not isinstance(store, KeyValues):
        return None
    return JoinStep(node, store, value, readers.decoder(value))


def _is_plain(task: "Task", name: str, store: Any) -> bool:
    """The latest value of each key, with its timestamp."""
    return type(store) is KeyValues and isinstance(task.stores[name], TimestampedKeyValueStore)


def _results(task: "Task", node: Processor, source: Source) -> TopicResults | None:
    if not isinstance(node, Sink) or not isinstance(node.topic, str):
        return None
    sink = next(each for each in task.plan.nodes if isinstance(each, SinkNode) and task.nodes[each.name] is node)
    if sink.partitioner is not None or isinstance(sink.key, WindowedSerde):
        return None
    if (sink.key or task.settings.key) is not source.key:
        return None
    results = TopicResults(task, node.topic, None)
    results.serde = sink.value or task.settings.value
    if getattr(results.serde, "serialize_all", None) is None:  # its objects may change until the last record is through
        return None
    return results


def _table_chain(task: "Task", node: TableSourceProcessor, source: Source) -> Chain | None:
    if node.store_name is None or node.send_old_values:
        return None
    store = task.byte_stores.get(node.store_name)
    plan = next(each for each in task.plan.stores if each.name == node.store_name)
    same = (plan.key or task.settings.key) is source.key and (plan.value or task.settings.value) is source.value
    if not same or not getattr(source.value, "exact", False) or not _is_plain(task, node.store_name, store):
        return None
    assert isinstance(store, KeyValues)
    topic = plan.changelog_topic(task.settings.application_id)
    logged = topic is not None and plan.spec.logged and plan.source_topic is None
    changelog = TopicResults(task, topic, task.partition) if logged and topic is not None else None
    return TableChain(source, store, changelog)
