"""The moment in which the copy of a log takes the place of the original, and how a start makes out that a crash came
between.

On the loop, in one turn: the rest is copied, the original gets the suffix `-delete` and the copy the partition's name,
in this order, and with the same digits in both names before. Nothing waits for the device, but for the mark of an
earlier move, which must be gone, and where the log has promised more to be there than the copy has there. So a power
loss may keep any of these names, or none:

    original   copy              the next start takes
    its name   -future           the original; what came since was on no device, and so never promised
    -delete    -future           the copy: the digits are those of a `-delete`
    -delete    its name          the copy
    its name   its name          the copy, because it has the file `moved-from`, which goes when the original is
                                 gone for good
"""

from typing import TYPE_CHECKING

from headwater.base.ids import TopicPartition
from headwater.base.ports import File, Sync, SyncDirectory
from headwater.log import names
from headwater.log.checkpoint import format_epochs
from headwater.log.copying import INDEXES, Piece, copy_file, copy_piece
from headwater.log.flushing import Flusher

if TYPE_CHECKING:
    from headwater.log.directory_moves import Move


def format_marker(partition: TopicPartition, source: str) -> bytes:
    """Of `moved-from`: whose copy this is, and where the original lies."""
    return f"version: 0\npartition: {partition}\ndirectory: {source}\n".encode()


def partition_of_marker(text: bytes) -> TopicPartition | None:
    """None if it is not what its name says."""
    fields = dict(line.split(": ", 1) for line in text.decode(errors="replace").splitlines() if ": " in line)
    return names.parse_partition_directory(fields.get("partition", ""))


def put_in_place(move: "Move") -> None:
    """Raises OSError; the log is where it was then, or has failed."""
    _copy_rest(move)
    log, disk = move.log, move.log.context.disk
    name = log.directory.rpartition("/")[2]
    old, aside = log.directory, f"{move.source.path}/{names.deleted_directory_name(log.partition, move.unique)}"
    place = f"{move.target.path}/{name}"
    disk.rename(old, aside)
    try:
        disk.rename(move.path, place)
    except OSError as error:
        try:
            disk.rename(aside, old)
        except OSError:
            log.fail(error)
        raise
    _rehome(move, place)


def _copy_rest(move: "Move") -> None:
    log, disk = move.log, move.log.context.disk
    active = log.active
    active.write_indexes()
    begin = move.copied.get(active.base_offset, 0)
    rest = Piece(active.base_offset, begin, active.size_bytes, is_whole=True)
    if not copy_piece(disk, log.directory, move.path, rest, lambda _size: None, durable=False):
        raise FileNotFoundError(f"{active.path(names.LOG)} is gone")
    for offset in log.snapshot_offsets:
        if offset not in log.base_offsets:
            copy_file(disk, log.directory, move.path, names.snapshot_name(offset), durable=False)
    disk.write_file(f"{move.path}/{names.LEADER_EPOCH_CHECKPOINT}", format_epochs(log.epochs.entries), durable=False)
    _remove_what_is_gone(move)
    if log.recovery_point > move.end_offset:
        _sync_rest(move)


def _remove_what_is_gone(move: "Move") -> None:
    """Segments that retention has deleted since they were copied."""
    log, disk = move.log, move.log.context.disk
    for name in names.own_files(disk.list_directory(move.path)):
        known = log.snapshot_offsets if name.endswith(names.SNAPSHOT) else log.base_offsets
        if name.endswith((names.LOG, names.SNAPSHOT, *INDEXES)) and names.offset_of(name) not in known:
            disk.remove(f"{move.path}/{name}")


def _sync_rest(move: "Move") -> None:
    """Of a log with `flush.messages`: what it told to be on the device must be on this one too."""
    log, disk = move.log, move.log.context.disk
    stem = f"{move.path}/{names.segment_name(log.active.base_offset)}"
    paths = [f"{stem}{names.LOG}", f"{stem}{names.SNAPSHOT}", f"{move.path}/{names.LEADER_EPOCH_CHECKPOINT}"]
    files: list[File] = []
    try:
        for path in filter(disk.exists, paths):
            files.append(disk.open(path))  # if one cannot be, those before it are let go of all the same
        for error in disk.sync_together([*map(Sync, files), SyncDirectory(move.path)]):
            if error is not None:
                raise error
    finally:
        for file in files:
            file.release()
    move.end_offset = log.log_end_offset


def _rehome(move: "Move", place: str) -> None:
    """From here on everything is read and written in the new place. All that is in memory stays as it is."""
    log = move.log
    for segment in log.segments:
        segment.move_to(place)
    log.directory = place
    log.epochs.path = f"{place}/{names.LEADER_EPOCH_CHECKPOINT}"
    log.epochs.dirty = log.active.indexes_dirty = True
    log.active.beginning_synced = False
    waiting = log.flusher.leave()
    log.flusher = Flusher(log)
    log.flusher.is_new = log.flusher.directory_dirty = True
    log.flush_requested_offset = log.recovery_point
    for done in waiting:
        log.flush(done)
