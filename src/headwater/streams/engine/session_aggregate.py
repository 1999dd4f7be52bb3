"""Aggregations per key and session: a record joins all sessions that are no further than the gap, and they become one.

A session that grows goes out as a tombstone for what it was and a row for what it is. Sessions have no timestamps of
their own: a row's is the end of its session. A record behind the grace is left out, unless it joins a session that is
still open.
"""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.emit_on_close import ClosingProcessor, EmitOnClose
from headwater.streams.engine.stream_aggregate import may_change
from headwater.streams.engine.table import StoredTable, View, forwards_when_flushed
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.engine.window_aggregate import Aggregator
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Change, Record
from headwater.streams.model.windows import SessionWindows, Windowed

Merger = Callable[[Any, Any, Any], Any]  # (key, one aggregate, the other)


class SessionAggregate(StoredTable):
    """The supplier."""

    def __init__(
        self,
        windows: SessionWindows,
        store_name: str,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        merger: Merger,
        emit_on_close: bool = False,
    ) -> None:
        self.windows = windows
        super().__init__(store_name)
        self._functions = (initializer, aggregator, merger)
        self._emit_on_close = emit_on_close

    def view(self) -> View:
        return View(lambda: SessionGetter(self._store_name), [self._store_name])

    def __call__(self) -> Processor:
        emit = EmitOnClose() if self._emit_on_close else None
        return SessionAggregateProcessor(self.windows, self._store_name, self._functions, self._send_old_values, emit)


class SessionGetter:
    """Looks a session up."""

    versioned = False

    def __init__(self, store_name: str) -> None:
        self._name = store_name
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self._name)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        value = self._store.get(key.key, key.start, key.end)
        return None if value is None else (value, key.end)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        raise NotImplementedError("sessions have no versions")


class SessionAggregateProcessor(ClosingProcessor):
    """Owns the stream time of the aggregation."""

    def __init__(
        self,
        windows: SessionWindows,
        store_name: str,
        functions: tuple[Callable[[], Any], Aggregator, Merger],
        send_old_values: bool,
        emit: EmitOnClose | None,
    ) -> None:
        self._windows = windows
        self._store_name = store_name
        self._initializer, self._aggregator, self._merger = functions
        self._send_old_values = send_old_values
        self._emit = emit
        self._store: Any = None
        self._cached = False
        self.observed_stream_time = -1

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)
        self._cached = forwards_when_flushed(self._store, context, self._send_old_values, Windowed)
        if self._emit is not None:
            self._emit.interval_ms = context.emit_interval_ms

    def process(self, record: Record) -> None:
        key, timestamp, gap = record.key, record.timestamp, self._windows.gap_ms
        if key is None:
            self.context.drop("null key")
            return
        if timestamp > self.observed_stream_time:
            self.observed_stream_time = timestamp
        close_time = self.observed_stream_time - self._windows.grace_ms - gap
        start = end = timestamp
        aggregate = self._initializer()
        merged = list(self._store.find_sessions(key, timestamp - gap, timestamp + gap))
        for _, other_start, other_end, value in merged:
            aggregate = self._merger(key, aggregate, value)
            start, end = min(start, other_start), max(end, other_end)
        if end < close_time:
            self.context.drop_late(close_time - end)
        else:
            if (start, end) != (timestamp, timestamp):
                for _, other_start, other_end, value in merged:
                    old = value
                    if self._send_old_values and not self._cached and may_change(old):  # by the merger
                        again = self._store.get(key, other_start, other_end)
                        old = old if again is None else again
                    self._store.remove(key, other_start, other_end)
                    self._update(Windowed(key, other_start, other_end), old, None)
            aggregate = self._aggregator(key, record.value, aggregate)
            self._store.put(key, start, end, aggregate)
            self._update(Windowed(key, start, end), None, aggregate)
        if self._emit is not None and self._emit.due(self.context.wall_clock_ms, close_time):
            self._emit_closed(record, close_time)

    def _update(self, windowed: Windowed, old: Any, new: Any) -> None:
        """Kafka Streams sends no headers here."""
        if self._emit is None and not self._cached:
            self.forward(Record(windowed, Change(new, old if self._send_old_values else None), windowed.end))

    def _emit_closed(self, record: Record, close_time: int) -> None:
        emit = self._emit
        assert emit is not None
        lower, upper = max(0, emit.last_close_time), close_time - 1
        if upper < 0 or upper < lower:
            return
        for key, start, end, value in self._store.find_closed(lower, upper):
            self.forward(Record(Windowed(key, start, end), Change(value, None), end, record.headers))
        emit.last_close_time = close_time
