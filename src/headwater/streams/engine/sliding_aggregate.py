"""Aggregations per key and sliding window: for each record one window that ends with it and one that begins right after
it, if anything falls into it. So every set of records that are close enough has exactly one window.

A window [t - difference, t] is the left one of a record at t, [t + 1, t + 1 + difference] its right one. Windows are
looked at from the latest to the earliest, which decides the order of what goes out, as in Kafka Streams. Records before
`difference` are early: their left windows would begin before 0, and all share the one that begins at 0.
"""

from collections.abc import Callable
from typing import Any

from headwater.streams.engine.emit_on_close import ClosingProcessor, EmitOnClose
from headwater.streams.engine.stream_aggregate import may_change
from headwater.streams.engine.table import StoredTable, View, forwards_when_flushed
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.engine.window_aggregate import Aggregator, WindowGetter
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Change, Record
from headwater.streams.model.windows import SlidingWindows, Windowed


class SlidingAggregate(StoredTable):
    """The supplier."""

    def __init__(
        self,
        windows: SlidingWindows,
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
        return SlidingAggregateProcessor(
            self.windows, self._store_name, self._initializer, self._aggregator, self._send_old_values, emit
        )


class SlidingAggregateProcessor(ClosingProcessor):
    """Owns the stream time of the aggregation."""

    def __init__(
        self,
        windows: SlidingWindows,
        store_name: str,
        initializer: Callable[[], Any],
        aggregator: Aggregator,
        send_old_values: bool,
        emit: EmitOnClose | None,
    ) -> None:
        self._difference = windows.difference_ms
        self._grace = windows.grace_ms
        self._store_name = store_name
        self._initializer = initializer
        self._aggregator = aggregator
        self._send_old_values = send_old_values
        self._emit = emit
        self._store: Any = None
        self._cached = False
        self.observed_stream_time = -1

    def init(self, context: Context) -> None:
        self._store = context.store(self._store_name)
        self._cached = forwards_when_flushed(
            self._store,
            context,
            self._send_old_values,
            lambda key, start: Windowed(key, start, start + self._difference),
        )
        if self._emit is not None:
            self._emit.interval_ms = context.emit_interval_ms

    def process(self, record: Record) -> None:
        if record.key is None or record.value is None:
            self.context.drop("null key or value")
            return
        timestamp = record.timestamp
        if timestamp > self.observed_stream_time:
            self.observed_stream_time = timestamp
        close_time = self.observed_stream_time - self._grace
        if timestamp + self._difference < close_time:
            self.context.drop_late(
                close_time - max(timestamp, self._difference)
            )  # its left window is the first to close
            return
        if timestamp < self._difference:
            self._process_early(record, close_time)
            return  # Kafka Streams emits nothing on close after an early record
        self._process_from_the_latest(record, close_time)
        if self._emit is not None and self._emit.due(self.context.wall_clock_ms, close_time):
            self._emit_closed(record, close_time)

    def _process_from_the_latest(self, record: Record, close_time: int) -> None:
        at, difference = record.timestamp, self._difference
        starts: set[int] = set()
        left: ValueAndTimestamp | None = None  # the window that the new left one goes on from
        goes_on_from: Any = None  # its aggregate, for the function to change
        right: ValueAndTimestamp | None = None  # the one that holds what the new right one begins with
        left_exists = right_exists = False
        previous: int | None = None  # the timestamp of the record before this one
        found = self._store.fetch(record.key, max(0, at - 2 * difference), at + 1, reverse=True)
        for start, window in found:
            starts.add(start)
            end = start + difference
            if start == at + 1:
                right_exists = True
            elif end > at:
                right = right or window
                self._update(record, start, window, close_time)
            elif end == at:
                left_exists = True
                self._update(record, start, window, close_time)
                if window[1] >= at:
                    return  # another record at this time has made all windows
                previous = window[1]
            else:
                left, previous = window, window[1]
                goes_on_from = self._fresh(record.key, start) if may_change(window[0]) else window[0]
                break
        if previous is not None and previous + 1 not in starts and previous + 1 + difference >= at:
            self._begin(record, previous + 1, close_time)
        if not left_exists:
            goes_on = left is not None and previous is not None and at - difference <= previous
            if goes_on and left is not None:
                self._update(record, at - difference, (left[0], at), close_time, lambda: goes_on_from)
            else:
                self._begin(record, at - difference, close_time)
        if not right_exists:
            self._create_right(record, right)

    def _process_early(self, record: Record, close_time: int) -> None:
        at = record.timestamp
        starts: set[int] = set()
        combined: ValueAndTimestamp | None = None  # the window from 0, which all early records share
        right: ValueAndTimestamp | None = None
        right_exists = False
        previous: int | None = None
        for start, window in self._store.fetch(record.key, 0, at + 1):
            starts.add(start)
            if start == 0:
                combined = window
                if window[1] < at:
                    previous = window[1]
            elif start <= at:
                right = window
                self._update(record, start, window, close_time)
            else:
                right_exists = True
        if right is None and combined is not None and combined[1] > at:
            right = combined
        if not right_exists:
            self._create_right(record, right)
        if previous is not None and previous + 1 not in starts:
            self._begin(record, previous + 1, close_time)
        if combined is not None:
            self._update(record, 0, combined, close_time)
        else:
            self._begin(record, 0, close_time)

    def _begin(self, record: Record, start: int, close_time: int) -> None:
        """A window that this record is the first of."""
        self._update(record, start, (self._initializer(), record.timestamp), close_time, self._initializer)

    def _create_right(self, record: Record, right: ValueAndTimestamp | None) -> None:
        """What came later than this record, and is in reach, gets a window without it."""
        if right is not None and right[1] > record.timestamp:
            start = record.timestamp + 1
            self._store.put(record.key, right, start)
            self._forward(record, start, None, right[0], right[1])

    def _fresh(self, key: Any, start: int) -> Any:
        """The aggregate of a window once more; None if it has expired meanwhile."""
        found = self._store.get(key, start)
        return None if found is None else found[0]

    def _update(
        self,
        record: Record,
        start: int,
        window: ValueAndTimestamp,
        close_time: int,
        fresh: Callable[[], Any] | None = None,
    ) -> None:
        """`fresh` gives the aggregate once more, of a window that is not in the store."""
        if start + self._difference < close_time:
            self.context.drop_late(close_time - start - self._difference)
            return
        old, mine = window[0], window[0]
        if may_change(mine):  # the window may begin another one yet, and is the old value of the change
            again = fresh() if fresh is not None else self._fresh(record.key, start)
            mine = mine if again is None else again
        new = self._aggregator(record.key, record.value, mine)
        timestamp = record.timestamp if old is None else max(record.timestamp, window[1])
        self._store.put(record.key, None if new is None else (new, timestamp), start)
        self._forward(record, start, old, new, timestamp)

    def _forward(self, record: Record, start: int, old: Any, new: Any, timestamp: int) -> None:
        if self._emit is None and not self._cached:
            windowed = Windowed(record.key, start, start + self._difference)
            self.forward(
                Record(windowed, Change(new, old if self._send_old_values else None), timestamp, record.headers)
            )

    def _emit_closed(self, record: Record, close_time: int) -> None:
        emit = self._emit
        assert emit is not None
        upper = close_time - self._difference - 1
        if upper < 0:
            return
        lower = 0 if emit.last_close_time == -1 else max(0, emit.last_close_time - self._difference)
        for key, start, (value, timestamp) in self._store.fetch_all(lower, upper):
            windowed = Windowed(key, start, start + self._difference)
            self.forward(Record(windowed, Change(value, None), timestamp, record.headers))
        emit.last_close_time = close_time
