"""All logs of a broker: opens them at the start, makes and deletes them, looks after them, closes them.

At the start each log directory is locked and listed, and its logs are opened (`opening`). From then on `tick` is called
every now and then and decides what is due: flushes by `flush.ms`, retention, checkpoints. Nothing here waits for the
device except `open` and `close` (`closing`). Where logs are made and how they go is in `log_creation`.

A directory that cannot be used at the start, or whose device fails later, is offline until a restart: its logs take no
more records, the others go on.

Owned by the loop. `logs` is keyed by name because directories are; the broker's memory is keyed by topic id.
"""

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicId, TopicPartition
from headwater.log import names
from headwater.log.checkpoint import Offsets
from headwater.log.closing import close_directory
from headwater.log.compaction.cleaner import Cleaner, CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directories import Directories
from headwater.log.directory import LogDirectory
from headwater.log.directory_moves import Moves, MoveSettings
from headwater.log.log import Log
from headwater.log.log_creation import Making
from headwater.log.open_logs import OpenLogs
from headwater.log.opening import Opening
from headwater.log.rolling import roll_if_old

_RETRY_OFFLINE_MS: Final = 2_000

logger = logging.getLogger("headwater.log")

ConfigOf = Callable[[str], LogConfig]


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """The broker settings that concern all logs together."""

    retention_check_interval_ms: int = 300_000  # log.retention.check.interval.ms
    flush_check_interval_ms: int = 1_000  # how often flush.ms is looked at
    checkpoint_interval_ms: int = 60_000  # log.flush.offset.checkpoint.interval.ms and its sibling
    high_watermark_interval_ms: int = 5_000  # replica.high.watermark.checkpoint.interval.ms
    topics_are_known: bool = True  # when the logs are opened; otherwise any of them may be a compacted one


