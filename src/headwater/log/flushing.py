"""Brings a log's bytes to the device, and says how far they are there: the recovery point.

One flush is under way at a time; whoever asks meanwhile waits for the next one, which takes all of them together. The
recovery point moves only when every fsync of a flush has succeeded. A failed fsync is never tried again and trusted:
the kernel may have dropped the pages and reports it only once. The log is marked failed and takes no more appends. A
file that could not be opened for want of descriptors is another thing: no fsync has failed, so the flush is tried
again.

A flush covers the segments from the recovery point on: the `.log` file always, and for those that are rolled also the
indexes, once, so that a later start may believe them. Owned by its log.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.ports import NO_DESCRIPTORS, DiskWork, File, Sync, SyncDirectory
from headwater.log.names import PARTITION_METADATA, snapshot_name

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.segment import Segment

RETRY_MS: Final = 1_000

logger = logging.getLogger("headwater.log")

Done = Callable[[OSError | None], None]


class Flusher:
    __slots__ = (
        "_beginnings",
        "_error",
        "_in_flight",
        "_is_delayed",
        "_is_left",
        "_is_said_to_be_synced",
        "_log",
        "_target",
        "_waiting",
        "_waiting_for_next",
        "directory_dirty",
        "is_new",
    )

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._in_flight = 0  # pieces of the flush that is under way
        self._is_left = False
        self._is_delayed = False  # the last one had to be put off
        self._is_said_to_be_synced: list[Segment] = []  # the indexes of these, if all goes well
        self._beginnings: list[Segment] = []  # the names and snapshots of these will be, if all goes well
        self._target = 0
        self._error: OSError | None = None
        self._waiting: list[Done] = []
        self._waiting_for_next: list[Done] = []
        self.is_new = False  # the log's directory has never been synced in the one above it
        self.directory_dirty = False  # files were made or renamed since the directory was last synced

    @property
    def under_way(self) -> bool:
        return self._in_flight > 0

    @property
    def dirty(self) -> bool:
        """Whether there is something to sync besides records."""
        return self.is_new or self.directory_dirty or self._log.epochs.dirty

    def flush(self, done: Done) -> None:
        """Everything that is in the log now; `done` comes later, through the disk. Nothing comes of it once the log was
        left.
        """
        if self._is_left:
            return
        if self._in_flight:
            self._waiting_for_next.append(done)
        else:
            self._waiting.append(done)
            self._start()

    def truncated(self, offset: int) -> None:
        """What was flushed past `offset` is no longer there to be claimed."""
        self._target = min(self._target, offset)

    def leave(self) -> list[Done]:
        """The log is closed, or has moved to other files: what comes of a flush of the old ones means nothing any more.
        Who waits for one.
        """
        waiting = self._waiting + self._waiting_for_next
        self._waiting, self._waiting_for_next = [], []
        self._is_left = True
        return waiting

    def _start(self) -> None:
        log = self._log
        self._target = log.log_end_offset
        self._error = None
        self._is_said_to_be_synced = []
        self._beginnings = []
        try:
            self._submit_all()
        except OSError as error:
            self._error = error
        if self.directory_dirty or not self._in_flight:  # `done` is never run inside `flush`, also with nothing to do
            self.directory_dirty = False
            self._submit(SyncDirectory(log.directory))

    def _submit_all(self) -> None:
        log = self._log
        for segment in log.unflushed_segments():
            if segment is not log.active and segment.indexes_dirty:
                segment.indexes_dirty = False
                self._is_said_to_be_synced.append(segment)
                for path in segment.index_paths():
                    self._submit_path(path)
            if not segment.beginning_synced:  # the state that a recovery from here on begins with
                self._beginnings.append(segment)
                self._submit_path(_snapshot_path(log, segment.base_offset))
            self._submit(Sync(segment.open_file()))
        if log.epochs.dirty:
            log.epochs.dirty = False
            self._submit_path(log.epochs.path)
        if self.is_new:
            self.is_new = False
            self._submit_path(f"{log.directory}/{PARTITION_METADATA}")
            self._submit(SyncDirectory(log.directory.rpartition("/")[0]))

    def _submit_path(self, path: str) -> None:
        disk = self._log.context.disk
        if disk.exists(path):
            file: File = disk.open(path)
            self._submit(Sync(file))
            file.release()

    def _submit(self, work: DiskWork) -> None:
        self._in_flight += 1
        self._log.context.disk.submit(work, self._piece_done)

    def _piece_done(self, error: OSError | None) -> None:
        if error is not None and (self._error is None or self._error.errno in NO_DESCRIPTORS):
            self._error = error
            if error.errno not in NO_DESCRIPTORS and not self._is_left:
                self._log.fail(error)  # at once: who is killed before the other pieces are done has told the next start
        self._in_flight -= 1
        if self._in_flight == 0 and not self._is_left:
            self._finish()

    def _finish(self) -> None:
        log = self._log
        error = log.failed or self._error
        if log.failed is None and error is not None and error.errno in NO_DESCRIPTORS:
            self._put_off(error)
            return
        self._is_delayed = False
        waiting, self._waiting = self._waiting, []
        if error is not None:
            log.fail(error)
            waiting += self._waiting_for_next
            self._waiting_for_next = []
        else:
            for segment in self._beginnings:
                segment.beginning_synced = True
            log.flushed_to(self._target)
        for done in waiting:
            done(error)
        if self._waiting_for_next and not self._in_flight:
            self._waiting, self._waiting_for_next = self._waiting_for_next, []
            self._start()

    def _put_off(self, error: OSError) -> None:
        """Counts as under way meanwhile."""
        if not self._is_delayed:
            self._is_delayed = True
            logger.warning("event=flush-put-off partition=%s error=%r", self._log.partition, str(error))
        self.is_new = self.directory_dirty = self._log.epochs.dirty = True
        for segment in self._is_said_to_be_synced:
            segment.indexes_dirty = True
        self._in_flight = 1
        self._log.context.scheduler.call_later(RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._in_flight = 0
        if self._is_left:
            return
        self._waiting += self._waiting_for_next
        self._waiting_for_next = []
        if self._log.failed is not None:
            self._finish()
        else:
            self._start()


class WholeFlush:
    """The same and the indexes of the active segment too, for somebody who waits: at a clean close.

    `work` is for `Disk.sync_together`, `finish` takes what came of it. Raises OSError, also while it looks for its
    files.
    """

    def __init__(self, log: "Log") -> None:
        self._log = log
        self._opened: list[File] = []
        self.work: list[Sync | SyncDirectory] = []
        try:
            self._collect()
        except OSError:
            self._release()
            raise

    def _collect(self) -> None:
        log = self._log
        for segment in log.unflushed_segments():
            file = segment.open_file()
            file.retain()
            self._opened.append(file)
            self.work.append(Sync(file))
            for path in segment.index_paths():
                self._add_path(path)
        begun = {segment.base_offset for segment in log.unflushed_segments() if not segment.beginning_synced}
        for offset in log.snapshot_offsets:
            if offset >= log.recovery_point or offset in begun:
                self._add_path(_snapshot_path(log, offset))
        self._add_path(log.epochs.path)
        self.work.append(SyncDirectory(log.directory))
        if log.flusher.is_new:
            self._add_path(f"{log.directory}/{PARTITION_METADATA}")
            self.work.append(SyncDirectory(log.directory.rpartition("/")[0]))

    def _add_path(self, path: str) -> None:
        disk = self._log.context.disk
        if disk.exists(path):
            file = disk.open(path)
            self._opened.append(file)
            self.work.append(Sync(file))

    def finish(self, errors: Sequence[OSError | None]) -> None:
        self._release()
        for error in errors:
            if error is not None:
                raise error
        log = self._log
        for segment in log.unflushed_segments():
            segment.indexes_dirty = False
            segment.beginning_synced = True
        log.epochs.dirty = False
        log.flusher.is_new = log.flusher.directory_dirty = False
        log.recovery_point = log.log_end_offset

    def _release(self) -> None:
        for file in self._opened:
            file.release()
        self._opened.clear()


def flush_now(log: "Log") -> None:
    """Everything of one log, waited for. Raises OSError."""
    flush = WholeFlush(log)
    flush.finish(log.context.disk.sync_together(flush.work))


def _snapshot_path(log: "Log", offset: int) -> str:
    return f"{log.directory}/{snapshot_name(offset)}"
