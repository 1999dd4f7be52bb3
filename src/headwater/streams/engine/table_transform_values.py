"""`transform_values` of a table: a transformer with state of its own sees every update, tombstones included."""

from collections.abc import Callable
from typing import Any, Protocol

from headwater.streams.engine.table import (
    TableSupplier,
    ValueGetter,
    View,
    forward_change,
    forwards_when_flushed,
    store_view,
)
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT, ValueAndTimestamp
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


class ValueTransformer(Protocol):
    """Made once per task. It may use stores, and may not forward. `init(context)` and `close()` are called if it has
    them.
    """

    def transform(self, key: Any, value: Any) -> Any: ...


class TableTransformValues:
    """The supplier."""

    def __init__(self, parent: TableSupplier, supplier: Callable[[], ValueTransformer], store_name: str | None) -> None:
        self._parent = parent
        self._supplier = supplier
        self._store_name = store_name
        self._send_old_values = False

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        if self._store_name is not None or self._parent.enable_sending_old_values(force_materialization):
            self._send_old_values = True
        return self._send_old_values

    def view(self) -> View:
        if self._store_name is not None:
            return store_view(self._store_name)
        above = self._parent.view()
        return View(lambda: TransformingGetter(above.make(), self._supplier()), above.store_names)

    def __call__(self) -> Processor:
        return TableTransformValuesProcessor(self._supplier(), self._store_name, self._send_old_values)


class TransformingGetter:
    """Transforms what the parent has, with a transformer of its own; a missing value is transformed, too."""

    def __init__(self, parent: ValueGetter, transformer: ValueTransformer) -> None:
        self._parent = parent
        self._transformer = transformer

    def init(self, context: Context) -> None:
        self._parent.init(context)
        begin(self._transformer, context)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._transformed(key, self._parent.get(key))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._transformed(key, self._parent.get_as_of(key, timestamp))

    def _transformed(self, key: Any, found: ValueAndTimestamp | None) -> ValueAndTimestamp | None:
        value = self._transformer.transform(key, None if found is None else found[0])
        return None if value is None else (value, -1 if found is None else found[1])

    @property
    def versioned(self) -> bool:
        return self._parent.versioned


class TableTransformValuesProcessor(Processor):
    def __init__(self, transformer: ValueTransformer, store_name: str | None, send_old_values: bool) -> None:
        self._transformer = transformer
        self._store_name = store_name
        self._send_old_values = send_old_values
        self._store: Any = None
        self._cached = False

    def init(self, context: Context) -> None:
        begin(self._transformer, context)
        if self._store_name is not None:
            self._store = context.store(self._store_name)
            self._cached = forwards_when_flushed(self._store, context, self._send_old_values)

    def process(self, record: Record) -> None:
        key, change, store = record.key, record.value, self._store
        new, old, is_latest = self._transformer.transform(key, change.new), None, change.is_latest
        if store is None:
            if self._send_old_values:
                old = self._transformer.transform(key, change.old)
        else:
            found = store.get(key) if self._send_old_values else None
            old = None if found is None else found[0]
            code = store.put(key, new, record.timestamp)
            if code == NOT_PUT or self._cached:
                return
            is_latest = code == IS_LATEST
        forward_change(self.forward, record, new, old, record.timestamp, is_latest)

    def close(self) -> None:
        end = getattr(self._transformer, "close", None)
        if end is not None:
            end()


def begin(transformer: ValueTransformer, context: Context) -> None:
    init = getattr(transformer, "init", None)
    if init is not None:
        init(context)
