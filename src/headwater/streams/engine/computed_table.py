"""The node of a table whose rows are computed from those of another one, with a store of its own or without."""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.table import forward_change, forwards_when_flushed
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


class ComputedTableProcessor(Processor):
    """`skips_missing`: where old values are known, a change from no row to no row is not told."""

    def __init__(
        self,
        compute: Callable[[Any, Any], Any],
        store_name: str | None,
        send_old_values: bool,
        skips_missing: bool,
    ) -> None:
        self.compute = compute
        self.store_name = store_name
        self.send_old_values = send_old_values
        self._skips_missing = skips_missing
        self._store: Any = None
        self._cached = False

    def init(self, context: Context) -> None:
        if self.store_name is not None:
            self._store = context.store(self.store_name)
            self._cached = forwards_when_flushed(self._store, context, self.send_old_values)

    def process(self, record: Record) -> None:
        key, change, store = record.key, record.value, self._store
        new, old, is_latest = self.compute(key, change.new), None, change.is_latest
        if self.send_old_values:
            if store is None:
                old = self.compute(key, change.old)
            else:
                found = store.get(key)
                old = None if found is None else found[0]
            if self._skips_missing and old is None and new is None:
                return
        if store is not None:
            code = store.put(key, new, record.timestamp)
            if code == NOT_PUT or self._cached:
                return
            is_latest = code == IS_LATEST
        forward_change(self.forward, record, new, old, record.timestamp, is_latest)
