"""Stream-stream joins: each record meets those of the other side whose timestamps lie in its window.

A side puts its records into a window store after it has joined them, and looks into the store of the other one. In a
left or outer join a record that has met nobody waits in a shared store, ordered by (timestamp, right before left, key),
until the stream time of both sides has closed its window; then it goes on without a partner. A record that is late
already goes on at once.

A record is late when its window and grace are over by the stream time of both sides. As in Kafka Streams it meets those
that are still kept; it is counted, and on request kept in a topic, since others that it should have met may be gone.
Both sides of one task share `JoinTime`, which hangs on the task's shared store.
"""

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final
from weakref import WeakKeyDictionary

from headwater.streams.model.processor import Context, Processor
from headwater.streams.model.record import Record
from headwater.streams.serdes.port import Serde

Joiner = Callable[[Any, Any, Any], Any]  # (key, left, right)
NEVER: Final = (1 << 63) - 1
LATE: Final = "late for a join"  # counted: its window has closed, so partners may be gone

_HEAD: Final = Struct(">q?")
_COUNT: Final = Struct(">i")


@dataclass(frozen=True, slots=True)
class Sides:
    """What both sides of a join know: its times, and the names of its stores."""

    before_ms: int
    after_ms: int
    grace_ms: int
    this_store: str
    other_store: str
    waiting_store: str | None  # of a left or outer join
    left_outer: bool
    right_outer: bool
    joiner: Joiner


class JoinTime:
    """The stream time of both sides, the lowest timestamp that may be waiting, and when to look again."""

    __slots__ = ("earliest", "next_emit_ms", "stream_time")

    def __init__(self) -> None:
        self.stream_time = -1
        self.earliest = NEVER
        self.next_emit_ms = 0


_times: "WeakKeyDictionary[Any, JoinTime]" = WeakKeyDictionary()


class JoinWindowKeeper(Processor):
    """Joins first, then keeps the record for the other side."""

    def __init__(self, store_name: str) -> None:
        self.store_name = store_name
        self._store: Any = None

    def init(self, context: Context) -> None:
        self._store = context.store(self.store_name)

    def process(self, record: Record) -> None:
        self.forward(record)
        if record.key is not None:
            self._store.put(record.key, record.value, record.timestamp)


class StreamJoinSide(Processor):
    """The left side, or the right one."""

    kept_times = ("stream_time", "earliest")

    def __init__(self, sides: Sides, is_left: bool) -> None:
        self.sides = sides
        self.is_left = is_left
        self.outer = sides.left_outer if is_left else sides.right_outer
        self.before = sides.before_ms if is_left else sides.after_ms
        self.after = sides.after_ms if is_left else sides.before_ms
        self._other: Any = None
        self._waiting: Any = None
        self._time = JoinTime()
        self.fresh = True  # has processed nothing since it was made: its store may be from an earlier life

    def init(self, context: Context) -> None:
        self._other = context.store(self.sides.other_store if self.is_left else self.sides.this_store)
        if self.sides.waiting_store is not None:
            self._waiting = context.store(self.sides.waiting_store)
            self._time = _times.setdefault(self._waiting, self._time)

    @property
    def stream_time(self) -> int:
        return self._time.stream_time

    @stream_time.setter
    def stream_time(self, time: int) -> None:
        self._time.stream_time = time

    @property
    def earliest(self) -> int:
        return self._time.earliest

    @earliest.setter
    def earliest(self, time: int) -> None:
        self._time.earliest = time

    def _joined(self, key: Any, mine: Any, others: Any) -> Any:
        return self.sides.joiner(key, mine, others) if self.is_left else self.sides.joiner(key, others, mine)

    def process(self, record: Record) -> None:
        key, value, timestamp, time = record.key, record.value, record.timestamp, self._time
        if self.fresh:
            self.fresh = False
            time.stream_time = max(time.stream_time, self._other.stream_time)
        time.stream_time = max(time.stream_time, timestamp)
        if self.outer and key is None and value is not None:
            self.forward(record.with_value(self._joined(None, value, None)))
            return
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        late_by = max(time.stream_time, self._other.stream_time) - timestamp - self.after - self.sides.grace_ms
        if late_by > 0:
            self.context.drop_late(late_by, LATE)
        if self._waiting is not None and timestamp == time.stream_time:
            self._emit_closed(record)
        latest = max(0, timestamp + self.after)
        alone = True
        for met, others in self._other.fetch(key, max(0, timestamp - self.before), latest):
            alone = False
            if self._waiting is not None:
                self._no_longer_waiting((met, not self.is_left, key))
            joined = self._joined(key, value, others)
            self.forward(Record(key, joined, max(timestamp, met), record.headers))
        if alone and self.outer:
            if self._waiting is None or latest < time.stream_time:
                self.forward(record.with_value(self._joined(key, value, None)))
            else:
                time.earliest = min(time.earliest, timestamp)
                place = (timestamp, self.is_left, key)
                self._waiting.put(place, [*(self._waiting.get(place) or ()), (self.is_left, value)])

    def _no_longer_waiting(self, place: tuple[int, bool, Any]) -> None:
        if self._waiting.get(place) is not None:
            self._waiting.put(place, None)

    def _emit_closed(self, record: Record) -> None:
        """All that wait and whose window is closed, without partners. Wall-clock time limits how often the store is
        looked at.
        """
        time, sides = self._time, self.sides
        due = time.earliest + self.after + sides.grace_ms
        if due - (1 << 64 if due > NEVER else 0) >= time.stream_time:  # as in Java, where NEVER and a window overflow
            return
        if self.context.wall_clock_ms < time.next_emit_ms:
            return
        time.next_emit_ms = self.context.wall_clock_ms + self.context.emit_interval_ms
        time.earliest = NEVER
        open_sides: set[bool] = set()
        for (timestamp, is_left, key), values in self._waiting.all():
            time.earliest = timestamp
            if len(open_sides) == 2:
                return
            if timestamp + (sides.after_ms if is_left else sides.before_ms) + sides.grace_ms >= time.stream_time:
                open_sides.add(is_left)
                continue
            for _, value in values:
                left, right = (value, None) if is_left else (None, value)
                self.forward(Record(key, sides.joiner(key, left, right), timestamp, record.headers))
            self._waiting.put((timestamp, is_left, key), None)


