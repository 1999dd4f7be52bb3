"""Cuts a log back: a follower that wrote what the new leader never had, or a replica that must begin again.

Afterwards everything agrees with the shorter log: segments, indexes, leader epochs, producer state (reloaded from the
last snapshot before the cut and replayed from there) and the recovery point.

A power loss may keep what was done last and lose what was done first, and where the disk is full no file says how far
the log is to be believed now. So the segments behind the cut go from the last to the first, and are gone for good
before the one that is kept is cut: whatever is left of a truncation is a log without a hole.
"""

import logging
from bisect import bisect_right
from functools import partial
from typing import TYPE_CHECKING

from headwater.base.ports import FULL, PASSING, File
from headwater.log import names
from headwater.log.appending import note_producer
from headwater.log.producer_state import ProducerStates, SnapshotError
from headwater.log.retention import delete_later, delete_segments
from headwater.log.rolling import snapshot_path
from headwater.log.scan import (
    NOTHING_CHECKED,
    DamagedSegmentError,
    first_offset_at,
    headers_from,
    is_batch_at,
    position_of,
    scan_segment,
)
from headwater.log.segment import Segment
from headwater.log.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def place_of(log: "Log", offset: int) -> tuple[int, int]:
    """Where to cut so that `offset` and all that follows go: (position in its segment, offset of the batch there).
    Changes nothing.

    An offset inside a batch is that of the batch. Where a damaged batch stands in the way, the log is cut there: what
    is lost with it is what the leader has. Raises OSError.
    """
    segment = log.segments[bisect_right(log.base_offsets, offset) - 1]
    segment.load_indexes()
    try:
        position = segment.find(offset)
        file = segment.open_file()
        if not is_batch_at(file, position, segment.base_offset, log.log_end_offset - 1):
            raise DamagedSegmentError(file.path, f"no batch stands at position {position}")
    except DamagedSegmentError as error:
        return _place_before_damage(log, segment, offset, error)
    return position, min(offset, first_offset_at(file, position))


def _place_before_damage(log: "Log", segment: Segment, offset: int, error: DamagedSegmentError) -> tuple[int, int]:
    """Or at the segment's end, if it is sound and its last records have just been compacted away."""
    file = segment.open_file()
    scan = scan_segment(file, segment.base_offset, NOTHING_CHECKED, segment.index_interval_bytes)
    if scan.problem is None and scan.next_offset <= offset:
        return segment.size_bytes, offset
    logger.error("event=truncated-at-damage partition=%s reason=%r", log.partition, str(error))
    if scan.next_offset <= offset:
        return scan.valid_bytes, scan.next_offset
    position = position_of(file, offset, 0, scan.valid_bytes)
    return position, min(offset, first_offset_at(file, position))


def truncate_to(log: "Log", offset: int) -> None:
    """Raises KafkaError while nothing has changed, and OSError if the log cannot be used any more."""
    if offset < log.base_offsets[0]:
        truncate_fully(log, offset)
        return
    if offset >= log.log_end_offset:
        _forget_epochs_from(log, offset)
    else:
        try:
            position, offset = place_of(log, offset)
            producers = load_producers(log, offset)
            gone = [segment for segment in reversed(log.segments) if segment.base_offset > offset]
            _hold(log.segments[-1 - len(gone)])
            spare = log.context.disk.open(log.active.path(names.LOG)) if gone else None
        except OSError as error:
            raise log.storage_error(error) from error
        logger.info("event=truncated partition=%s from=%d to=%d", log.partition, log.log_end_offset, offset)
        if spare is not None:
            _remove_for_good(log, gone, spare)
        _cut(log, offset, position, producers)
    _settle(log)


def _hold(segment: Segment) -> None:
    """All that is needed to cut it is open: to load the producers, others may have been opened in its place. Raises
    OSError.
    """
    segment.load_indexes()
    segment.open_file()


def truncate_fully(log: "Log", offset: int) -> None:
    """Raises as `truncate_to` does."""
    try:
        log.active.open_file()  # a descriptor that comes free, and is needed for the new segment then
    except OSError as error:
        raise log.storage_error(error) from error
    _begin_again(log, offset)
    _settle(log)


def _settle(log: "Log") -> None:
    """What there is no room for now is made up for before the next append."""
    log.owes_truncation = True
    log.active.limit_bytes = -1  # so that the next append looks
    try:
        log.settle_truncation()
    except OSError as error:
        if error.errno not in PASSING:
            raise
        logger.warning("event=truncation-not-noted partition=%s error=%r", log.partition, str(error))


def _remove_for_good(log: "Log", gone: list[Segment], spare: File) -> None:
    """These segments, in this order. `spare` is any open file: its descriptor comes free for the sync. Raises
    OSError.
    """
    try:
        delete_segments(log, gone)
    finally:
        spare.release()
    try:
        log.context.disk.sync_directory_now(log.directory)
    except OSError as error:  # a thread was quicker; it matters only if the power goes before the next flush
        if error.errno not in PASSING:
            raise
        logger.warning("event=directory-not-synced partition=%s error=%r", log.partition, str(error))


