"""Puts a finished `.cleaned` segment in the place of those it came from, on the loop: renames only, one group at a
time.

The order is what makes a crash harmless (`crash_recovery` reads it backwards). First the result becomes `.swap`, its
log last: from then on it counts. Then what it replaces becomes `.deleted`. Then the result gets its own name, its log
first. Slices in flight hold the old files; new reads find the new ones.
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from headwater.base.ports import FULL, Remove
from headwater.log import names
from headwater.log.compaction.decisions import SegmentFacts
from headwater.log.compaction.job import SUFFIXES, CleanedSegment
from headwater.log.segment import Segment

if TYPE_CHECKING:
    from headwater.log.log import Log

logger = logging.getLogger("headwater.log")


def is_unchanged(log: "Log", facts: dict[int, SegmentFacts], cleaned: CleanedSegment) -> bool:
    """Whether the log still has what the result was made from: truncation and retention may have come first."""
    if cleaned.base_offset not in log.base_offsets:
        return False
    at = log.base_offsets.index(cleaned.base_offset)
    segments = log.segments[at : at + len(cleaned.replaces)]
    return (
        tuple(segment.base_offset for segment in segments) == cleaned.replaces
        and all(segment.size_bytes == facts[segment.base_offset].size_bytes for segment in segments)
        and log.active not in segments
    )


class NoRoomError(Exception):
    """The disk has no room for the first of the new names: the log is as it was before."""


def swap_in(log: "Log", cleaned: CleanedSegment) -> None:
    """Raises NoRoomError, or OSError; after that one the log must not be used any more, until a restart has put it in
    order.
    """
    stem = f"{log.directory}/{names.segment_name(cleaned.base_offset)}"
    try:
        for suffix in SUFFIXES:
            _rename_if_there(log, f"{stem}{suffix}{names.CLEANED}", f"{stem}{suffix}{names.SWAP}")
    except OSError as error:  # the log's own name comes last, so nothing counts yet
        if error.errno not in FULL:
            raise
        for suffix in SUFFIXES:
            log.context.disk.remove(f"{stem}{suffix}{names.SWAP}")
        raise NoRoomError(str(error)) from error
    at = log.base_offsets.index(cleaned.base_offset)
    count = len(cleaned.replaces)
    gone = []
    for segment in log.segments[at : at + count]:
        segment.close()
        paths = [segment.path(names.LOG), *segment.index_paths()]
        if segment.base_offset != cleaned.base_offset and segment.base_offset in log.snapshot_offsets:
            log.snapshot_offsets.remove(segment.base_offset)
            paths.append(f"{log.directory}/{names.snapshot_name(segment.base_offset)}")
        gone += [path + names.DELETED for path in paths if _set_aside(log, path)]
    for suffix in reversed(SUFFIXES):
        _rename_if_there(log, f"{stem}{suffix}{names.SWAP}", f"{stem}{suffix}")
    result = Segment(
        log.context.disk,
        log.context.handles,
        log.directory,
        cleaned.base_offset,
        cleaned.size_bytes,
        log.config.index_interval_bytes,
    )
    result.beginning_synced = log.segments[at].beginning_synced
    log.segments[at : at + count] = [log.take_in(result)]
    del log.base_offsets[at + 1 : at + count]
    log.flusher.directory_dirty = True
    log.context.scheduler.call_later(log.config.file_delete_delay_ms, partial(_remove, log, tuple(gone)))


def _rename_if_there(log: "Log", old: str, new: str) -> bool:
    disk = log.context.disk
    if disk.exists(old):
        disk.rename(old, new)
        return True
    return False


def _set_aside(log: "Log", path: str) -> bool:
    """Whether it is there to be removed. If there is no room for the longer name, it goes at once."""
    try:
        return _rename_if_there(log, path, path + names.DELETED)
    except OSError as error:
        if error.errno not in FULL:
            raise
    log.context.disk.remove(path)
    return False


def _remove(log: "Log", paths: tuple[str, ...]) -> None:
    log.context.disk.submit(Remove(paths), _removed)


def _removed(error: OSError | None) -> None:
    if error is not None:
        logger.warning("event=files-not-removed error=%r", str(error))
