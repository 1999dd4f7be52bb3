"""InitProducerId: a producer id and epoch, for idempotence and for transactions.

v2 is flexible. v3 lets a producer that knows its id and epoch bump the latter. v4 answers PRODUCER_FENCED, v5
TRANSACTION_ABORTABLE. v6 is for two-phase commit (KIP-939).
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, Message, field


class InitProducerIdRequest(Message, key=22, versions=(0, 6), flexible_since=2):
    transactional_id: str | None = field(STRING, nullable_since=0)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int = field(INT64, since=3, default=-1)
    producer_epoch: int = field(INT16, since=3, default=-1)
    enable2_pc: bool = field(BOOL, since=6)
    keep_prepared_txn: bool = field(BOOL, since=6)


class InitProducerIdResponse(Message, key=22, versions=(0, 6), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, default=-1)
    producer_epoch: int = field(INT16)
    ongoing_txn_producer_id: int = field(INT64, since=6, default=-1)
    ongoing_txn_producer_epoch: int = field(INT16, since=6, default=-1)
