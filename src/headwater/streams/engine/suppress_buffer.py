"""The buffer behind `suppress`: the last change per key, by time, in a key-value store and therefore in its changelog.

    value in the store    where the record came from: timestamp (8), offset (8), topic, partition (4), headers
                          prior value, old value, new value    each with its length (4) before it, -1 for none
                          buffer time (8)

The prior value is what the table had before the first change that is buffered. The layout is that of Kafka Streams, but
its changelog records also have a header that tells their version, which ours lack. The store gets it when the task's
changes are collected for a commit. Owned by one task; the order by time is kept in memory and read from the store again
when that was restored or rolled back.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import Any, Final, NamedTuple

from headwater.streams.model.record import Change, Headers, InputRecord, Origin, Record, RecordMetadata
from headwater.streams.serdes.port import Serde
from headwater.streams.stores.port import KeyValueStore

_ORIGIN: Final = Struct(">qqi")
_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")
NOWHERE: Final = RecordMetadata("", -1, -1)  # of what a punctuator has made


class Buffered(NamedTuple):
    """A change in the buffer, in bytes."""

    metadata: RecordMetadata
    timestamp: int
    headers: Headers
    prior: bytes | None
    old: bytes | None
    new: bytes | None
    record: InputRecord | None = None  # that the change came from, in memory only

    @property
    def size(self) -> int:
        """As Kafka Streams estimates it, without the key and the buffer time; and the record, where that is kept."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        shared = 0 if self.old is None or self.old is self.prior else len(self.old)
        record = 0 if self.record is None else self.record.size_bytes
        values = len(self.prior or b"") + shared + len(self.new or b"")
        return values + 20 + len(self.metadata.topic) + headers + record


class SuppressBuffer:
    """By buffer time, then by the bytes of the key. A key that is there already keeps its time."""

    def __init__(self, inner: KeyValueStore, key: Serde, value: Serde) -> None:
        self.name = inner.name
        self._inner = inner
        self._key = key
        self._value = value
        self._order: list[tuple[int, bytes]] = []  # a heap: each row once, as it never changes its time
        self._rows: dict[bytes, tuple[int, Buffered]] = {}
        self._loaded = False
        self._dirty: dict[bytes, None] = {}  # changed since the last flush, in order
        self.size_bytes = 0

    def reload(self) -> None:
        """What is in the store has changed beneath."""
        self._loaded = False
        self._dirty.clear()

    def flush(self) -> None:
        """Writes what has changed to the store, and so to its changelog: once per commit and key, as Kafka Streams
        does.
        """
        for key in self._dirty:
            found = self._rows.get(key)
            self._inner.put(key, None if found is None else encode_buffered(*found))
        self._dirty.clear()

    def _load(self) -> None:
        if self._loaded:
            return
        self._rows = {key: decode_buffered(raw) for key, raw in self._inner.all()}
        self._order = sorted((time, key) for key, (time, _) in self._rows.items())
        self.size_bytes = sum(8 + len(key) + row.size for key, (_, row) in self._rows.items())
        self._loaded = True

    def __len__(self) -> int:
        self._load()
        return len(self._rows)

    @property
    def min_time(self) -> int | None:
        self._load()
        return self._order[0][0] if self._order else None

    def put(self, time: int, record: Record, made_by: Origin) -> None:
        self._load()
        key = self._key.serialize(record.key)
        change = record.value
        old = None if change.old is None else self._value.serialize(change.old)
        new = None if change.new is None else self._value.serialize(change.new)
        found = self._rows.get(key)
        prior = old if found is None else found[1].prior
        at = made_by.metadata or NOWHERE
        row = Buffered(at, record.timestamp, record.headers, prior, old, new, made_by.record)
        if found is None:
            heappush(self._order, (time, key))
        else:
            time = found[0]
            self.size_bytes -= 8 + len(key) + found[1].size
        self._rows[key] = (time, row)
        self.size_bytes += 8 + len(key) + row.size
        self._dirty[key] = None

    def pop(self) -> tuple[Record, Origin]:
        """The change with the lowest time."""
        self._load()
        _, raw_key = heappop(self._order)
        _, row = self._rows.pop(raw_key)
        self.size_bytes -= 8 + len(raw_key) + row.size
        self._dirty[raw_key] = None
        change = Change(self._read(row.new), self._read(row.old))
        origin = Origin(None if row.metadata == NOWHERE else row.metadata, row.record)
        return Record(self._key.deserialize(raw_key), change, row.timestamp, row.headers), origin

    def prior_value(self, key: Any) -> tuple[bool, Any]:
        """Whether the key is buffered, and what the table had before."""
        self._load()
        found = self._rows.get(self._key.serialize(key))
        return (False, None) if found is None else (True, self._read(found[1].prior))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Keys and their newest values, by time."""
        self._load()
        for _, key in sorted(self._order):
            yield self._key.deserialize(key), self._read(self._rows[key][1].new)

    def _read(self, raw: bytes | None) -> Any:
        return None if raw is None else self._value.deserialize(raw)


def encode_buffered(time: int, row: Buffered) -> bytes:
    topic = row.metadata.topic.encode()
    parts = [_ORIGIN.pack(row.timestamp, row.metadata.offset, len(topic)), topic, _INT.pack(row.metadata.partition)]
    parts.append(_INT.pack(len(row.headers)))
    for name, value in row.headers:
        parts += [*_sized(name.encode()), *_sized(value)]
    parts += _sized(row.prior)
    parts += [_INT.pack(-2)] if row.old is not None and row.old == row.prior else _sized(row.old)
    parts += _sized(row.new)
    parts.append(_LONG.pack(time))
    return b"".join(parts)


def _sized(data: bytes | None) -> list[bytes]:
    return [_INT.pack(-1)] if data is None else [_INT.pack(len(data)), data]


def decode_buffered(raw: bytes) -> tuple[int, Buffered]:
    timestamp, offset, length = _ORIGIN.unpack_from(raw)
    at = 20 + length
    topic = raw[20:at].decode()
    partition, count = _INT.unpack_from(raw, at)[0], _INT.unpack_from(raw, at + 4)[0]
    at += 8
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, at = _take(raw, at, None)
        value, at = _take(raw, at, None)
        headers.append(((name or b"").decode(), value))
    prior, at = _take(raw, at, None)
    old, at = _take(raw, at, prior)
    new, at = _take(raw, at, None)
    row = Buffered(RecordMetadata(topic, partition, offset), timestamp, tuple(headers), prior, old, new)
    return _LONG.unpack_from(raw, at)[0], row


def _take(raw: bytes, at: int, same: bytes | None) -> tuple[bytes | None, int]:
    length = _INT.unpack_from(raw, at)[0]
    at += 4
    if length < 0:
        return (same if length == -2 else None), at
    return raw[at : at + length], at + length
