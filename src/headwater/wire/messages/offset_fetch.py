"""OffsetFetch: how far a group has read.

Of an unknown group or partition that is -1, without an error.

v2 can ask for all topics, and has an error for the whole response. v5 has leader epochs. v6 is flexible. v7 can
insist on offsets that no open transaction may change. v8 asks for many groups at once, in fields of its own. v9
serves the new group protocol (KIP-848). v10 names topics by id.
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field


class OffsetFetchRequestTopic(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


class OffsetFetchRequestTopics(Struct):
    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partition_indexes: list[int] = field(Array(INT32))


class OffsetFetchRequestGroup(Struct):
    group_id: str = field(STRING)
    member_id: str | None = field(STRING, since=9, nullable_since=0)
    member_epoch: int = field(INT32, since=9, default=-1)
    # None for all of them
    topics: list[OffsetFetchRequestTopics] | None = field(Array(OffsetFetchRequestTopics), nullable_since=0)


class OffsetFetchRequest(Message, key=9, versions=(1, 10), flexible_since=6):
    group_id: str = field(STRING, until=7)
    # None for all of them
    topics: list[OffsetFetchRequestTopic] | None = field(Array(OffsetFetchRequestTopic), until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), since=8)
    require_stable: bool = field(BOOL, since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)  # -1 when there is none
    committed_leader_epoch: int = field(INT32, since=5, default=-1)
    metadata: str | None = field(STRING, nullable_since=0)
    error_code: int = field(INT16)


class OffsetFetchResponseTopic(Struct):
    name: str = field(STRING)
    partitions: list[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition))


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)  # -1 when there is none
    committed_leader_epoch: int = field(INT32, default=-1)
    metadata: str | None = field(STRING, nullable_since=0)
    error_code: int = field(INT16)


class OffsetFetchResponseTopics(Struct):
    name: str = field(STRING, until=9)
    topic_id: bytes = field(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions))


class OffsetFetchResponseGroup(Struct):
    group_id: str = field(STRING)
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics))
    error_code: int = field(INT16)


class OffsetFetchResponse(Message, key=9, versions=(1, 10), flexible_since=6):
    throttle_time_ms: int = field(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), until=7)
    error_code: int = field(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), since=8)
