"""ConsumerGroupHeartbeat: the whole life of a member in the new group protocol (KIP-848).

It joins, subscribes, tells what it owns, is assigned, and leaves.

Fields that did not change since the last heartbeat are null. v1 has subscriptions by regular expression, and ids
that the member makes for itself.
"""

from headwater.wire.schema import INT16, INT32, STRING, UUID, Array, Message, Struct, field


class TopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))


class ConsumerGroupHeartbeatRequest(Message, key=68, versions=(0, 1), flexible_since=0):
    group_id: str = field(STRING)
    member_id: str = field(STRING)
    member_epoch: int = field(INT32)  # 0 joins, -1 leaves, -2 leaves for a while (static member)
    instance_id: str | None = field(STRING, nullable_since=0)
    rack_id: str | None = field(STRING, nullable_since=0)
    rebalance_timeout_ms: int = field(INT32, default=-1)  # -1 unless it changed
    subscribed_topic_names: list[str] | None = field(Array(STRING), nullable_since=0)  # None unless they changed
    subscribed_topic_regex: str | None = field(STRING, since=1, nullable_since=0)  # None unless it changed; RE2
    server_assignor: str | None = field(STRING, nullable_since=0)
    # what the member owns; None unless it changed
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable_since=0)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


class ConsumerGroupHeartbeatResponse(Message, key=68, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    member_id: str | None = field(STRING, nullable_since=0)
    member_epoch: int = field(INT32)
    heartbeat_interval_ms: int = field(INT32)
    assignment: Assignment | None = field(Assignment, nullable_since=0)  # None unless it changed
