"""`Table`: the latest value per key, and every change of it. Names, numbers and stores are Kafka Streams'.

A table has a store if it was given a name for one (`store="..."`) or if something downstream needs its values.
Immutable but for that; the graph belongs to the App.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.streams.dsl.expressions import Column, HasColumns, field, row
from headwater.streams.dsl.frames import HasFrames
from headwater.streams.dsl.functions import with_key
from headwater.streams.dsl.materialized import Kept, StoreLike, keep_if_named
from headwater.streams.dsl.table_joins import TableJoins
from headwater.streams.dsl.windows import Duration
from headwater.streams.engine.table import TableSupplier
from headwater.streams.engine.table_filter import TableFilter
from headwater.streams.engine.table_map_values import TableMapValues
from headwater.streams.engine.table_repartition_map import TableRepartitionMap
from headwater.streams.engine.table_to_stream import TableToStream
from headwater.streams.engine.table_transform_values import TableTransformValues, ValueTransformer
from headwater.streams.plan.graph import Graph, GraphNode, ProcessorGraphNode, check_store_names, check_supplier
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.serdes.stock import JSON

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.grouped_table import GroupedTable
    from headwater.streams.dsl.stream import Stream


NO_CONFIG: Final[Mapping[str, str]] = {}


class Table(TableJoins, HasFrames, HasColumns):
    """A table of an application. `supplier` makes its processors and knows where its values are.

    `join`, `left_join` and `outer_join` are in `table_joins`, `df` is in `frames`.
    """

    is_table = True

    def __init__(
        self,
        app: "App",
        node: GraphNode,
        name: str,
        key: Serde | None,
        value: Serde | None,
        sources: frozenset[str],
        queryable_name: str | None,
        supplier: TableSupplier,
    ) -> None:
        self.app = app
        self.node = node
        self.name = name
        self.key_serde = key
        self.value_serde = value
        self.sources = sources
        self.queryable_name = queryable_name
        self.supplier = supplier

    @property
    def graph(self) -> Graph:
        return self.app.graph

    # -- columns

    def __getitem__(self, what: "str | Column") -> Any:
        """A column by the name of a field, or the rows for which an expression is true."""
        return field(what) if isinstance(what, str) else self.filter(what)

    def select(
        self, *columns: "str | Column", name: str | None = None, store: StoreLike = None, **named: Any
    ) -> "Table":
        """A dict of these columns for each row."""
        return self.map_values(row(columns, named), name=name, store=store, value=JSON)

    # -- rows one by one

    def filter(self, predicate: Callable[..., Any], *, name: str | None = None, store: StoreLike = None) -> "Table":
        """Rows for which the predicate holds; one that holds no more becomes a tombstone."""
        return self._filter(with_key(predicate, "filter"), False, name, store)

    def filter_not(self, predicate: Callable[..., Any], *, name: str | None = None, store: StoreLike = None) -> "Table":
        """Rows for which the predicate does not hold."""
        return self._filter(with_key(predicate, "filter_not"), True, name, store)

    def _filter(
        self, predicate: Callable[[Any, Any], Any], negated: bool, name: str | None, store: StoreLike
    ) -> "Table":
        kept = keep_if_named(self.graph, store, "KTABLE-FILTER-", self.key_serde, self.value_serde)
        node_name = self.graph.name_or_new(name, "KTABLE-FILTER-")
        supplier = TableFilter(self.supplier, predicate, negated, kept.queryable_name if kept else None)
        return self.after(node_name, supplier, kept, self.value_serde)

    def map_values(
        self,
        mapper: Callable[..., Any],
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> "Table":
        """Another value for each row."""
        call, value_serde = with_key(mapper, "map_values"), resolve_optional(value)
        kept = keep_if_named(self.graph, store, "KTABLE-MAPVALUES-", self.key_serde, value_serde)
        node_name = self.graph.name_or_new(name, "KTABLE-MAPVALUES-")
        supplier = TableMapValues(self.supplier, call, kept.queryable_name if kept else None)
        return self.after(node_name, supplier, kept, value_serde)

    def transform_values(
        self,
        transformer: Callable[[], ValueTransformer],
        *,
        stores: Iterable[str] = (),
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> "Table":
        """Another value for each row, by a transformer with stores of its own (`stores`)."""
        check_supplier(transformer, "transformer")
        value_serde = resolve_optional(value)
        kept = keep_if_named(self.graph, store, None, self.key_serde, value_serde)
        node_name = self.graph.name_or_new(name, "KTABLE-TRANSFORMVALUES-")
        supplier = TableTransformValues(self.supplier, transformer, kept.queryable_name if kept else None)
        store_names = check_store_names(stores, node_name)
        return self.after(node_name, supplier, kept, value_serde, store_names=store_names)

    def after(
        self,
        node_name: str,
        supplier: Any,
        kept: Kept | None,
        value: Serde | None,
        *,
        store_names: Iterable[str] = (),
        node: GraphNode | None = None,
    ) -> "Table":
        """The table behind a processor that hangs on this one, with the store that was asked for."""
        stores = [kept.key_value()] if kept is not None and kept.queryable_name is not None else []
        if node is None:
            node = ProcessorGraphNode(node_name, supplier, store_names=store_names, stores=stores)
            if kept is not None:
                node.output_versioned = kept.versioned
        self.graph.add(self.node, node)
        return Table(
            self.app,
            node,
            node_name,
            kept.key if kept is not None else self.key_serde,
            kept.value if kept is not None else value,
            self.sources,
            kept.queryable_name if kept is not None else None,
            supplier,
        )

    # -- elsewhere

    def to_stream(
        self, selector: Callable[..., Any] | None = None, *, name: str | None = None, key: SerdeLike | None = None
    ) -> "Stream":
        """Every change as a record, tombstones included; under another key if a function is given."""
        from headwater.streams.dsl.stream import Stream

        node = ProcessorGraphNode(self.graph.name_or_new(name, "KTABLE-TOSTREAM-"), TableToStream)
        self.graph.add(self.node, node)
        stream = Stream(self.app, node, node.name, self.key_serde, self.value_serde, self.sources, False)
        return stream if selector is None else stream.select_key(selector, key=key)

    def suppress(
        self,
        *,
        until_window_closes: bool = False,
        until_time_limit: Duration | None = None,
        records_max: int | None = None,
        bytes_max: int | None = None,
        emit_early_when_full: bool | None = None,
        name: str | None = None,
        logging: bool = True,
        topic_config: Mapping[str, str] = NO_CONFIG,
    ) -> "Table":
        """Holds changes back, so that only the last per key goes out: when its window closes, or after a time limit.

        A limited buffer lets the oldest go out early; with `until_window_closes` that may not be, and a full one fails.
        Without `logging`, what is held back is lost where the state on disk is. `topic_config`: of the changelog.
        """
        from headwater.streams.dsl.suppression import suppress

        return suppress(
            self,
            until_window_closes,
            until_time_limit,
            records_max,
            bytes_max,
            emit_early_when_full,
            name,
            logging,
            topic_config,
        )

    def group_by(
        self,
        selector: Callable[..., Any],
        *,
        name: str | None = None,
        key: SerdeLike | None = None,
        value: SerdeLike | None = None,
    ) -> "GroupedTable":
        """Groups of rows: the function gives the group's key and the value, as a tuple."""
        from headwater.streams.dsl.grouped_table import GroupedTable

        supplier = TableRepartitionMap(with_key(selector, "group_by"))
        node = ProcessorGraphNode(self.graph.name_or_new(name, "KTABLE-SELECT-"), supplier)
        self.graph.add(self.node, node)
        self.supplier.enable_sending_old_values(True)
        return GroupedTable(self.app, node, name, resolve_optional(key), resolve_optional(value))
