"""AlterReplicaLogDirs: moves replicas of one broker to other log directories. v2 is flexible."""

from headwater.wire.schema import INT16, INT32, STRING, Array, Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    name: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class AlterReplicaLogDir(Struct):
    path: str = field(STRING)
    topics: list[AlterReplicaLogDirTopic] = field(Array(AlterReplicaLogDirTopic))


class AlterReplicaLogDirsRequest(Message, key=34, versions=(1, 2), flexible_since=2):
    dirs: list[AlterReplicaLogDir] = field(Array(AlterReplicaLogDir))


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = field(Array(AlterReplicaLogDirPartitionResult))


class AlterReplicaLogDirsResponse(Message, key=34, versions=(1, 2), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    results: list[AlterReplicaLogDirTopicResult] = field(Array(AlterReplicaLogDirTopicResult))
