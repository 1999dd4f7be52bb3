"""DescribeLogDirs (key 35), versions 1 to 5: what lies in each log directory, and how much room its disk has.

No topics (null) asks for all of them; partitions that are not here are left out. A replica that moves to another
directory is shown there too, as a future one, with how many offsets it is behind. A directory that is offline is
KAFKA_STORAGE_ERROR, and nothing is said of what lies in it. v4 has the size of the disk, v5 says whether a directory
takes no new partitions. Of a compacted log, a tag of our own says how much of it is dirty.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.log.directory import LogDirectory
from headwater.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


class _Found:
    """Replicas by directory and topic."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, DescribeLogDirsTopic]] = {}

    def add(self, path: str, topic: str, replica: DescribeLogDirsPartition) -> None:
        topics = self._topics.setdefault(path, {})
        topics.setdefault(topic, DescribeLogDirsTopic(name=topic, partitions=[])).partitions.append(replica)

    def topics(self, path: str) -> list[DescribeLogDirsTopic]:
        return list(self._topics.get(path, {}).values())


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    found = _find(broker, wanted)
    return DescribeLogDirsResponse(
        error_code=0,
        results=[_result(broker, directory, found.topics(directory.path)) for directory in broker.logs.directories],
    )


def _find(broker: "Broker", wanted: set[TopicPartition] | None) -> _Found:
    logs, now_ms = broker.logs, broker.clock.now_ms()
    found = _Found()
    for partition, log in logs.logs.items():
        if wanted is None or partition in wanted:
            dirty_bytes = logs.cleaner.dirtiness(log, now_ms).dirty_bytes if log.config.cleanup_compact else -1
            replica = DescribeLogDirsPartition(
                partition_index=partition.partition,
                partition_size=log.size_bytes(),
                offset_lag=0,
                is_future_key=False,
                dirty_bytes=dirty_bytes,
            )
            found.add(logs.directory_of(partition), partition.topic, replica)
    for partition, move in logs.moves.under_way.items():
        if wanted is None or partition in wanted:
            future = DescribeLogDirsPartition(
                partition_index=partition.partition,
                partition_size=move.copied_bytes,
                offset_lag=move.lag,
                is_future_key=True,
            )
            found.add(move.target.path, partition.topic, future)
    return found


def _result(broker: "Broker", directory: LogDirectory, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    try:
        if directory.problem is not None:
            raise OSError(directory.problem)
        total, usable = broker.disk.usage(directory.path)
    except OSError:
        return DescribeLogDirsResult(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=directory.path, topics=[])
    return DescribeLogDirsResult(
        error_code=0, log_dir=directory.path, topics=topics, total_bytes=total, usable_bytes=usable, is_cordoned=False
    )
