"""The log of one partition: an ordered list of segments, of which only the last is written to.

Offsets: `log_start_offset` <= everything that may be read < `log_end_offset`, where the next record goes. Below
`recovery_point` everything is on the device; after a crash only what lies past it is checked.

`append_as_leader` is the hot path of the broker. It reads the header once, compares it with integers that stand ready
(in the log and in its active segment), patches offset and epoch into the batch, writes, and takes note. Whatever is not
plainly fine leaves it for a slower function: `append_carefully` for what the batch is and who sent it,
`make_room` for where it goes. Memory changes only after the write has succeeded, so a full disk costs nothing but
that batch.

One owner, the loop; no threads. The attributes without underscore below `recovery_point` are for the modules of this
package.
"""

import errno
import logging
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from struct import Struct
from typing import Final

from headwater.base import checksum as _crc32c
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId, TopicPartition
from headwater.base.ports import FULL, NO_DESCRIPTORS, FileSlice
from headwater.log import appending, lookup, retention, truncation
from headwater.log.config import KEEP_PRODUCERS_CODEC, LogConfig
from headwater.log.context import LogContext
from headwater.log.flushing import Done, Flusher, WholeFlush
from headwater.log.leader_epochs import LeaderEpochs
from headwater.log.producer_state import Producer, ProducerStates
from headwater.log.results import AppendResult, TimestampOffset
from headwater.log.rolling import make_room, take_snapshot
from headwater.log.segment import Segment
from headwater.log.transaction_index import AbortedTransaction
from headwater.records.batch import ATTRIBUTES_AT, HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, TRANSACTIONAL
from headwater.records.control import EndTransactionMarker

_ASSIGN: Final = Struct(">qii")  # base offset, batch length, leader epoch: the first 16 bytes of a batch
_ORDINARY_ATTRIBUTES_MAX: Final = 4  # a codec and no other flag

_DEVICE_ERRORS: Final = frozenset((errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE))  # it will not pass

logger = logging.getLogger("headwater.log")

_unpack_header = HEADER.unpack_from
_assign = _ASSIGN.pack_into
_crc: Callable[[memoryview], int] = _crc32c.crc32c