class StreamSelfJoin(Processor):
    """A stream with itself, over one store. The order of the results is that of a join of two equal streams."""

    kept_times = ("_stream_time",)

    def __init__(self, sides: Sides) -> None:
        self._sides = sides
        self._store: Any = None
        self._stream_time = -1

    def init(self, context: Context) -> None:
        self._store = context.store(self._sides.this_store)

    def process(self, record: Record) -> None:
        key, value, timestamp, sides = record.key, record.value, record.timestamp, self._sides
        if key is None or value is None:
            self.context.drop("null key or value")
            return
        if self._stream_time < 0:
            self._stream_time = self._store.stream_time  # from an earlier life
        self._stream_time = max(self._stream_time, timestamp)
        late_by = self._stream_time - timestamp - max(sides.before_ms, sides.after_ms) - sides.grace_ms
        if late_by > 0:
            self.context.drop_late(late_by, LATE)
        retention = sides.before_ms + sides.after_ms + sides.grace_ms
        itself = timestamp > self._stream_time - retention + 1
        for met, other in self._store.fetch(
            key, max(0, timestamp - sides.before_ms), max(0, timestamp + sides.after_ms)
        ):
            self.forward(Record(key, sides.joiner(key, value, other), max(timestamp, met), record.headers))
        for met, other in self._store.fetch(
            key, max(0, timestamp - sides.after_ms), max(0, timestamp + sides.before_ms)
        ):
            if itself and met > timestamp:
                itself = False
                self.forward(record.with_value(sides.joiner(key, value, value)))
            self.forward(Record(key, sides.joiner(key, other, value), max(timestamp, met), record.headers))
        if itself:
            self.forward(record.with_value(sides.joiner(key, value, value)))


class WaitingKeySerde:
    """Timestamp (8), 1 for the left side or 0, and the key: in this order they are emitted."""

    name = "waiting-key"

    def __init__(self, key: Serde) -> None:
        self._key = key

    def serialize(self, value: tuple[int, bool, Any]) -> bytes:
        timestamp, is_left, key = value
        return _HEAD.pack(timestamp, is_left) + self._key.serialize(key)

    def deserialize(self, data: bytes) -> tuple[int, bool, Any]:
        timestamp, is_left = _HEAD.unpack_from(data)
        return timestamp, is_left, self._key.deserialize(data[_HEAD.size :])


class WaitingValuesSerde:
    """A list, as Kafka Streams writes it: 1, the count (4), and for each its length (4), 1 for left or 0, and the
    value.
    """

    name = "waiting-values"

    def __init__(self, left: Serde, right: Serde) -> None:
        self._serdes = {True: left, False: right}

    def serialize(self, value: list[tuple[bool, Any]]) -> bytes:
        parts = [b"\x01", _COUNT.pack(len(value))]
        for is_left, one in value:
            raw = self._serdes[is_left].serialize(one)
            parts += [_COUNT.pack(len(raw) + 1), b"\x01" if is_left else b"\x00", raw]
        return b"".join(parts)

    def deserialize(self, data: bytes) -> list[tuple[bool, Any]]:
        values: list[tuple[bool, Any]] = []
        at = 5
        for _ in range(_COUNT.unpack_from(data, 1)[0]):
            size = _COUNT.unpack_from(data, at)[0]
            is_left = data[at + 4] == 1
            values.append((is_left, self._serdes[is_left].deserialize(data[at + 5 : at + 4 + size])))
            at += 4 + size
        return values
