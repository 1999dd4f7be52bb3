"""AddOffsetsToTxn: a group whose offsets a transaction is about to commit.

v2 answers PRODUCER_FENCED, v3 is flexible, v4 answers TRANSACTION_ABORTABLE.
"""

from headwater.wire.schema import INT16, INT32, INT64, STRING, Message, field


class AddOffsetsToTxnRequest(Message, key=25, versions=(0, 4), flexible_since=3):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


class AddOffsetsToTxnResponse(Message, key=25, versions=(0, 4), flexible_since=3):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
