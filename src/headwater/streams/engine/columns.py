"""Records by column at the edges of a task: as they were fetched, and as they are to be written. Lists, so that Python
reads them quickly; what compiled code has made stays the bytes that it made (`PackedColumns`), for nobody reads it
here.

A `Chunk` belongs to the queue it was put into, `OutputColumns` to the task until they are collected, then to whoever
collected them.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from headwater.streams.model.record import NO_HEADERS, Headers, InputRecord, OutputRecord
from headwater.streams.serdes.native_cells import Cells


class Chunk:
    """Neighbouring records of one partition, in the order of their offsets. `at` is the first that nobody has taken
    yet.
    """

    __slots__ = ("at", "headers", "keys", "offsets", "partition", "timestamps", "topic", "values")

    def __init__(
        self,
        topic: str,
        partition: int,
        offsets: list[int],
        timestamps: list[int],
        keys: Cells,
        values: Cells,
        headers: list[Headers] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.headers = headers
        self.at = 0

    def __len__(self) -> int:
        return len(self.offsets) - self.at

    @property
    def plain(self) -> bool:
        """Whether no record has headers or a timestamp that is none: what a lane takes."""
        return self.headers is None and min(self.timestamps, default=0) >= 0

    def record(self, at: int) -> InputRecord:
        headers = NO_HEADERS if self.headers is None else self.headers[at]
        offset, timestamp = self.offsets[at], self.timestamps[at]
        return InputRecord(self.topic, self.partition, offset, timestamp, self.keys[at], self.values[at], headers)

    def records(self) -> Iterator[InputRecord]:
        """What is left."""
        return map(self.record, range(self.at, len(self.offsets)))


class OutputColumns:
    """Records for one topic, in order. `partition` is that of all, `partitions` of each; with neither the producer
    chooses by the key.
    """

    __slots__ = ("keys", "partition", "partitions", "timestamps", "topic", "values")

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self.topic = topic
        self.partition = partition
        self.partitions: list[int] | None = None
        self.keys: Cells = []
        self.values: Cells = []
        self.timestamps: list[int] = []

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def data_bytes(self) -> int:
        return _bytes(self.keys) + _bytes(self.values)

    @property
    def has_null_key(self) -> bool:
        return None in self.keys

    def records(self) -> list[OutputRecord]:
        places: list[int | None] = [self.partition] * len(self) if self.partitions is None else [*self.partitions]
        rows = zip(places, self.keys, self.values, self.timestamps, strict=True)
        return [OutputRecord(self.topic, place, key, value, time) for place, key, value, time in rows]


class PackedRows(NamedTuple):
    """Some records in Arrow's layout, in native byte order. Each has a key and a value."""

    row_count: int
    key_offsets: bytes  # int64, one more than rows
    key_data: bytes
    values: bytes
    timestamps: bytes  # int64
    partitions: bytes | None = None  # int32
    value_offsets: bytes | None = None  # int64, one more than rows; None: all values have the same size

    @property
    def value_size(self) -> int:
        """Where all have the same."""
        return len(self.values) // self.row_count

    def keys(self) -> list[bytes]:
        return _cut(self.key_data, memoryview(self.key_offsets).cast("q").tolist())

    def value_cells(self) -> list[bytes]:
        if self.value_offsets is None:
            return _cut(self.values, range(0, len(self.values) + 1, self.value_size))
        return _cut(self.values, memoryview(self.value_offsets).cast("q").tolist())


class PackedColumns(OutputColumns):
    """The same for records that compiled code has made: `parts`, none of them empty, and no lists."""

    __slots__ = ("_rows", "parts")

    def __init__(self, topic: str, partition: int | None = None) -> None:
        super().__init__(topic, partition)
        self.parts: list[PackedRows] = []
        self._rows = 0

    def add(self, rows: PackedRows) -> None:
        if rows.row_count:
            self.parts.append(rows)
            self._rows += rows.row_count

    def __len__(self) -> int:
        return self._rows

    @property
    def data_bytes(self) -> int:
        return sum(len(part.key_data) + len(part.values) for part in self.parts)

    @property
    def has_null_key(self) -> bool:
        return False

    def records(self) -> list[OutputRecord]:
        return [record for part in self.parts for record in self._unpacked(part)]

    def _unpacked(self, part: PackedRows) -> Iterator[OutputRecord]:
        times = memoryview(part.timestamps).cast("q").tolist()
        places: list[int | None] = [self.partition] * part.row_count
        if part.partitions is not None:
            places = memoryview(part.partitions).cast("i").tolist()  # type: ignore[assignment]
        for key, value, time, place in zip(part.keys(), part.value_cells(), times, places, strict=True):
            yield OutputRecord(self.topic, place, key, value, time)


def _cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    return [data[begin:end] for begin, end in pairwise(places)]


def _bytes(cells: Cells) -> int:
    return sum([len(cell) for cell in cells if cell is not None])
