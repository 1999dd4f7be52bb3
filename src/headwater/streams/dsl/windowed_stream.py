"""`grouped.windowed_by(...)`: aggregations per key and window. Rows are called by `Windowed(key, start, end)`."""

from collections.abc import Callable
from typing import Any, Literal, get_args

from headwater.base.errors import UserError
from headwater.streams.dsl.functions import added, aggregator, better, check_callable, joiner, number_serde, value_of
from headwater.streams.dsl.grouped_stream import Grouping
from headwater.streams.dsl.materialized import Kept, StoreLike, keep, keep_count
from headwater.streams.dsl.store_types import store_type
from headwater.streams.dsl.table import Table
from headwater.streams.dsl.time_to_live import refuse_ttl
from headwater.streams.engine.session_aggregate import SessionAggregate
from headwater.streams.engine.sliding_aggregate import SlidingAggregate
from headwater.streams.engine.stream_aggregate import one_more, zero
from headwater.streams.engine.window_aggregate import Aggregator, WindowAggregate
from headwater.streams.model.windows import AnyWindows, SessionWindows, SlidingWindows
from headwater.streams.plan.graph import ProcessorGraphNode
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import SerdeLike, resolve_optional
from headwater.streams.serdes.stock import LONG
from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.topology.stores import StorePlan

Emit = Literal["update", "close"]
WindowSupplier = WindowAggregate | SlidingAggregate | SessionAggregate


def nothing() -> None:
    return None


class WindowedStream:
    """Records by key and window. `merge` of sessions is asked for where it cannot be known."""

    def __init__(self, grouping: Grouping, windows: AnyWindows, emit: Emit = "update") -> None:
        self._grouping = grouping
        self._windows = windows
        self._emit = emit

    def emit(self, when: Emit) -> "WindowedStream":
        """`update`: a row for each record. `close`: one row per window, when it takes no more records."""
        if when not in get_args(Emit):
            raise UserError(f"Windows do not emit on {when!r}", f"one of {', '.join(get_args(Emit))} is needed")
        may = getattr(self._windows, "may_emit_on_close", True)
        if when == "close" and not may:
            raise UserError("Unlimited windows never close", "", 'emit("update") is what they can do')
        return WindowedStream(self._grouping, self._windows, when)

    def count(self, *, name: str | None = None, store: StoreLike = None) -> Table:
        """How many records each key has in each window."""
        choose = keep if isinstance(self._windows, SlidingWindows) else keep_count
        kept = choose(self._grouping.graph, store, "KSTREAM-AGGREGATE-", self._grouping.key, LONG)
        return self._table(name, "KSTREAM-AGGREGATE-", kept, zero, one_more, lambda key, one, two: one + two)  # noqa: ARG005

    def reduce(self, reducer: Callable[[Any, Any], Any], *, name: str | None = None, store: StoreLike = None) -> Table:
        """The first value, then `reducer(aggregate, value)`."""
        check_callable(reducer, "reduce")

        def combine(key: Any, value: Any, aggregate: Any) -> Any:  # noqa: ARG001
            return value if aggregate is None else reducer(aggregate, value)

        kept = self._keep(store, "KSTREAM-REDUCE-", self._grouping.value)
        merge = lambda key, one, two: combine(key, two, one)  # noqa: E731
        return self._table(name, "KSTREAM-REDUCE-", kept, nothing, combine, merge)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregate: Callable[..., Any],
        merge: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """From `initializer()`, by `f(aggregate, value)` or `f(key, value, aggregate)`; sessions also need `merge(one,
        two)`.
        """
        if merge is None and isinstance(self._windows, SessionWindows):
            raise UserError("Sessions that become one need a function", "", "aggregate(initializer, aggregate, merge)")
        check_callable(initializer, "aggregate")
        combine = aggregator(aggregate, "aggregate")
        merger = nothing if merge is None else joiner(merge, "aggregate")
        kept = self._keep(store, "KSTREAM-AGGREGATE-", resolve_optional(value))
        return self._table(name, "KSTREAM-AGGREGATE-", kept, initializer, combine, merger)

    def sum(
        self,
        of: Callable[[Any], Any] | None = None,
        *,
        name: str | None = None,
        store: StoreLike = None,
        value: SerdeLike | None = None,
    ) -> Table:
        """The sum of the values, or of what a function takes from them."""
        take, serde = value_of(of), number_serde(of, value, self._grouping.value)
        return self.aggregate(
            zero,
            lambda total, value: added(total, take(value)),
            lambda one, two: one + two,
            name=name,
            store=store,
            value=serde,
        )

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
        take, serde = value_of(of), number_serde(of, value, self._grouping.value)
        return self.aggregate(
            nothing,
            lambda best, value: better(choose, best, take(value)),
            lambda one, two: better(choose, one, two),
            name=name,
            store=store,
            value=serde,
        )

    def _keep(self, store: StoreLike, prefix: str, value: Serde | None) -> Kept:
        return keep(self._grouping.graph, store, prefix, self._grouping.key, value)

    def _table(
        self,
        name: str | None,
        prefix: str,
        kept: Kept,
        initializer: Callable[[], Any],
        combine: Aggregator,
        merge: Callable[..., Any],
    ) -> Table:
        node_name = self._grouping.graph.name_or_new(name, prefix)
        supplier = window_supplier(self._windows, kept.store_name, initializer, combine, merge, self._emit == "close")
        store = window_store(kept, self._windows, self._emit)
        node = ProcessorGraphNode(node_name, supplier, stores=[store])
        node.output_versioned = False
        node.grace_ms = grace_of(self._windows)
        key = windowed_key(self._windows, kept.key or self._grouping.app.default_key)
        return self._grouping.aggregate(node_name, supplier, store, key, kept.value, kept.queryable_name, node)


