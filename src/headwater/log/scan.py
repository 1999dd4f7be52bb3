"""Walks the batches of a segment file and says how far they are good, and what its indexes should hold.

A pure function of the file's bytes: recovery runs it in a worker process, and a segment whose index is missing or
damaged runs it in place. A batch is good if its header makes sense, its offsets follow on, it ends inside the file and
(from the recovery point on) its CRC is right. The walk stops at the first one that is not. The codec does it, a piece
of the file at a time: a gigabyte of small batches takes some tenths of a second.
"""

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

from headwater.base.checksum import crc32c
from headwater.base.ports import File
from headwater.records import codec, verdict
from headwater.records.batch import ATTRIBUTES_AT, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, BatchHeader, read_header

PIECE_BYTES: Final = 1 << 20
PIECE_BYTES_MAX: Final = 8 << 20
LONG_BATCH_BYTES: Final = 32 << 20
WALK_CHUNK_BYTES: Final = 8192
NOTHING_CHECKED: Final = 1 << 62  # as the offset from which on CRCs are looked at
OFFSETS: Final = Struct(">qi11xi")  # base offset, batch length, last offset delta
OFFSETS_BYTES: Final = OFFSETS.size
MAGIC_AT: Final = 16
_BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_PREFIX_BYTES
_LAST_OFFSET_MAX: Final = (1 << 63) - 2  # one more comes behind it
_RELATIVE_MAX: Final = (1 << 31) - 1  # what an index can hold


class DamagedSegmentError(OSError):
    """A file that is not what it was when it was written. Only this partition suffers, and only who reads there."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(errno.EBADMSG, what, path)


OnBatch = Callable[[BatchHeader, memoryview | None], None]


@dataclass(slots=True)
class SegmentScan:
    """What `scan_segment` found. `problem` says why it stopped before the end, None if it did not."""

    valid_bytes: int
    next_offset: int
    latest_epoch: int
    max_timestamp: int
    max_timestamp_offset: int
    offset_entries: bytearray
    time_entries: bytearray
    problem: str | None


def headers_from(file: File, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches in a stretch that is known to be good."""
    while position < end:
        chunk = file.pread(position, min(WALK_CHUNK_BYTES, end - position))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            header = read_header(chunk, at)
            if header.batch_length < _BATCH_LENGTH_MIN:
                raise _bad_length(file, position + at, header.batch_length)
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
            if length < _BATCH_LENGTH_MIN:
                raise _bad_length(file, position + at, length)
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
            if size < HEADER_BYTES:
                raise _bad_length(file, position + at, size - LENGTH_PREFIX_BYTES)
            if position + at + size > limit:
                return position + at
            at += size
        if at == 0:
            return position
        position += at
    return end


def _bad_length(file: File, position: int, length: int) -> DamagedSegmentError:
    return DamagedSegmentError(file.path, f"at position {position} stands a batch length of {length}")


def is_batch_at(file: File, position: int, least_offset: int, most_offset: int) -> bool:
    """Whether a batch begins there whose offsets lie in these bounds. For positions out of an index, which may be
    damaged.
    """
    head = file.pread(position, OFFSETS_BYTES)
    if len(head) < OFFSETS_BYTES or head[MAGIC_AT] != MAGIC:
        return False
    base_offset, length, delta = OFFSETS.unpack(head)
    return bool(least_offset <= base_offset <= base_offset + delta <= most_offset and length >= _BATCH_LENGTH_MIN)


def first_offset_at(file: File, position: int) -> int:
    """Of the batch that begins there."""
    return int.from_bytes(file.pread(position, 8), "big")


def last_offset_at(file: File, position: int) -> int:
    """Of the batch that begins there; -1 if none does."""
    head = file.pread(position, OFFSETS_BYTES)
    if len(head) < OFFSETS_BYTES or head[MAGIC_AT] != MAGIC:
        return -1
    base_offset, length, delta = OFFSETS.unpack(head)
    return int(base_offset + delta) if delta >= 0 and length >= _BATCH_LENGTH_MIN else -1


