"""CreatePartitions: raises the number of partitions of topics. It cannot be lowered.

v2 is flexible, v3 may be throttled by a quota.
"""

from headwater.wire.schema import BOOL, INT16, INT32, STRING, Array, Message, Struct, field


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = field(Array(INT32))


class CreatePartitionsTopic(Struct):
    name: str = field(STRING)
    count: int = field(INT32)  # the total afterwards
    # of the new partitions; None lets the broker choose
    assignments: list[CreatePartitionsAssignment] | None = field(Array(CreatePartitionsAssignment), nullable_since=0)


class CreatePartitionsRequest(Message, key=37, versions=(0, 3), flexible_since=2):
    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


class CreatePartitionsTopicResult(Struct):
    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class CreatePartitionsResponse(Message, key=37, versions=(0, 3), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))
