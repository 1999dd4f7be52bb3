"""All logs of a broker: opens them at the start, makes and deletes them, looks after them, closes them.

At the start each log directory is locked and listed. After a clean shutdown logs are opened from their directory entries
alone. Otherwise each is recovered first (`recovery.recover`): small ones in place, big ones in a worker process; `open`
tells when all are there. From then on `tick` is called every now and then and decides what is due: flushes by `flush.ms`,
retention, checkpoints. Nothing here waits for the device except `open` and `close`.

A directory that cannot be used at the start, or whose device fails later, is offline until a restart: its logs take no more records,
the others go on.

Owned by the loop. `logs` is keyed by name because directories are; the broker's memory is keyed by topic id.
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicId, TopicPartition
from headwater.base.ports import Remove
from headwater.log import names
from headwater.log.checkpoint import format_partition_metadata
from headwater.log.compaction.cleaner import Cleaner, CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directory import LogDirectory, UnusableDirectoryError
from headwater.log.flushing import WholeFlush, flush_now
from headwater.log.listing import Found, finish_moves, look, settle_duplicates
from headwater.log.loading import create_log, load_log
from headwater.log.log import Log
from headwater.log.moving import Moves, MoveSettings
from headwater.log.placement import Candidate, choose
from headwater.log.recovery import Recovered, bytes_to_scan, recover
from headwater.log.rolling import roll_if_old

RECOVER_IN_PLACE_BYTES: Final = 16 << 20
_RETRY_OFFLINE_MS: Final = 2_000
_CLOSED_AT_ONCE: Final = 64  # logs: each has half a dozen files open then

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
        self.directories = [LogDirectory(context.disk, path) for path in directories]
        self.logs: dict[TopicPartition, Log] = {}
        self.clean_start = False  # every directory was shut down cleanly, or is new
        self.high_watermark_of: Callable[[Log], int] = _end_of
        self.cleaner = Cleaner(self, cleaner_settings)
        self.moves = Moves(self, move_settings)
        self._preferred: dict[TopicPartition, str] = {}  # where those go that are yet to be made
        self._config_of = config_of
        self._settings = settings or ManagerSettings()
        self.topics_are_known = (
            self._settings.topics_are_known
        )  # before, nothing is deleted: no log has its topic's config
        self._home: dict[TopicPartition, LogDirectory] = {}
        self._recovering = 0
        self._offline: dict[TopicPartition, LogDirectory] = {}  # they are there, and could not be opened
        self._begin_again: list[tuple[TopicPartition, LogDirectory]] = []  # moves that the last process left
        self._due: dict[str, int] = {}

    # Directories

    @property
    def online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.problem is None]

    def failed_directories(self) -> dict[str, str]:
        """Those that are offline until a restart, and why."""
        return {directory.path: directory.problem for directory in self.directories if directory.problem is not None}

    def _log_failed(self, log: Log) -> None:
        """Its device cannot be trusted, and others stand on it too."""
        directory = self._home.get(log.partition)
        if directory is not None and directory.problem is None and log.failed is not None:
            directory.take_offline(log.failed)
            self.moves.cancel_all_of(directory)
            for other in self._logs_of(directory):
                other.fail(log.failed)

    def _refuse_if_none_is_left(self) -> None:
        failed = self.failed_directories()
        if len(failed) == len(self.directories):
            what = (
                "No log directory can be used"
                if len(failed) > 1
                else f"The log directory {next(iter(failed))} cannot be used"
            )
            raise UserError(what, "; ".join(failed.values()), "check log.dirs")

    # Starting

    def lock(self) -> None:
        """Takes the directories for this process; raises UserError if another has one of them, or if none can be used."""
        taken = []
        try:
            for directory in self.directories:
                try:
                    directory.lock()
                    taken.append(directory)
                except OSError as error:
                    directory.take_offline(error)
            self._refuse_if_none_is_left()
        except UserError:
            for directory in taken:
                directory.unlock()
            raise

    def identity(self) -> dict[str, str]:
        """What the `meta.properties` of the first directory says that has any; empty if all are new."""
        found: dict[str, str] = {}
        for directory in self.online:
            try:
                found = found or directory.read_identity()
            except (OSError, UnusableDirectoryError) as error:
                directory.take_offline(error)
        self._refuse_if_none_is_left()
        return found

    def claim(self, cluster_id: str, broker_id: int) -> None:
        for directory in self.online:
            try:
                directory.claim(cluster_id, broker_id, self.context.random)
            except (OSError, UnusableDirectoryError) as error:
                directory.take_offline(error)
        self._refuse_if_none_is_left()

    def open(self, done: Callable[[], None]) -> None:
        """Opens every log that is there; `done` is called when all are, at once if nothing needs a worker process."""
        self._recovering = 1  # until all are looked at
        for directory in self.online:
            try:
                directory.load()
            except OSError as error:
                directory.take_offline(error)
        found = self._look()
        self._refuse_if_none_is_left()
        self.clean_start = not found.had_to_choose and not self.failed_directories()
        for path in found.removable:
            self._remove(path)
        for partition, (directory,) in found.homes.items():
            self._open_one(directory, partition, f"{directory.path}/{partition}", done)
        self._begin_again = found.moves
        self._recovered_one(done)

    def _look(self) -> Found:
        """What is there, with each partition in one place."""
        disk = self.context.disk
        found = look(disk, self.online)
        finish_moves(disk, found, all_are_here=not self.failed_directories())
        settle_duplicates(disk, self.context.random, found, may_choose=not self._settings.topics_are_known)
        for partition, (directory,) in found.homes.items():
            marker = f"{directory.path}/{partition}/{names.MOVED_FROM}"
            if not directory.clean and not self.failed_directories() and disk.exists(marker):
                disk.remove(marker)
        return found

    def _open_one(
        self, directory: LogDirectory, partition: TopicPartition, path: str, done: Callable[[], None]
    ) -> None:
        recovery_point = directory.recovery_points.get(partition, 0)
        if directory.clean:
            try:
                self._load(directory, partition, path, recovery_point, None)
            except OSError as error:
                self._leave_offline(directory, partition, error)
            return
        self.clean_start = False
        start_offset = directory.log_start_offsets.get(partition, 0)
        config = self._config_of(partition.topic)
        no_gaps = self._settings.topics_are_known and not config.cleanup_compact and not directory.adopted
        arguments = (path, recovery_point, start_offset, config.index_interval_bytes, no_gaps)
        finished = partial(self._recovered, directory, partition, path, recovery_point, done)
        self._recovering += 1
        try:
            if bytes_to_scan(self.context.disk, path, recovery_point) > RECOVER_IN_PLACE_BYTES:
                self.context.scheduler.compute(recover, self.context.disk, *arguments, done=finished)
                return
            recovered = recover(self.context.disk, *arguments)
        except OSError as error:
            finished(None, error)
        else:
            finished(recovered, None)

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
            self._load(directory, partition, path, recovery_point, recovered.log_end_offset)
        except Exception as problem:  # noqa: BLE001 - whatever it is: one log must not keep the others down
            self._leave_offline(directory, partition, problem)
        self._recovered_one(done)

    def _leave_offline(self, directory: LogDirectory, partition: TopicPartition, error: Exception) -> None:
        """Its directory stays as it is, and `create` makes nothing in its place. It is tried again every now and then."""
        if partition not in self._offline:
            self._offline[partition] = directory
            logger.error("event=log-offline partition=%s error=%r", partition, str(error) or type(error).__name__)

    def _retry_offline(self) -> None:
        for partition, directory in tuple(self._offline.items()):
            path = f"{directory.path}/{partition}"
            if partition in self.logs or not self.context.disk.exists(path):
                del self._offline[partition]
            else:
                self._open_one(directory, partition, path, _nothing)

    def _recovered_one(self, done: Callable[[], None]) -> None:
        self._recovering -= 1
        if self._recovering == 0:
            done()

    def _load(
        self,
        directory: LogDirectory,
        partition: TopicPartition,
        path: str,
        recovery_point: int,
        log_end_offset: int | None,
    ) -> None:
        log = load_log(
            self.context,
            partition,
            path,
            self._config_of(partition.topic),
            recovery_point=recovery_point,
            log_start_offset=directory.log_start_offsets.get(partition, 0),
            log_end_offset=log_end_offset,
        )
        if log.log_end_offset < recovery_point:
            logger.error(
                "event=data-missing partition=%s: it ends at offset %d, and was on the device up to %d",
                partition, log.log_end_offset, recovery_point,
            )  # fmt: skip
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            _flush_recovered(log)
        self._take_in(directory, log)
        self.cleaner.loaded(log, directory.cleaner_offsets.get(partition))

    def _take_in(self, directory: LogDirectory, log: Log) -> None:
        log.on_truncated = partial(self._truncated, directory)
        self.logs[log.partition] = log
        self._home[log.partition] = directory

    def _truncated(self, directory: LogDirectory, log: Log) -> None:
        """A recovery point on disk must not lie past what is flushed: a crash would leave the new tail unchecked."""
        self.cleaner.truncated(log)
        self.moves.truncated(log)
        if directory.recovery_points.get(log.partition, 0) > log.recovery_point:
            directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, self._recovery_points(directory))

    # Making and deleting

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig | None = None) -> Log:
        """A new log, where there is room for it. Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        assert partition not in self.logs, f"{partition} is there already"
        directory = self._place(partition)
        path = f"{directory.path}/{partition}"
        for each in self.online:
            if self.context.disk.exists(f"{each.path}/{partition}"):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{each.path}/{partition} is there and could not be opened or removed",
                )
        try:
            self._forget_offsets(directory, partition)
            log = create_log(self.context, partition, topic_id, path, config or self._config_of(partition.topic))
        except OSError as error:
            self._remove(path)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error.strerror or error}") from error
        self._take_in(directory, log)
        self._preferred.pop(partition, None)
        return log

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """If it is ever made here, there. It must be a partition of some topic: those are not without number."""
        self._preferred[partition] = path

    def _place(self, partition: TopicPartition) -> LogDirectory:
        """Where somebody wants it, or where it fits best."""
        online = {directory.path: directory for directory in self.online}
        wanted = self._preferred.get(partition)
        if wanted in online:
            return online[wanted]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is left.")
        if len(online) == 1:
            return self.online[0]
        counts = Counter(home.path for home in self._home.values())
        try:
            usage = self.context.disk.usage
            return online[choose([Candidate(path, usage(path)[1], counts[path]) for path in online])]
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _forget_offsets(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A partition of this name was there before: its offsets must not be taken for those of the new one."""
        if directory.mentions(partition):
            points, starts = self._recovery_points(directory), self._log_start_offsets(directory)
            directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, points)
            directory.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, starts)
            directory.mentioned = {*points, *starts}

    def identify(self, log: Log, topic_id: TopicId) -> None:
        """Writes down whose log it is, where the directory does not say: it is very old, or a crash has torn the file."""
        log.topic_id = topic_id
        try:
            self.context.disk.write_file(
                f"{log.directory}/{names.PARTITION_METADATA}", format_partition_metadata(topic_id)
            )
        except OSError as error:
            logger.error("event=topic-id-not-written partition=%s error=%r", log.partition, str(error))

    def delete(self, partition: TopicPartition) -> None:
        """Out of sight at once, off the disk after `file.delete.delay.ms`."""
        log = self.logs[partition]
        gone = self._renamed(log, names.deleted_directory_name)
        self.context.scheduler.call_later(log.config.file_delete_delay_ms, partial(self._remove, gone))

    def set_aside(self, partition: TopicPartition) -> None:
        """Out of sight, and kept on the disk for people to look at."""
        logger.warning(
            "event=directory-set-aside path=%s", self._renamed(self.logs[partition], names.stray_directory_name)
        )

    def _renamed(self, log: Log, name: Callable[[TopicPartition, str], str]) -> str:
        self.moves.cancel(log.partition)
        del self.logs[log.partition]
        directory = self._home.pop(log.partition)
        self.cleaner.deleted(log.partition)
        log.abandon()
        gone = f"{directory.path}/{name(log.partition, self.context.random.bytes(16).hex())}"
        try:
            self.context.disk.rename(log.directory, gone)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error.strerror or error}") from error
        return gone

    def _remove(self, path: str) -> None:
        self.context.disk.submit(Remove((path,)), _report_removal)

    # Moving between directories

    def directory_at(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self.directories if directory.path == path), None)

    def move(self, partition: TopicPartition, target: LogDirectory) -> None:
        """Begins a move, or ends one that is under way if the log shall stay where it is."""
        self.moves.begin(self.logs[partition], self._home[partition], target)

    def expect_at(self, target: LogDirectory, log: Log) -> None:
        """Its offsets there are right from the moment on in which it stands there. Raises OSError."""
        self._forget_offsets(target, log.partition)
        if log.log_start_offset > log.base_offsets[0]:
            starts = {**self._log_start_offsets(target), log.partition: log.log_start_offset}
            target.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, starts)

    def moved(self, log: Log, target: LogDirectory) -> None:
        """It stands there now."""
        target.high_watermarks[log.partition] = self.high_watermark_of(log)
        self._take_in(target, log)
        logger.info("event=log-moved partition=%s to=%s end_offset=%d", log.partition, target.path, log.log_end_offset)

    def _move_again(self) -> None:
        again, self._begin_again = self._begin_again, []
        for partition, target in again:
            if partition in self.logs and target.problem is None:
                self.move(partition, target)

    # Looking after them

    def tick(self, now_ms: int, monotonic_ms: int) -> None:
        """Does what is due. `now_ms` is for the age of records, `monotonic_ms` for our own intervals."""
        settings = self._settings
        if self._is_due("flush", monotonic_ms, settings.flush_check_interval_ms):
            self._flush_old(monotonic_ms)
        if self._offline and self._recovering == 0 and self._is_due("offline", monotonic_ms, _RETRY_OFFLINE_MS):
            self._retry_offline()
        if self.topics_are_known and self._is_due("retention", monotonic_ms, settings.retention_check_interval_ms):
            self.apply_retention(now_ms)
        if self._recovering == 0:
            self._move_again()
            self.moves.go_on()
            if self.topics_are_known:
                self.cleaner.tick(now_ms, monotonic_ms)
        if self._is_due("checkpoint", monotonic_ms, settings.checkpoint_interval_ms):
            self.write_checkpoints()
        if self._is_due("high-watermark", monotonic_ms, settings.high_watermark_interval_ms):
            for directory in self.online:
                directory.checkpoint(names.REPLICATION_OFFSET_CHECKPOINT, self._high_watermarks(directory))

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
        count = 0
        for log in self.logs.values():
            if log.failed is None:
                try:
                    roll_if_old(log, now_ms)
                    count += log.apply_retention(now_ms, self.high_watermark_of(log))
                except OSError as error:
                    logger.error("event=retention-failed partition=%s error=%r", log.partition, str(error))
        return count

    def write_checkpoints(self) -> None:
        for directory in self.online:
            directory.checkpoint(names.RECOVERY_POINT_CHECKPOINT, self._recovery_points(directory))
            directory.checkpoint(names.LOG_START_OFFSET_CHECKPOINT, self._log_start_offsets(directory))

    def checkpoint_cleaner(self, log: Log) -> None:
        """Up to where the logs beside this one are compacted. Off the loop: an older one only means more work."""
        directory = self._home[log.partition]
        directory.checkpoint(names.CLEANER_OFFSET_CHECKPOINT, self._cleaner_offsets(directory))

    def _cleaner_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        clean_to = self.cleaner.clean_to
        return {log.partition: clean_to[log.partition] for log in self._logs_of(directory) if log.partition in clean_to}

    def _logs_of(self, directory: LogDirectory) -> list[Log]:
        return [log for partition, log in self.logs.items() if self._home[partition] is directory]

    def _recovery_points(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {log.partition: log.recovery_point for log in self._logs_of(directory)}

    def _log_start_offsets(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        """Only where the first segment's name does not tell it. Of a log that is offline, what we found at the start."""
        offline = {partition for partition, home in self._offline.items() if home is directory}
        return {
            **{partition: offset for partition, offset in directory.log_start_offsets.items() if partition in offline},
            **{
                log.partition: log.log_start_offset
                for log in self._logs_of(directory)
                if log.log_start_offset > log.base_offsets[0]
            },
        }

    def _high_watermarks(self, directory: LogDirectory) -> dict[TopicPartition, int]:
        return {log.partition: self.high_watermark_of(log) for log in self._logs_of(directory)}

    def saved_high_watermark(self, partition: TopicPartition) -> int:
        """As it was when it was last written down; 0 if it never was."""
        return self._home[partition].high_watermarks.get(partition, 0)

    def directory_of(self, partition: TopicPartition) -> str:
        return self._home[partition].path

    # Stopping

    def abandon(self) -> None:
        """Lets go of everything as it is: a start that ended halfway."""
        for log in self.logs.values():
            log.abandon()
        for directory in self.directories:
            directory.unlock()

    def close(self, broker_epoch: int = -1) -> None:
        """Flushes and closes everything, and leaves the mark of a clean shutdown where all of it went well."""
        self.moves.close()
        for directory in self.directories:
            if directory.problem is not None:
                for log in self._logs_of(directory):
                    log.abandon()
                directory.unlock()
                continue
            logs = self._logs_of(directory)
            high_watermarks = self._high_watermarks(directory)
            clean = directory not in self._offline.values()  # or the next start would take those for recovered
            for at in range(0, len(logs), _CLOSED_AT_ONCE):
                clean &= self._close(logs[at : at + _CLOSED_AT_ONCE])
            try:
                directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, self._recovery_points(directory))
                directory.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, self._log_start_offsets(directory))
                directory.checkpoint_now(names.REPLICATION_OFFSET_CHECKPOINT, high_watermarks)
                if cleaner_offsets := self._cleaner_offsets(directory):
                    directory.checkpoint_now(names.CLEANER_OFFSET_CHECKPOINT, cleaner_offsets)
                if clean:
                    directory.mark_clean(broker_epoch)
            except OSError as error:
                logger.error("event=close-failed directory=%s error=%r", directory.path, str(error))
            directory.unlock()

    def _close(self, logs: list[Log]) -> bool:
        """Their syncs go to the device together. Whether all went well."""
        clean = True
        flushes: list[tuple[Log, WholeFlush | None]] = []
        for log in logs:
            try:
                flushes.append((log, log.begin_close()))
            except (OSError, KafkaError) as error:
                clean = _not_closed(log, error)
        errors = iter(
            self.context.disk.sync_together([each for _, flush in flushes if flush is not None for each in flush.work])
        )
        for log, flush in flushes:
            try:
                if flush is not None:
                    flush.finish(list(islice(errors, len(flush.work))))
                log.abandon()
            except OSError as error:
                clean = _not_closed(log, error)
        return clean


def _not_closed(log: Log, error: Exception) -> bool:
    log.abandon()
    logger.error("event=close-failed partition=%s error=%r", log.partition, str(error))
    return False


def _nothing() -> None:
    """Nobody waits for a log that is tried again."""


def _end_of(log: Log) -> int:
    """Without replication, everything is committed."""
    return log.log_end_offset


def _flush_recovered(log: Log) -> None:
    """Where records count only once they are on the device, what a killed process left in the page cache must get there
    before anybody is told that it is committed."""
    try:
        flush_now(log)
    except OSError as error:
        log.fail(error)
    else:
        log.flush_requested_offset = log.log_end_offset


def _report_removal(error: OSError | None) -> None:
    if error is not None:
        logger.warning("event=directory-not-removed error=%r", str(error))
