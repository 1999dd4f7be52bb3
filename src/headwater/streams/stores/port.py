"""What the engine asks of a store, in bytes: keys and values are serialized before they come here.

Four kinds, as Kafka Streams has them. All iterators are snapshots: they show the store as it was when they were made,
in the order in which Kafka Streams' persistent (RocksDB) stores iterate. `restore` takes a record of the store's
changelog topic and writes nothing to the changelog again. `None` as a value deletes.

The values of timestamped stores are 8 bytes of timestamp (big endian) and the value: `formats.stamped` and
`formats.unstamped`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

NOT_PUT: Final = -(1 << 63)
"""What a versioned store answers to a put behind its retention (Long.MIN_VALUE, as in Kafka Streams)."""
VALID_TO_UNDEFINED: Final = -1
"""What a versioned store answers to a put that is the latest version."""

Changelog = Callable[[bytes, bytes | None, int | None], None]
"""(key, value, timestamp) of a changelog record.
The timestamp is None where it is that of the record being processed.
"""


class Store(Protocol):
    @property
    def name(self) -> str: ...

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        """One record of the changelog topic."""

    def restore_run(self, keys: list[bytes], values: list[bytes | None], timestamps: list[int]) -> None:
        """Neighbouring records of it."""


class RestoresOneByOne(ABC):
    """A store whose rows hang on each other."""

    @abstractmethod
    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None: ...

    def restore_run(self, keys: list[bytes], values: list[bytes | None], timestamps: list[int]) -> None:
        for key, value, timestamp in zip(keys, values, timestamps, strict=True):
            self.restore(key, value, timestamp)


class KeyValueStore(Store, Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None) -> None: ...

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None: ...

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        """The value that was there; None if this one was put."""

    def delete(self, key: bytes) -> bytes | None:
        """The value that was there."""

    def range(
        self, lower: bytes | None, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Both ends belong to it; None is open. Nothing if lower > upper."""

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]: ...

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]: ...

    def approximate_count(self) -> int: ...


class WindowStore(Store, Protocol):
    """Windows by key and start. What is older than the retention, by the observed stream time of the store, is not
    seen.
    """

    @property
    def stream_time(self) -> int:
        """The largest start of a window that was put; -1 before the first."""

    def put(self, key: bytes, value: bytes | None, start: int) -> None: ...

    def get(self, key: bytes, start: int) -> bytes | None: ...

    def fetch(
        self, key: bytes, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, bytes]]: ...

    def fetch_range(
        self, lower: bytes | None, upper: bytes | None, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]: ...

    def fetch_all(
        self, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, bytes]]: ...

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, bytes]]: ...


class SessionStore(Store, Protocol):
    """Sessions by key, start and end; iterators give (key, start, end, value)."""

    @property
    def stream_time(self) -> int:
        """The largest end of a session that was put or removed; -1 before the first."""

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None: ...

    def remove(self, key: bytes, start: int, end: int) -> None: ...

    def get(self, key: bytes, start: int, end: int) -> bytes | None: ...

    def find_sessions(
        self, key: bytes, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, int, bytes]]: ...

    def find_sessions_range(
        self, lower: bytes | None, upper: bytes | None, earliest_end: int, latest_start: int, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, int, int, bytes]]: ...

    def find_closed(self, earliest_end: int, latest_end: int) -> Iterator[tuple[bytes, int, int, bytes]]:
        """Sessions of all keys by their end: in the order (end, start, key). Only of a store that is `time_ordered`."""

    def fetch(self, key: bytes, *, reverse: bool = False) -> Iterator[tuple[bytes, int, int, bytes]]: ...

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, int, int, bytes]]: ...


@dataclass(frozen=True, slots=True)
class VersionedRecord:
    """A value and the time in which it holds: from `timestamp` until before `valid_to` (None: to this day)."""

    value: bytes
    timestamp: int
    valid_to: int | None = None


class VersionedKeyValueStore(Store, Protocol):
    @property
    def stream_time(self) -> int: ...

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Until when the version holds: a timestamp, VALID_TO_UNDEFINED, or NOT_PUT if it came behind the retention."""

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord | None:
        """What held at that time. From then on nothing holds."""

    def get(self, key: bytes) -> VersionedRecord | None:
        """The latest version."""

    def get_as_of(self, key: bytes, timestamp: int) -> VersionedRecord | None: ...

    def history(
        self, key: bytes, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[VersionedRecord]: ...
