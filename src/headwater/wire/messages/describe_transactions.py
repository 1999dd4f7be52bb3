"""DescribeTransactions: state and partitions of transactions, by transactional id. Flexible from the start."""

from headwater.wire.schema import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DescribeTransactionsRequest(Message, key=65, versions=(0, 0), flexible_since=0):
    transactional_ids: list[str] = field(Array(STRING))


class TopicData(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class TransactionState(Struct):
    error_code: int = field(INT16)
    transactional_id: str = field(STRING)
    transaction_state: str = field(STRING)
    transaction_timeout_ms: int = field(INT32)
    transaction_start_time_ms: int = field(INT64)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    topics: list[TopicData] = field(Array(TopicData))


class DescribeTransactionsResponse(Message, key=65, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    transaction_states: list[TransactionState] = field(Array(TransactionState))
