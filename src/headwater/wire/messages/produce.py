"""Produce: appends record batches to partitions.

v3 is the first with record batches of magic 2, and the first that any broker of today serves. v5 answers the log's
start offset, v8 the batches that were refused and why, v10 the current leader of a partition that has moved
(KIP-951). v9 is flexible. v12 lets a transactional producer leave out AddPartitionsToTxn (KIP-890). v13 names topics
by id. v4, v6, v7 and v11 changed only the meaning of errors and codecs (v7: zstd).

With `acks` 0 there is no response at all.
"""

from headwater.wire.schema import INT16, INT32, INT64, RECORDS, STRING, UUID, Array, Message, Records, Struct, field


class PartitionProduceData(Struct):
    index: int = field(INT32)
    records: Records | None = field(RECORDS, nullable_since=0)


class TopicProduceData(Struct):
    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_data: list[PartitionProduceData] = field(Array(PartitionProduceData))


class ProduceRequest(Message, key=0, versions=(3, 13), flexible_since=9):
    transactional_id: str | None = field(STRING, nullable_since=0)
    acks: int = field(INT16)  # 0 none, 1 the leader, -1 all in-sync replicas
    timeout_ms: int = field(INT32)
    topic_data: list[TopicProduceData] = field(Array(TopicProduceData))


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = field(INT32)
    batch_index_error_message: str | None = field(STRING, nullable_since=0)


class LeaderIdAndEpoch(Struct):
    """The leader to go to, when this broker is not it."""

    leader_id: int = field(INT32, default=-1)
    leader_epoch: int = field(INT32, default=-1)


class PartitionProduceResponse(Struct):
    index: int = field(INT32)
    error_code: int = field(INT16)
    base_offset: int = field(INT64)
    log_append_time_ms: int = field(INT64, default=-1)  # -1 unless the topic uses log-append time
    log_start_offset: int = field(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(Array(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = field(STRING, since=8, nullable_since=0)
    current_leader: LeaderIdAndEpoch | None = field(LeaderIdAndEpoch, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: str = field(STRING, until=12)
    topic_id: bytes = field(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = field(Array(PartitionProduceResponse))


class NodeEndpoint(Struct):
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0)


class ProduceResponse(Message, key=0, versions=(3, 13), flexible_since=9):
    responses: list[TopicProduceResponse] = field(Array(TopicProduceResponse))
    throttle_time_ms: int = field(INT32)
    node_endpoints: list[NodeEndpoint] = field(Array(NodeEndpoint), since=10, tag=0)
