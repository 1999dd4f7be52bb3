"""Stores as operators and processors see them: objects above, the bytes of `stores.port` below.

A timestamped store gives and takes a value with a timestamp, as a tuple `(value, timestamp)`; None where there is
nothing. `put` of a table's store returns what a versioned store says: IS_LATEST, NOT_PUT, or until when the version
holds.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from headwater.streams.serdes.port import Serde, writer
from headwater.streams.stores import port
from headwater.streams.stores.cache import CachedChange, StoreCache
from headwater.streams.stores.expiring import ExpiringKeyValues
from headwater.streams.stores.formats import LONG, LONG_MAX, split_session_key, split_window_key, stamped

IS_LATEST: Final = port.VALID_TO_UNDEFINED
NOT_PUT: Final = port.NOT_PUT

ValueAndTimestamp = tuple[Any, int]
TombstoneTime = Callable[[int], None]  # the timestamp of the changelog record of a deletion that follows

_stamp_of: Final = LONG.unpack_from


class FlushedChange(NamedTuple):
    """A change that a record cache tells. `key` is one of the store's, windows and sessions with their times."""

    key: tuple[Any, ...]
    new: Any
    old: Any
    timestamp: int


def _cache_of(inner: Any) -> StoreCache | None:
    return getattr(inner, "cache", None)


