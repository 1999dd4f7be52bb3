"""The joins of a table: by its key, or by a foreign key that a function takes from each row. Names and numbers are
Kafka Streams'.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.streams.dsl.functions import joiner as shaped
from headwater.streams.dsl.functions import with_key
from headwater.streams.dsl.materialized import StoreLike, keep
from headwater.streams.dsl.partners import check_partner
from headwater.streams.engine.foreign_key_join import (
    CombinedKeys,
    ForeignTableJoin,
    Response,
    ResponseJoin,
    ResponseSerde,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
    SubscriptionSerde,
)
from headwater.streams.engine.table_join import Kind, TableJoinMerge, TableJoinSide
from headwater.streams.engine.table_source import TableSource
from headwater.streams.plan.graph import ProcessorGraphNode, StateStoreNode
from headwater.streams.plan.joins import InternalSinkNode, TableTableJoinNode
from headwater.streams.plan.sources import StreamSourceNode
from headwater.streams.plan.tables import StreamToTableNode
from headwater.streams.serdes.stock import BYTES
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.dsl.table import Table

_OTHER_KIND: dict[Kind, Kind] = {"inner": "inner", "left": "right", "outer": "outer"}


class TableJoins:
    """The methods of a table. With `on`, which takes the other table's key from a row, it is a foreign-key join."""

    def join(
        self,
        other: "Table",
        joiner: Callable[..., Any],
        *,
        on: Callable[..., Any] | None = None,
        name: str | None = None,
        store: StoreLike = None,
    ) -> "Table":
        """Rows that have a partner."""
        return self._join(other, joiner, "inner", on, name, store)

    def left_join(
        self,
        other: "Table",
        joiner: Callable[..., Any],
        *,
        on: Callable[..., Any] | None = None,
        name: str | None = None,
        store: StoreLike = None,
    ) -> "Table":
        """Also rows of this table that have none: the joiner gets None for it."""
        return self._join(other, joiner, "left", on, name, store)

    def outer_join(
        self, other: "Table", joiner: Callable[..., Any], *, name: str | None = None, store: StoreLike = None
    ) -> "Table":
        """Also rows of either table that have none."""
        return self._join(other, joiner, "outer", None, name, store)

    def _join(
        self,
        other: "Table",
        joiner: Callable[..., Any],
        kind: Kind,
        on: Callable[..., Any] | None,
        name: str | None,
        store: StoreLike,
    ) -> "Table":
        from headwater.streams.dsl.table import Table

        assert isinstance(self, Table)
        check_partner(self.app, other, Table, "join" if kind == "inner" else f"{kind}_join")
        if on is None:
            return join_by_key(self, other, joiner, kind, name, store)
        return join_by_foreign_key(self, other, on, joiner, kind == "left", name, store)


def join_by_key(
    this: "Table", other: "Table", joiner: Callable[..., Any], kind: Kind, name: str | None, store: StoreLike
) -> "Table":
    from headwater.streams.dsl.table import Table

    graph, call = this.graph, shaped(joiner, "join")
    kept = None if store is None else keep(graph, store, "KTABLE-MERGE-", this.key_serde, None)
    merge_name = graph.name_or_new(name, "KTABLE-MERGE-")
    sources = this.sources | other.sources
    graph.copartitioned.append(set(sources))
    if kind in ("left", "outer"):
        this.supplier.enable_sending_old_values(True)
    if kind == "outer":
        other.supplier.enable_sending_old_values(True)
    store_names = this.supplier.view().store_names, other.supplier.view().store_names
    left = TableJoinSide(this.supplier, other.supplier, call, kind)
    right = TableJoinSide(
        other.supplier, this.supplier, lambda key, mine, theirs: call(key, theirs, mine), _OTHER_KIND[kind]
    )
    names = (
        graph.name_or_new(name, "KTABLE-JOINTHIS-", "-join-this"),
        graph.name_or_new(name, "KTABLE-JOINOTHER-", "-join-other"),
        merge_name,
    )
    store_name = kept.store_name if kept is not None else None  # also where it was not given a name
    merge = TableJoinMerge(left, right, store_name)
    plan = kept.key_value() if kept is not None else None
    node = TableTableJoinNode(names, (this.name, other.name), (left, right, merge), store_names, plan)
    graph.add(this.node, node)
    graph.add(other.node, node)
    key = kept.key if kept is not None else this.key_serde
    value = kept.value if kept is not None else None
    return Table(this.app, node, merge_name, key, value, sources, store_name, merge)


def join_by_foreign_key(
    this: "Table",
    other: "Table",
    on: Callable[..., Any],
    joiner: Callable[..., Any],
    left: bool,
    name: str | None,
    store: StoreLike,
) -> "Table":
    return _ForeignKeyJoin(this, other, with_key(on, "join"), shaped(joiner, "join"), left, name).table(store)


