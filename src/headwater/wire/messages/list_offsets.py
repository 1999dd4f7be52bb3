"""ListOffsets: the offset of a timestamp, or of one of the ends of a partition.

Special timestamps: -1 the latest offset, -2 the earliest, -3 (v7) that of the largest timestamp, -4 (v8) the
earliest on local disk, -5 (v9) the latest in tiered storage, -6 (v11) the earliest that still waits for upload. v2
has the isolation level, v4 leader epochs. v6 is flexible. v10 gives a time limit for remote storage.
"""

from headwater.wire.schema import INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=4, default=-1)
    timestamp: int = field(INT64)  # in ms; or a special value below 0


class ListOffsetsTopic(Struct):
    name: str = field(STRING)
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


class ListOffsetsRequest(Message, key=2, versions=(1, 11), flexible_since=6):
    replica_id: int = field(INT32)
    isolation_level: int = field(INT8, since=2)  # 0 read uncommitted, 1 read committed
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(INT32, since=10)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    timestamp: int = field(INT64, default=-1)
    offset: int = field(INT64, default=-1)
    leader_epoch: int = field(INT32, since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


class ListOffsetsResponse(Message, key=2, versions=(1, 11), flexible_since=6):
    throttle_time_ms: int = field(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))
