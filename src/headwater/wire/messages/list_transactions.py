"""ListTransactions: the transactions that this broker coordinates. Flexible from the start.

v1 filters by age, v2 by a regular expression over the transactional id.
"""

from headwater.wire.schema import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ListTransactionsRequest(Message, key=66, versions=(0, 2), flexible_since=0):
    state_filters: list[str] = field(Array(STRING))
    producer_id_filters: list[int] = field(Array(INT64))
    duration_filter: int = field(INT64, since=1, default=-1)  # in ms; -1 for any
    transactional_id_pattern: str | None = field(STRING, since=2, nullable_since=0)


class TransactionState(Struct):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)


class ListTransactionsResponse(Message, key=66, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(Array(STRING))
    transaction_states: list[TransactionState] = field(Array(TransactionState))