class LogManager:
    def __init__(
        self,
        context: LogContext,
        directories: list[str],
        config_of: ConfigOf,
        settings: ManagerSettings | None = None,
        cleaner_settings: Callable[[], CleanerSettings] = CleanerSettings,
        move_settings: Callable[[], MoveSettings] = MoveSettings,
    ) -> None:
        self.context = context
        context.on_failed = self._log_failed
        self.on_directory_failed: Callable[[], None] = lambda: None  # after all its logs have failed
        self._directories = Directories(context.disk, directories)
        self.directories = self._directories.all
        self._settings = settings or ManagerSettings()
        self.topics_are_known = (
            self._settings.topics_are_known
        )  # before, nothing is deleted: no log has its topic's config
        self._config_of = config_of
        self._open_logs = OpenLogs()
        self.logs = self._open_logs.logs
        self.cleaner = Cleaner(self, cleaner_settings)
        self.moves = Moves(self, move_settings)
        self._opening = Opening(
            context, self._directories, self._open_logs, config_of, self, topics_are_known=self.topics_are_known
        )
        self._making = Making(context, self._directories, self._open_logs, config_of, self)
        self._due: dict[str, int] = {}

    @property
    def high_watermark_of(self) -> Callable[[Log], int]:
        return self._open_logs.high_watermark_of

    @high_watermark_of.setter
    def high_watermark_of(self, function: Callable[[Log], int]) -> None:
        self._open_logs.high_watermark_of = function

    @property
    def clean_start(self) -> bool:
        """Nothing was lost since the last shutdown, or everything is new."""
        return self._opening.is_clean

    def cut_at_gaps(self) -> None:
        """Once the topics are known. Only compaction leaves gaps: in other logs the end of a segment was lost, and what
        follows goes too.
        """
        self._opening.topics_are_known = True
        gaps = self._open_logs.gaps
        while gaps:  # each is known until it is cut: the checkpoint that a cut writes names the others too
            partition, offset = next(iter(gaps.items()))
            log = self.logs.get(partition)
            if log is not None and not self._config_of(partition.topic).cleanup_compact:
                self._cut_at(log, offset)
            del gaps[partition]

    def _cut_at(self, log: Log, offset: int) -> None:
        logger.warning("event=cut-at-gap partition=%s offset=%d", log.partition, offset)
        try:
            log.truncate_to(offset)
        except OSError as error:
            log.fail(error)
        except KafkaError as error:  # nothing has changed: with the gap it must neither lead nor follow
            log.fail(OSError(errno.EIO, str(error)))

    # Directories

    @property
    def online(self) -> list[LogDirectory]:
        return self._directories.online

    def failed_directories(self) -> dict[str, str]:
        """Those that are offline until a restart, and why."""
        return self._directories.failed()

    def directory_at(self, path: str) -> LogDirectory | None:
        return self._directories.at(path)

    def _log_failed(self, log: Log) -> None:
        """Its device cannot be trusted, and others stand on it too. One that was deleted says nothing of what has its
        name now.
        """
        if self._open_logs.logs.get(log.partition) is not log:
            return
        directory = self._open_logs.home.get(log.partition)
        if directory is not None and directory.problem is None and log.failed is not None:
            directory.take_offline(log.failed)
            directory.distrust()
            self.moves.cancel_all_of(directory)
            for other in self._open_logs.in_directory(directory):
                other.fail(log.failed)
            self.on_directory_failed()

    # Starting

    def lock(self) -> None:
        """Takes the directories for this process; raises UserError if another has one of them, or if none can be
        used.
        """
        self._directories.lock()

    def identity(self) -> dict[str, str]:
        """What the `meta.properties` of the first directory says that has any; empty if all are new."""
        return self._directories.identity()

    def claim(self, cluster_id: str, broker_id: int) -> None:
        self._directories.claim(cluster_id, broker_id, self.context.random)

    def open(self, done: Callable[[], None]) -> None:
        """Opens every log that is there; `done` is called when all are, at once if nothing needs a worker process."""
        found = self._opening.look()
        self._directories.refuse_if_none_is_left()
        for path in found.removable:
            self._making.remove(path)
        self._opening.open(found, done)

    def take_in(self, directory: LogDirectory, log: Log) -> None:
        """It was opened, made or moved there."""
        self._place(directory, log)
        self.cleaner.loaded(log, directory.cleaner_offsets.get(log.partition))

    def _place(self, directory: LogDirectory, log: Log) -> None:
        log.on_truncated = partial(self._truncated, directory)
        log.on_gap = partial(self._crossed_gap, directory)
        log.on_deletable = self._retain_if_here
        self.logs[log.partition] = log
        self._open_logs.home[log.partition] = directory

    def _truncated(self, directory: LogDirectory, log: Log) -> None:
        """A recovery point on disk must not lie past what is flushed: a crash would leave the new tail unchecked."""
        self.cleaner.truncated(log)
        self.moves.truncated(log)
        if directory.recovery_points.get(log.partition, 0) > log.recovery_point:
            directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, self._open_logs.recovery_points(directory))

    def _crossed_gap(self, directory: LogDirectory, _log: Log) -> None:
        """Raises OSError."""
        directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, self._open_logs.recovery_points(directory))

    # Making and deleting

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig | None = None) -> Log:
        """A new log, where there is room for it. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        return self._making.create(partition, topic_id, config)

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """If it is ever made here, there. It must be a partition of some topic: those are not without number."""
        self._making.preferred[partition] = path

    def identify(self, log: Log, topic_id: TopicId) -> None:
        """Writes down whose log it is, where the directory does not say: it is very old, or a crash has torn the
        file.
        """
        self._making.identify(log, topic_id)

    def delete(self, partition: TopicPartition) -> None:
        """Out of sight at once, off the disk after `file.delete.delay.ms`."""
        self._making.delete(partition)

    def set_aside(self, partition: TopicPartition) -> None:
        """Out of sight, and kept on the disk for people to look at."""
        self._making.set_aside(partition)

    def leaves(self, log: Log) -> None:
        """It is about to be deleted or set aside."""
        self.moves.cancel(log.partition)
        self.cleaner.deleted(log.partition)

    # Moving between directories

    def move(self, partition: TopicPartition, target: LogDirectory) -> None:
        """Begins a move, or ends one that is under way if the log shall stay where it is."""
        self.moves.begin(self.logs[partition], self._open_logs.home[partition], target)

    def expect_at(self, target: LogDirectory, log: Log) -> None:
        """Its offsets there are right from the moment on in which it stands there. Raises OSError."""
        self._making.forget_offsets(target, log.partition)
        if log.log_start_offset > log.base_offsets[0]:
            starts = {**self._open_logs.log_start_offsets(target), log.partition: log.log_start_offset}
            target.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, starts)
        # All but the active segment is there, and on the device:
        # or a recovery would take what compaction left out for lost.
        points = self._open_logs.recovery_points(target)
        points[log.partition] = min(log.recovery_point, log.active.base_offset)
        target.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, points)
        clean_to = self.cleaner.clean_to.get(log.partition)
        if clean_to is not None:
            target.checkpoint_now(
                names.CLEANER_OFFSET_CHECKPOINT, {**self._cleaner_offsets(target), log.partition: clean_to}
            )

    def moved(self, log: Log, target: LogDirectory) -> None:
        """It stands there now."""
        target.high_watermarks[log.partition] = self.high_watermark_of(log)
        self._place(target, log)
        logger.info("event=log-moved partition=%s to=%s end_offset=%d", log.partition, target.path, log.log_end_offset)

    def _move_again(self) -> None:
        again, self._opening.moves = self._opening.moves, []
        for partition, target in again:
            if partition in self.logs and target.problem is None:
                self.move(partition, target)

    # Looking after them

    def tick(self, now_ms: int, monotonic_ms: int) -> None:
        """Does what is due. `now_ms` is for the age of records, `monotonic_ms` for our own intervals."""
        settings = self._settings
        if self._is_due("flush", monotonic_ms, settings.flush_check_interval_ms):
            self._flush_old(monotonic_ms)
        if (
            self._open_logs.offline
            and self._opening.is_over
            and self._is_due("offline", monotonic_ms, _RETRY_OFFLINE_MS)
        ):
            self._opening.retry_offline()
        if self.topics_are_known and self._is_due("retention", monotonic_ms, settings.retention_check_interval_ms):
            self.apply_retention(now_ms)
        if self._opening.is_over:
            self._move_again()
            self.moves.go_on()
            if self.topics_are_known:
                self.cleaner.tick(now_ms, monotonic_ms)
        if self._is_due("checkpoint", monotonic_ms, settings.checkpoint_interval_ms):
            self.write_checkpoints()
        if self._is_due("high-watermark", monotonic_ms, settings.high_watermark_interval_ms):
            for directory in self.online:
                directory.checkpoint(names.REPLICATION_OFFSET_CHECKPOINT, self._open_logs.high_watermarks(directory))

    def _is_due(self, what: str, monotonic_ms: int, interval_ms: int) -> bool:
        """The first time counts from the first tick."""
        due_ms = self._due.setdefault(what, monotonic_ms + interval_ms)
        if monotonic_ms < due_ms:
            return False
        self._due[what] = monotonic_ms + interval_ms
        return True

    def _flush_old(self, monotonic_ms: int) -> None:
        for log in self.logs.values():
            if log.recovery_point == log.log_end_offset or log.failed is not None:
                log.flushed_at_ms = monotonic_ms
            elif monotonic_ms - log.flushed_at_ms >= log.config.flush_ms:
                log.flushed_at_ms = monotonic_ms
                log.flush()

    def apply_retention(self, now_ms: int) -> int:
        return sum(self._retain(log, now_ms) for log in self.logs.values())

    def _retain_if_here(self, log: Log, now_ms: int) -> None:
        if self.logs.get(log.partition) is log:
            self._retain(log, now_ms)

    def _retain(self, log: Log, now_ms: int) -> int:
        if log.failed is None:
            try:
                roll_if_old(log, now_ms)
                return log.apply_retention(now_ms, self.high_watermark_of(log))
            except OSError as error:
                logger.error("event=retention-failed partition=%s error=%r", log.partition, str(error))
        return 0

    def write_checkpoints(self) -> None:
        for directory in self.online:
            directory.checkpoint(names.RECOVERY_POINT_CHECKPOINT, self._open_logs.recovery_points(directory))
            directory.checkpoint(names.LOG_START_OFFSET_CHECKPOINT, self._open_logs.log_start_offsets(directory))

    def checkpoint_cleaner(self, log: Log) -> None:
        """Up to where the logs beside this one are compacted. Off the loop: an older one only means more work."""
        directory = self._open_logs.home[log.partition]
        directory.checkpoint(names.CLEANER_OFFSET_CHECKPOINT, self._cleaner_offsets(directory))

    def _cleaner_offsets(self, directory: LogDirectory) -> Offsets:
        clean_to = self.cleaner.clean_to
        logs = self._open_logs.in_directory(directory)
        return {log.partition: clean_to[log.partition] for log in logs if log.partition in clean_to}

    def synced_recovery_point(self, partition: TopicPartition) -> int:
        """At least so far a recovery will believe the log: that is written down, and on the device."""
        return self._open_logs.home[partition].synced_recovery_points.get(partition, 0)

    def saved_high_watermark(self, partition: TopicPartition) -> int:
        """As it was when it was last written down; 0 if it never was."""
        return self._open_logs.home[partition].high_watermarks.get(partition, 0)

    def directory_of(self, partition: TopicPartition) -> str:
        return self._open_logs.home[partition].path

    # Stopping

    def abandon(self) -> None:
        """Lets go of everything as it is: a start that ended halfway."""
        for log in self.logs.values():
            log.abandon()
        self._directories.unlock()

    def close(self, broker_epoch: int = -1) -> None:
        """Flushes and closes everything, and leaves the mark of a clean shutdown where all of it went well."""
        self.moves.close()
        for directory in self.directories:
            cleaner_offsets = self._cleaner_offsets(directory)
            close_directory(self.context.disk, directory, self._open_logs, cleaner_offsets, broker_epoch)
