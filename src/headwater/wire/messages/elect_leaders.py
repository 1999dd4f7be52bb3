"""ElectLeaders: makes preferred replicas lead; from v1 on also replicas out of sync, if told so.

v2 is flexible.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class TopicPartitions(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class ElectLeadersRequest(Message, key=43, versions=(0, 2), flexible_since=2):
    election_type: int = field(INT8, since=1)  # 0 preferred, 1 unclean
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable_since=0)  # None for all
    timeout_ms: int = field(INT32, default=60_000)


class PartitionResult(Struct):
    partition_id: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class ReplicaElectionResult(Struct):
    topic: str = field(STRING)
    partition_result: list[PartitionResult] = field(Array(PartitionResult))


class ElectLeadersResponse(Message, key=43, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = field(Array(ReplicaElectionResult))
