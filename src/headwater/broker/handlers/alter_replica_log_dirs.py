"""AlterReplicaLogDirs (key 34), versions 1 and 2: moves replicas to other log directories of this broker.

The answer says that a move has begun; DescribeLogDirs tells how far it is. A replica that is asked to go where it lies
stays there, also if it was on its way elsewhere. A directory that is not ours is LOG_DIR_NOT_FOUND, whatever it is
asked for; one that is offline, or a replica whose directory is, KAFKA_STORAGE_ERROR. For a partition that has no
replica here yet, the directory is remembered until it gets one, and the answer is REPLICA_NOT_AVAILABLE: tools ask so
before they move a partition to this broker.
"""

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
    logs = broker.logs
    directory = logs.directory_at(path)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if directory.problem is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    log = logs.logs.get(partition)
    if log is None:
        return _not_here(broker, partition, path)
    if log.failed is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    logs.move(partition, directory)
    return ErrorCode.NONE


def _not_here(broker: "Broker", partition: TopicPartition, path: str) -> ErrorCode:
    topic_id = broker.image.ids_by_name.get(partition.topic)
    states = [] if topic_id is None else broker.image.topics[topic_id].partitions
    if not 0 <= partition.partition < len(states):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.broker_id in states[partition.partition].replicas:
        return ErrorCode.KAFKA_STORAGE_ERROR  # its log could not be opened, or lies in a directory that is offline
    broker.logs.prefer(partition, path)
    return ErrorCode.REPLICA_NOT_AVAILABLE
