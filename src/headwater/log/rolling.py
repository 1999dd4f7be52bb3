"""Where the next batch goes: the active segment, or a new one when that is full or old.

A segment is rolled by size (`segment.bytes`), by age (`segment.ms` less a random jitter, counted in record timestamps
from its first batch), when an index is full, and when an offset would not fit the indexes' 32 bits. Rolling makes the
old segment's indexes final, saves the producers' state at the border, and starts a flush of what is behind it.

The next segment begins at the log's end. Only a follower whose leader has compacted away more than 2^31 offsets begins
it with the batch that comes (`cross_gap`).
"""

import logging
from typing import TYPE_CHECKING

from headwater.base.ports import FULL, NO_DESCRIPTORS
from headwater.log.flushing import flush_now
from headwater.log.names import LOG, SNAPSHOT, segment_name, snapshot_name
from headwater.log.segment import RELATIVE_OFFSET_MAX, Segment
from headwater.log.unflushed_bytes import PIECE_BYTES

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def make_room(log: "Log", size: int, max_timestamp: int, first_offset: int, last_offset: int, now_ms: int) -> Segment:
    """The segment that takes `size` more bytes, ready for the append path. Raises OSError and changes nothing."""
    if log.owes_truncation:
        log.settle_truncation()
    segment = log.active
    config = log.config
    if segment.limit_bytes < 0:
        segment.load_timestamps()
    if last_offset - log.log_end_offset > RELATIVE_OFFSET_MAX:
        segment = cross_gap(log, first_offset, now_ms)
    elif last_offset > segment.last_offset_max or (
        segment.size_bytes
        and (
            segment.size_bytes + size > config.segment_bytes
            or max_timestamp > _roll_after(log, segment, now_ms)
            or segment.indexes_full()
        )
    ):
        segment = roll(log, now_ms)
    segment.index_bytes_max = config.segment_index_bytes
    if segment.size_bytes == 0:
        segment.first_timestamp = max_timestamp
        segment.created_ms = now_ms
        segment.roll_after_timestamp = -1
        _roll_after(log, segment, now_ms)
    unreported = segment.size_bytes - segment.reported_bytes
    if unreported >= PIECE_BYTES:
        log.context.dirty.written(segment, segment.reported_bytes, unreported)
        segment.reported_bytes = segment.size_bytes
    segment.limit_bytes = min(config.segment_bytes, segment.reported_bytes + PIECE_BYTES)
    return segment


def _roll_after(log: "Log", segment: Segment, now_ms: int) -> int:
    """The timestamp beyond which a batch belongs into the next segment. The jitter is drawn once per segment."""
    if segment.roll_after_timestamp < 0:
        begins_ms = segment.first_timestamp
        if begins_ms < 0:
            begins_ms = segment.created_ms or now_ms
        jitter_ms = min(log.config.segment_jitter_ms, log.config.segment_ms)
        drawn_ms = log.context.random.below(jitter_ms) if jitter_ms > 0 else 0
        segment.roll_after_timestamp = begins_ms + log.config.segment_ms - drawn_ms
    return segment.roll_after_timestamp


def roll_if_old(log: "Log", now_ms: int) -> None:
    """For records without timestamps, whose segments age by the clock."""
    segment = log.active
    if segment.size_bytes and segment.first_timestamp == -1:
        if not segment.created_ms:
            segment.created_ms = now_ms
        if now_ms - segment.created_ms > log.config.segment_ms:
            roll(log, now_ms)


def roll(log: "Log", now_ms: int) -> Segment:
    """Ends the active segment and begins the next at the log's end. Raises OSError and changes nothing."""
    log.active.end_time_index()
    take_snapshot(log)
    return _begin_next(log, now_ms)


def roll_expired(log: "Log", now_ms: int, *, may_forget: bool) -> Segment:
    """The same for a segment that is about to be deleted, whose indexes are left as they are. The flush is left to the
    caller.

    With `may_forget` it needs no room on the disk, or else the only segment of a log could never make any: if there is
    none for the producers' state, a crash before the next roll or close forgets them.
    """
    try:
        take_snapshot(log)
    except OSError as error:
        if error.errno not in FULL or not may_forget:
            raise
        logger.warning("event=snapshot-not-written partition=%s error=%r", log.partition, str(error))
    return _begin_next(log, now_ms, flushes=False)


def cross_gap(log: "Log", offset: int, now_ms: int) -> Segment:
    """The log goes on at `offset`, so far past its end that no index of the active segment could hold it. Raises
    OSError and changes nothing.

    A recovery takes a gap between segments past the recovery point for a loss. So everything is on the device before
    anything follows, and the recovery point on the device is past the gap. This waits for the device, which nobody will
    notice: it happens once in two thousand million records.
    """
    old, old_end = log.active, log.log_end_offset
    old.end_time_index()
    take_snapshot(log)
    log.log_end_offset = offset
    try:
        take_snapshot(log)
        new = _begin_next(log, now_ms, flushes=False)
        _flush_all(log)
        if log.on_gap is not None:
            log.on_gap(log)
    except OSError:
        _take_back(log, old, old_end)
        raise
    return new


def _flush_all(log: "Log") -> None:
    try:
        flush_now(log)
    except OSError as error:
        if error.errno not in NO_DESCRIPTORS:  # an fsync that failed is not tried again
            log.fail(error)
        raise


def _take_back(log: "Log", old: Segment, old_end: int) -> None:
    disk, offset = log.context.disk, log.log_end_offset
    log.log_end_offset = old_end
    log.recovery_point = min(log.recovery_point, old_end)
    if log.active is not old:
        log.active.close()
        log.segments.pop()
        log.base_offsets.pop()
        log.active = old
    log.snapshot_offsets = [each for each in log.snapshot_offsets if each <= old_end]
    for suffix in (LOG, SNAPSHOT):  # indexes alone mean nothing to a start
        disk.remove(f"{log.directory}/{segment_name(offset)}{suffix}")


def _begin_next(log: "Log", now_ms: int, *, flushes: bool = True) -> Segment:
    new = Segment.create(
        log.context.disk, log.context.handles, log.directory, log.log_end_offset, log.config.index_interval_bytes
    )
    new.created_ms = now_ms
    log.segments.append(log.take_in(new))
    log.base_offsets.append(new.base_offset)
    log.active = new
    log.flusher.directory_dirty = True
    if flushes:
        log.flush()
    return new


def take_snapshot(log: "Log") -> None:
    """Saves the producers' state as of the log's end, unless that has been done."""
    offset = log.log_end_offset
    if log.snapshot_offsets and log.snapshot_offsets[-1] >= offset:
        return
    path = snapshot_path(log, offset)
    log.context.disk.write_file(path, log.producers.to_snapshot(), durable=False)
    log.snapshot_offsets.append(offset)
    log.flusher.directory_dirty = True


def snapshot_path(log: "Log", offset: int) -> str:
    return f"{log.directory}/{snapshot_name(offset)}"