def problem_of(header: BatchHeader, expected_offset: int, bytes_left: int, base_offset: int) -> str | None:
    """Why this header cannot belong here, in a segment that begins at `base_offset`; None if it can."""
    if header.magic != MAGIC:
        return f"message format {header.magic} instead of {MAGIC}"
    if header.batch_length < _BATCH_LENGTH_MIN:
        return f"a batch length of {header.batch_length}"
    if header.base_offset < expected_offset:
        return f"offset {header.base_offset} where {expected_offset} or later should come"
    if header.last_offset_delta < 0:
        return f"a last offset delta of {header.last_offset_delta}"
    if header.last_offset > _LAST_OFFSET_MAX:
        return f"the offsets {header.base_offset} to {header.last_offset}, which no log reaches"
    if header.last_offset - base_offset > _RELATIVE_MAX:
        return f"offset {header.last_offset} in a segment that begins at {base_offset}, which is too far for its index"
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

    `on_batch` is given the good batches that begin a leader epoch or leave a trace in the state of a producer: the
    header, and the bytes of a control batch.
    """
    scanner = codec.BatchScanner(base_offset, check_from_offset, index_interval_bytes, least_epoch)
    size = file.size()
    piece_bytes = wanted = _piece_bytes(size)
    problem: str | None = None
    while scanner.valid_bytes < size and problem is None:
        position = scanner.valid_bytes
        piece = memoryview(file.pread(position, min(wanted, size - position)))
        stopped_by, places = scanner.feed(piece, size - position)
        if on_batch is not None:
            _tell(on_batch, piece, places)
        if stopped_by != verdict.GO_ON:
            bad = piece[scanner.valid_bytes - position :]
            problem = _problem_at(scanner, bad, stopped_by, size, base_offset)
        elif scanner.valid_bytes > position:
            wanted = piece_bytes
        elif len(piece) < HEADER_BYTES or wanted > piece_bytes:
            problem = f"{len(piece)} bytes, too few for a batch"
        else:
            wanted = max(piece_bytes + 1, read_header(piece).size_bytes)
            if wanted > LONG_BATCH_BYTES and not _is_sound(file, position, wanted):
                problem = "a wrong CRC"
    offset_entries, time_entries = scanner.finish()
    return SegmentScan(
        scanner.valid_bytes,
        scanner.next_offset,
        scanner.latest_epoch,
        scanner.max_timestamp,
        scanner.max_timestamp_offset,
        offset_entries,
        time_entries,
        problem,
    )


def _piece_bytes(size: int) -> int:
    """The larger the piece, the fewer batches of producers are told; of a small file it is not worth the memory."""
    return min(max(PIECE_BYTES, size >> 6), PIECE_BYTES_MAX)


def _is_sound(file: File, position: int, size: int) -> bool:
    """Its CRC, a piece at a time: a damaged length may be that of the whole segment, which is not to be held in memory
    for it.
    """
    crc = 0
    for at in range(ATTRIBUTES_AT, size, PIECE_BYTES):
        crc = crc32c(file.pread(position + at, min(PIECE_BYTES, size - at)), crc)
    return crc == read_header(file.pread(position, HEADER_BYTES)).crc


def _tell(on_batch: OnBatch, piece: memoryview, places: list[int]) -> None:
    for at in places:
        header = read_header(piece, at)
        on_batch(header, piece[at : at + header.size_bytes] if header.is_control else None)


def _problem_at(scanner: codec.BatchScanner, bad: memoryview, stopped_by: int, size: int, base_offset: int) -> str:
    if stopped_by == verdict.BAD_CRC:
        return "a wrong CRC"
    header = read_header(bad)
    if stopped_by == verdict.BAD_EPOCH:
        return f"leader epoch {header.partition_leader_epoch} after {scanner.latest_epoch}"
    problem = problem_of(header, scanner.next_offset, size - scanner.valid_bytes, base_offset)
    assert problem is not None, "the codec refuses a header that makes sense"
    return problem
