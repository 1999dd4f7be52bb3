"""Key-value stores with a time to live: a row is deleted when stream time is more than `ttl_ms` beyond its timestamp.

The timestamp is that of the row in a timestamped store; else that of the record being processed, under which the
changelog has it anyway. So a row in the map always has its timestamp before it, whatever those who ask see, and a
second map has the rows by time. The task calls `expire` before each record that moves stream time, so each row costs
one deletion, and there is never one to be seen that has expired. A deletion is a tombstone in the changelog: what is
restored is what was there, without a clock. A put that has expired already is not taken, as window stores do it.

Maps: `<name>`: key -> timestamp (8), value; `<name>/by-time`: timestamp (8, unsigned, from the least long on), key ->
nothing. Owned by one task.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, Protocol

from headwater.streams.stores.formats import LONG, stamped, unstamped
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.port import Changelog, RestoresOneByOne
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import TaskState

TTL_MS_MAX: Final = 1 << 60
EXPIRED: Final = "expired"
_UNSIGNED: Final = Struct(">Q")
_LEAST: Final = -(1 << 63)
_YES: Final = b"\x01"


class TaskTimes(Protocol):
    """What the store asks of its task."""

    @property
    def stream_time_ms(self) -> int: ...

    @property
    def record_timestamp(self) -> int:
        """Of the record that is being processed."""

    def drop(self, reason: str) -> None: ...


class ExpiringKeyValues(RestoresOneByOne, KeyValues):
    """A `port.KeyValueStore`. `times` is None where it is only restored or read."""

    def __init__(
        self, spec: StoreSpec, ttl_ms: int, state: TaskState, changelog: Changelog | None, times: TaskTimes | None
    ) -> None:
        super().__init__(spec, state, changelog)
        self._ttl_ms = ttl_ms
        self._times = times
        self._by_time = state.map(spec.name + "/by-time")
        self._swept = _LEAST  # no row has a timestamp below this one
        state.on_discard(self._reload)
        if not spec.timestamped:
            self.get = self._get_plain

    def _reload(self) -> None:
        self._swept = _LEAST

    def takes(self, timestamp: int) -> bool:
        """Whether a row of that time may be put; counts those that may not."""
        assert self._times is not None, f"{self.name} is only read"
        if timestamp + self._ttl_ms >= self._times.stream_time_ms:
            return True
        self._times.drop(EXPIRED)
        return False

    def put(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._replace(key, None)
            if self._log is not None:
                self._log(key, None, None)
            return
        assert self._times is not None, f"{self.name} is only read"
        plain, timestamp = unstamped(value) if self._timestamped else (value, self._times.record_timestamp)
        if self.takes(timestamp):
            self._replace(key, stamped(plain, timestamp))
            if self._log is not None:
                self._log(key, plain, timestamp)

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._replace(key, None if value is None else stamped(value, timestamp))

    def expire(self, stream_time_ms: int) -> list[tuple[bytes, bytes]]:
        """Deletes the rows whose time is over; the keys and values (plain) that they had, in the order of their
        times.
        """
        limit = stream_time_ms - self._ttl_ms
        if limit <= self._swept:
            return []
        gone = []
        for entry in [entry for entry, _ in self._by_time.scan(_time(self._swept), _time(limit))]:
            key = entry[8:]
            row = self.rows.get(key)
            assert row is not None, f"{self.name} has a time for {key!r}, and no row"
            gone.append((key, row[8:]))
            self.rows.put(key, None)
            self._by_time.put(entry, None)
            if self._log is not None:
                self._log(key, None, stream_time_ms)
        self._swept = limit
        return gone

    def range(
        self, lower: bytes | None, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._seen(super().range(lower, upper, reverse=reverse))

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self._seen(super().all(reverse=reverse))

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._seen(super().prefix(prefix))

    def _get_plain(self, key: bytes) -> bytes | None:
        row = self.rows.get(key)
        return None if row is None else row[8:]

    def _seen(self, rows: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        return rows if self._timestamped else ((key, row[8:]) for key, row in rows)

    def _replace(self, key: bytes, row: bytes | None) -> None:
        former = self.rows.get(key)
        if former is not None:
            self._by_time.put(_time(LONG.unpack_from(former)[0]) + key, None)
        self.rows.put(key, row)
        if row is not None:
            timestamp = LONG.unpack_from(row)[0]
            self._swept = min(self._swept, timestamp)
            self._by_time.put(_time(timestamp) + key, b"")


def _time(timestamp: int) -> bytes:
    """In the order of the times, negative ones too."""
    return _UNSIGNED.pack(timestamp - _LEAST)


def times_fit(specs: Iterable[StoreSpec], state: TaskState) -> bool:
    """Whether the rows on disk lie as these stores have them: a store that gets or loses its time to live must be
    restored.
    """
    return all(
        (state.notes.get(_note(spec)) is not None) == (spec.ttl_ms is not None)
        for spec in specs
        if spec.kind is StoreKind.KEY_VALUE
    )


def note_times(specs: Iterable[StoreSpec], state: TaskState) -> None:
    """What `times_fit` looks for at the next start."""
    for spec in specs:
        if spec.ttl_ms is not None and state.notes.get(_note(spec)) is None:
            state.notes.put(_note(spec), _YES)


def forget_times(spec: StoreSpec, state: TaskState) -> None:
    """The rows of the store were wiped."""
    if state.notes.get(_note(spec)) is not None:
        state.notes.put(_note(spec), None)


def _note(spec: StoreSpec) -> bytes:
    return b"ttl\x00" + spec.name.encode()
