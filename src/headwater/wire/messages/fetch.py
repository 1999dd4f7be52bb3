"""Fetch: reads record batches, for consumers and for followers.

v4 has isolation levels and aborted transactions, v5 the log's start offset, v7 fetch sessions (only what changed is
sent), v9 the leader epoch that the reader knows, v10 allows zstd, v11 brings racks and preferred read replicas. v12
is flexible and tells followers where their log diverges. v13 names topics by id, v15 moves the replica id into a
tagged field together with its epoch, v16 adds the endpoints of new leaders, v17 replica directory ids, v18 the
follower's high watermark.

`aborted_transactions` stand in offset order.
"""

from headwater.wire.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Message,
    Records,
    Struct,
    field,
)


class ReplicaState(Struct):
    """Who follows, and in which life of it (KIP-903)."""

    replica_id: int = field(INT32, default=-1)
    replica_epoch: int = field(INT64, default=-1)


class FetchPartition(Struct):
    partition: int = field(INT32)
    current_leader_epoch: int = field(INT32, since=9, default=-1)
    fetch_offset: int = field(INT64)
    last_fetched_epoch: int = field(INT32, since=12, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)  # -1 from a consumer
    partition_max_bytes: int = field(INT32)
    replica_directory_id: bytes = field(UUID, since=17, tag=0)
    high_watermark: int = field(INT64, since=18, tag=1, default=0x7FFF_FFFF_FFFF_FFFF)


class FetchTopic(Struct):
    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[FetchPartition] = field(Array(FetchPartition))


class ForgottenTopic(Struct):
    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[int] = field(Array(INT32))


class FetchRequest(Message, key=1, versions=(4, 18), flexible_since=12):
    cluster_id: str | None = field(STRING, since=12, nullable_since=0, tag=0)
    replica_id: int = field(INT32, until=14, default=-1)  # -1 from a consumer
    replica_state: ReplicaState | None = field(ReplicaState, since=15, tag=1)
    max_wait_ms: int = field(INT32)
    min_bytes: int = field(INT32)
    max_bytes: int = field(INT32, default=0x7FFF_FFFF)
    isolation_level: int = field(INT8)  # 0 read uncommitted, 1 read committed
    session_id: int = field(INT32, since=7)
    session_epoch: int = field(INT32, since=7, default=-1)  # -1 no session, 0 a new one
    topics: list[FetchTopic] = field(Array(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = field(Array(ForgottenTopic), since=7)
    rack_id: str = field(STRING, since=11)


class EpochEndOffset(Struct):
    """The largest epoch that both logs share, and where it ends."""

    epoch: int = field(INT32, default=-1)
    end_offset: int = field(INT64, default=-1)


class LeaderIdAndEpoch(Struct):
    """The leader to go to, when this broker is not it."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


class SnapshotId(Struct):
    """For KRaft's own log; a broker without it never sends one."""

    end_offset: int = field(INT64, default=-1)
    epoch: int = field(INT32, default=-1)


class AbortedTransaction(Struct):
    producer_id: int = field(INT64)
    first_offset: int = field(INT64)


class PartitionData(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    high_watermark: int = field(INT64)
    last_stable_offset: int = field(INT64, default=-1)
    log_start_offset: int = field(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, since=12, tag=0)  # a follower truncates to here
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = field(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(Array(AbortedTransaction), nullable_since=0)
    preferred_read_replica: int = field(INT32, since=11, default=-1)
    records: Records | None = field(RECORDS, nullable_since=0)


class FetchableTopicResponse(Struct):
    topic: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partitions: list[PartitionData] = field(Array(PartitionData))


class NodeEndpoint(Struct):
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0)


class FetchResponse(Message, key=1, versions=(4, 18), flexible_since=12):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=7)
    session_id: int = field(INT32, since=7)
    responses: list[FetchableTopicResponse] = field(Array(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=16, tag=0)
