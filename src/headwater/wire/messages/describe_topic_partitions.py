"""DescribeTopicPartitions: topics page by page, with eligible leader replicas. Flexible from the start."""

from headwater.wire.schema import BOOL, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class TopicRequest(Struct):
    name: str = field(STRING)


class Cursor(Struct):
    """Where a long answer goes on."""

    topic_name: str = field(STRING)
    partition_index: int = field(INT32)


class DescribeTopicPartitionsRequest(Message, key=75, versions=(0, 0), flexible_since=0):
    topics: list[TopicRequest] = field(Array(TopicRequest))
    response_partition_limit: int = field(INT32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable_since=0)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    replica_nodes: list[int] = field(Array(INT32))
    isr_nodes: list[int] = field(Array(INT32))
    eligible_leader_replicas: list[int] | None = field(Array(INT32), nullable_since=0)
    last_known_elr: list[int] | None = field(Array(INT32), nullable_since=0)
    offline_replicas: list[int] = field(Array(INT32))


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable_since=0)
    topic_id: bytes = field(UUID)
    is_internal: bool = field(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(Array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(INT32, default=-0x8000_0000)


class DescribeTopicPartitionsResponse(Message, key=75, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(Array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Cursor, nullable_since=0)
