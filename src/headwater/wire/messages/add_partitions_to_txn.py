"""AddPartitionsToTxn: partitions that a transaction is about to write to.

v3 is flexible and the last that clients use; their one transaction stands in the fields that begin with
`v3_and_below`. From v4 on brokers ask for many transactions at once, also just to verify. v2 answers
PRODUCER_FENCED, v5 TRANSACTION_ABORTABLE.
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    verify_only: bool = field(BOOL)  # only ask whether they are in it
    topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic))


class AddPartitionsToTxnRequest(Message, key=24, versions=(0, 5), flexible_since=3):
    transactions: list[AddPartitionsToTxnTransaction] = field(Array(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = field(STRING, until=3)
    v3_and_below_producer_id: int = field(INT64, until=3)
    v3_and_below_producer_epoch: int = field(INT16, until=3)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(Array(AddPartitionsToTxnTopic), until=3)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = field(INT32)
    partition_error_code: int = field(INT16)


class AddPartitionsToTxnTopicResult(Struct):
    name: str = field(STRING)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(Array(AddPartitionsToTxnPartitionResult))


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = field(STRING)
    topic_results: list[AddPartitionsToTxnTopicResult] = field(Array(AddPartitionsToTxnTopicResult))


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(Array(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(
        Array(AddPartitionsToTxnTopicResult), until=3
    )
