"""Walks the batches of a segment file and says how far they are good, and what its indexes should hold.

A pure function of the file's bytes: recovery runs it in a worker process, and a segment whose index is missing or
damaged runs it in place. A batch is good if its header makes sense, its offsets follow on, it ends inside the file and
(from the recovery point on) its CRC is right. The walk stops at the first one that is not.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from headwater.base import checksum as _crc32c
from headwater.base.ports import File
from headwater.log.offset_index import ENTRY as OFFSET_ENTRY
from headwater.log.time_index import ENTRY as TIME_ENTRY
from headwater.records.batch import ATTRIBUTES_AT, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, BatchHeader, read_header

CHUNK_BYTES: Final = 1 << 20
WALK_CHUNK_BYTES: Final = 8192
OFFSETS: Final = Struct(">qi11xi")  # base offset, batch length, last offset delta
OFFSETS_BYTES: Final = OFFSETS.size
_BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_PREFIX_BYTES

OnBatch = Callable[[BatchHeader, memoryview | None], None]


class SegmentScan:
    """What `scan_segment` found. `problem` says why it stopped before the end, None if it did not."""

    __slots__ = (
        "latest_epoch",
        "max_timestamp",
        "max_timestamp_offset",
        "next_offset",
        "offset_entries",
        "problem",
        "time_entries",
        "valid_bytes",
    )

    def __init__(self, base_offset: int) -> None:
        self.valid_bytes = 0
        self.next_offset = base_offset
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self.latest_epoch = -1
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self.problem: str | None = None


def headers_from(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches in a stretch that is known to be good."""
    while position < end:
        chunk = file.pread(position, min(WALK_CHUNK_BYTES, end - position))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            yield position + at, header
            at += header.batch_length + LENGTH_PREFIX_BYTES
        if at == 0:
            return
        position += at


def position_of(file: File, offset: int, position: int, end: int) -> int:
    """From `position` on, where the first batch stands that has `offset` or a later one; `end` if none has."""
    unpack = OFFSETS.unpack_from
    while position < end:
        chunk = file.pread(position, min(WALK_CHUNK_BYTES, end - position))
        at = 0
        limit = len(chunk) - OFFSETS_BYTES
        while at <= limit:
            base_offset, length, delta = unpack(chunk, at)
            if base_offset + delta >= offset:
                return position + at
            at += length + LENGTH_PREFIX_BYTES
        if at == 0:
            return end
        position += at
    return end


def last_border(file: File, position: int, limit: int, end: int) -> int:
    """The last batch border at or before `limit`, walking from the border at `position`."""
    unpack = OFFSETS.unpack_from
    while position < end:
        chunk = file.pread(position, min(WALK_CHUNK_BYTES, end - position))
        at = 0
        while at + OFFSETS_BYTES <= len(chunk):
            size = unpack(chunk, at)[1] + LENGTH_PREFIX_BYTES
            if position + at + size > limit:
                return position + at
            at += size
        if at == 0:
            return position
        position += at
    return end


def problem_of(header: BatchHeader, expected_offset: int, bytes_left: int) -> str | None:
    """Why this header cannot belong here; None if it can."""
    if header.magic != MAGIC:
        return f"message format {header.magic} instead of {MAGIC}"
    if header.batch_length < _BATCH_LENGTH_MIN:
        return f"a batch length of {header.batch_length}"
    if header.base_offset < expected_offset:
        return f"offset {header.base_offset} where {expected_offset} or later should come"
    if header.last_offset_delta < 0:
        return f"a last offset delta of {header.last_offset_delta}"
    if header.size_bytes > bytes_left:
        return f"a batch of {header.size_bytes} bytes, of which {bytes_left} are there"
    return None


def scan_segment(
    file: File,
    base_offset: int,
    check_from_offset: int,
    index_interval_bytes: int,
    on_batch: OnBatch | None = None,
    least_epoch: int = -1,
) -> SegmentScan:
    """Scans a whole segment, checking batches that reach to `check_from_offset` or past it thoroughly.

    Leader epochs never go back in a log. Where they do, a truncation and what was written after it are on the device,
    but not the removal of what was truncated: `least_epoch` comes from the segment before.

    `on_batch` is given each good batch: its header, and its bytes if it is a control batch.
    """
    scan = SegmentScan(base_offset)
    size = file.size()
    position = since_index = 0
    chunk = memoryview(b"")
    chunk_at = 0
    while position < size:
        if position - chunk_at + HEADER_BYTES > len(chunk):
            chunk_at = position
            chunk = memoryview(file.pread(position, CHUNK_BYTES))
            if len(chunk) < HEADER_BYTES:
                scan.problem = f"{size - position} bytes, too few for a batch"
                break
        header = read_header(chunk, position - chunk_at)
        scan.problem = problem_of(header, scan.next_offset, size - position)
        if scan.problem is not None:
            break
        if header.partition_leader_epoch < least_epoch and header.last_offset >= check_from_offset:
            scan.problem = f"leader epoch {header.partition_leader_epoch} after {least_epoch}"
            break
        least_epoch = max(least_epoch, header.partition_leader_epoch)
        batch: memoryview | None = None
        if header.last_offset >= check_from_offset or header.is_control:
            if position - chunk_at + header.size_bytes > len(chunk):
                chunk_at = position
                chunk = memoryview(file.pread(position, max(CHUNK_BYTES, header.size_bytes)))
            batch = chunk[position - chunk_at : position - chunk_at + header.size_bytes]
            if int(_crc32c.crc32c(batch[ATTRIBUTES_AT:])) != header.crc:
                scan.problem = "a wrong CRC"
                break
        _note(scan, header, position, base_offset, since_index > index_interval_bytes)
        since_index = header.size_bytes + (0 if since_index > index_interval_bytes else since_index)
        if on_batch is not None:
            on_batch(header, batch if header.is_control else None)
        position += header.size_bytes
        scan.valid_bytes = position
    scan.latest_epoch = least_epoch
    _end_time_index(scan, base_offset)
    return scan


def _note(scan: SegmentScan, header: BatchHeader, position: int, base_offset: int, index_it: bool) -> None:
    last_offset = header.last_offset
    scan.next_offset = last_offset + 1
    if header.max_timestamp > scan.max_timestamp:
        scan.max_timestamp = header.max_timestamp
        scan.max_timestamp_offset = last_offset
    if index_it:
        scan.offset_entries += OFFSET_ENTRY.pack(last_offset - base_offset, position)
        _end_time_index(scan, base_offset)


def _end_time_index(scan: SegmentScan, base_offset: int) -> None:
    """Adds the largest timestamp so far, unless it stands there already."""
    entries = scan.time_entries
    last = TIME_ENTRY.unpack_from(entries, len(entries) - TIME_ENTRY.size)[0] if entries else -1
    if scan.max_timestamp > last:
        entries += TIME_ENTRY.pack(scan.max_timestamp, scan.max_timestamp_offset - base_offset)