def check_windows(windows: object) -> None:
    if not isinstance(windows, AnyWindows):
        raise UserError(
            "windowed_by needs windows",
            f"it was given {windows!r}",
            'tumbling("5m"), hopping, sliding, session and others make them',
        )


def window_supplier(
    windows: AnyWindows,
    store_name: str,
    initializer: Callable[[], Any],
    combine: Aggregator,
    merge: Callable[..., Any],
    emit_on_close: bool,
) -> WindowSupplier:
    """What aggregates over these windows."""
    if isinstance(windows, SessionWindows):
        return SessionAggregate(windows, store_name, initializer, combine, merge, emit_on_close)
    if isinstance(windows, SlidingWindows):
        return SlidingAggregate(windows, store_name, initializer, combine, emit_on_close)
    return WindowAggregate(windows, store_name, initializer, combine, emit_on_close)


def window_store(kept: Kept, windows: AnyWindows, emit: Emit) -> StorePlan:
    """Its retention is at least what the windows need."""
    if kept.versioned:
        raise UserError(f"The store {kept.store_name} is one of windows", "it keeps no versions, so history_ms is none")
    if isinstance(windows, SessionWindows):
        size, needed = 0, windows.gap_ms + windows.grace_ms
    elif isinstance(windows, SlidingWindows):
        size, needed = windows.difference_ms, 2 * windows.difference_ms + windows.grace_ms
    else:
        size, needed = windows.size_ms, windows.size_ms + windows.grace_ms
    refuse_ttl(kept.store_name, kept.given.ttl, "one of windows", "they go with their retention")
    retention = kept.given.retention_ms
    if retention is not None and retention < needed:
        raise UserError(
            f"The store {kept.store_name} keeps {retention} ms", f"its windows need {needed} ms with their grace"
        )
    spec = StoreSpec(
        kept.store_name,
        StoreKind.SESSION if isinstance(windows, SessionWindows) else StoreKind.WINDOW,
        timestamped=not isinstance(windows, SessionWindows),
        retention_ms=needed if retention is None else retention,
        window_size_ms=size or None,
        time_ordered=emit == "close",
        logged=kept.given.logging,
        store_type=store_type(kept.given.store_type),
        changelog_config=dict(kept.given.topic_config),
    )
    fixed = not isinstance(windows, SessionWindows | SlidingWindows)
    return StorePlan(spec, kept.key, kept.value, caching=kept.given.caching and (fixed or emit != "close"))


def windowed_key(windows: AnyWindows, inner: Serde) -> Serde:
    """The serde of the rows' keys."""
    if isinstance(windows, SessionWindows):
        return SessionWindowedSerde(inner)
    if isinstance(windows, SlidingWindows):
        return WindowedSerde(inner, lambda start: start + windows.difference_ms)
    return WindowedSerde(inner, windows.end_of)


def grace_of(windows: AnyWindows) -> int:
    """How long after the end of a window its row may change; `suppress` waits for it."""
    return windows.grace_ms + (windows.gap_ms if isinstance(windows, SessionWindows) else 0)
