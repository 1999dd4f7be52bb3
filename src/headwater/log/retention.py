"""Which segments have outlived their purpose, and how they go.

A segment goes when all of it is older than `retention.ms` (by its largest timestamp), when the log without it still has
`retention.bytes`, or when all of it lies below the log start offset; always from the oldest on, without gaps, and never
past the high watermark. The active segment is never deleted: if all of it has expired, it is rolled first.

What producers wrote into a segment is known after a crash by the snapshot where the next one begins. So no segment goes
before that snapshot is on the device: a power loss could keep the deletion and lose the snapshot, and a batch that a
producer sends once more would be appended once more. What has to wait for it goes when the flush is done, which nobody
waits for.

Deleting means: the files get the suffix `.deleted`, the segment leaves the log, and after `file.delete.delay.ms` the
files are removed. A slice in flight keeps its descriptor.
"""

import logging
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from headwater.base.ports import FULL, Remove
from headwater.log import names
from headwater.log.rolling import roll_expired, snapshot_path
from headwater.log.segment import Segment

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def apply_retention(log: "Log", now_ms: int, high_watermark: int) -> int:
    """The number of segments that were deleted. Raises OSError."""
    count = 0
    if log.config.cleanup_delete:
        count += _delete_oldest(log, _expired(log, now_ms, high_watermark), now_ms, "retention.ms")
        count += _delete_oldest(log, _over_size(log, high_watermark), now_ms, "retention.bytes")
    count += _delete_oldest(log, _below_start(log), now_ms, "log-start-offset")
    return count


def _ends(log: "Log") -> Iterable[tuple[Segment, int]]:
    """Each segment with the offset at which the next one begins."""
    return zip(log.segments, [*log.base_offsets[1:], log.log_end_offset], strict=True)


def _expired(log: "Log", now_ms: int, high_watermark: int) -> int:
    retention_ms = log.config.retention_ms
    count = 0
    if retention_ms >= 0:
        for segment, end_offset in _ends(log):
            if (segment is log.active and not segment.size_bytes) or end_offset > high_watermark:
                break
            if now_ms - segment.largest_timestamp() <= retention_ms:
                break
            count += 1
    return count


def _over_size(log: "Log", high_watermark: int) -> int:
    if log.config.retention_bytes < 0:
        return 0
    excess = log.size_bytes() - log.config.retention_bytes
    count = 0
    for segment, end_offset in _ends(log):
        excess -= segment.size_bytes
        if excess < 0 or end_offset > high_watermark or (segment is log.active and not segment.size_bytes):
            break
        count += 1
    return count


def _below_start(log: "Log") -> int:
    return sum(1 for base_offset in log.base_offsets[1:] if base_offset <= log.log_start_offset)


def _delete_oldest(log: "Log", count: int, now_ms: int, reason: str) -> int:
    is_rolled = False
    if count == len(log.segments):
        try:
            roll_expired(log, now_ms, may_forget=count == 1 or not log.producers.producers)
            is_rolled = True
        except OSError as error:
            if error.errno not in FULL or count == 1:
                raise
            count -= 1  # there is no room for the next one, or for the producers; what the others leave will do
    ready = _ready(log, count)
    if ready < count and not log.retention_waits:
        log.retention_waits = True
        log.flush(partial(_look_again, log, now_ms))
    elif is_rolled:
        log.flush()
    if ready:
        gone = log.segments[:ready]
        log.advance_start_offset(max(log.log_start_offset, log.base_offsets[ready]))
        logger.info(
            "event=segments-deleted partition=%s count=%d reason=%s log_start_offset=%d",
            log.partition, ready, reason, log.log_start_offset,
        )  # fmt: skip
        delete_segments(log, gone)
    return ready


def _ready(log: "Log", count: int) -> int:
    """So many of the oldest may go now: what follows them tells of their producers, and that is on the device.

    Without producers there is nothing to tell. And where the disk had no room for a snapshot, none is waited for.
    """
    if log.producers.producers:
        while count and not log.segments[count].beginning_synced and log.base_offsets[count] in log.snapshot_offsets:
            count -= 1
    return count


def _look_again(log: "Log", now_ms: int, error: OSError | None) -> None:
    """Much may have changed since: it is decided anew what goes. This second look waits for no third one: records that
    are old when they come would be rolled and deleted as fast as the device syncs.
    """
    try:
        if error is None and log.on_deletable is not None:
            log.on_deletable(log, now_ms)
    finally:
        log.retention_waits = False


def delete_segments(log: "Log", gone: list[Segment]) -> None:
    """Takes these out of the log; their files are renamed now and removed later."""
    paths = []
    for segment in gone:
        at = log.segments.index(segment)
        del log.segments[at]
        del log.base_offsets[at]
        paths += [segment.path(names.LOG), *segment.index_paths()]
        segment.close()
        if segment.base_offset in log.snapshot_offsets:
            log.snapshot_offsets.remove(segment.base_offset)
            paths.append(snapshot_path(log, segment.base_offset))
    delete_later(log, paths)


def delete_later(log: "Log", paths: list[str]) -> None:
    disk = log.context.disk
    marked = []
    for path in paths:
        if disk.exists(path):
            try:
                disk.rename(path, path + names.DELETED)
                marked.append(path + names.DELETED)
            except OSError as error:
                if error.errno not in FULL:
                    raise
                disk.remove(path)  # no room for a longer name: then it goes at once
    log.flusher.directory_dirty = True
    if marked:
        log.context.scheduler.call_later(log.config.file_delete_delay_ms, partial(_remove, log, tuple(marked)))


def _remove(log: "Log", paths: tuple[str, ...]) -> None:
    log.context.disk.submit(Remove(paths), partial(_removed, paths))


def _removed(paths: tuple[str, ...], error: OSError | None) -> None:
    if error is not None:
        logger.warning("event=files-not-removed paths=%s error=%r", ",".join(paths), str(error))
