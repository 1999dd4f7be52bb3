"""The careful ways into the log: everything that the hot path in `log.py` does not take.

For a leader, a batch that needs a closer look: a new leader epoch, a producer that is new, fenced or repeats itself,
transactions, recompression, log-append time, or simply something wrong with it. For a follower, batches as the leader
has them. For what this broker writes itself (`append_own`: coordinator records, markers), nobody looks whether it is
sound. All end in one write, then the notes in memory.
"""

import logging
from struct import Struct
from typing import TYPE_CHECKING, Final

from headwater.base.checksum import crc32c
from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.producer_state import SEQUENCES, ProducerStates
from headwater.log.producer_tail import recall_earlier_batches
from headwater.log.results import AppendResult
from headwater.log.rolling import make_room
from headwater.log.segment import Segment
from headwater.log.transaction_index import AbortedTransaction
from headwater.log.validation import check_batch, final_form
from headwater.records.batch import ATTRIBUTES_AT, LENGTH_PREFIX_BYTES, BatchHeader, read_header
from headwater.records.control import EndTransactionMarker, read_end_transaction_marker
from headwater.records.reader import read_batches, read_records

if TYPE_CHECKING:
    from headwater.log.log import Log

CONTROL_BATCH_BYTES_MAX: Final = 1 << 20
_ASSIGNED: Final = Struct(">qii")  # base offset, batch length, leader epoch
logger = logging.getLogger("headwater.log")

Run = list[tuple[int, BatchHeader]]  # batches of one leader epoch for one segment: where each begins, its header


def append_carefully(
    log: "Log", records: memoryview, leader_epoch: int, now_ms: int, from_client: bool, guard: int
) -> AppendResult:
    """Every check with its own error, every feature; one batch."""
    log.refuse_if_failed()
    header = check_batch(records, log.config, now_ms, from_client=from_client)
    if header.producer_id >= 0 and not header.is_control:
        duplicate = _check_producer(log, header, from_client)
        if duplicate is not None:
            return duplicate
        if header.is_transactional and from_client and log.requires_verification:
            _check_verified(log, header, guard)
    batch = final_form(records, header, log.config, now_ms)
    header = _assign(log, batch, leader_epoch)
    _append_run(log, batch, [(0, header)], now_ms, header.producer_id if from_client else -1)
    append_time_ms = now_ms if log.config.log_append_time else -1
    return AppendResult(header.base_offset, header.last_offset, append_time_ms, log.log_start_offset, False)


def append_own(
    log: "Log", batch: memoryview, leader_epoch: int, now_ms: int, marker: EndTransactionMarker | None
) -> AppendResult:
    """The same for a batch that this broker has just built: CRC, count and keys are right. Its producer may be fenced.

    `marker` is what the batch says, if it is one.
    """
    size = len(batch)
    if size > log.own_bytes_max or log.failed is not None:
        return append_carefully(log, batch, leader_epoch, now_ms, False, 0)
    header = _assign(log, batch, leader_epoch)
    if header.producer_id >= 0 and not header.is_control:
        _check_producer(log, header, False)
    segment = log.active
    last_offset = header.last_offset
    if (
        leader_epoch != log.latest_epoch
        or segment.size_bytes + size > segment.limit_bytes
        or header.max_timestamp > segment.roll_after_timestamp
        or last_offset > segment.last_offset_max
    ):
        _append_run(log, batch, [(0, header)], now_ms)
    else:
        try:
            segment.open_file().append(batch)
        except OSError as error:
            raise log.storage_error(error) from error
        _note(log, segment, header, batch, marker)
        log.flush_if_due()
    return AppendResult(header.base_offset, last_offset, -1, log.log_start_offset, False)


def _assign(log: "Log", batch: memoryview, leader_epoch: int) -> BatchHeader:
    """Puts the next offset and the leader epoch into the batch: the first 16 bytes, which the CRC does not cover."""
    _ASSIGNED.pack_into(batch, 0, log.log_end_offset, len(batch) - LENGTH_PREFIX_BYTES, leader_epoch)
    return read_header(batch)


def _check_producer(log: "Log", header: BatchHeader, from_client: bool) -> AppendResult | None:
    """None if the batch may be appended, its old place if it is a duplicate; raises if it is out of order."""
    producer = log.producers.producers.get(header.producer_id)
    if producer is None:
        return None
    if not from_client:
        producer.check(header.producer_epoch, None, header.is_transactional)
        return None
    last_sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCES
    old = producer.find_duplicate(header.producer_epoch, header.base_sequence, last_sequence)
    if old is None and producer.has_forgotten and header.base_sequence != producer.next_sequence:
        try:
            recall_earlier_batches(log, producer)
        except OSError as error:
            raise log.storage_error(error) from error
        old = producer.find_duplicate(header.producer_epoch, header.base_sequence, last_sequence)
    if old is not None:
        append_time_ms = old.timestamp if log.config.log_append_time else -1
        return AppendResult(old.first_offset, old.last_offset, append_time_ms, log.log_start_offset, True)
    try:
        producer.check(header.producer_epoch, header.base_sequence, header.is_transactional)
    except KafkaError as problem:
        if problem.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and log.had_no_room_for(header.producer_id):
            # The disk had no room for the batch before it. Clients that are told of a gap may give up their producer
            # id. A gap for another reason (a power loss) never closes: who is not told of it would come again for ever.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.partition}: no room for an earlier batch") from None
        raise
    return None


