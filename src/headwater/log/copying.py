"""Copies stretches of a log's segments into another directory: what a worker process does for a move
(`directory_moves`).

Everything that one job has copied is on the device when it comes back. A segment that retention has deleted meanwhile
is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.base.ports import Disk, File
from headwater.log import names

CHUNK_BYTES: Final = 1 << 20
INDEXES: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX)

Pace = Callable[[int], None]  # told of bytes copied, takes its time


class Piece(NamedTuple):
    """From one position of a segment's file to another, which need not be borders of batches."""

    base_offset: int
    begin: int
    end: int
    is_whole: bool  # nothing follows in this segment: its indexes and the producers' state at its beginning go too


@dataclass(frozen=True, slots=True)
class CopyJob:
    source: str
    target: str
    pieces: tuple[Piece, ...]
    small_files: tuple[tuple[str, bytes], ...]  # written first, whole
    pace: Pace


def copy_pieces(disk: Disk, job: CopyJob) -> list[Piece]:
    """Those that were copied. Raises OSError."""
    disk.make_directory(job.target)
    for name, data in job.small_files:
        disk.write_file(f"{job.target}/{name}", data)
    copied = [piece for piece in job.pieces if copy_piece(disk, job.source, job.target, piece, job.pace, durable=True)]
    disk.sync_directory_now(job.target)
    disk.sync_directory_now(job.target.rpartition("/")[0] or "/")
    return copied


def copy_piece(disk: Disk, source: str, target: str, piece: Piece, pace: Pace, *, durable: bool) -> bool:
    """False if it is no longer there."""
    stem = names.segment_name(piece.base_offset)
    try:
        file = disk.open(f"{source}/{stem}{names.LOG}")
    except FileNotFoundError:
        return False
    try:
        copy = disk.open(f"{target}/{stem}{names.LOG}", create=True)
        try:
            _copy_bytes(file, copy, piece, pace)
            if durable:
                disk.sync_now(copy)
        finally:
            copy.release()
    finally:
        file.release()
    if piece.is_whole:
        for suffix in (*INDEXES, names.SNAPSHOT):
            copy_file(disk, source, target, stem + suffix, durable=durable)
    return True


def _copy_bytes(file: File, copy: File, piece: Piece, pace: Pace) -> None:
    size_bytes = copy.size()
    if size_bytes < piece.begin:  # to lengthen it would put zeroes in the place of records
        raise OSError(f"{copy.path} has {size_bytes} bytes, and {piece.begin} were copied")
    if size_bytes > piece.begin:  # what an earlier job left that did not come to its end
        copy.truncate(piece.begin)
    at = piece.begin
    while at < piece.end:
        data = file.pread(at, min(CHUNK_BYTES, piece.end - at))
        if not data:
            raise OSError(f"{file.path} ends at {at}, before {piece.end}")
        copy.append(data)
        at += len(data)
        pace(len(data))


def copy_file(disk: Disk, source: str, target: str, name: str, *, durable: bool) -> None:
    """A small one, as one step; if there is none, there is none in the copy."""
    try:
        data = disk.read_file(f"{source}/{name}")
    except FileNotFoundError:
        disk.remove(f"{target}/{name}")
    else:
        disk.write_file(f"{target}/{name}", data, durable=durable)
