"""What of a log may be compacted, whether it is worth it, and which segments become one. Pure.

A segment may be cleaned if all of it is committed, decided (below the last stable offset), on the device, older than
`min.compaction.lag.ms`, and not the active one. Of those, what lies below the first dirty offset (where the last
cleaning ended) is clean: it holds each key once. A log is worth it when the dirty share of what may be cleaned is
larger than `min.cleanable.dirty.ratio`, or when something has waited for longer than `max.compaction.lag.ms`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1


class SegmentFacts(NamedTuple):
    """A segment as it is when a cleaning is planned."""

    base_offset: int
    end_offset: int  # where the next one begins
    size_bytes: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Dirtiness:
    """How much of a log is clean, and how much could be cleaned."""

    first_dirty_offset: int
    end_offset: int  # of what may be cleaned
    clean_bytes: int
    dirty_bytes: int
    oldest_dirty_ms: int | None = None  # a timestamp of the first dirty segment

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0


def first_dirty_offset(checkpoint: int | None, log_start_offset: int, log_end_offset: int) -> int:
    """Where the last cleaning ended. What it says of an older log of this name, or of one that was cut, does not
    count.
    """
    if checkpoint is None or not log_start_offset <= checkpoint <= log_end_offset:
        return log_start_offset
    return checkpoint


def cleanable_count(
    segments: Sequence[tuple[SegmentFacts, int]], limit_offset: int, first_dirty: int, now_ms: int, lag_ms: int
) -> int:
    """How many segments from the first on may be cleaned; each comes with its largest timestamp. The active one is not
    among them.

    What is clean already was old enough once.
    """
    count = 0
    for segment, largest_timestamp in segments:
        if segment.end_offset > limit_offset:
            break
        if lag_ms > 0 and segment.end_offset > first_dirty and largest_timestamp > now_ms - lag_ms:
            break
        count += 1
    return count


def dirtiness(segments: Iterable[SegmentFacts], first_dirty: int, oldest_dirty_ms: int | None = None) -> Dirtiness:
    """Of the segments that may be cleaned. One that was cleaned in part counts as dirty."""
    clean_bytes = dirty_bytes = 0
    end_offset = first_dirty
    for segment in segments:
        end_offset = max(end_offset, segment.end_offset)
        if segment.end_offset <= first_dirty:
            clean_bytes += segment.size_bytes
        else:
            dirty_bytes += segment.size_bytes
    return Dirtiness(first_dirty, end_offset, clean_bytes, dirty_bytes, oldest_dirty_ms)


def is_due(state: Dirtiness, ratio_min: float, lag_max_ms: int, now_ms: int) -> bool:
    if state.dirty_bytes == 0:
        return False
    if state.ratio > ratio_min:
        return True
    return state.oldest_dirty_ms is not None and now_ms - state.oldest_dirty_ms > lag_max_ms


def grouped(segments: Sequence[SegmentFacts], size_bytes_max: int, index_bytes_max: int) -> list[list[SegmentFacts]]:
    """Neighbours that fit into one segment as they are, before anything is taken out of them."""
    groups: list[list[SegmentFacts]] = []
    size = offset_index = time_index = 0
    for segment in segments:
        size += segment.size_bytes
        offset_index += segment.offset_index_bytes
        time_index += segment.time_index_bytes
        if (
            groups
            and size <= size_bytes_max
            and offset_index <= index_bytes_max
            and time_index <= index_bytes_max
            and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        ):
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, offset_index, time_index = segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes
    return groups
