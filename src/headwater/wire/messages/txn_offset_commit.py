"""TxnOffsetCommit: stores a group's offsets as part of a transaction.

v2 has leader epochs. v3 is flexible and names the member, so that a fenced one is refused. v4 answers
TRANSACTION_ABORTABLE. v5 includes what AddOffsetsToTxn did (KIP-890). v6 names topics by id (KIP-1319).
"""

from headwater.wire.schema import INT16, INT32, INT64, STRING, UUID, Array, Message, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = field(INT32)
    committed_offset: int = field(INT64)
    committed_leader_epoch: int = field(INT32, since=2, default=-1)
    committed_metadata: str | None = field(STRING, nullable_since=0)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = field(STRING, until=5)
    topic_id: bytes = field(UUID, since=6)
    partitions: list[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition))


class TxnOffsetCommitRequest(Message, key=28, versions=(0, 6), flexible_since=3):
    transactional_id: str = field(STRING)
    group_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    generation_id_or_member_epoch: int = field(INT32, since=3, default=-1)
    member_id: str = field(STRING, since=3)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=0)
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = field(STRING, until=5)
    topic_id: bytes = field(UUID, since=6)
    partitions: list[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition))


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 6), flexible_since=3):
    throttle_time_ms: int = field(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))
