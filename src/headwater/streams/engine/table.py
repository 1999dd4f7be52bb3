"""What the nodes of a table share: suppliers that know whether old values are asked for, and getters that look values
up.

A table need not have a store. Where somebody asks for its values (a join) or its old values (an aggregation), it may be
computed from its parent, or be materialized after all: `enable_sending_old_values` and `view` walk up until a store is
found, as in Kafka Streams. Suppliers are asked while the graph is made, and make a processor per task afterwards.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.model.processor import Context, Forward, Processor
from headwater.streams.model.record import Change, Record
from headwater.streams.stores.cache import CachedChange, StoreCache


class ValueGetter(Protocol):
    """Looks up the value of a table by key: in a store, or computed from the parent's."""

    def init(self, context: Context) -> None: ...

    def get(self, key: Any) -> ValueAndTimestamp | None: ...

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """What held at that time; only where `versioned`."""

    @property
    def versioned(self) -> bool: ...


class View:
    """Makes getters, and names the stores that whoever uses one must be connected to."""

    def __init__(self, make: Callable[[], ValueGetter], store_names: list[str]) -> None:
        self.make = make
        self.store_names = store_names


class TableSupplier(Protocol):
    """Makes the processors of a table's node."""

    def __call__(self) -> Processor: ...

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        """Asks for old values; False if there are none without a store, and none was forced."""

    def view(self) -> View: ...


class StoreGetter:
    """Looks values up in a table's store."""

    def __init__(self, store_name: str) -> None:
        self.name = store_name
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self.name)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        found: ValueAndTimestamp | None = self._store.get(key)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        found: ValueAndTimestamp | None = self._store.get_as_of(key, timestamp)
        return found

    @property
    def versioned(self) -> bool:
        return bool(self._store.versioned)


def store_view(name: str) -> View:
    return View(lambda: StoreGetter(name), [name])


class StoredTable:
    """A supplier whose table has a store in any case, so old values are there for the asking."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:  # noqa: ARG002 - it has a store anyway
        self._send_old_values = True
        return True

    def view(self) -> View:
        return store_view(self._store_name)


class ComputedGetter:
    """Looks up in the parent, and computes from what it finds."""

    def __init__(
        self,
        parent: ValueGetter,
        compute: Callable[[Any, ValueAndTimestamp | None], ValueAndTimestamp | None],
    ) -> None:
        self._parent = parent
        self._compute = compute

    def init(self, context: Context) -> None:
        self._parent.init(context)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._compute(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._compute(key, self._parent.get_as_of(key, timestamp))

    @property
    def versioned(self) -> bool:
        return self._parent.versioned


def forwards_when_flushed(
    store: Any, context: Context, send_old_values: bool, key_of: Callable[..., Any] = lambda key: key
) -> bool:
    """Whether a record cache stands before the changelog of a node's store. Then the node forwards nothing itself: its
    changes go on when the cache is flushed, with the value that was told last as the old one.

    `key_of` makes the key of what the store has: of a window or session, from its times.
    """
    cache: StoreCache | None = store.cache
    if cache is None:
        return False

    def forward(raw_key: bytes, change: CachedChange) -> None:
        key, new, old, timestamp = store.flushed(raw_key, change)
        record = Record(key_of(*key), Change(new, old if send_old_values else None), timestamp, change.context.headers)
        context.forward(record)

    cache.on_change = forward
    return True


def forward_change(
    forward: Forward, record: Record, new: Any, old: Any, timestamp: int, is_latest: bool = True
) -> None:
    """A change of a table, with the headers of the record that caused it."""
    forward(Record(record.key, Change(new, old, is_latest), timestamp, record.headers))