class Log:
    __slots__ = (
        "_after_max_ms",
        "_awaiting_flush",
        "_before_max_ms",
        "_fast_bytes_max",
        "_flush_messages",
        "_full_at_offset",
        "_refused_producers",
        "_reported_offset",
        "active",
        "base_offsets",
        "config",
        "context",
        "directory",
        "epochs",
        "failed",
        "flush_requested_offset",
        "flushed_at_ms",
        "flusher",
        "latest_epoch",
        "log_end_offset",
        "log_start_offset",
        "on_deletable",
        "on_flushed",
        "on_gap",
        "on_truncated",
        "owes_truncation",
        "own_bytes_max",
        "partition",
        "producers",
        "recovery_point",
        "requires_verification",
        "retention_waits",
        "segments",
        "snapshot_offsets",
        "topic_id",
    )

    def __init__(
        self,
        context: LogContext,
        partition: TopicPartition,
        topic_id: TopicId,
        directory: str,
        config: LogConfig,
        *,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        epochs: LeaderEpochs,
        producers: ProducerStates,
        snapshot_offsets: list[int],
    ) -> None:
        assert segments, "a log has at least one segment"
        self.context = context
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.recovery_point = recovery_point
        self.failed: OSError | None = None
        self.on_flushed: Callable[[Log], None] | None = None  # told when the recovery point has moved, or never will
        self.on_truncated: Callable[[Log], None] | None = None  # told before anything may follow a truncation
        self.on_gap: Callable[[Log], None] | None = (
            None  # told when the recovery point must be on the device before anything follows
        )
        self.on_deletable: Callable[[Log, int], object] | None = None  # told when retention need not wait any longer
        self.retention_waits = False  # for a flush, since the time that `on_deletable` is told
        self.owes_truncation = False  # or the beginning of an epoch: see `settle_truncation`
        self.requires_verification = False  # of transactions: set by a partition, which knows whom to ask
        self.segments = [self.take_in(segment) for segment in segments]
        self.base_offsets = [segment.base_offset for segment in segments]
        self.active = segments[-1]
        self.epochs = epochs
        self.latest_epoch = epochs.latest_epoch
        self.producers = producers
        self.snapshot_offsets = snapshot_offsets  # of the `.snapshot` files, growing
        self.flushed_at_ms = 0
        self.flusher = Flusher(self)
        self.flush_requested_offset = recovery_point
        self._awaiting_flush = False
        self._reported_offset = -1
        self._full_at_offset = -1
        self._refused_producers: set[int] = set()  # whose batches found no room there
        self.update_config(config)

    def take_in(self, segment: Segment) -> Segment:
        """It is one of this log's from now on: what is damaged of its indexes is made again with what the log knows."""
        segment.on_damaged_transactions = partial(truncation.aborted_in, self)
        return segment

    def update_config(self, config: LogConfig) -> None:
        self.config = config
        ordinary = config.codec == KEEP_PRODUCERS_CODEC and not config.cleanup_compact and not config.log_append_time
        # Nothing is this small, so with any of the other settings every batch goes the careful way.
        self._fast_bytes_max = min(config.max_message_bytes, config.segment_bytes) if ordinary else -1
        # The same for what this broker writes itself, which has keys and no codec.
        plain = config.codec <= 0 and not config.log_append_time
        self.own_bytes_max = min(config.max_message_bytes, config.segment_bytes) if plain else -1
        self._after_max_ms = config.timestamp_after_max_ms
        self._before_max_ms = config.timestamp_before_max_ms
        self._flush_messages = config.flush_messages
        self.active.limit_bytes = -1
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes

    # Appending

    def append_as_leader(self, records: memoryview, leader_epoch: int, now_ms: int, *, guard: int = 0) -> AppendResult:
        """Appends the one batch in `records`, a writable buffer: its offset and leader epoch are put in, in place.

        `guard` shows that a transaction was verified, see `ProducerStates.begin_verification`; other batches need none.
        """
        size = len(records)
        if size < HEADER_BYTES or leader_epoch != self.latest_epoch or self.failed is not None:
            return appending.append_carefully(self, records, leader_epoch, now_ms, True, guard)
        (_, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id, producer_epoch,
         base_sequence, count) = _unpack_header(records, 0)  # fmt: skip
        transactional = attributes & TRANSACTIONAL
        if (
            length + LENGTH_PREFIX_BYTES != size
            or magic != MAGIC
            or not 0 <= attributes - transactional <= _ORDINARY_ATTRIBUTES_MAX
            or size > self._fast_bytes_max
            or count != last_delta + 1
            or count <= 0
            or max_timestamp - now_ms > self._after_max_ms
            or now_ms - base_timestamp > self._before_max_ms
            or base_timestamp > max_timestamp
        ):
            return appending.append_carefully(self, records, leader_epoch, now_ms, True, guard)
        producer: Producer | None = None
        if producer_id >= 0:
            producer = self.producers.producers.get(producer_id)
            if (
                producer is None
                or producer.next_sequence != base_sequence
                or producer.epoch != producer_epoch
                or (
                    not self.producers.may_write_in_transaction(producer, base_sequence, guard)
                    if transactional
                    else producer.transaction_first_offset >= 0
                )
            ):
                return appending.append_carefully(self, records, leader_epoch, now_ms, True, guard)
        if _crc(records[ATTRIBUTES_AT:]) != crc or (transactional and producer is None):
            return appending.append_carefully(self, records, leader_epoch, now_ms, True, guard)

        base_offset = self.log_end_offset
        last_offset = base_offset + last_delta
        segment = self.active
        if (
            segment.size_bytes + size > segment.limit_bytes
            or max_timestamp > segment.roll_after_timestamp
            or last_offset > segment.last_offset_max
        ):
            segment = self._make_room(size, max_timestamp, last_offset, now_ms, producer_id)
        _assign(records, 0, base_offset, length, leader_epoch)
        try:
            (segment.file or segment.open_file()).append(records)
        except OSError as error:
            raise self.storage_error(error, producer_id) from error

        segment.recently_used = True
        segment.note_batch(size, base_offset, last_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        if producer is not None:
            self.producers.note_batch(
                producer, base_sequence, base_offset, last_offset, max_timestamp, transactional != 0
            )
        if last_offset - self.flush_requested_offset >= self._flush_messages - 1:
            self.flush_if_due()
        return AppendResult(base_offset, last_offset, -1, self.log_start_offset, False)

    def append_own(
        self, batch: memoryview, leader_epoch: int, now_ms: int, marker: EndTransactionMarker | None = None
    ) -> AppendResult:
        """The same for a batch that this broker built: a coordinator's records, a marker.
        No sequence, no verification.
        """
        return appending.append_own(self, batch, leader_epoch, now_ms, marker)

    def marker_written(
        self, producer_id: int, producer_epoch: int, marker: EndTransactionMarker, offset: int, now_ms: int
    ) -> None:
        """A marker stands at `offset`, in the active segment, and all but its producer is noted: the transaction is
        over.
        """
        aborted = self.producers.end_transaction(producer_id, producer_epoch, marker, offset, now_ms)
        if aborted is not None:
            self.active.add_aborted(aborted)

    def append_as_follower(self, records: memoryview, leader_epoch: int, now_ms: int = 0) -> AppendResult:
        """Appends whole batches as the leader of that epoch has them, offsets and all."""
        return appending.append_as_follower(self, records, leader_epoch, now_ms)

    def begin_epoch(self, leader_epoch: int, start_offset: int | None = None) -> None:
        """A leader takes over at the log's end, or (following) at `start_offset`. Raises OSError."""
        if leader_epoch != self.latest_epoch and leader_epoch >= 0:
            self.epochs.assign(leader_epoch, self.log_end_offset if start_offset is None else start_offset)
            self.latest_epoch = self.epochs.latest_epoch

    def begin_term(self, leader_epoch: int) -> None:
        """The same for a leader that may not append for long: followers ask by its epoch from now on, room on the disk
        or not.
        """
        try:
            self.begin_epoch(leader_epoch)
        except OSError as error:
            if error.errno in FULL:
                self.epochs.assign_without_room(leader_epoch, self.log_end_offset)
                self.latest_epoch = self.epochs.latest_epoch
                self.owes_truncation = True
                self.active.limit_bytes = -1  # so that the next append looks
            self.storage_error(error)

    def _make_room(self, size: int, max_timestamp: int, last_offset: int, now_ms: int, producer_id: int) -> Segment:
        try:
            return make_room(self, size, max_timestamp, self.log_end_offset, last_offset, now_ms)
        except OSError as error:
            raise self.storage_error(error, producer_id) from error

    # Reading

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, min_one_batch: bool) -> FileSlice | None:
        """Whole batches of one segment, from the one with `offset` on, all below `upper_offset` (a batch border).

        None when there is nothing to read yet, or when not even the first batch fits `max_bytes` and it need not.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise self._out_of_range(offset)
        if offset >= upper_offset or offset == self.log_end_offset:
            return None
        segment = self.active
        at = len(self.segments) - 1
        if offset < segment.base_offset:
            at = bisect_right(self.base_offsets, offset) - 1
            segment = self.segments[at]
        position = segment.recent.get(offset)
        if position is None:
            position = segment.find(offset)
            while position == segment.size_bytes and segment is not self.active:  # its last records were compacted away
                at += 1
                segment = self.segments[at]
                position = 0
        end_offset = self.log_end_offset if segment is self.active else self.base_offsets[at + 1]
        end = segment.size_bytes if upper_offset >= end_offset else segment.find(upper_offset)
        if end - position > max_bytes:
            end = segment.cut(position, position + max_bytes, end)
            if end == position and min_one_batch:
                end = segment.batch_end(position)
        if end <= position:
            return None
        return FileSlice(segment.open_file(), position, end - position)

    def is_end(self, piece: FileSlice) -> bool:
        """Whether nothing follows the slice in this log."""
        active = self.active
        return piece.position + piece.length == active.size_bytes and piece.file is active.file

    def _out_of_range(self, offset: int) -> KafkaError:
        return KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{self.partition}: offset {offset} is outside [{self.log_start_offset}, {self.log_end_offset}]",
        )

    def offset_for_timestamp(self, timestamp: int, upper_offset: int) -> TimestampOffset | None:
        return lookup.offset_for_timestamp(self, timestamp, upper_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        return lookup.max_timestamp_offset(self)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it, every transaction is decided and its marker committed."""
        producers = self.producers
        if not producers.ongoing and not producers.ended:
            return high_watermark
        unstable = producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Those that touch [from, to), in the order of their first offsets."""
        found = []
        for segment in self.segments[max(0, bisect_right(self.base_offsets, from_offset) - 1) :]:
            aborted, is_all = segment.aborted_transactions(from_offset, to_offset)
            found += aborted
            if is_all:
                break
        return sorted(found, key=lambda entry: entry.first_offset)

    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    # Shrinking

    def truncate_to(self, offset: int) -> None:
        """Drops `offset` and all that follows. The next append must come under a later leader epoch.

        Raises KafkaError while nothing has changed, and OSError if the log cannot be used any more.
        """
        truncation.truncate_to(self, offset)

    def truncate_fully(self, offset: int) -> None:
        """Drops everything, and begins again at `offset`. Raises KafkaError and OSError, as `truncate_to`."""
        truncation.truncate_fully(self, offset)

    def settle_truncation(self) -> None:
        """Nothing may follow a truncation before the files beside the log tell of it. Raises OSError."""
        if self.on_truncated is not None:  # first: who copies or compacts the log must know, room or not
            self.on_truncated(self)
        self.epochs.write_if_needed()
        self.owes_truncation = False

    def delete_records_before(self, offset: int) -> None:
        """Moves the log start offset; segments that fall below it go with the next retention."""
        if offset > self.log_end_offset:
            raise self._out_of_range(offset)
        try:
            self.advance_start_offset(offset)
        except OSError as error:
            raise self.storage_error(error) from error

    def advance_start_offset(self, offset: int) -> None:
        if offset > self.log_start_offset:
            self.epochs.truncate_from_start(offset)
            self.log_start_offset = offset

    def apply_retention(self, now_ms: int, high_watermark: int | None = None) -> int:
        """Deletes what has expired; the number of segments that went at once. Producers that have been quiet for long
        go too.
        """
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        return retention.apply_retention(
            self, now_ms, self.log_end_offset if high_watermark is None else high_watermark
        )

    # Durability

    @property
    def committable_offset(self) -> int:
        """How far this replica may say that it has the records: to its end, unless `flush.messages` asks for more."""
        return self.recovery_point if self._awaiting_flush else self.log_end_offset

    def flush(self, done: Done | None = None) -> None:
        """Brings everything in the log to the device; `done` is called later."""
        self.flush_requested_offset = self.log_end_offset
        self.flusher.flush(done or _ignore)

    def flush_if_due(self) -> None:
        """By `flush.messages`. While such a flush is under way, more records just wait for the next one."""
        if self.log_end_offset - self.flush_requested_offset >= self._flush_messages:
            self._awaiting_flush = True
            if not self.flusher.under_way:
                self.flush()

    def flushed_to(self, offset: int) -> None:
        self.recovery_point = max(self.recovery_point, offset)
        if self._awaiting_flush:
            self._awaiting_flush = self.log_end_offset - self.recovery_point >= self._flush_messages
            if self._awaiting_flush and not self.flusher.under_way:
                self.flush()
        if self.on_flushed is not None:
            self.on_flushed(self)

    def unflushed_segments(self) -> list[Segment]:
        """From the first on that has records past the recovery point, or that was rolled with its indexes or its
        beginning unsynced.
        """
        at = max(0, bisect_right(self.base_offsets, self.recovery_point) - 1)
        while at > 0 and (self.segments[at - 1].indexes_dirty or not self.segments[at - 1].beginning_synced):
            at -= 1
        return self.segments[at:]

    def begin_close(self) -> WholeFlush | None:
        """Writes all that a start reads in place of the segments. What is left to sync, before `abandon`; None if
        nothing is.

        Raises OSError, and KafkaError if the log has failed.
        """
        self.refuse_if_failed()
        self.active.end_time_index()
        self.epochs.write_if_needed()
        take_snapshot(self)
        if self.recovery_point < self.log_end_offset or self.active.indexes_dirty or self.flusher.dirty:
            return WholeFlush(self)
        return None

    def abandon(self) -> None:
        """Closes the files and leaves the rest as it is. Nothing more is flushed: what has these names later is not
        ours.
        """
        self.flusher.leave()
        for segment in self.segments:
            segment.close()

    def fail(self, error: OSError) -> None:
        if self.failed is None:
            self.failed = error
            logger.error("event=log-failed partition=%s error=%r: it takes no more records", self.partition, str(error))
            if self.on_flushed is not None:
                self.on_flushed(self)
            if self.context.on_failed is not None:
                self.context.on_failed(self)

    @property
    def is_full(self) -> bool:
        """The disk had no room for the last batch, and nothing has been written since."""
        return self._full_at_offset == self.log_end_offset

    def forget_full(self) -> None:
        """The log has got another end: when it comes back to the old one, something has been written."""
        self._full_at_offset = -1

    def had_no_room_for(self, producer_id: int) -> bool:
        """The same for a batch of this producer that was next in order. It sends that again, so that a gap behind it
        closes.
        """
        return self.is_full and producer_id in self._refused_producers

    def refuse_if_failed(self) -> None:
        if self.failed is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition} failed: {self.failed}")

    def storage_error(self, error: OSError, producer_id: int = -1) -> KafkaError:
        """What to raise for a write that failed, of this producer's. Makes sure that nothing of it stays in the file.

        A full disk may have room again, so the log goes on. A device that fails does not come back: the log has failed.
        """
        segment = self.active
        try:
            file = segment.open_file()
            if file.size() != segment.size_bytes:
                file.truncate(segment.size_bytes)
        except OSError as second:
            if second.errno not in NO_DESCRIPTORS:  # else it was not open, so nothing was written
                self.fail(second)
        if self._reported_offset != self.log_end_offset:  # once, however often it is tried again
            self._reported_offset = self.log_end_offset
            logger.error("event=append-failed partition=%s error=%r", self.partition, str(error))
        if error.errno in FULL:
            if not self.is_full:
                self._full_at_offset = self.log_end_offset
                self._refused_producers.clear()
            if producer_id >= 0:
                self._refused_producers.add(producer_id)
        if error.errno in _DEVICE_ERRORS:
            self.fail(error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.partition}: {error.strerror or error}")


def _ignore(error: OSError | None) -> None:
    """A failed flush has marked the log already."""
