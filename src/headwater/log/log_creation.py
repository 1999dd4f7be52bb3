"""Makes logs where there is room for them, and takes them away: deleted, or set aside for people to look at.

A name that a directory's checkpoints may still mention is forgotten there first, so that the offsets of what once stood
under it are never taken for those of the new log. Where a directory of that name stands, nothing is made over it. Owned
by the manager.
"""

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId, TopicPartition
from headwater.base.ports import Remove
from headwater.log import names
from headwater.log.checkpoint import format_partition_metadata
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directories import Directories
from headwater.log.directory import LogDirectory
from headwater.log.loading import create_log
from headwater.log.log import Log
from headwater.log.open_logs import OpenLogs
from headwater.log.placement import Candidate, choose

logger = logging.getLogger("headwater.log")


class Keeper(Protocol):
    """Who is told of logs that come and go: the manager."""

    def take_in(self, directory: LogDirectory, log: Log) -> None: ...

    def leaves(self, log: Log) -> None: ...


class Making:
    def __init__(
        self,
        context: LogContext,
        directories: Directories,
        open_logs: OpenLogs,
        config_of: Callable[[str], LogConfig],
        keeper: Keeper,
    ) -> None:
        self._context = context
        self._directories = directories
        self._open_logs = open_logs
        self._config_of = config_of
        self._keeper = keeper
        self.preferred: dict[TopicPartition, str] = {}  # where those go that are yet to be made

    def create(self, partition: TopicPartition, topic_id: TopicId, config: LogConfig | None) -> Log:
        """Raises KafkaError(KAFKA_STORAGE_ERROR)."""
        assert partition not in self._open_logs.logs, f"{partition} is there already"
        directory = self._place(partition)
        path = f"{directory.path}/{partition}"
        for each in self._directories.online:
            if self._context.disk.exists(f"{each.path}/{partition}"):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{each.path}/{partition} is there and could not be opened or removed",
                )
        try:
            self.forget_offsets(directory, partition)
            log = create_log(self._context, partition, topic_id, path, config or self._config_of(partition.topic))
        except OSError as error:
            self.remove(path)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path}: {error.strerror or error}") from error
        self._keeper.take_in(directory, log)
        self.preferred.pop(partition, None)
        return log

    def _place(self, partition: TopicPartition) -> LogDirectory:
        """Where somebody wants it, or where it fits best."""
        online = {directory.path: directory for directory in self._directories.online}
        wanted = self.preferred.get(partition)
        if wanted in online:
            return online[wanted]
        if not online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "No log directory is left.")
        if len(online) == 1:
            return next(iter(online.values()))
        counts = Counter(home.path for home in self._open_logs.home.values())
        try:
            usage = self._context.disk.usage
            return online[choose([Candidate(path, usage(path)[1], counts[path]) for path in online])]
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def forget_offsets(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A partition of this name was there before: its offsets must not be taken for those of the new one."""
        if partition in directory.cleaner_offsets:
            others = {each: offset for each, offset in directory.cleaner_offsets.items() if each != partition}
            directory.checkpoint_now(names.CLEANER_OFFSET_CHECKPOINT, others)
            directory.cleaner_offsets = others
        if directory.mentions(partition):
            points = self._open_logs.recovery_points(directory)
            starts = self._open_logs.log_start_offsets(directory)
            for offsets in (points, starts):
                offsets.pop(partition, None)  # it could not be opened, and somebody has removed it
            directory.checkpoint_now(names.RECOVERY_POINT_CHECKPOINT, points)
            directory.checkpoint_now(names.LOG_START_OFFSET_CHECKPOINT, starts)
            directory.mentioned = {*points, *starts}

    def identify(self, log: Log, topic_id: TopicId) -> None:
        log.topic_id = topic_id
        try:
            self._context.disk.write_file(
                f"{log.directory}/{names.PARTITION_METADATA}", format_partition_metadata(topic_id)
            )
        except OSError as error:
            logger.error("event=topic-id-not-written partition=%s error=%r", log.partition, str(error))

    # Taking away

    def delete(self, partition: TopicPartition) -> None:
        log = self._open_logs.logs[partition]
        gone = self._renamed(log, names.deleted_directory_name)
        self._context.scheduler.call_later(log.config.file_delete_delay_ms, partial(self.remove, gone))

    def set_aside(self, partition: TopicPartition) -> None:
        gone = self._renamed(self._open_logs.logs[partition], names.stray_directory_name)
        logger.warning("event=directory-set-aside path=%s", gone)

    def _renamed(self, log: Log, name: Callable[[TopicPartition, str], str]) -> str:
        self._keeper.leaves(log)
        del self._open_logs.logs[log.partition]
        directory = self._open_logs.home.pop(log.partition)
        log.abandon()
        gone = f"{directory.path}/{name(log.partition, self._context.random.bytes(16).hex())}"
        try:
            self._context.disk.rename(log.directory, gone)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory}: {error.strerror or error}") from error
        return gone

    def remove(self, path: str) -> None:
        self._context.disk.submit(Remove((path,)), _report_removal)


def _report_removal(error: OSError | None) -> None:
    if error is not None:
        logger.warning("event=directory-not-removed error=%r", str(error))
