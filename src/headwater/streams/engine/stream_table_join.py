"""Stream-table joins, also with a global table: each record of the stream meets the row of its key as it is now.

A versioned table gives the row that held at the record's timestamp. With a grace, records wait in a buffer, ordered by
(timestamp, key, arrival), until stream time has passed theirs by the grace; one that comes later than that is joined at
once.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.engine.suppress_buffer import NOWHERE, Buffered, decode_buffered, encode_buffered
from headwater.streams.engine.table import ValueGetter
from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Origin, Record, RecordMetadata
from headwater.streams.serdes.port import Serde

_TIME: Final = Struct(">q")
_NUMBER: Final = Struct(">i")


class StreamTableJoin(Processor):
    """`mapper(key, value)` gives the key of the table; `buffer_name` and `grace_ms` where records wait."""

    kept_times = ("_stream_time", "_number")  # and the number that tells apart what waits

    def __init__(
        self,
        getter: ValueGetter,
        mapper: Callable[[Any, Any], Any] | None,
        joiner: Callable[[Any, Any, Any], Any],
        left: bool,
        buffer_name: str | None = None,
        grace_ms: int = 0,
    ) -> None:
        self.getter = getter
        self.mapper = mapper
        self.joiner = joiner
        self.left = left
        self.buffer_name = buffer_name
        self._grace_ms = grace_ms
        self._stream_time = -1
        self._number = 0  # of the last record in the buffer
        self._is_loaded = False
        self._buffer: Any = None

    def init(self, context: Context) -> None:
        self.getter.init(context)
        if self.buffer_name is not None:
            if not self.getter.versioned:
                raise UserError("A join with a grace needs a versioned table", "this one has only its latest rows")
            self._buffer = context.store(self.buffer_name)

    def process(self, record: Record) -> None:
        key, value = record.key, record.value
        mapped = key if self.mapper is None else self.mapper(key, value)
        if value is None or (mapped is None and not self.left):
            self.context.drop("null key or value")
            return
        if self._buffer is not None and not self._is_loaded:
            self._load()
        if self._buffer is None or key is None or record.timestamp < self._stream_time - self._grace_ms:
            self._join(record)
            return
        self._stream_time = max(self._stream_time, record.timestamp)  # of what was put into the buffer
        self._number = (self._number + 1) & 0x7FFFFFFF
        self._buffer.put((record.timestamp, key, self._number), (record, self.context.origin.metadata))
        limit = self._stream_time - self._grace_ms
        for place, (waiting, metadata) in self._buffer.all():
            if place[0] > limit:
                break
            self.context.resume(waiting.with_key(place[1]), Origin(metadata), self._join)
            self._buffer.put(place, None)

    def _load(self) -> None:
        """What an earlier life of the task has left in the buffer: no number is used twice. The one that was saved may
        be older than what the changelog has brought back.
        """
        self._is_loaded = True
        for (timestamp, _, number), _ in self._buffer.all():
            self._stream_time = max(self._stream_time, timestamp)
            self._number = max(self._number, number)

    def _join(self, record: Record) -> None:
        key, value = record.key, record.value
        mapped = key if self.mapper is None else self.mapper(key, value)
        found = None
        if mapped is not None:
            getter = self.getter
            found = getter.get_as_of(mapped, record.timestamp) if getter.versioned else getter.get(mapped)
        if self.left or found is not None:
            self.forward(record.with_value(self.joiner(key, value, None if found is None else found[0])))


class BufferKeySerde:
    """Zero, timestamp (8), the key, and the number of the record (4)."""

    name = "buffer-key"

    def __init__(self, key: Serde) -> None:
        self._key = key

    def serialize(self, value: tuple[int, Any, int]) -> bytes:
        timestamp, key, number = value
        return b"\x00" + _TIME.pack(timestamp) + self._key.serialize(key) + _NUMBER.pack(number)

    def deserialize(self, data: bytes) -> tuple[int, Any, int]:
        number: int = _NUMBER.unpack_from(data, len(data) - 4)[0]
        return _TIME.unpack_from(data, 1)[0], self._key.deserialize(data[9:-4]), number


class BufferValueSerde:
    """The record with its value, in the bytes of the buffer behind `suppress`."""

    name = "buffer-value"

    def __init__(self, value: Serde) -> None:
        self._value = value

    def serialize(self, value: tuple[Record, RecordMetadata | None]) -> bytes:
        record, metadata = value
        raw = self._value.serialize(record.value)
        return encode_buffered(0, Buffered(metadata or NOWHERE, record.timestamp, record.headers, None, None, raw))

    def deserialize(self, data: bytes) -> tuple[Record, RecordMetadata | None]:
        _, row = decode_buffered(data)
        value = None if row.new is None else self._value.deserialize(row.new)
        return Record(None, value, row.timestamp, row.headers), None if row.metadata == NOWHERE else row.metadata
