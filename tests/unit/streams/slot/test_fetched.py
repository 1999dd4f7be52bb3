"""What a slot's consumer fetches, as chunks: as columns, and record by record where columns do not hold the times."""

from typing import Any

import pyarrow as pa
import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import LogTruncationError, OffsetOutOfRange
from headwater.client.consumer.record import ConsumerRecord
from headwater.records.arrow import schema
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.slot.fetched import Inputs

_NANOS = 1_700_000_000_000_000_000  # as milliseconds: somebody has written nanoseconds
_US_MAX, _US_MIN = (1 << 63) - 1, -(1 << 63)


class Log:
    """Partitions and their records' times; columns clip them, as the client's do. Polls give up to two records."""

    def __init__(self, **times: list[int]) -> None:
        self._times = {TopicPartition(name[:-1], int(name[-1])): each for name, each in times.items()}
        self._at = dict.fromkeys(self._times, 0)
        self.calls: list[str] = []

    def _taken(self, most: int) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = []
        for place, times in self._times.items():
            while self._at[place] < len(times) and len(found) < most:
                at = self._at[place]
                headers = (("h", b"1"),) if at == 1 else ()
                found.append(ConsumerRecord(*place, at, times[at], 0, b"k%d" % at, b"v%d" % at, headers, 0))
                self._at[place] += 1
        return found

    def poll(self, _timeout: float, *, max_records: int) -> list[ConsumerRecord]:
        self.calls.append("records")
        return self._taken(min(max_records, 2))

    def poll_arrow(self, _timeout: float, *, max_records: int, max_bytes: int) -> pa.RecordBatch:
        self.calls.append("columns")
        rows = [
            {
                "key": each.key,
                "value": each.value,
                "topic": each.topic,
                "partition": each.partition,
                "offset": each.offset,
                "timestamp": min(max(each.timestamp_ms * 1000, _US_MIN), _US_MAX),
                "timestampType": 0,
                "headers": [{"key": name, "value": value} for name, value in each.headers] or None,
            }
            for each in self._taken(max_records)
        ]
        wanted = schema()
        return pa.RecordBatch.from_arrays(
            [pa.array([row[field.name] for row in rows], _stored(field.type)).cast(field.type) for field in wanted],
            schema=wanted,
        )

    def seek(self, place: TopicPartition, offset: int) -> None:
        self._at[place] = offset


def _stored(kind: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_timestamp(kind) else kind


def _read(log: Log, polls: int, most: int) -> tuple[list[Any], int]:
    inputs: Any = Inputs(log)  # type: ignore[arg-type]
    found = []
    for _ in range(polls):
        for chunk in inputs.poll(0.0, most, 1 << 20):
            for record in chunk.records():
                found.append((record.topic, record.partition, record.offset, record.timestamp, record.value))
                assert dict(record.headers) == ({"h": b"1"} if record.offset == 1 else {})
    return found, inputs.fetched


def test_times_that_columns_hold_come_as_columns() -> None:
    log = Log(a0=[5, -1], b0=[7])
    found, fetched = _read(log, 2, 10)
    assert found == [("a", 0, 0, 5, b"v0"), ("a", 0, 1, -1, b"v1"), ("b", 0, 0, 7, b"v0")]
    assert (fetched, log.calls) == (3, ["columns", "columns"])


def test_times_beyond_microseconds_are_not_clipped_and_columns_come_again_behind_them() -> None:
    """A time in the year 55 million became one in the year 294,247: joins, windows and outputs had the wrong one."""
    log = Log(a0=[5, _NANOS, 6], a1=[-_NANOS, 8], b0=[1])
    found, fetched = _read(log, 5, 4)
    assert sorted(found) == [
        ("a", 0, 0, 5, b"v0"),
        ("a", 0, 1, _NANOS, b"v1"),
        ("a", 0, 2, 6, b"v2"),
        ("a", 1, 0, -_NANOS, b"v0"),
        ("a", 1, 1, 8, b"v1"),
        ("b", 0, 0, 1, b"v0"),
    ]
    assert (fetched, log.calls) == (6, ["columns", "records", "records", "columns", "columns", "columns"])


@pytest.mark.parametrize(
    "gone", [OffsetOutOfRange(TopicPartition("a", 0), 7), LogTruncationError(TopicPartition("a", 0), 7, None)]
)
def test_a_position_that_the_log_does_not_hold_is_decided_anew(gone: Exception) -> None:
    """A topic of a global table is read again from its beginning, which changes nothing in it."""

    class Gone:
        def __init__(self) -> None:
            self.sought: list[TopicPartition] = []

        def poll_arrow(self, _timeout: float, **_limits: int) -> pa.RecordBatch:
            raise gone

        def seek_to_beginning(self, partitions: list[TopicPartition]) -> None:
            self.sought += partitions

    consumer: Any = Gone()
    with pytest.raises(ClusterFailure, match=r"a-0 holds no offset 7 \(any more\), the next one to be read"):
        Inputs(consumer, ["b"]).poll(0.0, 1, 1)
    assert (list(Inputs(consumer, ["a"]).poll(0.0, 1, 1)), consumer.sought) == ([], [TopicPartition("a", 0)])
