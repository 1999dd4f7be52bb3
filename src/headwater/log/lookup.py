"""Offsets for timestamps: the first record as late as a time, and the latest of all.

The indexes lead to a batch; that batch is opened to find the record. Cold and rare next to reading.
"""

from typing import TYPE_CHECKING, Final

from headwater.log.results import TimestampOffset
from headwater.log.scan import headers_from
from headwater.log.segment import Segment
from headwater.records.batch import BatchHeader
from headwater.records.reader import Record, read_records

if TYPE_CHECKING:
    from headwater.log.log import Log

BATCH_BYTES_MAX: Final = 128 << 20  # decompressed


def offset_for_timestamp(log: "Log", timestamp: int, upper_offset: int) -> TimestampOffset | None:
    """The first record at or after `timestamp` that a reader may see; None if there is none."""
    for segment in log.segments:
        segment.largest_timestamp()  # loads it
        if segment.max_timestamp >= timestamp and segment.size_bytes:
            found = _in_segment(log, segment, timestamp)
            if found is not None:
                return found if found.offset < upper_offset else None
    return None


def _in_segment(log: "Log", segment: Segment, timestamp: int) -> TimestampOffset | None:
    segment.verify_time(*segment.time_index.entry_before(timestamp))
    start_offset = max(segment.time_index.lookup(timestamp), log.log_start_offset)
    for position, header in headers_from(segment.open_file(), segment.find(start_offset), segment.size_bytes):
        if header.max_timestamp >= timestamp:
            for record in _records(segment, position, header):
                if record.timestamp >= timestamp and record.offset >= log.log_start_offset:
                    return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None


def max_timestamp_offset(log: "Log") -> TimestampOffset | None:
    """The record with the largest timestamp, the first of them; None if no record has a timestamp."""
    for segment in log.segments:
        segment.largest_timestamp()
    best: TimestampOffset | None = None
    for segment in sorted(log.segments, key=lambda segment: -segment.max_timestamp):
        if segment.max_timestamp < 0 or (best is not None and best.timestamp >= segment.max_timestamp):
            break
        found = _in_segment(log, segment, segment.max_timestamp) or _latest_in(log, segment)
        if found is not None and (best is None or found.timestamp > best.timestamp):
            best = found
    return best


def _latest_in(log: "Log", segment: Segment) -> TimestampOffset | None:
    """Of a segment whose latest record lies below the log's start: that of the others."""
    best: TimestampOffset | None = None
    for position, header in headers_from(segment.open_file(), segment.find(log.log_start_offset), segment.size_bytes):
        if header.max_timestamp > (-1 if best is None else best.timestamp):
            for record in _records(segment, position, header):
                is_later = record.timestamp > (-1 if best is None else best.timestamp)
                if is_later and record.offset >= log.log_start_offset:
                    best = TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return best


def _records(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    return read_records(segment.open_file().pread(position, header.size_bytes), BATCH_BYTES_MAX)
