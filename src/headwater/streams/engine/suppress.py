"""`suppress` of a table: holds changes back until a time limit, or until their window closes; only the last per key
goes out.

Time is stream time, so nothing goes out while no records come. A buffer may be limited: then either the oldest go out
early, or the task fails. With "until the window closes" nothing goes out early, and tombstones are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.engine.suppress_buffer import SuppressBuffer
from headwater.streams.engine.table import TableSupplier, ValueGetter, View
from headwater.streams.engine.typed_stores import ValueAndTimestamp
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record


@dataclass(frozen=True, slots=True)
class Suppression:
    """How long changes wait, and what the buffer may hold; None is no limit."""

    wait_ms: int
    until_window_closes: bool
    records_max: int | None = None
    bytes_max: int | None = None
    emit_early_when_full: bool = False


class TableSuppress:
    """The supplier."""

    def __init__(self, parent: TableSupplier, suppression: Suppression, store_name: str) -> None:
        self._parent = parent
        parent.enable_sending_old_values(True)  # the buffer remembers what the table had before
        self._suppression = suppression
        self._store_name = store_name

    def enable_sending_old_values(self, force_materialization: bool) -> bool:
        return self._parent.enable_sending_old_values(force_materialization)

    def view(self) -> View:
        above = self._parent.view()
        return View(lambda: SuppressGetter(above.make(), self._store_name), [self._store_name, *above.store_names])

    def __call__(self) -> Processor:
        return TableSuppressProcessor(self._suppression, self._store_name)


class SuppressGetter:
    """What downstream has seen: for what is buffered, the value before."""

    versioned = False

    def __init__(self, parent: ValueGetter, store_name: str) -> None:
        self._parent = parent
        self._store_name = store_name
        self._buffer: SuppressBuffer | None = None

    def init(self, context: Context) -> None:
        self._parent.init(context)
        self._buffer = context.store(self._store_name)

    def get(self, key: Any) -> ValueAndTimestamp | None:
        assert self._buffer is not None
        buffered, prior = self._buffer.prior_value(key)
        if not buffered:
            return self._parent.get(key)
        return None if prior is None else (prior, -1)

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        raise NotImplementedError("what is suppressed has no versions")


class TableSuppressProcessor(Processor):
    """Owns the stream time of the operator."""

    kept_times = ("observed_stream_time",)

    def __init__(self, suppression: Suppression, store_name: str) -> None:
        self._suppression = suppression
        self._store_name = store_name
        self._buffer: SuppressBuffer | None = None
        self.observed_stream_time = -1

    def init(self, context: Context) -> None:
        self._buffer = context.store(self._store_name)

    def process(self, record: Record) -> None:
        buffer, limits = self._buffer, self._suppression
        assert buffer is not None
        if record.timestamp > self.observed_stream_time:
            self.observed_stream_time = record.timestamp
        time = record.key.end if limits.until_window_closes else record.timestamp
        buffer.put(time, record, self.context.origin)
        expiry = self.observed_stream_time - limits.wait_ms
        self._evict(buffer, lambda: buffer.min_time is not None and buffer.min_time <= expiry)
        if self._over_capacity():
            if not limits.emit_early_when_full:
                raise UserError(
                    f"The buffer of {self.context.node_name} is full",
                    f"{len(buffer)} records and {buffer.size_bytes} bytes wait for their time",
                    "raise its limits, or let the oldest go out early",
                )
            self._evict(buffer, self._over_capacity)

    def _over_capacity(self) -> bool:
        buffer, limits = self._buffer, self._suppression
        assert buffer is not None
        too_many = limits.records_max is not None and len(buffer) > limits.records_max
        return too_many or (limits.bytes_max is not None and buffer.size_bytes > limits.bytes_max)

    def _evict(self, buffer: SuppressBuffer, wanted: Callable[[], bool]) -> None:
        while wanted():
            record, origin = buffer.pop()
            if record.value.new is not None or not self._suppression.until_window_closes:
                self.context.resume(record, origin)