def _cut(log: "Log", offset: int, position: int, producers: ProducerStates) -> None:
    """Drops `offset` and everything after it in the last segment, from that position on. `producers` is their state as
    of then.

    Raises OSError: the log must not be used then.
    """
    segment = log.active = log.segments[-1]
    if position < segment.size_bytes:
        segment.truncate(position, offset)
    else:
        segment.limit_bytes = -1
    _end_at(log, offset)
    _drop_snapshots(log, offset)
    log.producers = producers


def _forget_epochs_from(log: "Log", offset: int) -> None:
    """Nothing was written under an epoch that begins there, at the log's end, and the leader may not know it. Raises
    OSError.
    """
    log.epochs.truncate_from_end(offset)
    log.latest_epoch = log.epochs.latest_epoch


def _begin_again(log: "Log", offset: int) -> None:
    """Drops everything; the next record goes to `offset`. Raises OSError: the log must not be used then.

    In this order, though nothing is left if the new segment cannot be made: a power loss that kept both would leave a
    hole between them.
    """
    logger.info("event=truncated-fully partition=%s from=%d to=%d", log.partition, log.log_end_offset, offset)
    delete_segments(log, list(log.segments))
    log.active = _first_segment(log, offset)
    log.segments.append(log.take_in(log.active))
    log.base_offsets.append(offset)
    _end_at(log, offset)
    log.log_start_offset = offset
    log.epochs.truncate_from_end(-1)
    log.latest_epoch = log.epochs.latest_epoch
    _drop_snapshots(log, -1)
    log.producers = ProducerStates()


def _first_segment(log: "Log", offset: int) -> Segment:
    """Of a log without any. Where there is no room for its files, that of the segments before it is needed at once.
    Raises OSError.
    """
    context = log.context
    create = partial(
        Segment.create, context.disk, context.handles, log.directory, offset, log.config.index_interval_bytes
    )
    try:
        return create()
    except OSError as error:
        if error.errno not in FULL:
            raise
    for name in names.own_files(context.disk.list_directory(log.directory)):
        if name.endswith(names.DELETED):
            context.disk.remove(f"{log.directory}/{name}")
    return create()


def _end_at(log: "Log", offset: int) -> None:
    log.log_end_offset = offset
    log.forget_full()
    log.log_start_offset = min(log.log_start_offset, offset)
    log.recovery_point = min(log.recovery_point, offset)
    log.flusher.truncated(offset)
    log.flush_requested_offset = min(log.flush_requested_offset, offset)
    log.epochs.truncate_from_end(offset)
    log.latest_epoch = log.epochs.latest_epoch


def _drop_snapshots(log: "Log", offset: int) -> None:
    """Those of states that are no longer in the log."""
    gone = [snapshot for snapshot in log.snapshot_offsets if snapshot > offset]
    log.snapshot_offsets = [snapshot for snapshot in log.snapshot_offsets if snapshot <= offset]
    delete_later(log, [snapshot_path(log, snapshot) for snapshot in gone])


def load_producers(log: "Log", end_offset: int) -> ProducerStates:
    """The state as of `end_offset`: from the last good snapshot at or before it, and the batches since."""
    states, from_offset = ProducerStates(), log.log_start_offset
    for snapshot in reversed(log.snapshot_offsets):
        if snapshot <= end_offset:
            path = snapshot_path(log, snapshot)
            try:
                states, from_offset = ProducerStates.from_snapshot(log.context.disk.read_file(path)), snapshot
                break
            except (SnapshotError, FileNotFoundError) as error:
                logger.warning("event=snapshot-unusable path=%s reason=%r", path, str(error))
    if from_offset < end_offset:
        replay(log, states, from_offset, end_offset)
    return states


def aborted_in(log: "Log", segment: Segment) -> list[AbortedTransaction]:
    """What the segment's index of aborted transactions should hold, from its records. Raises OSError."""
    states = load_producers(log, segment.base_offset)
    file = segment.open_file()
    found = []
    for position, header in headers_from(file, 0, segment.size_bytes):
        batch = memoryview(file.pread(position, header.size_bytes)) if header.is_control else None
        aborted = note_producer(states, header, batch)
        if aborted is not None:
            found.append(aborted)
    return found


def replay(log: "Log", states: ProducerStates, from_offset: int, end_offset: int) -> None:
    for segment in log.segments:
        if segment.base_offset >= end_offset or not segment.size_bytes:
            continue
        if segment is not log.active and log.base_offsets[log.segments.index(segment) + 1] <= from_offset:
            continue
        try:
            _replay_segment(segment, states, from_offset, end_offset)
        except DamagedSegmentError as error:  # what stands behind it cannot be told; the log is not given up for that
            logger.error("event=producers-incomplete partition=%s reason=%r", log.partition, str(error))


def _replay_segment(segment: Segment, states: ProducerStates, from_offset: int, end_offset: int) -> None:
    position = segment.find(from_offset)
    file = segment.open_file()
    for at, header in headers_from(file, position, segment.size_bytes):
        if header.base_offset >= end_offset:
            return
        batch = memoryview(file.pread(at, header.size_bytes)) if header.is_control else None
        note_producer(states, header, batch)
