"""From a log to the decisions about it, and to the job of a worker process. Called by the loop; reads indexes at
most.
"""

from typing import TYPE_CHECKING

from headwater.log.compaction.decisions import (
    Dirtiness,
    SegmentFacts,
    cleanable_count,
    dirtiness,
    first_dirty_offset,
    is_due,
)
from headwater.log.compaction.job import CleaningJob, Pace
from headwater.log.producer_state import Producer
from headwater.log.segment import Segment

if TYPE_CHECKING:
    from headwater.log.log import Log


def state_of(log: "Log", checkpoint: int | None, upper_offset: int, now_ms: int) -> Dirtiness:
    first_dirty = first_dirty_offset(checkpoint, log.log_start_offset, log.log_end_offset)
    segments = _cleanable(log, first_dirty, upper_offset, now_ms)
    oldest_ms: int | None = None
    for segment, facts in segments:
        if facts.end_offset > first_dirty and segment.size_bytes:
            segment.load_timestamps()
            oldest_ms = segment.first_timestamp if segment.first_timestamp >= 0 else None
            break
    return dirtiness((facts for _, facts in segments), first_dirty, oldest_ms)


def is_due_for(log: "Log", state: Dirtiness, now_ms: int) -> bool:
    return is_due(state, log.config.min_cleanable_dirty_ratio, log.config.max_compaction_lag_ms, now_ms)


def job_for(
    log: "Log", checkpoint: int | None, upper_offset: int, now_ms: int, map_bytes: int, pace: Pace
) -> CleaningJob:
    first_dirty = first_dirty_offset(checkpoint, log.log_start_offset, log.log_end_offset)
    segments = _cleanable(log, first_dirty, upper_offset, now_ms)
    facts = tuple(_with_indexes(segment, facts) for segment, facts in segments)
    aborted = log.aborted_transactions(facts[0].base_offset, facts[-1].end_offset) if facts else []
    config = log.config
    return CleaningJob(
        log.directory,
        facts,
        first_dirty,
        tuple(aborted),
        {producer.producer_id: _end_of(producer) for producer in log.producers.producers.values()},
        frozenset(start for _, start in log.epochs.entries if start > log.log_start_offset),
        now_ms,
        config.delete_retention_ms,
        config.segment_bytes,
        config.segment_index_bytes,
        config.index_interval_bytes,
        map_bytes,
        pace,
    )


def _end_of(producer: Producer) -> tuple[int, int]:
    last = producer.last_batch()
    return (-1 if last is None else last.last_offset, producer.epoch)


def _with_indexes(segment: Segment, facts: SegmentFacts) -> SegmentFacts:
    return facts._replace(
        offset_index_bytes=len(segment.offset_index.entries), time_index_bytes=len(segment.time_index.entries)
    )


def cleanable_to(log: "Log", high_watermark: int) -> int:
    """Up to where the log is committed, decided and on the device, without its active segment."""
    return min(log.last_stable_offset(high_watermark), log.recovery_point, log.active.base_offset)


def _cleanable(log: "Log", first_dirty: int, upper_offset: int, now_ms: int) -> list[tuple[Segment, SegmentFacts]]:
    """The segments that end by `upper_offset` and are old enough."""
    ends = log.base_offsets[1:]
    found = [
        (segment, SegmentFacts(segment.base_offset, end_offset, segment.size_bytes))
        for segment, end_offset in zip(log.segments, ends, strict=False)
        if end_offset <= upper_offset
    ]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        aged = [
            (facts, segment.largest_timestamp() if facts.end_offset > first_dirty else 0) for segment, facts in found
        ]
        found = found[: cleanable_count(aged, upper_offset, first_dirty, now_ms, lag_ms)]
    return found
