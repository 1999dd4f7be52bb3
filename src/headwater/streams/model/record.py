"""Records at the edges of a task (bytes) and between its operators (objects).

`Record` is what operators and processors pass on. It is never changed after it was forwarded: an operator that changes
something makes another one. Headers are a tuple, so that records may share them.
"""

from collections.abc import Iterable, Mapping
from operator import index
from types import NoneType
from typing import Any, Final, NamedTuple

from headwater.base.errors import UserError

Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP: Final = -1
TIMESTAMP_MAX: Final = (1 << 63) - 1
NO_HEADERS: Final[Headers] = ()


class Record:
    """A key, a value, a timestamp in milliseconds and headers, between two nodes."""

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def with_key(self, key: Any) -> "Record":
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> "Record":
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> "Record":
        return Record(self.key, self.value, checked_timestamp(timestamp), self.headers)

    def with_headers(self, headers: Iterable[object] | Mapping[str, Any]) -> "Record":
        return Record(self.key, self.value, self.timestamp, checked_headers(headers))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        mine = (self.key, self.value, self.timestamp, self.headers)
        return mine == (other.key, other.value, other.timestamp, other.headers)

    __hash__ = None  # type: ignore[assignment]  # values need not be hashable

    def __repr__(self) -> str:
        headers = f", headers={self.headers!r}" if self.headers else ""
        return f"Record({self.key!r}, {self.value!r}, timestamp={self.timestamp}{headers})"


def checked_timestamp(timestamp: object) -> int:
    """What no broker takes would end the run at its commit, and nobody would know which record it was. Whole numbers of
    other types (numpy's) are taken as such.
    """
    try:
        found = index(timestamp)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        found = NO_TIMESTAMP
    if not 0 <= found <= TIMESTAMP_MAX:
        raise UserError(
            f"A record cannot have the timestamp {timestamp!r}", "times are whole numbers of milliseconds since 1970"
        )
    return found


def checked_headers(headers: Iterable[object] | Mapping[str, Any] | None) -> Headers:
    """As records have them. What producers take for headers is taken here, too: a dict, lists as pairs, text."""
    if not headers:
        return NO_HEADERS
    given: tuple[Any, ...] = tuple(headers.items() if isinstance(headers, Mapping) else headers)
    for header in given:
        is_pair = header.__class__ is tuple and len(header) == 2
        if not is_pair or header[0].__class__ is not str or not isinstance(header[1], (bytes, NoneType)):
            return tuple(_as_header(each) for each in given)
    return given


def _as_header(header: Any) -> tuple[str, bytes | None]:
    name, value = header if isinstance(header, tuple | list) and len(header) == 2 else (None, None)
    if not isinstance(name, str) or not isinstance(value, str | bytes | bytearray | memoryview | None):
        raise UserError(f"{header!r} is no header", "", 'Headers are pairs as ("name", b"value")')
    data = value.encode() if isinstance(value, str) else value
    return str.__str__(name), None if data is None else bytes(data)


class Change:
    """What goes between the nodes of a table: the new value and, where somebody downstream asked for it, the old one.

    `is_latest` is false for an update that came out of order into a versioned table.
    """

    __slots__ = ("is_latest", "new", "old")

    def __init__(self, new: Any, old: Any, is_latest: bool = True) -> None:
        self.new = new
        self.old = old
        self.is_latest = is_latest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return (self.new, self.old, self.is_latest) == (other.new, other.old, other.is_latest)

    __hash__ = None  # type: ignore[assignment]  # values need not be hashable

    def __repr__(self) -> str:
        return f"Change(new={self.new!r}, old={self.old!r})"


class InputRecord(NamedTuple):
    """A record as it was fetched."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = NO_HEADERS

    @property
    def size_bytes(self) -> int:
        """Of key and value: what keeping it takes beside what is known of where it came from."""
        return len(self.key or b"") + len(self.value or b"")


class OutputRecord(NamedTuple):
    """A record that a task wants written. Without a partition, the producer chooses as for any record: by the key's
    murmur2.
    """

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = NO_HEADERS


class RecordMetadata(NamedTuple):
    """Where the record came from that is being processed."""

    topic: str
    partition: int
    offset: int


class Origin(NamedTuple):
    """The record that led to what was held back (in the record cache, by `suppress`, by a join with a grace): where it
    was read, None if a punctuator did it, and itself, if it is in memory still and somebody may ask for it.
    """

    metadata: RecordMetadata | None
    record: InputRecord | None = None
