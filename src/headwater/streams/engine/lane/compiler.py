"""From the nodes of a task to a function per source. `compile_lane` gives None where a node, a setting or the shape
does not allow it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.streams.engine.lane.batches import LeadingSteps, TrailingSteps, leading_steps, trailing_steps
from headwater.streams.engine.lane.chains import Chain, Readers, chain_of
from headwater.streams.engine.lane.code import Code, Flow, NotInLane, Raw
from headwater.streams.engine.lane.stateful import STATEFUL, Rows
from headwater.streams.engine.lane.stateless import STATELESS
from headwater.streams.engine.lane.tables import TABLES
from headwater.streams.engine.lane.topic_results import TopicResults
from headwater.streams.engine.sink import Sink
from headwater.streams.model.time import fail_on_invalid_timestamp, log_and_skip_on_invalid_timestamp
from headwater.streams.serdes.port import Serde, writer
from headwater.streams.serdes.windowed import WindowedSerde
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.segments import Segments
from headwater.streams.stores.window import Windows
from headwater.streams.topology.partitioning import ByInnerKey
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SinkNode, SourceNode

if TYPE_CHECKING:
    from headwater.streams.engine.task import Task

_MOST_NODES: Final = 100  # a node is written out once for each way to it
_OWN_TIMES: Final = (fail_on_invalid_timestamp, log_and_skip_on_invalid_timestamp)


Check = Callable[[list[bytes | None]], Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    """`run` takes the order of the sources, and for each keys, values and timestamps. `expiries`, by source: stores
    whose segments may not expire within a run, and the step of their times.
    """

    run: Callable[..., None]
    source_of: dict[str, int]  # by topic
    expiries: list[list[tuple[Segments, int]]]
    checks: list[tuple[Check, Check]]  # by source, of keys and values: they raise what reading them would raise
    chains: list[Chain | None]  # by source: the way of a run of its records alone
    needs: list[Callable[[], bool]]  # all of them, before each run; else the nodes have to do it
    text: str


class Output:
    """The lists of a run for one topic. `of_objects`: values become bytes by column, behind the last record; None
    before the first node that writes here.
    """

    def __init__(self, code: Code, results: TopicResults, placed: bool) -> None:
        self.placed = placed
        self.of_objects: bool | None = None
        self.steps: TrailingSteps | None = None  # what values go through before they become bytes
        self.results = results
        self._names = [code.name(each) for each in ("keys", "values", "times", "places")[: 4 if placed else 3]]
        for name in self._names:
            code.before.append(f"{name} = []")
            code.before.append(f"add_{name} = {name}.append")

    def write(self, code: Code, key: str, value: str, time: str, place: str | None = None) -> None:
        assert self.placed == (place is not None)
        for name, given in zip(self._names, (key, value, time, place), strict=False):
            code.line(f"add_{name}({given})")

    def finish(self, code: Code) -> None:
        """Behind the last record."""
        results, prepared = code.bind(self.results, "results"), code.name("prepared")
        keys, _, *rest = self._names
        if self.steps is not None:
            columns = ", ".join(self._names)
            code.through.append(f"{columns} = {code.bind(self.steps, 'by_column')}({columns})")
        code.through.append(f"{prepared} = {results}.prepare({', '.join(self._names)})")
        code.after.append(f"{results}.give({', '.join([keys, prepared, *rest])})")


class Compiler:
    def __init__(self, task: "Task") -> None:
        self.task = task
        self.code = Code()
        self._children: dict[str, list[str]] = {node.name: [] for node in task.plan.nodes}
        self._sinks: dict[str, SinkNode] = {}
        for node in task.plan.nodes:
            if isinstance(node, SinkNode):
                self._sinks[node.name] = node
            if not isinstance(node, SourceNode):
                for parent in node.parents:
                    self._children[parent].append(node.name)
        self._left = _MOST_NODES
        self._expiries: list[list[tuple[Segments, int]]] = []
        self._outputs: dict[tuple[str, int | None], Output] = {}
        self._rows: dict[str, Rows] = {}
        self._shared: dict[str, dict[str, str]] = {}
        self._needs: list[Callable[[], bool]] = []

    def all(self) -> Compiled:
        sources = [node for node in self.task.plan.nodes if isinstance(node, SourceNode)]
        source_of: dict[str, int] = {}
        self.code.before.append("dropped = []")
        columns = [self._source(node) for node in sources]
        for output in self._outputs.values():
            output.finish(self.code)
        for number, node in enumerate(sources):
            source_of |= {self.task.topic_name(topic): number for topic in node.topics}
        self.code.after.append(f"{self.code.bind(self._drop_all, 'drop_all')}(dropped)")
        text = self.code.function(columns)
        run = self.code.compiled(text, f"<lane of {self.task.task_id}>")
        settings = self.task.settings
        checks = [(checker(node.key or settings.key), checker(node.value or settings.value)) for node in sources]
        readers = Readers(decoder, checker)
        chains = [chain_of(self.task, node, self._children, readers) for node in sources]
        return Compiled(run, source_of, self._expiries, checks, chains, self._needs, text)

    def _source(self, node: SourceNode) -> dict[str, str]:
        """Writes all behind a source -> what the loop reads."""
        settings, code = self.task.settings, self.code
        if node.pattern is not None or (node.extractor or settings.extractor) not in _OWN_TIMES:
            raise NotInLane(f"the source {node.name}")
        number = code.begin_source()
        self._expiries.append([])
        serdes = {"key": node.key or settings.key, "value": node.value or settings.value}
        raw = {
            what: Raw(serde, f"in_raw_{what}_{number}") if self.exact(serde) else None for what, serde in serdes.items()
        }
        flow = Flow(f"in_key_{number}", f"in_value_{number}", f"in_time_{number}", raw["key"], raw["value"])
        columns = {f"in_time_{number}": f"in_times_{number}"}
        steps = leading_steps(node.name, self._children, self.task.nodes)
        if steps:
            self._by_column(number, steps, flow, columns)
        else:
            self.forward(node.name, flow)
        for what, serde in serdes.items():
            as_object, as_bytes = f"in_{what}_{number}", f"in_raw_{what}_{number}"
            if code.uses(as_bytes):
                columns[as_bytes] = f"in_raw_{what}s_{number}"
            needed = bool(steps) or code.uses(as_object)
            read = code.bind(decoder(serde) if needed else checker(serde), "decode")
            code.before.insert(
                number * 2, f"in_{what}s_{number} = {read}(in_raw_{what}s_{number})"
            )  # what cannot be read has called nobody
            if needed:
                columns[as_object] = f"in_{what}s_{number}"
        return columns

    def _by_column(self, number: int, steps: list[str], flow: Flow, columns: dict[str, str]) -> None:
        """These nodes run before the loop; what is left of the records goes on in it."""
        run = LeadingSteps([self.task.nodes[step] for step in steps])  # type: ignore[misc]
        passes, values = f"in_pass_{number}", f"in_changed_{number}"
        call = f"{self.code.bind(run, 'by_column')}(in_keys_{number}, in_values_{number})"
        self.code.before.append(f"{passes}s, {values}s = {call}")
        columns[passes] = f"{passes}s"
        if run.maps:
            columns[values] = f"{values}s"
            flow = flow.with_value(values)
        with self.code.block(f"if {passes}:"):
            self.forward(steps[-1], flow)

    # -- for those who write nodes

    def forward(self, node: str, flow: Flow) -> None:
        for child in self._children[node]:
            self.forward_to(child, flow)

    def forward_to(self, child: str, flow: Flow) -> None:
        self._left -= 1
        if self._left < 0:
            raise NotInLane("too many nodes")
        if child in self._sinks:
            self._sink(self._sinks[child], flow)
            return
        if self._kept_for_later(child, flow):
            return
        processor = self.task.nodes[child]
        kind = type(processor)
        write = STATELESS.get(kind) or TABLES.get(kind) or STATEFUL.get(kind)
        if write is None:
            raise NotInLane(f"{child}, a {type(processor).__name__}")
        write(self, child, processor, flow)

    def _sink(self, node: SinkNode, flow: Flow) -> None:
        sink = self.task.nodes[node.name]
        if not isinstance(sink, Sink) or not isinstance(sink.topic, str) or flow.old is not None:
            raise NotInLane("a sink whose topic each record names")
        output, key, place = self._topic_of(node, sink.topic, flow)
        value = self._sent_value(output, node, flow, node.value or self.task.settings.value)
        output.write(self.code, key, value, flow.time, place)

    def _topic_of(self, node: SinkNode, topic: str, flow: Flow) -> tuple[Output, str, str | None]:
        """Where a record goes, its key as bytes, and its partition where each record names its own."""
        key_serde, window = node.key or self.task.settings.key, flow.window
        if isinstance(key_serde, WindowedSerde):
            if window is None or window.serde is not key_serde.inner or not isinstance(node.partitioner, ByInnerKey):
                raise NotInLane("windows that are partitioned otherwise")
            from headwater.client.partitioner import partition_for_key

            count = self.code.name("count")
            self.code.before.append(f"{count} = {self.code.bind(self._count, 'count_of')}({topic!r})")
            place = f"0 if {count} == 1 else {self.code.bind(partition_for_key, 'place')}({window.inner}, {count})"
            return self.output(topic, None, placed=True), window.both, place
        if node.partitioner is not None:
            raise NotInLane("a partitioner")
        return self.output(topic, None), self.raw_key(flow, key_serde), None

    def _sent_value(self, output: Output, node: SinkNode, flow: Flow, serde: Serde) -> str:
        return flow.value if self._takes_objects(output, node, flow, serde) else self.raw_value(flow, serde)

    def _kept_for_later(self, child: str, flow: Flow) -> bool:
        """Whether the last nodes on the way to a topic run by column, behind the loop; then all is written for that."""
        names, last = trailing_steps(child, self._children, self.task.nodes)
        if not names or last not in self._sinks:
            return False
        node, sink = self._sinks[last], self.task.nodes[last]
        if not isinstance(sink, Sink) or not isinstance(sink.topic, str):
            return False
        steps = TrailingSteps(child, [self.task.nodes[each] for each in names])
        if steps.begins_at_table != (flow.old is not None) or not steps.ends_at_stream:
            return False
        output, key, place = self._topic_of(node, sink.topic, flow)
        if output.steps is None:
            value_serde = node.value or self.task.settings.value
            if output.of_objects is not None or not self._takes_objects(
                output, node, flow, value_serde, by_column=True
            ):
                return False
            output.steps = steps
        if output.steps.first != child:
            raise NotInLane("two ways to one topic by column")
        record = (flow.key, flow.value) if flow.old is None else (flow.key, flow.value, flow.old)
        output.write(self.code, key, f"({', '.join(record)})", flow.time, place)
        return True

    def _takes_objects(
        self, output: Output, node: SinkNode, flow: Flow, serde: Serde, *, by_column: bool = False
    ) -> bool:
        """Whether this topic gets its values as objects: `by_column`, or where its serde writes them quicker together.
        The first way to its sink decides; with two sinks none does.
        """
        if output.of_objects is None:
            alone = sum(each.topic == node.topic for each in self._sinks.values()) == 1
            has_bytes = flow.raw_value is not None and flow.raw_value.serde is serde
            together = by_column or getattr(serde, "serialize_all", None) is not None
            output.of_objects = together and alone and not has_bytes
            output.results.serde = serde if output.of_objects else None
        return output.of_objects

    def _count(self, topic: str) -> int:
        count = self.task.settings.partition_count
        return 1 if count is None else count(topic)

    def output(self, topic: str, partition: int | None, placed: bool = False) -> Output:
        """The columns of a topic in this run."""
        known = self._outputs.get((topic, partition))
        if known is not None and known.placed == placed:
            return known
        if known is not None:
            raise NotInLane("two ways to choose partitions of one topic")
        made = Output(self.code, TopicResults(self.task, topic, partition, placed), placed)
        self._outputs[topic, partition] = made
        return made

    def rows_of(self, name: str, kind: type[KeyValues] | type[Windows]) -> Rows:
        """The rows of a store in this run, however many nodes and ways lead to it."""
        if name not in self._rows:
            self._rows[name] = Rows(self, name, kind)
        return self._rows[name]

    def shared(self, what: str, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Variables of a node or a store, made once."""
        if what not in self._shared:
            self._shared[what] = make()
        return self._shared[what]

    def store_plan(self, name: str) -> StorePlan:
        return next(store for store in self.task.plan.stores if store.name == name)

    def expires(self, segments: Segments, step: int) -> None:
        self._expiries[-1].append((segments, step))

    def needs(self, need: Callable[[], bool]) -> None:
        self._needs.append(need)

    def drop(self, reason: str) -> None:
        self.code.line(f"dropped.append({self.code.bind(reason, 'reason')})")

    def _drop_all(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            self.task.drop(reason)

    def joiner(self, function: Callable[..., Any], key: str, left: str, right: str) -> str:
        of_values = getattr(function, "of_values", None)
        if of_values is not None:
            return f"{self.code.bind(of_values, 'joiner')}({left}, {right})"
        return f"{self.code.bind(function, 'joiner')}({key}, {left}, {right})"

    # -- keys and values as objects and as bytes

    def exact(self, serde: Serde) -> bool:
        """Whether what it reads it writes again as the same bytes, and never reads None."""
        return bool(getattr(serde, "exact", False))

    def raw_key(self, flow: Flow, serde: Serde) -> str:
        return self._raw(flow.raw_key, flow.key, serde)

    def raw_value(self, flow: Flow, serde: Serde) -> str:
        return self._raw(flow.raw_value, flow.value, serde)

    def _raw(self, raw: Raw | None, thing: str, serde: Serde) -> str:
        if raw is not None and raw.serde is serde:
            return raw.variable
        return f"(None if {thing} is None else {self.code.bind(writer(serde), 'encode')}({thing}))"

    def held(self, expression: str) -> str:
        """A variable with the value of the expression: it is computed once."""
        if expression.isidentifier():
            return expression
        name = self.code.name("held")
        self.code.line(f"{name} = {expression}")
        return name

    def is_none_key(self, flow: Flow) -> str:
        return f"{flow.key if flow.raw_key is None else flow.raw_key.variable} is None"

    def is_none_value(self, flow: Flow) -> str:
        return f"{flow.value if flow.raw_value is None else flow.raw_value.variable} is None"


def decoder(serde: Serde) -> Callable[[list[bytes | None]], list[Any]]:
    """A whole column; a serde may have a quicker way than one by one."""
    quick: Callable[[list[bytes | None]], list[Any]] | None = getattr(serde, "deserialize_all", None)
    read = serde.deserialize

    def one_by_one(cells: list[bytes | None]) -> list[Any]:
        return [None if cell is None else read(cell) for cell in cells]

    return quick or one_by_one


def checker(serde: Serde) -> Callable[[list[bytes | None]], Any]:
    """Raises where the column has something that cannot be read."""
    check: Callable[[list[bytes | None]], Any] | None = getattr(serde, "check_all", None)
    return check or decoder(serde)
