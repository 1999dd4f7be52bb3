"""AlterPartitionReassignments: moves partitions to other brokers, or cancels that. Flexible from the start.

v1 can forbid a change of the replication factor.
"""

from headwater.wire.schema import BOOL, INT16, INT32, STRING, Array, Message, Struct, field


class ReassignablePartition(Struct):
    partition_index: int = field(INT32)
    replicas: list[int] | None = field(Array(INT32), nullable_since=0)  # None cancels


class ReassignableTopic(Struct):
    name: str = field(STRING)
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition))


class AlterPartitionReassignmentsRequest(Message, key=45, versions=(0, 1), flexible_since=0):
    timeout_ms: int = field(INT32, default=60_000)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic))


class ReassignablePartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class ReassignableTopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


class AlterPartitionReassignmentsResponse(Message, key=45, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    allow_replication_factor_change: bool = field(BOOL, since=1, default=True)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))