def _check_verified(log: "Log", header: BatchHeader, guard: int) -> None:
    """A client's transactional batch comes with a transactional id, and begins nothing that its coordinator does not
    know of.
    """
    if guard == 0:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch without a transactional id"
        )
    log.producers.check_verification(header.producer_id, header.producer_epoch, header.base_sequence, guard)


def append_as_follower(log: "Log", records: memoryview, leader_epoch: int, now_ms: int) -> AppendResult:
    """Whole batches as the leader has them, offsets and all. A failure may leave the first of them appended.

    The leader answers with a stretch of its file, which may be read after it was deposed, has cut its log and written
    what the next leader has: these batches are of a later epoch, or of an earlier one than what we have before them.
    """
    log.refuse_if_failed()
    first = expected = log.log_end_offset
    epoch = log.latest_epoch
    run: Run = []
    run_at = end = 0
    for at, header in read_batches(records):
        end = at + header.batch_length + LENGTH_PREFIX_BYTES
        if header.base_offset < expected:
            raise _bad_leader(log, f"offset {header.base_offset} where {expected} or later comes")
        if not epoch <= header.partition_leader_epoch <= leader_epoch:
            of = f"offset {header.base_offset} of epoch {header.partition_leader_epoch}"
            raise _bad_leader(log, f"{of} behind one of epoch {epoch}, in its own epoch {leader_epoch}")
        if crc32c(records[at + ATTRIBUTES_AT : end]) != header.crc:
            raise _bad_leader(log, f"a batch with a wrong CRC at offset {header.base_offset}")
        if run and (
            log.active.size_bytes + end - run_at > log.config.segment_bytes
            or header.partition_leader_epoch != run[-1][1].partition_leader_epoch
            or header.base_offset + header.last_offset_delta > log.active.last_offset_max
        ):
            _append_run(log, records[run_at:at], run, now_ms)
            run, run_at = [], at
        run.append((at - run_at, header))
        expected = header.base_offset + header.last_offset_delta + 1
        epoch = header.partition_leader_epoch
    if run:
        _append_run(log, records[run_at:end], run, now_ms)
    return AppendResult(first, log.log_end_offset - 1, -1, log.log_start_offset, False)


def _bad_leader(log: "Log", what: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{log.partition}: the leader sent {what}")


def _append_run(log: "Log", data: memoryview, run: Run, now_ms: int, producer_id: int = -1) -> None:
    """Memory changes only after the write. What the disk refuses is a KAFKA_STORAGE_ERROR, to the client with this
    producer id.
    """
    first, last = run[0][1], run[-1][1]
    max_timestamp = first.max_timestamp if len(run) == 1 else max(header.max_timestamp for _, header in run)
    segment, end_offset = log.active, log.log_end_offset
    try:
        if (
            first.partition_leader_epoch != log.latest_epoch
            or segment.size_bytes + len(data) > segment.limit_bytes
            or max_timestamp > segment.roll_after_timestamp
            or last.last_offset > segment.last_offset_max
        ):
            log.begin_epoch(first.partition_leader_epoch, first.base_offset)
            segment = make_room(log, len(data), max_timestamp, first.base_offset, last.last_offset, now_ms)
        segment.open_file().append(data)
    except OSError as error:
        if log.log_end_offset != end_offset and log.failed is None:  # no follower could fetch up to an end behind a gap
            log.truncate_to(end_offset)
        raise log.storage_error(error, producer_id) from error
    for at, header in run:
        _note(log, segment, header, data[at : at + header.size_bytes] if header.is_control else None)
    log.flush_if_due()


def _note(
    log: "Log",
    segment: Segment,
    header: BatchHeader,
    batch: memoryview | None,
    marker: EndTransactionMarker | None = None,
) -> None:
    """The batch is in the segment now: indexes, producer state and end offset follow. `batch` may be missing if it is
    no control batch.
    """
    size_bytes = header.batch_length + LENGTH_PREFIX_BYTES
    last_offset = header.base_offset + header.last_offset_delta
    segment.note_batch(size_bytes, header.base_offset, last_offset, header.max_timestamp)
    log.log_end_offset = last_offset + 1
    if header.producer_id < 0:
        return
    if marker is None:
        aborted = note_producer(log.producers, header, batch)
    else:
        aborted = log.producers.end_transaction(
            header.producer_id, header.producer_epoch, marker, header.base_offset, header.max_timestamp
        )
    if aborted is not None:
        segment.add_aborted(aborted)


def note_producer(states: ProducerStates, header: BatchHeader, batch: memoryview | None) -> AbortedTransaction | None:
    """What a batch in the log says about its producer. `batch` may be missing if it is not a control batch.

    The result is for the transaction index of the segment that the batch stands in.
    """
    if header.producer_id < 0:
        return None
    if not header.is_control:
        states.append(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            header.is_transactional,
        )
        return None
    assert batch is not None, "a control batch must be read to know what it ends"
    try:
        records = read_records(batch, CONTROL_BATCH_BYTES_MAX)
        markers = [(record, read_end_transaction_marker(record)) for record in records]
    except KafkaError as error:  # damaged, or of a later version: its transaction stays open here
        logger.warning("event=marker-unreadable offset=%d reason=%r", header.base_offset, str(error))
        return None
    for record, marker in markers:
        if marker is not None:
            return states.end_transaction(
                header.producer_id, header.producer_epoch, marker, header.base_offset, record.timestamp
            )
    return None
