"""`count`, `aggregate` and `reduce` of a grouped table: the old value is subtracted, the new one added."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.engine.stream_aggregate import again, may_change
from headwater.streams.engine.table import StoredTable, forward_change, forwards_when_flushed
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record

Combine = Callable[[Any, Any, Any], Any]  # (key, value, aggregate)


class TableAggregate(StoredTable):
    """The supplier. Without an initializer it reduces: the first value is the aggregate."""

    def __init__(self, store_name: str, initializer: Callable[[], Any] | None, add: Combine, subtract: Combine) -> None:
        super().__init__(store_name)
        self._initializer = initializer
        self._add = add
        self._subtract = subtract

    def __call__(self) -> Processor:
        return TableAggregateProcessor(
            self._store_name, self._initializer, self._add, self._subtract, self._send_old_values
        )


class TableAggregateProcessor(Processor):
    def __init__(
        self,
        store_name: str,
        initializer: Callable[[], Any] | None,
        add: Combine,
        subtract: Combine,
        send_old_values: bool,
    ) -> None:
        self._store_name = store_name
        self._initializer = initializer
        self._add = add
        self._subtract = subtract
        self._send_old_values = send_old_values
        self._store: Any = None
        self._cached = False

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)
        self._cached = forwards_when_flushed(self._store, context, self._send_old_values)

    def process(self, record: Record) -> None:
        key, change, timestamp = record.key, record.value, record.timestamp
        if key is None:
            raise UserError(f"A record for the aggregation in {self._store_name} has no key")
        found = self._store.get(key)
        old = None if found is None else found[0]
        latest = timestamp if found is None else max(timestamp, found[1])
        new = old
        if change.old is not None and old is not None:
            new = self._subtract(key, change.old, old)
            timestamp = latest
        if change.new is not None:
            if new is not None:
                new = self._add(key, change.new, new)
                timestamp = latest
            elif self._initializer is None:
                new = change.new  # Kafka Streams: a reduce that begins anew keeps the timestamp it has
            else:
                new = self._add(key, change.new, self._initializer())
                timestamp = latest
        store = self._store
        if self._send_old_values and not self._cached and may_change(old):
            old = again(store.get(key), None)
        code = store.put(key, new, record.timestamp if new is None and not store.versioned else timestamp)
        if code != NOT_PUT and not self._cached:
            sent = old if self._send_old_values else None
            forward_change(self.forward, record, new, sent, timestamp, code == IS_LATEST)
