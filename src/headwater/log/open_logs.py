"""Which logs a broker has, and in which of its directories each stands: what the rooms of the manager share.

The offsets that a directory's checkpoints hold are taken from here. `offline` are partitions that are there and could
not be opened: nothing is made in their place. Owned by the manager, and changed by the loop only.
"""

from collections.abc import Callable

from headwater.base.ids import TopicPartition
from headwater.log.checkpoint import Offsets
from headwater.log.directory import LogDirectory
from headwater.log.log import Log


class OpenLogs:
    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.home: dict[TopicPartition, LogDirectory] = {}
        self.offline: dict[TopicPartition, LogDirectory] = {}
        self.gaps: dict[TopicPartition, int] = {}  # which recovery left, as the topic was not known: where each begins
        self.high_watermark_of: Callable[[Log], int] = _end_of

    def in_directory(self, directory: LogDirectory) -> list[Log]:
        return [log for partition, log in self.logs.items() if self.home[partition] is directory]

    def recovery_points(self, directory: LogDirectory) -> Offsets:
        """None lies past a gap that nobody has judged yet: the next recovery is to find it again. Of a log that is
        offline, what we knew.
        """
        return {
            **self._of_offline(directory, directory.recovery_points),
            **{
                log.partition: min(log.recovery_point, self.gaps.get(log.partition, log.recovery_point))
                for log in self.in_directory(directory)
            },
        }

    def has_gaps(self, directory: LogDirectory) -> bool:
        return any(self.home.get(partition) is directory for partition in self.gaps)

    def log_start_offsets(self, directory: LogDirectory) -> Offsets:
        """Only where the first segment's name does not tell it. Of a log that is offline, what we found at the
        start.
        """
        return {
            **self._of_offline(directory, directory.log_start_offsets),
            **{
                log.partition: log.log_start_offset
                for log in self.in_directory(directory)
                if log.log_start_offset > log.base_offsets[0]
            },
        }

    def _of_offline(self, directory: LogDirectory, offsets: Offsets) -> Offsets:
        return {each: offset for each, offset in offsets.items() if self.offline.get(each) is directory}

    def high_watermarks(self, directory: LogDirectory) -> Offsets:
        return {log.partition: self.high_watermark_of(log) for log in self.in_directory(directory)}


def _end_of(log: Log) -> int:
    """Without replication, everything is committed."""
    return log.log_end_offset
