"""What is fetched as chunks, one for each stretch of a partition.

It comes as columns. These have times in microseconds, which do not hold all that milliseconds do: where such a time
comes (often nanoseconds that somebody took for milliseconds) the same records are fetched again, record by record.
"""

from collections.abc import Container, Iterable, Iterator
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.errors import LogTruncationError, OffsetOutOfRange
from headwater.client.consumer.record import ConsumerRecord
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.failures import ClusterFailure
from headwater.streams.model.record import Headers
from headwater.streams.serdes.native_cells import Cells, native_cells

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_CLIPPED: Final = ((1 << 63) - 1, -(1 << 63))


class Inputs:
    """What a slot's consumer fetches. Owned by the slot and its thread.

    `from_the_beginning`: topics that are read again from there where their log does not hold the position any more.
    """

    def __init__(self, consumer: Consumer, from_the_beginning: Container[str] = ()) -> None:
        self._consumer = consumer
        self._from_the_beginning = from_the_beginning
        self._by_record = 0  # so many come record by record, before columns do again
        self.fetched = 0

    def poll(self, timeout: float, max_records: int, max_bytes: int) -> Iterable[Chunk]:
        """Raises ClusterFailure where a log does not hold the position of another topic: then it is decided anew where
        that is read on.
        """
        try:
            return self._fetched(timeout, max_records, max_bytes)
        except (OffsetOutOfRange, LogTruncationError) as gone:
            if gone.topic_partition.topic not in self._from_the_beginning:
                what = f"{gone.topic_partition} holds no offset {gone.offset} (any more), the next one to be read"
                raise ClusterFailure(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, what)) from gone
            self._consumer.seek_to_beginning([gone.topic_partition])
            return ()

    def _fetched(self, timeout: float, max_records: int, max_bytes: int) -> Iterable[Chunk]:
        if self._by_record <= 0:
            batch = self._consumer.poll_arrow(timeout, max_records=max_records, max_bytes=max_bytes)
            if holds_times(batch):
                self.fetched += batch.num_rows
                return chunks(batch)
            for partition, offset in first_offsets(batch).items():
                self._consumer.seek(partition, offset)
            self._by_record = batch.num_rows
        records = self._consumer.poll(timeout, max_records=max_records)
        self._by_record -= len(records)
        self.fetched += len(records)
        return chunks_of_records(records)


def holds_times(batch: "pa.RecordBatch") -> bool:
    """Whether its times are those of the records."""
    if not batch.num_rows:
        return True
    micros = _numbers(batch.column("timestamp"), "int64")
    return not {int(micros.min()), int(micros.max())}.intersection(_CLIPPED)


def first_offsets(batch: "pa.RecordBatch") -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for chunk in chunks(batch):
        found.setdefault(TopicPartition(chunk.topic, chunk.partition), chunk.offsets[0])
    return found


def chunks_of_records(records: Iterable[ConsumerRecord]) -> Iterator[Chunk]:
    for (topic, partition), group in groupby(records, lambda each: (each.topic, each.partition)):
        found = list(group)
        yield Chunk(
            topic,
            partition,
            [each.offset for each in found],
            [each.timestamp_ms for each in found],
            [each.key for each in found],
            [each.value for each in found],
            [tuple(each.headers) for each in found] if any(each.headers for each in found) else None,
        )


def chunks(batch: "pa.RecordBatch") -> Iterator[Chunk]:
    """Of what `poll_arrow` gave, in its order."""
    import numpy as np

    rows = batch.num_rows
    if not rows:
        return
    topics, partitions = batch.column("topic"), _numbers(batch.column("partition"), "int32")
    times = _numbers(batch.column("timestamp"), "int64") // 1000
    offsets = _numbers(batch.column("offset"), "int64")
    borders = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), rows]
    for begin, end in pairwise(borders):
        for first, last in _of_one_topic(topics, begin, end):
            part = batch.slice(first, last - first)
            yield Chunk(
                topics[first].as_py(),
                int(partitions[first]),
                offsets[first:last].tolist(),
                times[first:last].tolist(),
                _cells(part.column("key")),
                _cells(part.column("value")),
                _headers(part),
            )


def _numbers(column: "pa.Array", kind: str) -> "np.ndarray[Any, Any]":
    """A column without nulls, where it lies: pyarrow's own way imports pandas, which takes most of a second."""
    import numpy as np

    data = column.buffers()[1]
    return np.frombuffer(data, kind, count=len(column), offset=column.offset * np.dtype(kind).itemsize)


def _cells(column: "pa.Array") -> Cells:
    """Of a binary column."""
    import pyarrow as pa

    native = native_cells()
    if native is None or column.type != pa.binary():
        listed: Cells = column.to_pylist()
        return listed
    validity, offsets, data = column.buffers()
    return native.list_cells(validity, offsets, data, column.offset, len(column))


def _of_one_topic(topics: "pa.Array", begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Neighbouring partitions of the same number may be of two topics."""
    import pyarrow.compute as pc

    part = topics.slice(begin, end - begin)
    for run_end in pc.run_end_encode(part).run_ends.to_pylist():
        yield begin, end - len(part) + run_end
        begin = end - len(part) + run_end


def _headers(part: "pa.RecordBatch") -> list[Headers] | None:
    column = part.column("headers")
    if column.null_count == len(column):
        return None
    return [tuple((each["key"], each["value"]) for each in row or ()) for row in column.to_pylist()]
