"""OffsetCommit: stores how far a group has read.

v5 drops the retention time, v6 has leader epochs, v7 static members. v8 is flexible. v9 serves the new group
protocol (KIP-848) as well; the generation then is the member epoch. v10 names topics by id.
"""

from headwater.wire.schema import INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field


class OffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=6, default=-1)
    committed_metadata: str | None = field(STRING, nullable_since=0)


class OffsetCommitRequestTopic(Struct):
    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


class OffsetCommitRequest(Message, key=8, versions=(2, 10), flexible_since=8):
    group_id: str = field(STRING)
    generation_id_or_member_epoch: int = field(INT32, default=-1)  # -1 when no group manages the consumer
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=7, nullable_since=0)
    retention_time_ms: int = field(INT64, until=4, default=-1)  # -1 for the broker's default
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


class OffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class OffsetCommitResponseTopic(Struct):
    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


class OffsetCommitResponse(Message, key=8, versions=(2, 10), flexible_since=8):
    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))
