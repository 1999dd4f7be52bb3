"""AlterReplicaLogDirs (key 34), versions 1 and 2: moves replicas to other log directories of this broker.

A directory that is not ours is LOG_DIR_NOT_FOUND, whatever it is asked for; a replica that lies there already stays. A true
move is not supported yet: UNSUPPORTED_VERSION, because the API has no room for a message and that code says "not by this
broker" without inviting a retry. The broker's log tells why.
"""

import logging
from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse:
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            result = results.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[]))
            result.partitions += [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index,
                    error_code=int(_move(broker, TopicPartition(topic.name, index), directory.path)),
                )
                for index in topic.partitions
            ]
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def _move(broker: "Broker", partition: TopicPartition, path: str) -> ErrorCode:
    if all(directory.path != path for directory in broker.logs.directories):
        return ErrorCode.LOG_DIR_NOT_FOUND
    if partition not in broker.logs.logs:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.logs.directory_of(partition) == path:
        return ErrorCode.NONE
    logger.warning(
        "event=replica-not-moved partition=%s reason='moving between log directories is not supported yet'", partition
    )
    return ErrorCode.UNSUPPORTED_VERSION
