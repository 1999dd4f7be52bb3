"""Joins in the logical graph: which processors and stores each kind becomes, in the order in which Kafka Streams writes
them.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.base.errors import UserError
from headwater.streams.engine.pass_through import PassThrough
from headwater.streams.engine.stream_join import Sides, StreamJoinSide, StreamSelfJoin
from headwater.streams.engine.table_join import TableJoinMerge, TableJoinSide
from headwater.streams.model.processor import Supplier
from headwater.streams.plan.graph import GraphNode, ProcessorGraphNode
from headwater.streams.plan.sinks import StreamSinkNode
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import Topology


class StreamStreamJoinNode(GraphNode):
    """Both sides and the node in which they meet, whose name it has. The keepers of both sides are nodes of their
    own.
    """

    def __init__(
        self,
        name: str,
        keepers: tuple[str, str],
        joins: tuple[str, str],
        stores: tuple[StorePlan, StorePlan],
        waiting: StorePlan | None,
        sides: Sides,
        one_store_for_itself: bool,
    ) -> None:
        super().__init__(name)
        self.keepers = keepers
        self.joins = joins
        self.stores = stores
        self.waiting = waiting
        self.sides = sides
        self.one_store_for_itself = one_store_for_itself
        self.null_key_relaxed_join = sides.left_outer or sides.right_outer

    @property
    def is_self_join(self) -> bool:
        """Whether both sides are one stream that is kept once. Two streams of one topic are known to be one when the
        topology is built.
        """
        return self.one_store_for_itself and len(self.parents) == 1

    def write(self, topology: Topology) -> None:
        sides, (this_keeper, other_keeper), (this_join, other_join) = self.sides, self.keepers, self.joins
        if self.is_self_join:
            topology.add_processor(self.name, lambda: StreamSelfJoin(sides), [this_keeper])
            topology.add_store(self.stores[0], [this_keeper, self.name])
            return
        topology.add_processor(this_join, lambda: StreamJoinSide(sides, True), [this_keeper])
        topology.add_processor(other_join, lambda: StreamJoinSide(sides, False), [other_keeper])
        topology.add_processor(self.name, PassThrough, [this_join, other_join])
        topology.add_store(self.stores[0], [this_keeper, other_join])
        topology.add_store(self.stores[1], [other_keeper, this_join])
        if self.waiting is not None:
            topology.add_store(self.waiting, [this_join, other_join])


class OtherKeeperNode(ProcessorGraphNode):
    """Keeps the records of the other side, if they are not those of this one."""

    def __init__(self, join: StreamStreamJoinNode, supplier: Supplier) -> None:
        super().__init__(join.keepers[1], supplier)
        self.join = join

    def write(self, topology: Topology) -> None:
        if not self.join.is_self_join:
            super().write(topology)


@dataclass(frozen=True, slots=True)
class Grace:
    """How long a stream waits for late changes of a versioned table, and where that has its versions."""

    grace_ms: int
    table_stores: list[str]

    def check(self, join: str, topology: Topology) -> None:
        """A table without the versions of then would say what holds now."""
        for name in self.table_stores:
            store = topology.stores[name]
            if not store.versioned:
                raise UserError(
                    f"{join} has a grace, and its table is not versioned",
                    f"the store {name} keeps only the latest row of each key",
                    "Materialized(name, history_ms=...) makes it versioned",
                )
            if self.grace_ms > store.spec.retention_ms:
                raise UserError(
                    f"{join} has a grace of {self.grace_ms} ms",
                    f"its table {name} keeps versions for {store.spec.retention_ms} ms",
                    "The history must be as long as the grace",
                )


class StreamTableJoinNode(GraphNode):
    """A processor that reads the table's stores, and its buffer where it has a grace."""

    def __init__(
        self, name: str, supplier: Supplier, store_names: Iterable[str], left: bool, grace: Grace | None = None
    ) -> None:
        super().__init__(name)
        self.grace = grace
        self.supplier = supplier
        self.store_names = list(store_names)
        self.null_key_relaxed_join = left

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self.supplier, self.parent_names)
        for store in self.store_names:
            topology.connect(self.name, store)
        if self.grace is not None:
            self.grace.check(self.name, topology)


class TableTableJoinNode(GraphNode):
    """Both sides, each with the other's stores, and the node in which they meet, whose name it has."""

    def __init__(
        self,
        names: tuple[str, str, str],
        tables: tuple[str, str],
        suppliers: tuple[TableJoinSide, TableJoinSide, TableJoinMerge],
        store_names: tuple[list[str], list[str]],
        store: StorePlan | None,
    ) -> None:
        self.this_name, self.other_name, merge_name = names
        super().__init__(merge_name)
        self.tables = tables
        self.suppliers = suppliers
        self.store_names = store_names
        self.store = store
        self.output_versioned = store is not None and store.versioned

    def enable_versioned_semantics(self, versioned: bool, parent: str) -> None:
        """A parent is a versioned table: what comes out of order from it is left out."""
        for table, supplier in zip(self.tables, self.suppliers[:2], strict=True):
            if table == parent:
                supplier.use_versioned_semantics = versioned

    def write(self, topology: Topology) -> None:
        this, other, merge = self.suppliers
        topology.add_processor(self.this_name, this, [self.tables[0]])
        topology.add_processor(self.other_name, other, [self.tables[1]])
        topology.add_processor(self.name, merge, [self.this_name, self.other_name])
        for name in self.store_names[1]:
            topology.connect(self.this_name, name)
        for name in self.store_names[0]:
            topology.connect(self.other_name, name)
        if self.store is not None:
            topology.add_store(self.store, [self.name])


class InternalSinkNode(StreamSinkNode):
    """Into a topic of the application's own: subscriptions and their answers."""

    def write(self, topology: Topology) -> None:
        assert isinstance(self.topic, str)
        topology.add_internal_topic(self.topic)
        super().write(topology)