class _ForeignKeyJoin:
    """Adds the nodes one after the other, in Kafka Streams' order: their numbers depend on it."""

    def __init__(
        self,
        this: "Table",
        other: "Table",
        extractor: Callable[[Any, Any], Any],
        joiner: Callable[[Any, Any, Any], Any],
        left: bool,
        name: str | None,
    ) -> None:
        app = this.app
        self.this = this
        self.other = other
        self.extractor = extractor
        self.joiner = joiner
        self.left = left
        self.name = name
        self.graph = this.graph
        self.primary = this.key_serde or app.default_key
        self.foreign = other.key_serde or app.default_key
        self.value = this.value_serde or app.default_value
        self.subscriptions = SubscriptionSerde(self.primary)
        self.responses = ResponseSerde(other.value_serde or app.default_value)
        self.keys = CombinedKeys(self.foreign, self.primary)

    def _named(self, suffix: str, prefix: str) -> str:
        return self.graph.name_or_new(self.name, prefix, suffix)

    def table(self, store: StoreLike) -> "Table":
        self.other.supplier.enable_sending_old_values(True)
        self.this.supplier.enable_sending_old_values(True)
        source = self._subscription_topic()
        store_name = self._named("-subscription-store", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-")
        self.graph.add(self.graph.root, StateStoreNode(StorePlan(StoreSpec(store_name), BYTES, self.subscriptions)))
        answers = self._right_side(source, store_name)
        return self._left_side(answers, store)

    def _subscription_topic(self) -> StreamSourceNode:
        graph, prefix = self.graph, "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-"
        topic = self._named("-subscription-registration", prefix) + "-topic"
        send = _SendNode(
            self._named("-subscription-registration-processor", prefix),
            lambda: SubscriptionSend(self.extractor, self.foreign, self.value, self.left, send.versioned),
        )
        graph.add(self.this.node, send)
        sink_name = self._named("-subscription-registration-sink", "KTABLE-SINK-")
        sink = InternalSinkNode(sink_name, topic, self.foreign, self.subscriptions, None)
        graph.add(send, sink)
        source_name = self._named("-subscription-registration-source", "KTABLE-SOURCE-")
        source = StreamSourceNode(source_name, (topic,), None, self.foreign, self.subscriptions, None, None)
        graph.add(sink, source)
        graph.copartitioned.append({*self.other.sources, source_name})
        return source

    def _right_side(self, source: StreamSourceNode, store_name: str) -> StreamSourceNode:
        """From subscriptions, and from changes of the right table, to answers."""
        graph, prefix = self.graph, "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
        receive = ProcessorGraphNode(
            self._named("-subscription-receive", prefix),
            lambda: SubscriptionReceive(store_name, self.keys),
            store_names=[store_name],
        )
        graph.add(source, receive)
        view = self.other.supplier.view()
        answer = ProcessorGraphNode(
            self._named("-subscription-join-foreign", prefix),
            lambda: SubscriptionJoin(view.make()),
            store_names=view.store_names,
        )
        graph.add(receive, answer)
        changed = _SendNode(
            self._named("-foreign-join-subscription", prefix),
            lambda: ForeignTableJoin(store_name, self.keys, changed.versioned),
            store_names=[store_name],
        )
        graph.add(self.other.node, changed)
        topic = self._named("-subscription-response", "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-") + "-topic"
        sink_name = self._named("-subscription-response-sink", "KTABLE-SINK-")
        sink = InternalSinkNode(sink_name, topic, self.primary, self.responses, _back_home)
        graph.add(answer, sink)
        graph.add(changed, sink)
        source_name = self._named("-subscription-response-source", "KTABLE-SOURCE-")
        answers = StreamSourceNode(source_name, (topic,), None, self.primary, self.responses, None, None)
        graph.add(sink, answers)
        graph.copartitioned.append({*self.this.sources, source_name})
        return answers

    def _left_side(self, answers: StreamSourceNode, store: StoreLike) -> "Table":
        from headwater.streams.dsl.table import Table

        graph, this, view = self.graph, self.this, self.this.supplier.view()
        resolve = ProcessorGraphNode(
            self._named("-subscription-response-resolver", "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
            lambda: ResponseJoin(view.make(), self.value, self.joiner, self.left),
            store_names=view.store_names,
        )
        graph.add(answers, resolve)
        name = self._named("-result", "KTABLE-FK-JOIN-OUTPUT-")
        kept = keep(graph, store, "KTABLE-FK-JOIN-OUTPUT-", this.key_serde, None)
        supplier = TableSource(kept.store_name, kept.queryable_name)
        node = StreamToTableNode(name, supplier, kept.key_value())
        graph.add(resolve, node)
        sources = this.sources | {answers.name}
        return Table(this.app, node, name, this.key_serde, kept.value, sources, kept.store_name, supplier)


class _SendNode(ProcessorGraphNode):
    """A processor that leaves out what comes out of order from a versioned table."""

    versioned = False

    def enable_versioned_semantics(self, versioned: bool, parent: str) -> None:  # noqa: ARG002
        self.versioned = versioned


def _back_home(topic: str, key: Any, response: Response, partitions: int) -> int | None:  # noqa: ARG001
    """The answer goes to the partition that the subscription came from."""
    return response.primary_partition
