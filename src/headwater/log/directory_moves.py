"""Moves logs to other log directories of the broker while they are read and written (AlterReplicaLogDirs).

A worker process copies what is there into `topic-partition.<digits>-future` in the other directory, at the pace that
`replica.alter.log.dirs.io.max.bytes.per.second` allows, then what has come meanwhile, and so on until little is left.
That rest is copied on the loop, and in the same turn the copy takes the place of the original (`directory_swap`). One
log is copied at a time, the others wait for their turn. Compaction leaves a log alone that moves; a truncation makes
its move begin again.

Owned by the loop, through the manager of the logs.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.base.ids import TopicPartition
from headwater.base.ports import Remove, SyncDirectory
from headwater.log import names
from headwater.log.checkpoint import format_epochs, format_partition_metadata
from headwater.log.copying import CopyJob, Pace, Piece, copy_pieces
from headwater.log.directory_swap import format_marker, put_in_place

if TYPE_CHECKING:
    from headwater.log.directory import LogDirectory
    from headwater.log.log import Log
    from headwater.log.manager import LogManager

ROUND_BYTES_MAX: Final = 64 << 20  # of one job: between two of them a move can be seen to go on, and be stopped
TAIL_BYTES_MAX: Final = 1 << 20  # what the loop copies itself
SPARE_BYTES: Final = 64 << 20  # of the other disk, which a move leaves to others

logger = logging.getLogger("headwater.log")


def _no_pace(size_bytes: int) -> None:
    """As fast as it goes."""


@dataclass(frozen=True, slots=True)
class MoveSettings:
    bytes_per_second: float = float("inf")
    pace: Pace = _no_pace


class Move:
    """One log on its way. What `copied` and `end_offset` tell is on the other device."""

    def __init__(self, log: "Log", source: "LogDirectory", target: "LogDirectory", unique: str) -> None:
        self.log = log
        self.source = source
        self.target = target
        self.is_over = False
        self.begin(unique)

    def begin(self, unique: str) -> None:
        """From nothing."""
        self.unique = unique
        self.path = f"{self.target.path}/{names.future_directory_name(self.log.partition, unique)}"
        self.copied: dict[int, int] = {}  # of each segment, so many bytes
        self.whole: set[int] = set()  # segments that are there with their indexes
        self.end_offset = self.log.log_start_offset  # the copy has all that lies below
        self.has_begun = False

    @property
    def lag(self) -> int:
        return max(0, self.log.log_end_offset - self.end_offset)

    @property
    def copied_bytes(self) -> int:
        return sum(self.copied.values())

    def left_bytes(self) -> int:
        return sum(segment.size_bytes - self.copied.get(segment.base_offset, 0) for segment in self.log.segments)

    def is_nearly_there(self, tail_bytes_max: int) -> bool:
        """All but the active segment is whole, and little of that is left."""
        closed = self.log.base_offsets[:-1]
        return self.has_begun and self.whole.issuperset(closed) and self.left_bytes() <= tail_bytes_max

    def next_pieces(self, limit_bytes: int) -> tuple[list[Piece], int]:
        """What a job copies next, and below which offset the copy has everything then. Raises OSError."""
        log = self.log
        pieces: list[Piece] = []
        end_offset = self.end_offset
        for at, segment in enumerate(log.segments):
            is_closed = segment is not log.active
            begin, end = self.copied.get(segment.base_offset, 0), segment.size_bytes
            if segment.base_offset in self.whole or (begin == end and not is_closed):
                continue
            if limit_bytes <= 0:
                break
            if end - begin > limit_bytes:  # a batch may be larger than that: it is copied in several pieces then
                border = segment.offset_index.floor_position(begin + limit_bytes)
                end = border if border > begin else begin + limit_bytes
                if border > begin:
                    end_offset = int.from_bytes(segment.open_file().pread(border, 8), "big")
            limit_bytes -= end - begin
            is_whole = is_closed and end == segment.size_bytes
            if is_whole:
                segment.write_indexes()
            pieces.append(Piece(segment.base_offset, begin, end, is_whole))
            if end == segment.size_bytes:
                end_offset = log.base_offsets[at + 1] if is_closed else log.log_end_offset
        return pieces, end_offset

    def took(self, pieces: list[Piece], end_offset: int) -> None:
        self.has_begun = True
        self.end_offset = end_offset
        for piece in pieces:
            self.copied[piece.base_offset] = piece.end
            if piece.is_whole:
                self.whole.add(piece.base_offset)
        for gone in self.copied.keys() - set(self.log.base_offsets):  # by retention
            del self.copied[gone]


class Moves:
    def __init__(self, manager: "LogManager", settings: Callable[[], MoveSettings] = MoveSettings) -> None:
        self._manager = manager
        self.settings = settings
        self.under_way: dict[TopicPartition, Move] = {}  # the first is being copied
        self.failures = 0  # for metrics
        self._busy: Move | None = None  # a worker is in it
        self._is_closed = False

    def begin(self, log: "Log", source: "LogDirectory", target: "LogDirectory") -> None:
        """Instead of where it was going, if it was going somewhere else."""
        move = self.under_way.get(log.partition)
        if move is not None and move.target is target:
            return
        self.cancel(log.partition)
        if target is source:
            return
        self.under_way[log.partition] = Move(log, source, target, self._unique())
        logger.info("event=log-moves partition=%s from=%s to=%s", log.partition, source.path, target.path)
        self._manager.context.scheduler.call_soon(self.go_on)

    def cancel(self, partition: TopicPartition) -> None:
        move = self.under_way.pop(partition, None)
        if move is not None:
            move.is_over = True
            logger.info("event=log-move-cancelled partition=%s to=%s", partition, move.target.path)
            self._drop_copy(move)

    def cancel_all_of(self, directory: "LogDirectory") -> None:
        """It has failed: nothing goes there or comes from there."""
        for partition, move in tuple(self.under_way.items()):
            if directory in (move.source, move.target):
                self.cancel(partition)

    def truncated(self, log: "Log") -> None:
        """What was copied may be what is gone."""
        move = self.under_way.get(log.partition)
        if move is not None:
            self._drop_copy(move)
            again = Move(log, move.source, move.target, self._unique())
            move.is_over = True
            self.under_way[log.partition] = again

    def close(self) -> None:
        """Copies stay as they are: the next start begins these moves again."""
        self._is_closed = True

    def go_on(self) -> None:
        """Does the next step of the first move, unless a worker is at it."""
        if self._is_closed or self._busy is not None or not self.under_way:
            return
        move = next(iter(self.under_way.values()))
        settings = self.settings()
        if settings.bytes_per_second < 1 or self._manager.cleaner.is_busy(move.log):
            return  # the next tick looks again
        try:
            self._step(move, settings)
        except OSError as error:
            self._failed(move, error)

    def _step(self, move: Move, settings: MoveSettings) -> None:
        log = move.log
        if not move.has_begun:
            needed_bytes = log.size_bytes() + SPARE_BYTES
            usable_bytes = log.context.disk.usage(move.target.path)[1]
            if usable_bytes < needed_bytes:
                raise OSError(f"it needs {needed_bytes} bytes in {move.target.path}, and {usable_bytes} are free")
        if not move.is_nearly_there(int(min(TAIL_BYTES_MAX, settings.bytes_per_second))):
            self._copy(move, settings)
        else:
            self._settle_earlier(log)
            self._manager.expect_at(move.target, log)
            put_in_place(move)
            del self.under_way[log.partition]
            move.is_over = True
            self._manager.moved(log, move.target)
            log.flush(partial(self._flushed, move))
            log.context.scheduler.call_soon(self.go_on)

    def _settle_earlier(self, log: "Log") -> None:
        """It may have come here just now. A mark in both places would not tell a start which of them is the later one:
        that of the earlier move is gone for good before the log goes on. Raises OSError.
        """
        disk = self._manager.context.disk
        marker = f"{log.directory}/{names.MOVED_FROM}"
        if disk.exists(marker):
            for directory in self._manager.online:
                disk.sync_directory_now(directory.path)
            disk.remove(marker)
        disk.sync_directory_now(log.directory)

    def _copy(self, move: Move, settings: MoveSettings) -> None:
        log = move.log
        pieces, end_offset = move.next_pieces(int(min(ROUND_BYTES_MAX, settings.bytes_per_second)))
        small_files = (
            (names.MOVED_FROM, format_marker(log.partition, move.source.path)),
            (names.PARTITION_METADATA, format_partition_metadata(log.topic_id)),
            (names.LEADER_EPOCH_CHECKPOINT, format_epochs(log.epochs.entries)),
        )
        job = CopyJob(log.directory, move.path, tuple(pieces), small_files, settings.pace)
        self._busy = move
        log.context.scheduler.compute(copy_pieces, log.context.disk, job, done=partial(self._copied, move, end_offset))

    def _copied(self, move: Move, end_offset: int, copied: Any, error: BaseException | None) -> None:
        self._busy = None
        if self._is_closed:
            return
        if move.is_over:
            self._drop_copy(move)
        elif error is not None:
            self._failed(move, error)
        else:
            move.took(copied, end_offset)
        self.go_on()

    def _failed(self, move: Move, error: BaseException) -> None:
        logger.error(
            "event=log-not-moved partition=%s to=%s reason=%r", move.log.partition, move.target.path, str(error)
        )
        self.failures += 1
        self.cancel(move.log.partition)

    def _flushed(self, move: Move, error: OSError | None) -> None:
        """The copy and its name are on the device; the old one may go once its new name is too."""
        disk, scheduler = self._manager.context.disk, self._manager.context.scheduler
        if error is None:
            old = f"{move.source.path}/{names.deleted_directory_name(move.log.partition, move.unique)}"
            scheduler.call_later(
                move.log.config.file_delete_delay_ms, lambda: disk.submit(Remove((old,)), _report_removal)
            )
            disk.submit(SyncDirectory(move.source.path), partial(self._settled, move))

    def _settled(self, move: Move, error: OSError | None) -> None:
        """Nothing can be mistaken for the log any more. Otherwise the next start needs the mark."""
        if error is None:
            paths = (f"{move.target.path}/{move.log.partition}/{names.MOVED_FROM}",)  # it may have moved on since
            self._manager.context.disk.submit(Remove(paths), _report_removal)

    def _drop_copy(self, move: Move) -> None:
        if self._busy is not move:
            self._manager.context.disk.submit(Remove((move.path,)), _report_removal)

    def _unique(self) -> str:
        return self._manager.context.random.bytes(16).hex()


def _report_removal(error: OSError | None) -> None:
    if error is not None:
        logger.warning("event=directory-not-removed error=%r", str(error))
