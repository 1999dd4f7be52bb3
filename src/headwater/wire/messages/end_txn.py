"""EndTxn: commits or aborts a transaction.

v2 answers PRODUCER_FENCED, v3 is flexible, v4 answers TRANSACTION_ABORTABLE. v5 bumps the producer epoch with every
transaction and answers the new one (KIP-890).
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, Message, field


class EndTxnRequest(Message, key=26, versions=(0, 5), flexible_since=3):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)  # True commits, False aborts


class EndTxnResponse(Message, key=26, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int = field(INT64, since=5, default=-1)
    producer_epoch: int = field(INT16, since=5, default=-1)
