"""Table-table joins by key: a change of either side is joined with the row that the other side has now.

The result has the larger timestamp. A side asks its parent for old values where somebody below needs them, so that what
no longer holds becomes a tombstone. `TableJoinMerge` is where both sides meet: it keeps the store, if there is one.
"""

from collections.abc import Callable
from typing import Any, Literal

from headwater.streams.engine.table import TableSupplier, ValueGetter, View, forwards_when_flushed, store_view
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT, ValueAndTimestamp
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Change, Record

Kind = Literal["inner", "left", "right", "outer"]
Joiner = Callable[[Any, Any, Any], Any]  # (key, this side's, the other side's)


class TableJoinSide:
    """The supplier of one side. `kind` is seen from this side: the right side of a left join is `right`."""

    def __init__(self, this: TableSupplier, other: TableSupplier, joiner: Joiner, kind: Kind) -> None:
        self._this = this
        self._other = other
        self._joiner = joiner
        self._kind: Kind = kind
        self._send_old_values = False
        self.use_versioned_semantics = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:  # noqa: ARG002 - joins force it
        self._this.enable_sending_old_values(True)
        self._other.enable_sending_old_values(True)
        self._send_old_values = True
        return True

    def view(self) -> View:
        mine, others = self._this.view(), self._other.view()
        names = list(dict.fromkeys([*mine.store_names, *others.store_names]))
        return View(lambda: JoinGetter(mine.make(), others.make(), self._joiner, self._kind), names)

    def __call__(self) -> Processor:
        getter = self._other.view().make()
        return TableJoinProcessor(getter, self._joiner, self._kind, self._send_old_values, self.use_versioned_semantics)


class TableJoinProcessor(Processor):
    def __init__(
        self, getter: ValueGetter, joiner: Joiner, kind: Kind, send_old_values: bool, use_versioned_semantics: bool
    ) -> None:
        self._getter = getter
        self._joiner = joiner
        self._kind = kind
        self._send_old_values = send_old_values
        self._versioned = use_versioned_semantics

    def init(self, context: Context) -> None:
        self._getter.init(context)

    def process(self, record: Record) -> None:
        key, change, kind = record.key, record.value, self._kind
        if key is None:
            self.context.drop("null key")
            return
        if self._versioned and not change.is_latest:
            self.context.drop("out of order in a versioned table")
            return
        found = self._getter.get(key)
        other = None if found is None else found[0]
        if other is None and (kind in ("inner", "right") or (change.new is None and change.old is None)):
            return
        timestamp = record.timestamp if other is None or found is None else max(record.timestamp, found[1])
        new = self._joined(key, change.new, other)
        old = self._joined(key, change.old, other) if self._send_old_values else None
        self.forward(Record(key, Change(new, old, change.is_latest), timestamp, record.headers))

    def _joined(self, key: Any, mine: Any, other: Any) -> Any:
        if mine is None and (self._kind in ("inner", "left") or (self._kind == "outer" and other is None)):
            return None
        return self._joiner(key, mine, other)


class JoinGetter:
    """The row of a join without a store, from the rows of both sides."""

    versioned = False  # a join of versioned tables is not one

    def __init__(self, this: ValueGetter, other: ValueGetter, joiner: Joiner, kind: Kind) -> None:
        self._this = this
        self._other = other
        self._joiner = joiner
        self._kind = kind

    def init(self, context: Context) -> None:
        self._this.init(context)
        self._other.init(context)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        mine, other = self._this.get(key), self._other.get(key)
        left, right = (None if mine is None else mine[0]), (None if other is None else other[0])
        if left is None and (right is None or self._kind in ("inner", "left")):
            return None
        if right is None and self._kind in ("inner", "right"):
            return None
        value = self._joiner(key, left, right)
        latest = max(-1 if mine is None else mine[1], -1 if other is None else other[1])
        return None if value is None else (value, latest)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        raise AssertionError(f"a join has no versions: {key!r} as of {timestamp}")


class TableJoinMerge:
    """The supplier of the node in which both sides meet."""

    def __init__(self, this: TableJoinSide, other: TableJoinSide, store_name: str | None) -> None:
        self._this = this
        self._other = other
        self._store_name = store_name
        self._send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:  # noqa: ARG002 - joins force it
        self._this.enable_sending_old_values(True)
        self._other.enable_sending_old_values(True)
        self._send_old_values = True
        return True

    def view(self) -> View:
        return self._this.view() if self._store_name is None else store_view(self._store_name)

    def __call__(self) -> Processor:
        return TableJoinMergeProcessor(self._store_name, self._send_old_values)


class TableJoinMergeProcessor(Processor):
    def __init__(self, store_name: str | None, send_old_values: bool) -> None:
        self._store_name = store_name
        self._send_old_values = send_old_values
        self._store: Any = None
        self._cached = False

    def init(self, context: Context) -> None:
        if self._store_name is not None:
            self._store = context.store(self._store_name)
            self._cached = forwards_when_flushed(self._store, context, self._send_old_values)

    def process(self, record: Record) -> None:
        change = record.value
        old = change.old if self._send_old_values else None
        is_latest = change.is_latest
        if self._store is not None:
            code = self._store.put(record.key, change.new, record.timestamp)
            if code == NOT_PUT or self._cached:
                return
            is_latest = code == IS_LATEST
        self.forward(record.with_value(Change(change.new, old, is_latest)))
