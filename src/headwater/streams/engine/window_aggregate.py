"""`count`, `reduce` and `aggregate` per key and window of fixed time: tumbling, hopping, unlimited, calendar.

As in Kafka Streams: a record without a key is left out, one without a value is not (a reduce over it deletes the
aggregate). A window takes records until stream time, which this operator keeps over all keys, has passed its end by the
grace.
"""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.emit_on_close import ClosingProcessor, EmitOnClose
from headwater.streams.engine.stream_aggregate import again, may_change, one_more
from headwater.streams.engine.table import StoredTable, View, forwards_when_flushed
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Change, Record
from headwater.streams.model.windows import TimeWindowing, TimeWindows, Windowed

Aggregator = Callable[[Any, Any, Any], Any]  # (key, value, aggregate)


class WindowAggregate(StoredTable):
    """The supplier. Without `emit_on_close` every update goes out."""

    def __init__(
        self,
        windows: TimeWindowing,
        store_name: str,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        emit_on_close: bool = False,
    ) -> None:
        self.windows = windows
        super().__init__(store_name)
        self._initializer = initializer
        self._aggregator = aggregator
        self._emit_on_close = emit_on_close

    def view(self) -> View:
        return View(lambda: WindowGetter(self._store_name), [self._store_name])

    def __call__(self) -> Processor:
        emit = EmitOnClose() if self._emit_on_close else None
        return WindowAggregateProcessor(
            self.windows, self._store_name, self._initializer, self._aggregator, self._send_old_values, emit
        )


class WindowGetter:
    """Looks a window up."""

    versioned = False

    def __init__(self, store_name: str) -> None:
        self._name = store_name
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self._name)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        found: ValueAndTimestamp | None = self._store.get(key.key, key.start)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        raise NotImplementedError("windows have no versions")


class WindowAggregateProcessor(ClosingProcessor):
    """Owns the stream time of the aggregation."""

    def __init__(
        self,
        windows: TimeWindowing,
        store_name: str,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        send_old_values: bool,
        emit: EmitOnClose | None,
    ) -> None:
        self.windows = windows
        self._store_name = store_name
        self.initializer = initializer
        self.aggregator = aggregator
        self.send_old_values = send_old_values
        self._emit = emit
        self._store: Any = None
        self.cached = False
        self.observed_stream_time = -1

    @property
    def is_count(self) -> bool:
        return self.aggregator is one_more

    @property
    def emits_on_close(self) -> bool:
        return self._emit is not None

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)
        self.cached = self._emit is None and forwards_when_flushed(
            self._store,
            context,
            self.send_old_values,
            lambda key, start: Windowed(key, start, self.windows.end_of(start)),
        )
        if self._emit is not None:
            self._emit.interval_ms = context.emit_interval_ms

    def process(self, record: Record) -> None:
        key, timestamp = record.key, record.timestamp
        if key is None:
            self.context.drop("null key")
            return
        if timestamp > self.observed_stream_time:
            self.observed_stream_time = timestamp
        close_time = self.observed_stream_time - self.windows.grace_ms
        for start, end in self.windows.windows_for(timestamp):
            if end > close_time:
                self._update(record, start, end)
            else:
                self.context.drop_late(close_time - end + 1)
        if self._emit is not None and self._emit.due(self.context.wall_clock_ms, close_time):
            self._emit_closed(record, close_time)

    def _update(self, record: Record, start: int, end: int) -> None:
        key, timestamp = record.key, record.timestamp
        found = self._store.get(key, start)
        if found is None:
            old = self.initializer()
        else:
            old = found[0]
            if found[1] > timestamp:
                timestamp = found[1]
        new = self.aggregator(key, record.value, old)
        if self.send_old_values and self._emit is None and not self.cached and may_change(old):
            old = again(self._store.get(key, start), self.initializer)
        self._store.put(key, None if new is None else (new, timestamp), start)
        if self._emit is None and not self.cached:
            change = Change(new, old if self.send_old_values else None)
            self.forward(Record(Windowed(key, start, end), change, timestamp, record.headers))

    def _emit_closed(self, record: Record, close_time: int) -> None:
        emit = self._emit
        assert emit is not None
        bounds = _closed_starts(self.windows, emit.last_close_time, close_time)
        if bounds is None:
            return
        for key, start, (value, timestamp) in self._store.fetch_all(*bounds):
            windowed = Windowed(key, start, self.windows.end_of(start))
            self.forward(Record(windowed, Change(value, None), timestamp, record.headers))
        emit.last_close_time = close_time


def _closed_starts(windows: TimeWindowing, last_close_time: int, close_time: int) -> tuple[int, int] | None:
    """First and last start of windows that have closed since the last time; None if there can be none."""
    if not isinstance(windows, TimeWindows):
        upper = windows.windows_for(close_time)[0][0] - 1 if close_time >= 0 else -1
        lower = 0 if last_close_time == -1 else windows.windows_for(last_close_time)[0][0]
        return (lower, upper) if upper >= lower else None
    upper = close_time - windows.size_ms
    if upper < 0:
        return None
    if last_close_time == -1:
        return 0, upper
    lower = max(0, last_close_time - windows.size_ms) + 1
    if windows.windows_for(upper) == windows.windows_for(lower - 1):
        return None
    return lower, upper
