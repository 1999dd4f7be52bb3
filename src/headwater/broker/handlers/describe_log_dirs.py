"""DescribeLogDirs (key 35), versions 1 to 5: what lies in each log directory, and how much room its disk has.

No topics (null) asks for all of them; partitions that are not here are left out. v4 has the size of the disk, v5 says
whether a directory takes no new partitions. Of a compacted log, a tag of our own says how much of it is dirty.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    cleaner, now_ms = broker.logs.cleaner, broker.clock.now_ms()
    found: dict[str, dict[str, DescribeLogDirsTopic]] = {}
    for partition, log in broker.logs.logs.items():
        if wanted is not None and partition not in wanted:
            continue
        topics = found.setdefault(broker.logs.directory_of(partition), {})
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic, partitions=[]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.partition,
                partition_size=log.size_bytes(),
                offset_lag=0,
                is_future_key=False,
                dirty_bytes=cleaner.dirtiness(log, now_ms).dirty_bytes if log.config.cleanup_compact else -1,
            )
        )
    directories = [directory.path for directory in broker.logs.directories]
    return DescribeLogDirsResponse(
        error_code=0, results=[_result(broker, path, list(found.get(path, {}).values())) for path in directories]
    )


def _result(broker: "Broker", path: str, topics: list[DescribeLogDirsTopic]) -> DescribeLogDirsResult:
    try:
        total, usable = broker.disk.usage(path)
    except OSError:
        return DescribeLogDirsResult(error_code=int(ErrorCode.KAFKA_STORAGE_ERROR), log_dir=path, topics=[])
    return DescribeLogDirsResult(
        error_code=0, log_dir=path, topics=topics, total_bytes=total, usable_bytes=usable, is_cordoned=False
    )
