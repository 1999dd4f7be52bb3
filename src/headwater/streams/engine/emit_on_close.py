"""When results of windows go out that are emitted on close: after a record, at most once per interval of wall-clock
time.

What was emitted last is remembered as a time of closing, which never goes back; a lease or a restart hands it on by
`last_close_time`. It is kept in the task's notes, and committed beside the offsets (KIP-825), by the name of the store:
so it is as sure as the results themselves, and no result goes out again when the state on disk is lost or one commit
behind.
"""

from headwater.streams.model.processor import Processor


class EmitOnClose:
    """Owned by the aggregation of one task. An interval of 0 means after every record."""

    __slots__ = ("_next_emit_ms", "interval_ms", "last_close_time")

    def __init__(self, interval_ms: int = 0) -> None:
        self.interval_ms = interval_ms
        self._next_emit_ms = 0
        self.last_close_time = -1

    def due(self, now_ms: int, close_time: int) -> bool:
        """Whether it is time, and windows may have closed since the last time."""
        if now_ms < self._next_emit_ms:
            return False
        self._next_emit_ms = now_ms + self.interval_ms
        return self.last_close_time == -1 or self.last_close_time < close_time


class ClosingProcessor(Processor):
    """An aggregation of windows that may emit on close; without, its `last_close_time` stays -1."""

    kept_times = ("observed_stream_time", "last_close_time")
    _store_name: str
    _emit: EmitOnClose | None

    @property
    def store_name(self) -> str:
        return self._store_name

    @property
    def last_close_time(self) -> int:
        return -1 if self._emit is None else self._emit.last_close_time

    @last_close_time.setter
    def last_close_time(self, time: int) -> None:
        if self._emit is not None:
            self._emit.last_close_time = time
