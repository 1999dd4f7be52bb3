"""A table of a topic, or of a stream: the latest value per key.

It has a store if it was given one by name, or if somebody asks for its values. Records out of order are applied all the
same, unless the store is versioned. A record without a key is left out.
"""

from typing import Any

from headwater.streams.engine.expiry import ExpiringTable
from headwater.streams.engine.table import View, forward_change, forwards_when_flushed, store_view
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Change, Record


class TableSource:
    """The supplier. `store_name` is what a store would be called, `queryable_name` what it is called if there is
    one.
    """

    def __init__(self, store_name: str, queryable_name: str | None) -> None:
        self.store_name = store_name
        self.queryable_name = queryable_name
        self.send_old_values = False

    @property
    def materialized(self) -> bool:
        return self.queryable_name is not None

    def materialize(self) -> None:
        self.queryable_name = self.store_name

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if not force_materialization and not self.materialized:
            return False
        self.send_old_values = True
        self.materialize()
        return True

    def view(self) -> View:
        self.materialize()
        return store_view(self.store_name)

    def __call__(self) -> Processor:
        return TableSourceProcessor(self.queryable_name, self.send_old_values)


class TableSourceProcessor(ExpiringTable):
    def __init__(self, store_name: str | None, send_old_values: bool) -> None:
        self.store_name = store_name
        self.send_old_values = send_old_values
        self._store: Any = None
        self.cached = False

    def init(self, context: Context) -> None:
        if self.store_name is not None:
            self._store = context.store(self.store_name)
            self.cached = forwards_when_flushed(self._store, context, self.send_old_values)

    def process(self, record: Record) -> None:
        key, value, store = record.key, record.value, self._store
        if key is None:
            self.context.drop("null key")
            return
        if store is None:
            self.forward(Record(key, Change(value, None), record.timestamp, record.headers))
            return
        found = store.get(key) if self.send_old_values or self.cached else None  # what is read stays in the cache
        old = None if found is None else found[0]
        code = store.put(key, value, record.timestamp)
        if code != NOT_PUT and not self.cached:
            forward_change(self.forward, record, value, old, record.timestamp, code == IS_LATEST)
