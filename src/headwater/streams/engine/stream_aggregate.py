"""`count`, `aggregate` and `reduce` of a grouped stream: one value per key, updated by each record.

The row's timestamp is the largest of its records'. Records without a key or value are left out.
"""

from collections.abc import Callable
from decimal import Decimal
from types import NoneType
from typing import Any, Final

from headwater.streams.engine.expiry import ExpiringTable
from headwater.streams.engine.table import StoredTable, forward_change, forwards_when_flushed
from headwater.streams.engine.typed_stores import IS_LATEST, NOT_PUT, ValueAndTimestamp
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


def one_more(key: Any, value: Any, total: int) -> int:  # noqa: ARG001
    """The aggregator of `count`."""
    return total + 1


def zero() -> int:
    return 0


_FIXED: Final = frozenset((NoneType, bool, int, float, str, bytes, Decimal))


def may_change(aggregate: Any) -> bool:
    """Whether the function that was given this aggregate may have changed it: in Python that is how lists and dicts
    are added to. As the old value of a change it must be what it was, or what is subtracted later is the new one.
    """
    return aggregate.__class__ not in _FIXED


def again(found: ValueAndTimestamp | None, initializer: Callable[[], Any] | None) -> Any:
    """The aggregate as it was, from the store as it still is."""
    if found is not None:
        return found[0]
    return None if initializer is None else initializer()


class StreamAggregate(StoredTable):
    """The supplier. Without an initializer it reduces: the first value is the aggregate."""

    def __init__(
        self, store_name: str, initializer: Callable[[], Any] | None, aggregator: Callable[[Any, Any, Any], Any]
    ) -> None:
        super().__init__(store_name)
        self._initializer = initializer
        self._aggregator = aggregator

    def __call__(self) -> Processor:
        return StreamAggregateProcessor(self._store_name, self._initializer, self._aggregator, self._send_old_values)


class StreamAggregateProcessor(ExpiringTable):
    def __init__(
        self,
        store_name: str,
        initializer: Callable[[], Any] | None,
        aggregator: Callable[[Any, Any, Any], Any],
        send_old_values: bool,
    ) -> None:
        self.store_name: str = store_name
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = send_old_values
        self._store: Any = None
        self.cached = False

    @property
    def is_count(self) -> bool:
        return self.aggregator is one_more

    def init(self, context: Context) -> None:
        self._store = context.store(self.store_name)
        self.cached = forwards_when_flushed(self._store, context, self.send_old_values)

    def process(self, record: Record) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        found = self._store.get(key)
        if found is not None:
            old = found[0]
            if found[1] > timestamp:
                timestamp = found[1]
            new = self.aggregator(key, value, old)
        elif self.initializer is None:
            old, new = None, value
        else:
            old = self.initializer()  # Kafka Streams sends this one as the old value
            new = self.aggregator(key, value, old)
        store = self._store
        if self.send_old_values and not self.cached and may_change(old):
            old = again(store.get(key), self.initializer)
        code = store.put(key, new, record.timestamp if new is None and not store.versioned else timestamp)
        if code != NOT_PUT and not self.cached:
            sent = old if self.send_old_values else None
            forward_change(self.forward, record, new, sent, timestamp, code == IS_LATEST)
