"""Session stores: rows by key, end and start, with the retention and the order of iteration of Kafka Streams' RocksDB
stores.
"""

from collections.abc import Iterator

from headwater.base.errors import UserError
from headwater.streams.stores.formats import (
    LONG,
    LONG_MAX,
    SESSION_SUFFIX_SIZE,
    session_key,
    split_session_key,
)
from headwater.streams.stores.port import Changelog, RestoresOneByOne
from headwater.streams.stores.segments import Segments, TimeIndex, upper_bound
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState

Session = tuple[bytes, int, int, bytes]


class Sessions(RestoresOneByOne):
    """A `port.SessionStore`."""

    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None) -> None:
        self.name = spec.name
        self._log = changelog
        self._segments = Segments(state, spec.name, spec.retention_ms, spec.segment_interval_ms)
        self._index = TimeIndex(state, spec.name) if spec.time_ordered else None

    @property
    def stream_time(self) -> int:
        return self._segments.stream_time

    @property
    def expired_records(self) -> int:
        return self._segments.expired_records

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        raw = session_key(key, start, end)
        self._put_raw(raw, value)
        if self._log is not None:
            self._log(raw, value, None)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002 - sessions are not timestamped
        if value is None:
            self._remove_raw(key)
        else:
            self._put_raw(key, value)

    def _put_raw(self, raw: bytes, value: bytes | None) -> None:
        key, start, end = split_session_key(raw)
        taken = self._segments.put(end, raw, value)
        if self._index is not None:
            if taken:
                self._index.put(_by_time(key, start, end), raw if value is not None else None)
            self._index.expire(self._segments.oldest * self._segments.interval_ms)

    def remove(self, key: bytes, start: int, end: int) -> None:
        raw = session_key(key, start, end)
        self._remove_raw(raw)
        if self._log is not None:
            self._log(raw, None, None)

    def _remove_raw(self, raw: bytes) -> None:
        key, start, end = split_session_key(raw)
        self._segments.remove(end, raw)
        if self._index is not None:
            self._index.put(_by_time(key, start, end), None)

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        if end < self._earliest():
            return None
        return self._segments.get(end, session_key(key, start, end))

    def find_sessions(
        self, key: bytes, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[Session]:
        size = len(key) + SESSION_SUFFIX_SIZE
        since = max(earliest_end, self._earliest(), 0)

        def wanted(raw: bytes) -> bool:
            if len(raw) != size or not raw.startswith(key):
                return False
            _, start, end = split_session_key(raw)
            return end >= since and start <= latest_start

        rows = self._segments.scan(
            since, LONG_MAX, session_key(key, 0, since), session_key(key, LONG_MAX, LONG_MAX), wanted, reverse
        )
        return (_session(raw, value) for raw, value in rows)

    def find_sessions_range(
        self, lower: bytes | None, upper: bytes | None, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[Session]:
        if lower is not None and upper is not None and lower > upper:
            return iter(())
        since = max(earliest_end, self._earliest(), 0)

        def wanted(raw: bytes) -> bool:
            key, start, end = split_session_key(raw)
            return (
                (lower is None or key >= lower)
                and (upper is None or key <= upper)
                and end >= since
                and start <= latest_start
            )

        most = upper_bound(upper, session_key(b"", LONG_MAX, LONG_MAX))
        rows = self._segments.scan(since, LONG_MAX, lower, most, wanted, reverse)
        return (_session(raw, value) for raw, value in rows)

    def find_closed(self, earliest_end: int, latest_end: int) -> Iterator[Session]:
        if self._index is None:
            raise UserError(
                f"Session store {self.name} cannot be asked by the end of sessions alone",
                "it is not ordered by time",
                "Build it with time_ordered=True",
            )
        found = [
            (raw, self._segments.get(split_session_key(raw)[2], raw))
            for raw in self._index.scan(earliest_end, latest_end, False)
        ]
        return (_session(raw, value) for raw, value in found if value is not None)

    def fetch(self, key: bytes, *, reverse: bool = False) -> Iterator[Session]:
        return self.find_sessions(key, 0, LONG_MAX, reverse=reverse)

    def all(self, *, reverse: bool = False) -> Iterator[Session]:
        return self.find_sessions_range(None, None, 0, LONG_MAX, reverse=reverse)

    def _earliest(self) -> int:
        return self._segments.stream_time - self._segments.retention_ms + 1


def _by_time(key: bytes, start: int, end: int) -> bytes:
    return LONG.pack(end) + LONG.pack(start) + key


def _session(raw: bytes, value: bytes) -> Session:
    key, start, end = split_session_key(raw)
    return key, start, end, value
