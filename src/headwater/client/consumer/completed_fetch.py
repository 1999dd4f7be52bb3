"""What one fetch brought of one partition: batches, read lazily, as records or as columns, from a position on.

It keeps the bytes as they came. It opens one batch at a time and hands out what is wanted of it, so that a poll
for 500 records does not pay for the megabyte behind them. `position` is the offset that the reader goes on at: past the
last record given, and at the end of a batch past whatever it hid (control records, aborted ones, holes). Owned by the
partition's state.
"""

from struct import Struct
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.base.ports import Buffer
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.client.consumer.record import LAYOUT, TIMESTAMP_TYPES, ConsumerRecord
from headwater.records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader
from headwater.records.codec import build_records
from headwater.records.record import CorruptBatch
from headwater.records.visible import VisibleBatches

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
_START: Final = Struct(">qii")  # base offset, length, partition leader epoch
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23


class CompletedFetch:
    """`end_offset` is where the next fetch goes on, `end_epoch` the leader epoch of the last batch (-1: no batch)."""

    __slots__ = (
        "_at",
        "_batch",
        "_batches",
        "_records",
        "end_epoch",
        "end_offset",
        "epoch",
        "partition",
        "position",
        "size_bytes",
        "topic_bytes",
    )

    def __init__(
        self,
        partition: TopicPartition,
        data: Buffer,
        position: int,
        aborted: list[tuple[int, int]] | None,
        stop: int | None = None,
    ) -> None:
        self.partition = partition
        self.topic_bytes = partition.topic.encode()
        self.size_bytes = len(data)
        self.position = position
        self.epoch = -1  # of the batch that the last record came from
        self.end_offset, self.end_epoch = _end_of(data, position)
        if stop is not None:
            stop = max(stop, position)  # nothing is wanted then, and nobody goes back
        self._batches = VisibleBatches(data, position, aborted, DECOMPRESSED_BYTES_MAX, stop)
        self._batch: tuple[BatchHeader, Buffer] | None = None  # open, with something left in it
        self._records: list[ConsumerRecord] = []  # of the open batch, if it was read as records
        self._at = 0  # the next of them

    def peek(self, limit: int) -> list[ConsumerRecord]:
        """Up to `limit` records, of one batch; none at the end. The same ones come again until `advance`.

        Raises at a batch that cannot be read: all before it was given then.
        """
        while self._at >= len(self._records):
            if not self._open():
                return []
            self._read()
        if self._at == 0 and len(self._records) <= limit:
            return self._records
        return self._records[self._at : self._at + limit]

    def advance(self, count: int) -> None:
        """The first `count` of what `peek` gave were taken."""
        if count:
            self._at += count
            self._moved_past(self._records[self._at - 1].offset + 1)

    def append_to(self, builder: Any, limit: int) -> int:
        """Appends up to `limit` rows to a `ColumnBuilder`; gives how many, 0 at the end, -1 if the builder is full."""
        while self._open():
            assert self._batch is not None
            header, payload = self._batch
            stop = self._batches.stop_offset
            if header.last_offset + 1 - self.position > limit:
                stop = min(stop, self.position + limit)  # at most `limit` records have these offsets
            try:
                rows: int = builder.append_batch(
                    payload, header, self.topic_bytes, self.partition.partition, self.position, stop
                )
            except KafkaError as error:
                raise self._unreadable(self._batches.corrupt(header, error)) from error
            if rows < 0:
                return -1
            self._records, self._at = [], 0
            self._moved_past(min(stop, self._batches.next_offset))
            if rows:
                return rows
        return 0

    def skip_batch(self) -> None:
        """Goes past the batch that cannot be read."""
        self._batch = None
        self._records, self._at = [], 0
        self._batches.skip()
        self.position = self._batches.next_offset

    def _open(self) -> bool:
        """Whether there is an open batch, opening the next one if need be. At the end, the position is past
        everything.
        """
        if self._batch is not None:
            return True
        try:
            self._batch = self._batches.next()
        except CorruptBatch as error:
            raise self._unreadable(error) from error
        if self._batch is None:
            self.position = max(self.position, self._batches.next_offset)
            if self.end_offset >= self._batches.stop_offset:
                self.position = max(self.position, self._batches.stop_offset)  # what is left before it is a hole
            return False
        self.position = max(self.position, self._batches.from_offset)
        self._records, self._at = [], 0
        return True

    def _read(self) -> None:
        """Makes the records of the open batch, from the position on."""
        assert self._batch is not None
        header, payload = self._batch
        template = (
            self.partition.topic,
            self.partition.partition,
            0,
            0,
            TIMESTAMP_TYPES[header.is_log_append_time],
            None,
            None,
            (),
            header.partition_leader_epoch,
            None,
        )
        try:
            self._records = build_records(payload, header, self.position, self._batches.stop_offset, LAYOUT, template)
        except KafkaError as error:
            raise self._unreadable(self._batches.corrupt(header, error)) from error
        self._at = 0
        if not self._records:
            self._moved_past(self._batches.next_offset)

    def _moved_past(self, offset: int) -> None:
        assert self._batch is not None
        self.epoch = self._batch[0].partition_leader_epoch
        self.position = offset
        if offset >= self._batches.next_offset or (self._records and self._at >= len(self._records)):
            self.position = self._batches.next_offset
            self._batch = None
            self._records, self._at = [], 0

    def _unreadable(self, error: CorruptBatch) -> RecordDeserializationError:
        self._batch = None
        self._records, self._at = [], 0
        return RecordDeserializationError(
            self.partition,
            max(self.position, error.base_offset),
            max(self.position + 1, error.next_offset),
            f"the batch from offset {error.base_offset} to {error.last_offset} cannot be read ({error.message})",
            code=error.code,
        )


def _end_of(data: Buffer, position: int) -> tuple[int, int]:
    """The offset after the last whole batch, and its leader epoch. Walks lengths only: the content is checked later."""
    at, last, epoch = 0, -1, -1
    end = len(data)
    while end - at >= HEADER_BYTES:
        _, length, _ = _START.unpack_from(data, at)
        size_bytes = length + LENGTH_PREFIX_BYTES
        if size_bytes < HEADER_BYTES or at + size_bytes > end:
            break
        last = at
        at += size_bytes
    if last < 0:
        return position, -1
    base_offset, _, epoch = _START.unpack_from(data, last)
    (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, last + _LAST_OFFSET_DELTA_AT)
    return max(position, base_offset + delta + 1), epoch