class KeyValueStore:
    """Keys and values, in the order of the keys' bytes."""

    def __init__(self, inner: port.KeyValueStore, key: Serde, value: Serde) -> None:
        self.name = inner.name
        self.cache = _cache_of(inner)
        self._inner = inner
        self._key = writer(key)
        self._read_key = key.deserialize
        self._value = writer(value)
        self._read_value = value.deserialize

    def get(self, key: Any) -> Any:
        raw = self._inner.get(self._key(key))
        return None if raw is None else self._read_value(raw)

    def put(self, key: Any, value: Any) -> None:
        self._inner.put(self._key(key), None if value is None else self._value(value))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """The value that was there; None if this one was put."""
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def delete(self, key: Any) -> Any:
        """The value that was there."""
        raw = self._inner.delete(self._key(key))
        return None if raw is None else self._read_value(raw)

    def range(self, lower: Any = None, upper: Any = None, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Both ends belong to it; None is open."""
        low = None if lower is None else self._key(lower)
        high = None if upper is None else self._key(upper)
        return self._decoded(self._inner.range(low, high, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        return self._decoded(self._inner.all(reverse=reverse))

    def prefix(self, prefix: Any) -> Iterator[tuple[Any, Any]]:
        """Keys whose bytes begin with these, or with those of this key."""
        return self._decoded(self._inner.prefix(prefix if isinstance(prefix, bytes) else self._key(prefix)))

    def approximate_count(self) -> int:
        return self._inner.approximate_count()

    def _decoded(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
        for key, value in rows:
            yield self._read_key(key), self._read_value(value)


class TimestampedKeyValueStore:
    """The store of a table: `get` gives `(value, timestamp)`."""

    versioned = False

    def __init__(self, inner: port.KeyValueStore, key: Serde, value: Serde, tombstone_time: TombstoneTime) -> None:
        self.name = inner.name
        self.cache = _cache_of(inner)
        self._inner = inner
        self._get = inner.get
        self._put = inner.put
        self._key = writer(key)
        self._read_key = key.deserialize
        self._value = writer(value)
        self._read_value = value.deserialize
        self._tombstone_time = tombstone_time
        self._last_key: Any = None  # what was looked up last is mostly what is put next: it is encoded once
        self._last_bytes = b""

    def get(self, key: Any) -> ValueAndTimestamp | None:
        self._last_bytes = raw_key = self._key(key)
        self._last_key = key if type(key) is str else None  # another kind of key might change before it is put
        raw = self._get(raw_key)
        return None if raw is None else (self._read_value(raw[8:]), _stamp_of(raw)[0])

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        raw_key = self._last_bytes if key is self._last_key and key is not None else self._key(key)
        if value is None:
            self._tombstone_time(timestamp)
            self._put(raw_key, None)
        else:
            self._put(raw_key, stamped(self._value(value), timestamp))
        return IS_LATEST

    def put_all(self, entries: Iterable[tuple[Any, ValueAndTimestamp | None]]) -> None:
        """As `all` gives them."""
        for key, row in entries:
            if row is None:
                self.delete(key)
            else:
                self.put(key, *row)

    def flushed(self, raw_key: bytes, change: CachedChange) -> FlushedChange:
        """What a node tells others of a change of the table."""
        new, old = change.value, change.old
        return FlushedChange(
            (self._read_key(raw_key),),
            None if new is None else self._read_value(new[8:]),
            None if old is None else self._read_value(old[8:]),
            change.context.timestamp if new is None else _stamp_of(new)[0],
        )

    def put_if_absent(self, key: Any, value: Any, timestamp: int) -> ValueAndTimestamp | None:
        found = self.get(key)
        if found is None:
            self.put(key, value, timestamp)
        return found

    def delete(self, key: Any) -> ValueAndTimestamp | None:
        found = self.get(key)
        self._put(self._key(key), None)
        return found

    def range(
        self, lower: Any = None, upper: Any = None, *, reverse: bool = False
    ) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        low = None if lower is None else self._key(lower)
        high = None if upper is None else self._key(upper)
        return self._decoded(self._inner.range(low, high, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        return self._decoded(self._inner.all(reverse=reverse))

    def prefix(self, prefix: Any) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        return self._decoded(self._inner.prefix(prefix if isinstance(prefix, bytes) else self._key(prefix)))

    def approximate_count(self) -> int:
        return self._inner.approximate_count()

    def _decoded(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[Any, ValueAndTimestamp]]:
        for key, raw in rows:
            yield self._read_key(key), (self._read_value(raw[8:]), _stamp_of(raw)[0])


class ExpiringTableStore(TimestampedKeyValueStore):
    """The same with a time to live: a row that has expired already is not put."""

    def __init__(self, inner: ExpiringKeyValues, key: Serde, value: Serde, tombstone_time: TombstoneTime) -> None:
        super().__init__(inner, key, value, tombstone_time)
        self._takes = inner.takes

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        if value is not None and not self._takes(timestamp):
            return NOT_PUT
        return super().put(key, value, timestamp)


class VersionedStore:
    """The store of a versioned table. The latest version looks like that of a timestamped store."""

    versioned = True

    def __init__(self, inner: port.VersionedKeyValueStore, key: Serde, value: Serde) -> None:
        self.name = inner.name
        self.cache = None  # each version counts
        self._inner = inner
        self._key = writer(key)
        self._value = writer(value)
        self._read_value = value.deserialize

    def get(self, key: Any) -> ValueAndTimestamp | None:
        return self._plain(self._inner.get(self._key(key)))

    def get_as_of(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        """What held at that time."""
        return self._plain(self._inner.get_as_of(self._key(key), timestamp))

    def put(self, key: Any, value: Any, timestamp: int) -> int:
        return self._inner.put(self._key(key), None if value is None else self._value(value), timestamp)

    def delete(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        return self._plain(self._inner.delete(self._key(key), timestamp))

    def history(
        self, key: Any, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[Any, int, int | None]]:
        """Versions that held at some time of the range: value, since when, until before when."""
        for row in self._inner.history(self._key(key), time_from, time_to, reverse=reverse):
            yield self._read_value(row.value), row.timestamp, row.valid_to

    def _plain(self, row: port.VersionedRecord | None) -> ValueAndTimestamp | None:
        return None if row is None else (self._read_value(row.value), row.timestamp)


class WindowStore:
    """Values by key and start of the window."""

    def __init__(self, inner: port.WindowStore, key: Serde, value: Serde) -> None:
        self.name = inner.name
        self.cache = _cache_of(inner)
        self._inner = inner
        self._key = writer(key)
        self._read_key = key.deserialize
        self._value: Callable[[Any], bytes] = writer(value)
        self._read_value: Callable[[bytes], Any] = value.deserialize

    @property
    def stream_time(self) -> int:
        """The largest start of a window that was put, -1 before the first. It survives restarts."""
        return self._inner.stream_time

    def get(self, key: Any, start: int) -> Any:
        raw = self._inner.get(self._key(key), start)
        return None if raw is None else self._read_value(raw)

    def put(self, key: Any, value: Any, start: int) -> None:
        self._inner.put(self._key(key), None if value is None else self._value(value), start)

    def fetch(self, key: Any, time_from: int, time_to: int, *, reverse: bool = False) -> Iterator[tuple[int, Any]]:
        """Windows of a key that start in the range: start and value."""
        for start, raw in self._inner.fetch(self._key(key), time_from, time_to, reverse=reverse):
            yield start, self._read_value(raw)

    def fetch_all(self, time_from: int, time_to: int, *, reverse: bool = False) -> Iterator[tuple[Any, int, Any]]:
        """Windows of all keys that start in the range: key, start and value."""
        return self._decoded(self._inner.fetch_all(time_from, time_to, reverse=reverse))

    def fetch_range(
        self, lower: Any, upper: Any, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[Any, int, Any]]:
        low = None if lower is None else self._key(lower)
        high = None if upper is None else self._key(upper)
        return self._decoded(self._inner.fetch_range(low, high, time_from, time_to, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, int, Any]]:
        return self._decoded(self._inner.all(reverse=reverse))

    def _decoded(self, rows: Iterator[tuple[bytes, int, bytes]]) -> Iterator[tuple[Any, int, Any]]:
        for key, start, raw in rows:
            yield self._read_key(key), start, self._read_value(raw)


class TimestampedWindowStore(WindowStore):
    """The same with `(value, timestamp)` for the value; None deletes."""

    def __init__(self, inner: port.WindowStore, key: Serde, value: Serde) -> None:
        super().__init__(inner, key, value)
        write, read = writer(value), value.deserialize
        self._value = lambda pair: stamped(write(pair[0]), pair[1])
        self._read_value = lambda raw: (read(raw[8:]), _stamp_of(raw)[0])

    def flushed(self, raw_key: bytes, change: CachedChange) -> FlushedChange:
        """What a node tells others of a change of the table."""
        key, start, _ = split_window_key(raw_key)
        new, old = change.value, change.old
        value, timestamp = (None, change.context.timestamp) if new is None else self._read_value(new)
        before = None if old is None else self._read_value(old)[0]
        return FlushedChange((self._read_key(key), start), value, before, timestamp)


class SessionStore:
    """Values by key, start and end of the session."""

    def __init__(self, inner: port.SessionStore, key: Serde, value: Serde) -> None:
        self.name = inner.name
        self.cache = _cache_of(inner)
        self._inner = inner
        self._key = writer(key)
        self._read_key = key.deserialize
        self._value = writer(value)
        self._read_value = value.deserialize

    def get(self, key: Any, start: int, end: int) -> Any:
        raw = self._inner.get(self._key(key), start, end)
        return None if raw is None else self._read_value(raw)

    def put(self, key: Any, start: int, end: int, value: Any) -> None:
        self._inner.put(self._key(key), start, end, None if value is None else self._value(value))

    def remove(self, key: Any, start: int, end: int) -> None:
        self._inner.remove(self._key(key), start, end)

    def flushed(self, raw_key: bytes, change: CachedChange) -> FlushedChange:
        """What a node tells others of a change of the table."""
        key, start, end = split_session_key(raw_key)
        new, old = change.value, change.old
        return FlushedChange(
            (self._read_key(key), start, end),
            None if new is None else self._read_value(new),
            None if old is None else self._read_value(old),
            end,
        )

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[Any, int, int, Any]]:
        """Sessions of a key that overlap the range: key, start, end and value."""
        return self._decoded(self._inner.find_sessions(self._key(key), earliest_end, latest_start, reverse=reverse))

    def find_sessions_range(
        self, lower: Any, upper: Any, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[Any, int, int, Any]]:
        """The same of all keys from `lower` to `upper`, by their bytes; both belong to it, None is open."""
        low = None if lower is None else self._key(lower)
        high = None if upper is None else self._key(upper)
        return self._decoded(self._inner.find_sessions_range(low, high, earliest_end, latest_start, reverse=reverse))

    def find_closed(self, earliest_end: int, latest_end: int) -> Iterator[tuple[Any, int, int, Any]]:
        """Sessions of all keys by their end."""
        return self._decoded(self._inner.find_closed(earliest_end, latest_end))

    def fetch(self, key: Any, *, reverse: bool = False) -> Iterator[tuple[Any, int, int, Any]]:
        return self._decoded(self._inner.fetch(self._key(key), reverse=reverse))

    def fetch_range(self, lower: Any, upper: Any, *, reverse: bool = False) -> Iterator[tuple[Any, int, int, Any]]:
        """All sessions of all keys from `lower` to `upper`."""
        return self.find_sessions_range(lower, upper, 0, LONG_MAX, reverse=reverse)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[Any, int, int, Any]]:
        return self._decoded(self._inner.all(reverse=reverse))

    def _decoded(self, rows: Iterator[tuple[bytes, int, int, bytes]]) -> Iterator[tuple[Any, int, int, Any]]:
        for key, start, end, raw in rows:
            yield self._read_key(key), start, end, self._read_value(raw)
