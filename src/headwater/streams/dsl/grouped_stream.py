"""`stream.group_by(...)` and `group_by_key()`: aggregations of a stream, per key or per key and window."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.streams.dsl.functions import added, aggregator, better, check_callable, number_serde, value_of
from headwater.streams.dsl.materialized import Kept, StoreLike, keep, keep_count
from headwater.streams.dsl.table import Table
from headwater.streams.engine.stream_aggregate import StreamAggregate, one_more, zero
from headwater.streams.engine.table import TableSupplier
from headwater.streams.plan.graph import Graph, GraphNode, ProcessorGraphNode
from headwater.streams.plan.repartition import RepartitionNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.serdes.stock import LONG
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.cogrouped import CogroupedStream
    from headwater.streams.dsl.windowed_stream import WindowedStream
    from headwater.streams.model.windows import AnyWindows


class Grouping:
    """Where an aggregation hangs: on the stream, or on a repartition topic before it, which is made when it is
    needed.
    """

    def __init__(
        self,
        app: "App",
        node: GraphNode,
        name: str,
        topic_name: str | None,
        key: Serde | None,
        value: Serde | None,
        sources: frozenset[str],
        repartition_required: bool,
    ) -> None:
        self.app = app
        self.node = node
        self.name = name
        self.topic_name = topic_name
        self.key = key
        self.value = value
        self.sources = sources
        self.repartition_required = repartition_required
        self._repartition: RepartitionNode | None = None

    @property
    def graph(self) -> Graph:
        return self.app.graph

    def aggregate(
        self,
        name: str,
        supplier: TableSupplier,
        store: StorePlan,
        key: Serde | None,
        value: Serde | None,
        queryable_name: str | None,
        node: ProcessorGraphNode | None = None,
    ) -> Table:
        """The table behind an aggregation."""
        parent, sources = self.before(store.name)
        if node is None:
            node = ProcessorGraphNode(name, supplier, stores=[store])
            node.output_versioned = store.versioned
        self.graph.add(parent, node)
        return Table(self.app, node, name, key, value, sources, queryable_name, supplier)

    def before(self, store_name: str) -> tuple[GraphNode, frozenset[str]]:
        """What the aggregation into this store hangs on, and the sources above it."""
        if not self.repartition_required:
            return self.node, self.sources
        fresh = RepartitionNode(self.graph, self.topic_name or store_name, self.key, self.value)
        if self._repartition is None or self.topic_name is None:
            self._repartition = fresh
        self.graph.add(self.node, self._repartition)
        return self._repartition, frozenset({fresh.name})


class GroupedStream:
    """Records by key."""

    def __init__(self, grouping: Grouping) -> None:
        self.grouping = grouping

    def count(self, *, name: str | None = None, store: StoreLike = None) -> Table:
        """How many records each key has had."""
        kept = keep_count(self.grouping.graph, store, "KSTREAM-AGGREGATE-", self.grouping.key, LONG)
        return self._table(name, "KSTREAM-AGGREGATE-", StreamAggregate(kept.store_name, zero, one_more), kept)

    def reduce(self, reducer: Callable[[Any, Any], Any], *, name: str | None = None, store: StoreLike = None) -> Table:
        """The first value, then `reducer(aggregate, value)`."""
        check_callable(reducer, "reduce")
        kept = self._keep(store, "KSTREAM-REDUCE-", self.grouping.value)
        supplier = StreamAggregate(kept.store_name, None, lambda key, value, old: reducer(old, value))  # noqa: ARG005
        return self._table(name, "KSTREAM-REDUCE-", supplier, kept)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregate: Callable[..., Any],
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """From `initializer()`, by `f(aggregate, value)` or `f(key, value, aggregate)`."""
        check_callable(initializer, "aggregate")
        combine = aggregator(aggregate, "aggregate")
        kept = self._keep(store, "KSTREAM-AGGREGATE-", resolve_optional(value))
        return self._table(name, "KSTREAM-AGGREGATE-", StreamAggregate(kept.store_name, initializer, combine), kept)

    def sum(
        self,
        of: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The sum of the values, or of what a function takes from them."""
        take, serde = value_of(of), number_serde(of, value, self.grouping.value)
        return self.aggregate(zero, lambda total, value: added(total, take(value)), name=name, store=store, value=serde)

    def min(
        self,
        of: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The least of the values, or of what a function takes from them."""
        return self._extreme(min, of, name, store, value)

    def max(
        self,
        of: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The largest."""
        return self._extreme(max, of, name, store, value)

    def _extreme(
        self,
        choose: Callable[[Any, Any], Any],
        of: Callable[[Any], Any] | None,
        name: str | None,
        store: StoreLike,
        value: SerdeLike | None,
    ) -> Table:
        take, serde = value_of(of), number_serde(of, value, self.grouping.value)
        return self.aggregate(
            _nothing, lambda best, value: better(choose, best, take(value)), name=name, store=store, value=serde
        )

    def cogroup(self, aggregate: Callable[..., Any]) -> "CogroupedStream":
        """Together with other grouped streams, each with its own aggregator."""
        from headwater.streams.dsl.cogrouped import CogroupedStream

        return CogroupedStream(((self, aggregator(aggregate, "cogroup")),))

    def windowed_by(self, windows: "AnyWindows") -> "WindowedStream":
        """The same per window: `tumbling("5m")`, `session("30s")`, ..."""
        from headwater.streams.dsl.windowed_stream import WindowedStream, check_windows

        check_windows(windows)
        return WindowedStream(self.grouping, windows)

    def _keep(self, store: StoreLike, prefix: str, value: Serde | None) -> Kept:
        return keep(self.grouping.graph, store, prefix, self.grouping.key, value)

    def _table(self, name: str | None, prefix: str, supplier: TableSupplier, kept: Kept) -> Table:
        node_name = self.grouping.graph.name_or_new(name, prefix)
        return self.grouping.aggregate(
            node_name, supplier, kept.key_value(expires=True), kept.key, kept.value, kept.queryable_name
        )


def _nothing() -> None:
    return None
