"""ListPartitionReassignments: the partitions that are moving. Flexible from the start."""

from headwater.wire.schema import INT16, INT32, STRING, Array, Message, Struct, field


class ListPartitionReassignmentsTopics(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


class ListPartitionReassignmentsRequest(Message, key=46, versions=(0, 0), flexible_since=0):
    timeout_ms: int = field(INT32, default=60_000)
    # None for all
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), nullable_since=0
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = field(INT32)
    replicas: list[int] = field(Array(INT32))
    adding_replicas: list[int] = field(Array(INT32))
    removing_replicas: list[int] = field(Array(INT32))


class OngoingTopicReassignment(Struct):
    name: str = field(STRING)
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


class ListPartitionReassignmentsResponse(Message, key=46, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))
