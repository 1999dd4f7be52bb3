"""Cuts a log back: a follower that wrote what the new leader never had, or a replica that must begin again.

Afterwards everything agrees with the shorter log: segments, indexes, leader epochs, producer state (reloaded from the
last snapshot before the cut and replayed from there) and the recovery point.
"""

import logging
from typing import TYPE_CHECKING

from headwater.log.appending import note_producer
from headwater.log.producer_state import ProducerStates, SnapshotError
from headwater.log.retention import delete_later, delete_segments
from headwater.log.rolling import snapshot_path
from headwater.log.scan import headers_from
from headwater.log.segment import Segment
from headwater.log.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def truncate_to(log: "Log", offset: int) -> None:
    """Drops `offset` and everything after it. An offset inside a batch drops that batch. Raises OSError."""
    if offset >= log.log_end_offset:
        # Nothing was written under an epoch that begins there, and the leader may not know it.
        log.epochs.truncate_from_end(offset)
        log.latest_epoch = log.epochs.latest_epoch
        return
    if offset < log.base_offsets[0]:
        truncate_fully(log, offset)
        return
    logger.info("event=truncated partition=%s from=%d to=%d", log.partition, log.log_end_offset, offset)
    delete_segments(log, [segment for segment in log.segments if segment.base_offset > offset])
    segment = log.active = log.segments[-1]
    position = segment.find(offset)
    if position < segment.size_bytes:
        for _, header in headers_from(segment.open_file(), position, segment.size_bytes):
            offset = min(offset, header.base_offset)
            break
        segment.truncate(position, offset)
    else:
        segment.limit_bytes = -1
    _end_at(log, offset)
    _drop_snapshots(log, offset)
    log.producers = load_producers(log, offset)


def truncate_fully(log: "Log", offset: int) -> None:
    """Drops everything; the next record goes to `offset`."""
    logger.info("event=truncated-fully partition=%s from=%d to=%d", log.partition, log.log_end_offset, offset)
    delete_segments(log, list(log.segments))
    log.active = Segment.create(
        log.context.disk, log.context.handles, log.directory, offset, log.config.index_interval_bytes
    )
    log.segments.append(log.take_in(log.active))
    log.base_offsets.append(offset)
    _end_at(log, offset)
    log.log_start_offset = offset
    log.epochs.truncate_from_end(-1)
    log.latest_epoch = log.epochs.latest_epoch
    _drop_snapshots(log, -1)
    log.producers = ProducerStates()


def _end_at(log: "Log", offset: int) -> None:
    log.log_end_offset = offset
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
        file = segment.open_file()
        for position, header in headers_from(file, segment.find(from_offset), segment.size_bytes):
            if header.base_offset >= end_offset:
                return
            batch = memoryview(file.pread(position, header.size_bytes)) if header.is_control else None
            note_producer(states, header, batch)
