"""The joins of a stream: with a stream in a window of time, with a table, with a global table.

Names, numbers and the places of repartition topics are Kafka Streams'. Joiners are `f(left, right)` or `f(key, left,
right)`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from headwater.base.errors import UserError
from headwater.streams.dsl.application_config import SELF_JOIN, optimizations
from headwater.streams.dsl.functions import joiner as shaped
from headwater.streams.dsl.functions import with_key
from headwater.streams.dsl.global_table import GlobalTable
from headwater.streams.dsl.join_windows import JoinWindows
from headwater.streams.dsl.materialized import Materialized, StoreLike, materialized
from headwater.streams.dsl.partners import check_partner
from headwater.streams.dsl.store_types import store_type
from headwater.streams.dsl.table import Table
from headwater.streams.dsl.windows import milliseconds
from headwater.streams.engine.stream_join import (
    JoinWindowKeeper,
    Sides,
    WaitingKeySerde,
    WaitingValuesSerde,
)
from headwater.streams.engine.stream_table_join import BufferKeySerde, BufferValueSerde, StreamTableJoin
from headwater.streams.plan.graph import ProcessorGraphNode, StateStoreNode
from headwater.streams.plan.joins import Grace, OtherKeeperNode, StreamStreamJoinNode, StreamTableJoinNode
from headwater.streams.plan.repartition import RepartitionNode
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.topology.stores import StorePlan

if TYPE_CHECKING:
    from headwater.streams.dsl.stream import Stream

Joinable: TypeAlias = Union["Stream", Table, GlobalTable]


class JoinOptions:
    """What can be said about a join beside its joiner."""

    def __init__(
        self,
        operator: str,
        window: JoinWindows | None,
        on: Callable[..., Any] | None,
        grace_ms: int | None,
        name: str | None,
        store: StoreLike,
    ) -> None:
        self.operator = operator
        self.window = window
        self.on = on
        self.grace_ms = grace_ms
        self.name = name
        self.store = store
        self.kept = _checked(materialized(store))

    def refuse(self, *options: str, what: str) -> None:
        for option in options:
            if getattr(self, option) is not None:
                raise UserError(f"{self.operator} with {what} has no {option}", "see docs/STREAMS.md")


class StreamJoins:
    """The methods of a stream. What each option is for: `window` for streams, `on` for global tables, `grace_ms` for
    versioned tables.
    """

    def join(
        self,
        other: Joinable,
        joiner: Callable[..., Any],
        *,
        window: JoinWindows | None = None,
        on: Callable[..., Any] | None = None,
        grace_ms: int | None = None,
        name: str | None = None,
        store: StoreLike = None,
    ) -> "Stream":
        """Records that find a partner. `store` begins the names of the stores of two streams; a `Materialized` says
        also whether they are logged, with which settings of their topics, and where they lie.
        """
        return self._join(other, joiner, False, False, JoinOptions("join", window, on, grace_ms, name, store))

    def left_join(
        self,
        other: Joinable,
        joiner: Callable[..., Any],
        *,
        window: JoinWindows | None = None,
        on: Callable[..., Any] | None = None,
        grace_ms: int | None = None,
        name: str | None = None,
        store: StoreLike = None,
    ) -> "Stream":
        """Also records of this stream that find none: the joiner gets None for it."""
        return self._join(other, joiner, True, False, JoinOptions("left_join", window, on, grace_ms, name, store))

    def outer_join(
        self,
        other: "Stream",
        joiner: Callable[..., Any],
        *,
        window: JoinWindows,
        name: str | None = None,
        store: StoreLike = None,
    ) -> "Stream":
        """Also records of either stream that find none."""
        return self._join(other, joiner, True, True, JoinOptions("outer_join", window, None, None, name, store))

    def _join(
        self, other: Joinable, joiner: Callable[..., Any], left: bool, outer: bool, given: JoinOptions
    ) -> "Stream":
        """Which of the three it is, and whether what was given fits it."""
        from headwater.streams.dsl.stream import Stream

        assert isinstance(self, Stream)
        call = shaped(joiner, given.operator)
        kinds = (Stream,) if outer else (Stream, Table, GlobalTable)
        check_partner(
            self.app, other, next((kind for kind in kinds if isinstance(other, kind)), Stream), given.operator
        )
        if isinstance(other, Table):
            given.refuse("window", "on", "store", what="a table")
            return _with_table(self, other, call, left, given)
        if isinstance(other, GlobalTable):
            given.refuse("window", "grace_ms", "store", what="a global table")
            return _with_global_table(self, other, call, left, given)
        given.refuse("on", "grace_ms", what="a stream")
        if not isinstance(given.window, JoinWindows):
            raise UserError(
                f"{given.operator} of two streams needs a window",
                "records meet that are near in time"
                + ("" if given.window is None else f", and {given.window!r} does not say how near"),
                "window=JoinWindows.of(5_000)",
            )
        return _with_stream(self, other, call, left, outer, given.window, given)


def _repartitioned(stream: "Stream", topic: str | None) -> "Stream":
    """Behind a repartition topic if the key may have changed. Joins of one stream share it unless they name their
    own.
    """
    if not stream.repartition_required:
        return stream
    name = topic or stream.name
    fresh = RepartitionNode(stream.graph, name, stream.key_serde, stream.value_serde)
    if stream.join_repartition is None or name != stream.name:
        stream.join_repartition = fresh
        stream.graph.add(stream.node, fresh)
    node = stream.join_repartition
    return stream.after(node, name=fresh.name, sources=frozenset({fresh.name}), repartition_required=False)


def _with_stream(
    stream: "Stream",
    other: "Stream",
    joiner: Callable[[Any, Any, Any], Any],
    left: bool,
    outer: bool,
    window: JoinWindows,
    given: JoinOptions,
) -> "Stream":
    graph, name = stream.graph, given.name
    this = _repartitioned(stream, None if name is None else f"{name}-left")
    that = _repartitioned(other, None if name is None else f"{name}-right")
    graph.copartitioned.append(set(this.sources | that.sources))
    keepers = (
        graph.name_or_new(name, "KSTREAM-WINDOWED-", "-this-windowed"),
        graph.name_or_new(name, "KSTREAM-WINDOWED-", "-other-windowed"),
    )
    suffixes = ("-outer-this-join" if outer else "-this-join", "-outer-other-join" if left else "-other-join")
    generated = (
        graph.new_name("KSTREAM-OUTERTHIS-" if outer else "KSTREAM-JOINTHIS-"),
        graph.new_name("KSTREAM-OUTEROTHER-" if left else "KSTREAM-JOINOTHER-"),
    )
    joins = generated if name is None else (name + suffixes[0], name + suffixes[1])
    merge = graph.name_or_new(name, "KSTREAM-MERGE-", "-merge")
    kept, base = given.kept, given.kept.name
    bases = generated if base is None else (base + suffixes[0], base + suffixes[1])
    stores = (
        _window_store(f"{bases[0]}-store", window, this.key_serde, this.value_serde, kept),
        _window_store(f"{bases[1]}-store", window, this.key_serde, that.value_serde, kept),
    )
    waiting = _waiting_store(this, that, generated[0], outer, kept) if left and not window.eager else None
    sides = Sides(
        window.before_ms,
        window.after_ms,
        window.grace_ms,
        stores[0].name,
        stores[1].name,
        waiting.name if waiting is not None else None,
        left,
        outer,
        joiner,
    )
    one_store = not left and _one_store_for_self_joins(stream.app.config)
    node = StreamStreamJoinNode(merge, keepers, joins, stores, waiting, sides, one_store)
    graph.add(this.node, ProcessorGraphNode(keepers[0], partial(JoinWindowKeeper, stores[0].name)))
    graph.add(that.node, OtherKeeperNode(node, partial(JoinWindowKeeper, stores[1].name)))
    graph.add([this.node, that.node], node)
    return this.after(node, value=None, sources=this.sources | that.sources, repartition_required=False)


def _one_store_for_self_joins(config: Mapping[str, Any]) -> bool:
    """One store where both sides are the same stream."""
    return SELF_JOIN in optimizations(config)


def _checked(kept: Materialized) -> Materialized:
    """What follows from the join itself is not said of its stores."""
    if kept != Materialized(
        kept.name, logging=kept.logging, store_type=kept.store_type, topic_config=kept.topic_config
    ):
        raise UserError(
            "The stores of a join have a name, logging, topic_config and a store_type",
            "their serdes are those of the streams, and the window says how long they keep records",
        )
    return kept


def _window_store(
    name: str, window: JoinWindows, key: Serde | None, value: Serde | None, kept: Materialized
) -> StorePlan:
    spec = StoreSpec(
        name,
        StoreKind.WINDOW,
        timestamped=False,
        retention_ms=window.size_ms + window.grace_ms,
        window_size_ms=window.size_ms,
        retain_duplicates=True,
        logged=kept.logging,
        store_type=store_type(kept.store_type),
        changelog_config={**kept.topic_config, "cleanup.policy": "delete"},
    )
    return StorePlan(spec, key, value)


def _waiting_store(this: "Stream", that: "Stream", generated: str, outer: bool, kept: Materialized) -> StorePlan:
    app = this.app
    if kept.name is not None:
        name = kept.name + ("-outer-shared-join" if outer else "-left-shared-join")
    else:
        name = "KSTREAM-OUTERSHARED-" + generated.rsplit("-", 1)[1]
    key = WaitingKeySerde(this.key_serde or app.default_key)
    values = WaitingValuesSerde(this.value_serde or app.default_value, that.value_serde or app.default_value)
    spec = StoreSpec(
        f"{name}-store",
        timestamped=False,
        logged=kept.logging,
        store_type=store_type(kept.store_type),
        changelog_config=dict(kept.topic_config),
    )
    return StorePlan(spec, key, values)


def _with_table(
    stream: "Stream", table: Table, joiner: Callable[[Any, Any, Any], Any], left: bool, given: JoinOptions
) -> "Stream":
    this = _repartitioned(stream, given.name)
    graph, app = this.graph, this.app
    grace_ms = None if given.grace_ms is None else milliseconds(given.grace_ms, "grace")
    if grace_ms is not None and grace_ms < 0:
        raise UserError(f"{given.operator} has a grace of {grace_ms} ms", "it must not be negative")
    sources = this.sources | table.sources
    graph.copartitioned.append(set(sources))
    name = graph.name_or_new(given.name, "KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
    buffer = None
    if grace_ms is not None:
        buffer = f"{name}-Buffer"
        key = BufferKeySerde(this.key_serde or app.default_key)
        value = BufferValueSerde(this.value_serde or app.default_value)
        plan = StorePlan(StoreSpec(buffer, timestamped=False), key, value)
        graph.add(graph.root, StateStoreNode(plan))
    view = table.supplier.view()
    names = [*([buffer] if buffer is not None else []), *view.store_names]
    grace = None if grace_ms is None else Grace(grace_ms, view.store_names)
    node = StreamTableJoinNode(
        name, lambda: StreamTableJoin(view.make(), None, joiner, left, buffer, grace_ms or 0), names, left, grace
    )
    graph.add(this.node, node)
    return this.after(node, value=None, sources=sources, repartition_required=False)


def _with_global_table(
    stream: "Stream", table: GlobalTable, joiner: Callable[[Any, Any, Any], Any], left: bool, given: JoinOptions
) -> "Stream":
    if given.on is None:
        raise UserError(
            f"{given.operator} with a global table needs on=...", "a function of the record that gives the table's key"
        )
    mapper, view = with_key(given.on, given.operator), table.view()
    name = stream.graph.name_or_new(given.name, "KSTREAM-LEFTJOIN-")
    node = StreamTableJoinNode(name, lambda: StreamTableJoin(view.make(), mapper, joiner, left), [], left)
    stream.graph.add(stream.node, node)
    return stream.after(node, value=None)
