"""`table.group_by(...)`: aggregations of a table, which subtract the old value and add the new one."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.streams.dsl.functions import added, aggregator, check_callable, number_serde, taken_away, value_of
from headwater.streams.dsl.materialized import Kept, StoreLike, keep
from headwater.streams.dsl.table import Table
from headwater.streams.engine.table_aggregate import TableAggregate
from headwater.streams.plan.graph import GraphNode, ProcessorGraphNode
from headwater.streams.plan.repartition import SUFFIX
from headwater.streams.plan.tables import GroupedTableRepartitionNode
from headwater.streams.serdes.change import ChangeSerde
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.serdes.stock import LONG

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


class GroupedTable:
    """Groups of a table's rows."""

    def __init__(
        self, app: "App", node: GraphNode, topic_name: str | None, key: Serde | None, value: Serde | None
    ) -> None:
        self._app = app
        self._graph = app.graph
        self._node = node
        self._topic_name = topic_name
        self._key = key
        self._value = value
        self._repartition: GroupedTableRepartitionNode | None = None

    def count(self, *, name: str | None = None, store: StoreLike = None) -> Table:
        """How many rows each group has."""
        kept = keep(self._graph, store, "KTABLE-AGGREGATE-", self._key, LONG)
        supplier = TableAggregate(
            kept.store_name,
            lambda: 0,
            lambda key, value, total: total + 1,  # noqa: ARG005
            lambda key, value, total: total - 1,  # noqa: ARG005
        )
        return self._aggregate(supplier, name, "KTABLE-AGGREGATE-", kept)

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        *,
        name: str | None = None,
        store: StoreLike = None,
    ) -> Table:
        """The first value, then `adder(aggregate, value)`; `subtractor(aggregate, value)` takes one out."""
        check_callable(adder, "reduce")
        check_callable(subtractor, "reduce")
        kept = keep(self._graph, store, "KTABLE-AGGREGATE-", self._key, self._value)
        supplier = TableAggregate(
            kept.store_name,
            None,
            lambda key, value, aggregate: adder(aggregate, value),  # noqa: ARG005
            lambda key, value, aggregate: subtractor(aggregate, value),  # noqa: ARG005
        )
        return self._aggregate(supplier, name, "KTABLE-REDUCE-", kept)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[..., Any],
        subtractor: Callable[..., Any],
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """From `initializer()`, by `f(aggregate, value)` or `f(key, value, aggregate)` for what enters and what
        leaves.
        """
        check_callable(initializer, "aggregate")
        add, subtract = aggregator(adder, "aggregate"), aggregator(subtractor, "aggregate")
        kept = keep(self._graph, store, "KTABLE-AGGREGATE-", self._key, resolve_optional(value))
        supplier = TableAggregate(kept.store_name, initializer, add, subtract)
        return self._aggregate(supplier, name, "KTABLE-AGGREGATE-", kept)

    def sum(
        self,
        of: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The sum of the values, or of what a function takes from them."""
        take, serde = value_of(of), number_serde(of, value, self._value)
        return self.aggregate(
            lambda: 0,
            lambda total, value: added(total, take(value)),
            lambda total, value: taken_away(total, take(value)),
            name=name,
            store=store,
            value=serde,
        )

    def _aggregate(self, supplier: TableAggregate, name: str | None, prefix: str, kept: Kept) -> Table:
        graph = self._graph
        sink_name = graph.name_or_new(name, "KSTREAM-SINK-", "-sink")
        source_name = graph.name_or_new(name, "KSTREAM-SOURCE-", "-source")
        node_name = graph.name_or_new(name, prefix)
        if self._repartition is None or self._topic_name is None:
            topic = (self._topic_name or kept.store_name) + SUFFIX
            change = ChangeSerde(self._value or self._app.default_value)
            self._repartition = GroupedTableRepartitionNode(source_name, sink_name, topic, self._key, change)
        graph.add(self._node, self._repartition)
        node = ProcessorGraphNode(node_name, supplier, stores=[kept.key_value()])
        node.output_versioned = kept.versioned
        graph.add(self._repartition, node)
        sources = frozenset({source_name})
        return Table(self._app, node, node_name, kept.key, kept.value, sources, kept.queryable_name, supplier)
