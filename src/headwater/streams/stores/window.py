"""Window stores: rows by key and window start, with the retention and the order of iteration of Kafka Streams' RocksDB
stores.

Where duplicates are kept (the sides of a stream-stream join) each put gets a sequence number, which survives in the
task's notes.
"""

from collections.abc import Iterator

from headwater.streams.stores.formats import (
    LONG,
    LONG_MAX,
    SEQUENCE_MAX,
    WINDOW_SUFFIX_SIZE,
    split_window_key,
    stamped,
    unstamped,
    window_key,
)
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.port import Changelog, RestoresOneByOne
from headwater.streams.stores.rows_by_key import RowsByKey
from headwater.streams.stores.segments import Segments, TimeIndex, upper_bound
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState


class Windows(RestoresOneByOne):
    """A `port.WindowStore`."""

    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None) -> None:
        self.name = spec.name
        self._timestamped = spec.timestamped
        self.duplicates = spec.retain_duplicates
        self._log = changelog
        self.segments = Segments(state, spec.name, spec.retention_ms, spec.segment_interval_ms)
        self._index = TimeIndex(state, spec.name) if spec.time_ordered else None
        self._notes = state.notes
        self._note_key = b"sequence\x00" + spec.name.encode()
        self.sequence = 0
        self.by_key = RowsByKey(self.segments, state) if self.duplicates and not spec.time_ordered else None
        if self.duplicates:
            self._reload()
            state.on_discard(self._reload)

    def _reload(self) -> None:
        note = self._notes.get(self._note_key)
        self.sequence = LONG.unpack(note)[0] if note is not None else 0

    @property
    def rows(self) -> PendingMap:
        return self.segments.rows

    @property
    def time_ordered(self) -> bool:
        return self._index is not None

    @property
    def stream_time(self) -> int:
        return self.segments.stream_time

    @property
    def expired_records(self) -> int:
        """Puts that came behind the retention and were dropped."""
        return self.segments.expired_records

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        if self.duplicates:
            self.use_sequence((self.sequence + 1) & SEQUENCE_MAX)
            if (
                value is None
            ):  # nothing to delete among duplicates; Kafka Streams logs a tombstone of no record all the same
                if self._log is not None:
                    self._log(window_key(key, start, self.sequence), None, None)
                return
        raw = window_key(key, start, self.sequence)
        self._put_raw(key, start, raw, value)
        if self._log is not None:
            if self._timestamped and value is not None:
                plain, timestamp = unstamped(value)
                self._log(raw, plain, timestamp)
            else:
                self._log(raw, value, None)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        plain, start, sequence = split_window_key(key)
        if self.duplicates and sequence > self.sequence:
            self.use_sequence(sequence)
        if self.duplicates and value is None:
            return  # as `put`: it was nothing but a sequence number
        self._put_raw(
            plain, start, key, stamped(value, timestamp) if value is not None and self._timestamped else value
        )

    def use_sequence(self, sequence: int) -> None:
        self.sequence = sequence
        self._notes.put(self._note_key, LONG.pack(sequence))

    def _put_raw(self, key: bytes, start: int, raw: bytes, value: bytes | None) -> None:
        if self.by_key is not None:
            self.by_key.prepare()
        taken = self.segments.put(start, raw, value)
        if self.by_key is not None and taken and value is not None:
            self.by_key.put(key, start, split_window_key(raw)[2], value)
        if self._index is not None:
            if taken:
                self._index.put(LONG.pack(start) + key + raw[-4:], raw if value is not None else None)
            self._index.expire(self.segments.oldest * self.segments.interval_ms)

    def get(self, key: bytes, start: int) -> bytes | None:
        if start < self._earliest():
            return None
        return self.segments.get(start, window_key(key, start, self.sequence))

    def fetch(self, key: bytes, time_from: int, time_to: int, *, reverse: bool = False) -> Iterator[tuple[int, bytes]]:
        size = len(key) + WINDOW_SUFFIX_SIZE
        since = max(time_from, self._earliest(), 0)
        if time_to < since:
            return iter(())
        if self.by_key is not None:
            found = [(row[0], row[2]) for row in self.by_key.rows(key, self._earliest()) if since <= row[0] <= time_to]
            return reversed(found) if reverse else iter(found)
        rows = self.segments.scan(
            since,
            time_to,
            window_key(key, since),
            window_key(key, time_to, SEQUENCE_MAX),
            lambda raw: len(raw) == size and raw.startswith(key),
            reverse,
        )
        return ((split_window_key(raw)[1], value) for raw, value in rows)

    def fetch_range(
        self, lower: bytes | None, upper: bytes | None, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]:
        if lower is not None and upper is not None and lower > upper:
            return iter(())
        since = max(time_from, self._earliest(), 0)

        def wanted(raw: bytes) -> bool:
            key, start, _ = split_window_key(raw)
            return (lower is None or key >= lower) and (upper is None or key <= upper) and since <= start <= time_to

        if time_to < since:
            return iter(())
        most = upper_bound(upper, window_key(b"", time_to, SEQUENCE_MAX))
        rows = self.segments.scan(since, time_to, lower, most, wanted, reverse)
        return (_keyed(raw, value) for raw, value in rows)

    def fetch_all(self, time_from: int, time_to: int, *, reverse: bool = False) -> Iterator[tuple[bytes, int, bytes]]:
        if self._index is None:
            return self.fetch_range(None, None, time_from, time_to, reverse=reverse)
        since = max(time_from, self._earliest(), 0)
        if time_to < since:
            return iter(())
        found = [
            (raw, self.segments.get(split_window_key(raw)[1], raw)) for raw in self._index.scan(since, time_to, reverse)
        ]
        return (_keyed(raw, value) for raw, value in found if value is not None)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, bytes]]:
        return self.fetch_all(0, LONG_MAX, reverse=reverse)

    def _earliest(self) -> int:
        """The first window start that is still seen.
        A time-ordered store of Kafka Streams shows one millisecond more.
        """
        earliest = self.segments.stream_time - self.segments.retention_ms
        return earliest if self._index is not None else earliest + 1


def _keyed(raw: bytes, value: bytes) -> tuple[bytes, int, bytes]:
    key, start, _ = split_window_key(raw)
    return key, start, value
