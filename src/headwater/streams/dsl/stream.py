"""`Stream`: records one after the other. Each method adds a node to the graph and gives the stream behind it.

Names, numbers and the places where a repartition topic is needed are Kafka Streams'. `repartition_required` says that
the key may have changed since the last topic: what needs equal keys in one partition puts a repartition topic before
itself. Immutable; the graph belongs to the App.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.streams.dsl.branched import BranchedStream
from headwater.streams.dsl.expressions import Column, HasColumns, field, row
from headwater.streams.dsl.frames import HasFrames
from headwater.streams.dsl.functions import check_called_with, check_partitioner, with_key
from headwater.streams.dsl.grouped_stream import GroupedStream, Grouping
from headwater.streams.dsl.materialized import StoreLike, keep
from headwater.streams.dsl.partners import check_partner
from headwater.streams.dsl.stream_joins import StreamJoins
from headwater.streams.dsl.table import Table
from headwater.streams.engine.fixed_key import FixedKeyProcessor
from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map import StreamFlatMap, StreamMap, StreamSelectKey
from headwater.streams.engine.stream_map_values import StreamFlatMapValues, StreamMapValues
from headwater.streams.engine.stream_peek import StreamPeek
from headwater.streams.engine.stream_print import StreamPrint
from headwater.streams.engine.table_source import TableSource
from headwater.streams.model.processor import Processor, Supplier
from headwater.streams.plan.graph import Graph, GraphNode, ProcessorGraphNode, check_store_names, supplier_with_stores
from headwater.streams.plan.repartition import RepartitionNode
from headwater.streams.plan.sinks import StreamSinkNode
from headwater.streams.plan.tables import StreamToTableNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.serdes.stock import JSON
from headwater.streams.topology.name_rules import check_optional_name, check_topic
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import Partitioner, TopicExtractor

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


class Stream(StreamJoins, HasFrames, HasColumns):
    """A stream of an application. `key` and `value` are its serdes, None where the application's defaults serve.

    `join`, `left_join` and `outer_join` are in `stream_joins`, `df` is in `frames`.
    """

    def __init__(
        self,
        app: "App",
        node: GraphNode,
        name: str,
        key: Serde | None,
        value: Serde | None,
        sources: frozenset[str],
        repartition_required: bool,
    ) -> None:
        self.app = app
        self.node = node
        self.name = name
        self.key_serde = key
        self.value_serde = value
        self.sources = sources  # names of the source nodes above, for co-partitioning
        self.repartition_required = repartition_required
        self.join_repartition: RepartitionNode | None = None  # shared by the joins that need one

    @property
    def graph(self) -> Graph:
        return self.app.graph

    def after(self, node: GraphNode, **changes: Any) -> "Stream":
        """The stream behind `node`, which hangs on this one; what is not named stays as it is."""
        return Stream(
            self.app,
            node,
            changes.get("name", node.name),
            changes.get("key", self.key_serde),
            changes.get("value", self.value_serde),
            changes.get("sources", self.sources),
            changes.get("repartition_required", self.repartition_required),
        )

    def _processor(self, name: str | None, prefix: str, supplier: Supplier, **changes: Any) -> "Stream":
        node = ProcessorGraphNode(self.graph.name_or_new(name, prefix), supplier)
        node.key_changing = changes.pop("key_changing", False)
        node.value_changing = changes.pop("value_changing", False)
        self.graph.add(self.node, node)
        return self.after(node, **changes)

    # -- columns

    def __getitem__(self, what: "str | Column") -> Any:
        """A column by the name of a field, or the records for which an expression is true."""
        return field(what) if isinstance(what, str) else self.filter(what)

    def select(self, *columns: "str | Column", name: str | None = None, **named: Any) -> "Stream":
        """A dict of these columns for each value: `select("user", total=orders.amount * 1.2)`."""
        call = row(columns, named)
        return self._processor(
            name, "KSTREAM-MAPVALUES-", lambda: StreamMapValues(call), value=JSON, value_changing=True
        )

    # -- records one by one

    def filter(self, predicate: Callable[..., Any], *, name: str | None = None) -> "Stream":
        """Records for which the predicate holds."""
        call = with_key(predicate, "filter")
        return self._processor(name, "KSTREAM-FILTER-", lambda: StreamFilter(call))

    def filter_not(self, predicate: Callable[..., Any], *, name: str | None = None) -> "Stream":
        """Records for which the predicate does not hold."""
        call = with_key(predicate, "filter_not")
        return self._processor(name, "KSTREAM-FILTER-", lambda: StreamFilter(call, negated=True))

    def map(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> "Stream":
        """Another key and value: the function gives a tuple."""
        call = with_key(mapper, "map")
        return self._rekeyed(name, "KSTREAM-MAP-", lambda: StreamMap(call), key, resolve_optional(value))

    def flat_map(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> "Stream":
        """Any number of records for one: the function gives tuples of key and value."""
        call = with_key(mapper, "flat_map")
        return self._rekeyed(name, "KSTREAM-FLATMAP-", lambda: StreamFlatMap(call), key, resolve_optional(value))

    def select_key(
        self, selector: Callable[..., Any], *, name: str | None = None, key: SerdeLike | None = None
    ) -> "Stream":
        """The same value under another key."""
        call = with_key(selector, "select_key")
        return self._rekeyed(name, "KSTREAM-KEY-SELECT-", lambda: StreamSelectKey(call), key, self.value_serde)

    def _rekeyed(
        self, name: str | None, prefix: str, supplier: Supplier, key: SerdeLike | None, value: Serde | None
    ) -> "Stream":
        return self._processor(
            name,
            prefix,
            supplier,
            key=resolve_optional(key),
            value=value,
            repartition_required=True,
            key_changing=True,
        )

    def map_values(
        self, mapper: Callable[..., Any], *, name: str | None = None, value: SerdeLike | None = None
    ) -> "Stream":
        """Another value under the same key."""
        call = with_key(mapper, "map_values")
        return self._processor(
            name,
            "KSTREAM-MAPVALUES-",
            lambda: StreamMapValues(call),
            value=resolve_optional(value),
            value_changing=True,
        )

    def flat_map_values(
        self, mapper: Callable[..., Any], *, name: str | None = None, value: SerdeLike | None = None
    ) -> "Stream":
        """Any number of values under the same key."""
        call = with_key(mapper, "flat_map_values")
        return self._processor(
            name,
            "KSTREAM-FLATMAPVALUES-",
            lambda: StreamFlatMapValues(call),
            value=resolve_optional(value),
            value_changing=True,
        )

    def peek(self, action: Callable[..., Any], *, name: str | None = None) -> "Stream":
        """The function sees each record as it passes."""
        call = with_key(action, "peek")
        return self._processor(name, "KSTREAM-PEEK-", lambda: StreamPeek(call))

    def foreach(self, action: Callable[..., Any], *, name: str | None = None) -> None:
        """The function sees each record, and the stream ends there."""
        call = with_key(action, "foreach")
        self._processor(name, "KSTREAM-FOREACH-", lambda: StreamPeek(call, goes_on=False))

    def print(
        self,
        *,
        label: str | None = None,
        mapper: Callable[..., Any] | None = None,
        file: str | None = None,
        name: str | None = None,
    ) -> None:
        """`[label]: key, value` for each record, to standard output or to the end of a file; the stream ends there."""
        call = None if mapper is None else with_key(mapper, "print")
        shown = self.name if label is None else label
        self._processor(name, "KSTREAM-PRINTER-", lambda: StreamPrint(shown, call, file))

    # -- several streams

    def split(self, *, name: str | None = None) -> BranchedStream:
        """Branches by predicate: each record goes to the first that takes it."""
        return BranchedStream(self, name)

    def merge(self, *others: "Stream", name: str | None = None) -> "Stream":
        """The records of all, as they come. Each further stream is a node of its own, as in Kafka Streams."""
        merged = self
        for other in others:
            check_partner(self.app, other, Stream, "merge")
            node = ProcessorGraphNode(self.graph.name_or_new(name, "KSTREAM-MERGE-"), PassThrough)
            node.merge = True
            self.graph.add([merged.node, other.node], node)
            merged = merged.after(
                node,
                key=merged.key_serde if merged.key_serde is other.key_serde else None,
                value=merged.value_serde if merged.value_serde is other.value_serde else None,
                sources=merged.sources | other.sources,
                repartition_required=merged.repartition_required or other.repartition_required,
            )
        return merged

    # -- topics

    def repartition(
        self,
        *,
        name: str | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> "Stream":
        """Through an internal topic, so that equal keys are in one partition again."""
        check_optional_name(name, "a repartition topic")
        if partitions is not None and partitions < 1:
            raise UserError(f"A repartition topic cannot have {partitions} partitions", "it has one at least")
        check_partitioner(partitioner, "repartition")
        topic = self.graph.new_name("KSTREAM-REPARTITION-") if name is None else name
        return self.through_internal(topic, resolve_optional(key), resolve_optional(value), partitions, partitioner)

    def through_internal(
        self,
        topic: str,
        key: Serde | None = None,
        value: Serde | None = None,
        partitions: int | None = None,
        partitioner: Partitioner | None = None,
    ) -> "Stream":
        """The stream behind a repartition topic; for operators that need one."""
        key, value = key or self.key_serde, value or self.value_serde
        node = RepartitionNode(self.graph, topic, key, value, partitions, partitioner)
        self.graph.add(self.node, node)
        return self.after(node, key=key, value=value, sources=frozenset({node.name}), repartition_required=False)

    def to(
        self,
        topic: "str | TopicExtractor",
        *,
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        partitioner: Partitioner | None = None,
    ) -> None:
        """Into a topic, or into the one that `topic(record, context)` names."""
        if isinstance(topic, str) or not callable(topic):
            check_topic(topic, "to")
        else:
            check_called_with(topic, 2, "the function of to", "record and context")
        check_partitioner(partitioner, "to")
        key_serde, value_serde = resolve_optional(key) or self.key_serde, resolve_optional(value) or self.value_serde
        sink = self.graph.name_or_new(name, "KSTREAM-SINK-")
        self.graph.add(self.node, StreamSinkNode(sink, topic, key_serde, value_serde, partitioner))

    def through(
        self,
        topic: str,
        *,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
        partitioner: Partitioner | None = None,
    ) -> "Stream":
        """Into a topic of your own, and on from it."""
        self.to(topic, key=key, value=value, partitioner=partitioner)
        return self.app.stream(
            topic, key=resolve_optional(key) or self.key_serde, value=resolve_optional(value) or self.value_serde
        )

    # -- tables and groups

    def to_table(self, *, name: str | None = None, store: StoreLike = None) -> Table:
        """The latest value per key."""
        node_name = self.graph.name_or_new(name, "KSTREAM-TOTABLE-")
        kept = keep(self.graph, store, "KSTREAM-TOTABLE-", self.key_serde, self.value_serde)
        parent: Stream = self
        if self.repartition_required:
            parent = self.through_internal(node_name, kept.key, kept.value)
        supplier = TableSource(kept.store_name, kept.queryable_name)
        node = StreamToTableNode(node_name, supplier, kept.key_value(expires=True))
        self.graph.add(parent.node, node)
        return Table(self.app, node, node_name, kept.key, kept.value, parent.sources, kept.queryable_name, supplier)

    def group_by(
        self,
        selector: Callable[..., Any],
        *,
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> GroupedStream:
        """Records by what the function gives."""
        call = with_key(selector, "group_by")
        rekeyed = self._rekeyed(name, "KSTREAM-KEY-SELECT-", lambda: StreamSelectKey(call), key, self.value_serde)
        return rekeyed.group_by_key(name=name, value=value)

    def group_by_key(
        self, *, name: str | None = None, key: SerdeLike | None = None, value: SerdeLike | None = None
    ) -> GroupedStream:
        """Records by their key. `name` is that of the repartition topic, if there is to be one."""
        check_optional_name(name, "a repartition topic")
        return GroupedStream(
            Grouping(
                self.app,
                self.node,
                self.name,
                name,
                resolve_optional(key) or self.key_serde,
                resolve_optional(value) or self.value_serde,
                self.sources,
                self.repartition_required,
            )
        )

    # -- processors

    def process(
        self,
        supplier: Supplier,
        *,
        stores: Iterable[str] = (),
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> "Stream":
        """A processor of your own: `supplier()` makes one per task. What it forwards is the stream behind it.

        Stores that it has in `stores` itself are added and connected; those in `stores=` here `App.add_store` adds.
        """
        make, own = supplier_with_stores(supplier)
        return self._process(name, "KSTREAM-PROCESSOR-", make, stores, own).after_process(key, value, True)

    def process_values(
        self,
        supplier: Supplier,
        *,
        stores: Iterable[str] = (),
        name: str | None = None,
        value: SerdeLike | None = None,
    ) -> "Stream":
        """As `process`, for a processor that leaves keys alone."""
        make, own = supplier_with_stores(supplier)
        behind = self._process(name, "KSTREAM-PROCESSVALUES-", lambda: FixedKeyProcessor(make()), stores, own)
        return behind.after_process(None, value, False)

    def _process(
        self,
        name: str | None,
        prefix: str,
        supplier: Callable[[], Processor],
        stores: Iterable[str],
        own: list[StorePlan],
    ) -> "Stream":
        check_optional_name(name, "an operator")
        node_name = self.graph.new_name(prefix) if name is None else name
        added = {store.name for store in own}
        names = [each for each in check_store_names(stores, node_name) if each not in added]
        node = ProcessorGraphNode(node_name, supplier, store_names=names, stores=own)
        self.graph.add(self.node, node)
        return self.after(node)

    def after_process(self, key: SerdeLike | None, value: SerdeLike | None, rekeyed: bool) -> "Stream":
        self.value_serde = resolve_optional(value)
        if rekeyed:
            self.key_serde = resolve_optional(key)
            self.repartition_required = True
        return self
