"""Rows by time, in the segments of Kafka Streams' persistent stores: retention and iteration follow from them.

A row lies in the segment `timestamp // interval`, and the rows of a segment are ordered by their raw keys (key, time,
...). So iteration over several keys goes by segment, then by key, then by time. Whole segments expire: those below the
one of `stream_time - retention`, where the stream time is the largest timestamp seen. Within a live segment, rows older
than the retention are there but not shown. A time-ordered store (emit on window close) has an index that gives all rows
by time first.

Rows of the map: segment id (8), raw key -> value. Owned by one store; its stream time survives in the task's notes.
"""

from collections.abc import Callable, Iterator
from typing import Final

from headwater.streams.stores.formats import LONG, after_prefix
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.state import TaskState

_MINIMUM_INTERVAL_MS: Final = 60_000
_SHORT_KEY: Final = 64


def segment_interval_ms(retention_ms: int) -> int:
    """Kafka Streams' default."""
    return max(retention_ms // 2, _MINIMUM_INTERVAL_MS)


class Segments:
    def __init__(self, state: TaskState, name: str, retention_ms: int, interval_ms: int | None) -> None:
        self.retention_ms = retention_ms
        self.interval_ms = interval_ms or segment_interval_ms(retention_ms)
        self.stream_time = -1
        self.expired_records = 0
        self.rows: PendingMap = state.map(name)
        self._notes = state.notes
        self._note_key = b"stream-time\x00" + name.encode()
        self.oldest = 0  # no row lies in a segment below this one
        self._reload()
        state.on_discard(self._reload)

    def _reload(self) -> None:
        note = self._notes.get(self._note_key)
        self.stream_time = LONG.unpack(note)[0] if note is not None else -1
        self.oldest = 0  # the next put looks again

    def observe(self, timestamp: int) -> None:
        if timestamp > self.stream_time:
            self.stream_time = timestamp
            self._notes.put(self._note_key, LONG.pack(timestamp))

    def segment(self, timestamp: int) -> int:
        return max(timestamp, 0) // self.interval_ms

    def put(self, timestamp: int, raw: bytes, value: bytes | None) -> bool:
        """Whether it was taken: a row whose segment has expired is not."""
        self.observe(timestamp)
        segment = self.segment(timestamp)
        self._expire()
        if segment < self.oldest:
            self.expired_records += 1
            return False
        self.rows.put(LONG.pack(segment) + raw, value)
        return True

    def remove(self, timestamp: int, raw: bytes) -> None:
        self.observe(timestamp)
        segment = self.segment(timestamp)
        if segment >= self.oldest:
            self.rows.put(LONG.pack(segment) + raw, None)

    def get(self, timestamp: int, raw: bytes) -> bytes | None:
        return self.rows.get(LONG.pack(self.segment(timestamp)) + raw)

    def scan(
        self,
        time_from: int,
        time_to: int,
        lower: bytes | None,
        upper: bytes | None,
        wanted: Callable[[bytes], bool],
        reverse: bool,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Raw keys from `lower` to `upper` (None: open) in the segments of these times, where `wanted(raw key)`."""
        first = max(self.segment(time_from), self._first())
        last = min(self.segment(time_to), self.segment(self.stream_time))
        segments = range(last, first - 1, -1) if reverse else range(first, last + 1)
        scans = [self._scan_segment(segment, lower, upper, reverse) for segment in segments]
        return ((key[8:], value) for scan in scans for key, value in scan if wanted(key[8:]))

    def _scan_segment(
        self, segment: int, lower: bytes | None, upper: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        begin = LONG.pack(segment)
        end = begin + upper + b"\x00" if upper is not None else LONG.pack(segment + 1)
        return self.rows.scan(begin + lower if lower is not None else begin, end, reverse=reverse)

    def live_rows(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows of segments that have not expired, by segment."""
        return ((key[8:], value) for key, value in self.rows.scan(LONG.pack(self._first()), None))

    def scan_committed(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Rows that are written and whose raw keys begin so, by segment; those that expired since may be among them."""
        for segment in range(self._first(), self.segment(self.stream_time) + 1):
            begin = LONG.pack(segment) + prefix
            for key, value in self.rows.committed.scan(begin, after_prefix(begin), False):
                yield key[8:], value

    def _first(self) -> int:
        """The first segment that has not expired; `oldest` may be far behind it, until the next put."""
        return max(self.oldest, self.segment(self.stream_time - self.retention_ms))

    def _expire(self) -> None:
        """Segments wholly behind the retention go."""
        oldest = self._first()
        if oldest > self.oldest:
            self.rows.delete_below(LONG.pack(oldest))
            self.oldest = oldest


class TimeIndex:
    """All rows by time first: time (8) and whatever orders rows of one time -> the raw key. Expires with the
    segments.
    """

    def __init__(self, state: TaskState, name: str) -> None:
        self._rows = state.map(name + "/by-time")
        self._expired = 0
        state.on_discard(self._reload)

    def _reload(self) -> None:
        self._expired = 0

    def put(self, order: bytes, raw: bytes | None) -> None:
        self._rows.put(order, raw)

    def expire(self, before: int) -> None:
        if before > self._expired:
            self._rows.delete_below(LONG.pack(before))
            self._expired = before

    def scan(self, time_from: int, time_to: int, reverse: bool) -> Iterator[bytes]:
        upper = LONG.pack(time_to + 1) if time_to < (1 << 63) - 1 else None
        return (raw for _, raw in self._rows.scan(LONG.pack(max(time_from, 0)), upper, reverse=reverse))


def upper_bound(key: bytes | None, suffix: bytes) -> bytes | None:
    """No row of a key up to `key`, with at most this suffix, lies above; None where it is not worth computing.

    A shorter key may come behind a longer one that begins with it, because the suffix follows at once.
    """
    if key is None or len(key) > _SHORT_KEY:
        return None
    return max(key[:length] + suffix for length in range(len(key) + 1))
