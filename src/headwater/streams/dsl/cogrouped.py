"""`grouped.cogroup(...)`: several grouped streams, each with its own aggregator, into one table; also per window."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.dsl.functions import aggregator, check_callable, joiner
from headwater.streams.dsl.grouped_stream import GroupedStream
from headwater.streams.dsl.materialized import Kept, StoreLike, keep
from headwater.streams.dsl.partners import check_same_application
from headwater.streams.dsl.table import Table
from headwater.streams.dsl.windowed_stream import (
    check_windows,
    grace_of,
    nothing,
    window_store,
    window_supplier,
    windowed_key,
)
from headwater.streams.engine.stream_aggregate import StreamAggregate
from headwater.streams.engine.table import TableSupplier
from headwater.streams.engine.table_pass_through import TablePassThrough
from headwater.streams.engine.window_aggregate import Aggregator
from headwater.streams.model.windows import AnyWindows, SessionWindows
from headwater.streams.plan.graph import GraphNode, ProcessorGraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.topology.stores import StorePlan

PREFIX = "COGROUPKSTREAM-AGGREGATE-"


class CogroupedStream:
    """Grouped streams and their aggregators, in the order in which they were given."""

    def __init__(self, parts: tuple[tuple[GroupedStream, Aggregator], ...], windows: AnyWindows | None = None) -> None:
        self._parts = parts
        self._windows = windows
        self._app = parts[0][0].grouping.app
        self._graph = self._app.graph

    def cogroup(self, grouped: GroupedStream, aggregate: Callable[..., Any]) -> "CogroupedStream":
        """One more stream: `f(aggregate, value)` or `f(key, value, aggregate)`."""
        if not isinstance(grouped, GroupedStream):
            raise UserError("cogroup needs a grouped stream", f"it was given {grouped!r}")
        check_same_application(self._app, grouped.grouping.app, "cogroup")
        return CogroupedStream((*self._parts, (grouped, aggregator(aggregate, "cogroup"))), self._windows)

    def windowed_by(self, windows: AnyWindows) -> "CogroupedStream":
        """The same per window."""
        check_windows(windows)
        return CogroupedStream(self._parts, windows)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        merge: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The table, from `initializer()`; sessions also need `merge(one, two)`."""
        check_callable(initializer, "aggregate")
        if merge is None and isinstance(self._windows, SessionWindows):
            raise UserError("Sessions that become one need a function", "", "aggregate(initializer, merge)")
        merger = nothing if merge is None else joiner(merge, "aggregate")
        key = self._parts[0][0].grouping.key
        kept = keep(self._graph, store, PREFIX, key, resolve_optional(value))
        parents = self._parents(kept.store_name)
        plan, rows_key = self._store(kept)
        suppliers: list[TableSupplier] = []
        nodes: list[GraphNode] = []
        for index, ((_, combine), parent) in enumerate(zip(self._parts, parents, strict=True)):
            supplier = self._supplier(kept.store_name, initializer, combine, merger)
            node_name = self._graph.name_or_new(name, PREFIX, f"-cogroup-agg-{index}")
            if index == 0:
                node = ProcessorGraphNode(node_name, supplier, stores=[plan])
            else:
                node = ProcessorGraphNode(node_name, supplier, store_names=[plan.name])
            node.output_versioned = plan.versioned
            node.grace_ms = None if self._windows is None else grace_of(self._windows)
            self._graph.add(parent, node)
            suppliers.append(supplier)
            nodes.append(node)
        merge_name = self._graph.name_or_new(name, "COGROUPKSTREAM-MERGE-", "-cogroup-merge")
        together = TablePassThrough(suppliers)
        node = ProcessorGraphNode(merge_name, together)
        self._graph.add(nodes, node)
        sources = frozenset({merge_name})
        return Table(self._app, node, merge_name, rows_key, kept.value, sources, kept.queryable_name, together)

    def _parents(self, store_name: str) -> list[GraphNode]:
        """What the aggregations hang on, repartition topics made where they are needed; all must be co-partitioned."""
        found = [grouped.grouping.before(store_name) for grouped, _ in self._parts]
        self._graph.copartitioned.append(set().union(*(sources for _, sources in found)))
        return [parent for parent, _ in found]

    def _store(self, kept: Kept) -> tuple[StorePlan, Serde | None]:
        if self._windows is None:
            return kept.key_value(), kept.key
        return window_store(kept, self._windows, "update"), windowed_key(
            self._windows, kept.key or self._app.default_key
        )

    def _supplier(
        self, store_name: str, initializer: Callable[[], Any], combine: Aggregator, merger: Callable[..., Any]
    ) -> TableSupplier:
        if self._windows is None:
            return StreamAggregate(store_name, initializer, combine)
        return window_supplier(self._windows, store_name, initializer, combine, merger, False)
