"""OffsetForLeaderEpoch: where a leader epoch ends in the leader's log.

So a reader finds out whether its own log diverged. v3 has the replica id, v4 is flexible.
"""

from headwater.wire.schema import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32)


class OffsetForLeaderTopic(Struct):
    topic: str = field(STRING)
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


class OffsetForLeaderEpochRequest(Message, key=23, versions=(2, 4), flexible_since=4):
    replica_id: int = field(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


class EpochEndOffset(Struct):
    """The largest epoch that both logs share, and where it ends."""

    error_code: int = field(INT16)
    partition: int = field(INT32)
    leader_epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = field(STRING)
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset))


class OffsetForLeaderEpochResponse(Message, key=23, versions=(2, 4), flexible_since=4):
    throttle_time_ms: int = field(INT32)
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))
