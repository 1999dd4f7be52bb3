"""Opens the logs of all directories at the start: as they are after a clean shutdown, else recovered first.

Small ones are recovered in place, big ones in a worker process. A log that cannot be opened keeps no other from it: it
is offline, and tried again every now and then. Owned by the manager.

`is_clean` says that nothing was lost since the last shutdown: every directory was shut down cleanly, or is new, and
every log is there that was there then. A broker of a cluster that cannot say so leaves the in-sync replicas.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from headwater.base.ids import TopicPartition
from headwater.log import names
from headwater.log.checkpoint import Epochs, crc_of_epochs, read_if_present
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directories import Directories
from headwater.log.directory import LogDirectory
from headwater.log.flushing import flush_now
from headwater.log.listing import Found, finish_moves, look, settle_duplicates
from headwater.log.loading import load_log
from headwater.log.log import Log
from headwater.log.open_logs import OpenLogs
from headwater.log.recovery import Recovered, bytes_to_scan, recover

RECOVER_IN_PLACE_BYTES: Final = 16 << 20

logger = logging.getLogger("headwater.log")


class Opened(Protocol):
    """Who is told of each log that is there now: the manager."""

    def take_in(self, directory: LogDirectory, log: Log) -> None: ...

    def cut_at_gaps(self) -> None: ...


class Opening:
    def __init__(
        self,
        context: LogContext,
        directories: Directories,
        open_logs: OpenLogs,
        config_of: Callable[[str], LogConfig],
        opened: Opened,
        *,
        topics_are_known: bool,
    ) -> None:
        self._context = context
        self._directories = directories
        self._open_logs = open_logs
        self._config_of = config_of
        self._opened = opened
        self.topics_are_known = topics_are_known
        self._is_in_cluster = not topics_are_known  # where those of adopted directories are known in the end, too
        self._under_way = 0
        self.is_clean = False
        self.moves: list[tuple[TopicPartition, LogDirectory]] = []  # that the last process left, to begin again

    @property
    def is_over(self) -> bool:
        return self._under_way == 0

    def look(self) -> Found:
        """What is there, with each partition in one place. Reads the directories' checkpoints. Raises UserError."""
        for directory in self._directories.online:
            try:
                directory.load()
            except OSError as error:
                directory.take_offline(error)
        disk = self._context.disk
        found = look(disk, self._directories.online)
        all_are_here = self._directories.are_all_online
        finish_moves(disk, found, all_are_here=all_are_here)
        settle_duplicates(disk, self._context.random, found, may_choose=not self.topics_are_known)
        self._clear_up(found, all_are_here)
        return found

    def _clear_up(self, found: Found, all_are_here: bool) -> None:
        """What moves have left, once each log's name is on the device: a process that was killed may have left it in
        the page cache only.
        """
        disk = self._context.disk
        markers = [
            marker
            for partition, (directory,) in found.homes.items()
            if not directory.clean and all_are_here
            and disk.exists(marker := f"{directory.path}/{partition}/{names.MOVED_FROM}")
        ]  # fmt: skip
        if markers or found.removable:
            try:
                for directory in self._directories.online:
                    disk.sync_directory_now(directory.path)
            except OSError as error:
                logger.error("event=not-cleared-up error=%r", str(error))
                found.removable.clear()
                return
        for marker in markers:
            disk.remove(marker)

    def open(self, found: Found, done: Callable[[], None]) -> None:
        """`done` is called when all are there, at once if nothing needs a worker process."""
        self._under_way = 1  # until all are looked at
        all_are_here = self._directories.are_all_online
        self.is_clean = all_are_here and not found.had_to_choose and not self._is_something_gone(found)
        self.moves = found.moves
        for partition, (directory,) in found.homes.items():
            self._open(directory, partition, done)
        self._opened_one(done)

    def retry_offline(self) -> None:
        offline = self._open_logs.offline
        for partition, directory in tuple(offline.items()):
            if partition in self._open_logs.logs or not self._context.disk.exists(f"{directory.path}/{partition}"):
                del offline[partition]
            else:
                self._open(directory, partition, _nothing)

    def _is_something_gone(self, found: Found) -> bool:
        """At a clean shutdown the checkpoint names every log that is there: one that is not was taken away since."""
        gone = sorted(
            (partition, directory.path)
            for directory in self._directories.online
            if directory.clean
            for partition in directory.recovery_points
            if partition not in found.homes
        )
        for partition, path in gone:
            logger.error(
                "event=log-gone partition=%s directory=%s note='it was there at the last shutdown'", partition, path
            )
        return bool(gone) or any(
            directory.lacks_checkpoint for directory in self._directories.online if directory.clean
        )

    def _open(self, directory: LogDirectory, partition: TopicPartition, done: Callable[[], None]) -> None:
        path = f"{directory.path}/{partition}"
        recovery_point = directory.recovery_points.get(partition, 0)
        try:
            if directory.clean and self._are_epochs_as_left(directory, partition, path):
                self._load(directory, partition, path, recovery_point, None, None)
                return
        except Exception as problem:  # noqa: BLE001 - whatever it is: one log must not keep the others down
            self._leave_offline(directory, partition, problem)
            return
        self.is_clean = False
        start_offset = directory.log_start_offsets.get(partition, 0)
        config = self._config_of(partition.topic)
        no_gaps = directory.knows_compaction or (
            self.topics_are_known and not config.cleanup_compact and not directory.adopted
        )
        arguments = (
            path, recovery_point, start_offset, config.index_interval_bytes, no_gaps, directory.is_distrusted,
            directory.cleaner_offsets.get(partition, 0),
        )  # fmt: skip
        finished = partial(self._recovered, directory, partition, path, recovery_point, done)
        self._under_way += 1
        try:
            if bytes_to_scan(self._context.disk, path, recovery_point) > RECOVER_IN_PLACE_BYTES:
                self._context.scheduler.compute(recover, self._context.disk, *arguments, done=finished)
                return
            recovered = recover(self._context.disk, *arguments)
        except Exception as problem:  # noqa: BLE001 - the same
            finished(None, problem)
        else:
            finished(recovered, None)

    def _are_epochs_as_left(self, directory: LogDirectory, partition: TopicPartition, path: str) -> bool:
        """The mark of a clean shutdown tells their checksum. Others are wrong, and are found again in the batches."""
        expected = directory.epochs_crc.get(str(partition))
        epochs_path = f"{path}/{names.LEADER_EPOCH_CHECKPOINT}"
        if expected is None or crc_of_epochs(read_if_present(self._context.disk, epochs_path)) == expected:
            return True
        logger.error("event=file-damaged path=%s note='it is made again from the records'", epochs_path)
        self._context.disk.remove(epochs_path)
        return False

    def _recovered(
        self,
        directory: LogDirectory,
        partition: TopicPartition,
        path: str,
        recovery_point: int,
        done: Callable[[], None],
        recovered: Any,
        error: BaseException | None,
    ) -> None:
        try:
            if error is not None:
                raise error
            assert isinstance(recovered, Recovered)
            for line in recovered.report:
                logger.warning("event=recovered partition=%s %s", partition, line)
            epochs = recovered.unwritten_epochs
            self._load(directory, partition, path, recovery_point, recovered.log_end_offset, epochs)
            if recovered.gap_offset >= 0 and (self._is_in_cluster or not directory.adopted):
                self._open_logs.gaps[partition] = recovered.gap_offset
                if self.topics_are_known:  # it is opened late
                    self._opened.cut_at_gaps()
        except Exception as problem:  # noqa: BLE001 - whatever it is: one log must not keep the others down
            self._leave_offline(directory, partition, problem)
        self._opened_one(done)

    def _leave_offline(self, directory: LogDirectory, partition: TopicPartition, error: Exception) -> None:
        """Its directory stays as it is, and `create` makes nothing in its place. It is tried again every now and
        then.
        """
        if partition not in self._open_logs.offline:
            self._open_logs.offline[partition] = directory
            logger.error("event=log-offline partition=%s error=%r", partition, str(error) or type(error).__name__)

    def _opened_one(self, done: Callable[[], None]) -> None:
        self._under_way -= 1
        if self._under_way == 0:
            self._believe_again()
            done()

    def _believe_again(self) -> None:
        """What was read from the device itself, all of it, needs no such care again."""
        for directory in self._directories.online:
            if directory.is_distrusted and directory not in self._open_logs.offline.values():
                directory.believe()

    def _load(
        self,
        directory: LogDirectory,
        partition: TopicPartition,
        path: str,
        recovery_point: int,
        log_end_offset: int | None,
        epochs: Epochs | None,
    ) -> None:
        log = load_log(
            self._context,
            partition,
            path,
            self._config_of(partition.topic),
            recovery_point=recovery_point,
            log_start_offset=directory.log_start_offsets.get(partition, 0),
            log_end_offset=log_end_offset,
            epochs=epochs,
        )
        if log.log_end_offset < recovery_point:
            logger.error(
                "event=data-missing partition=%s: it ends at offset %d, and was on the device up to %d",
                partition, log.log_end_offset, recovery_point,
            )  # fmt: skip
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            _flush_recovered(log)
        self._opened.take_in(directory, log)


def _nothing() -> None:
    """Nobody waits for a log that is tried again."""


def _flush_recovered(log: Log) -> None:
    """Where records count only once they are on the device, what a killed process left in the page cache must get there
    before anybody is told that it is committed."""
    try:
        flush_now(log)
    except OSError as error:
        log.fail(error)
    else:
        log.flush_requested_offset = log.log_end_offset
