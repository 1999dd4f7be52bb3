"""Transactions as answers show them. No state."""

from collections.abc import Callable

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions.states import STATES_BY_LABEL
from headwater.coordinator.transactions.transaction import Transaction
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from headwater.wire.messages.describe_transactions import TopicData, TransactionState
from headwater.wire.messages.list_transactions import ListTransactionsRequest


def describe_transaction(transactional_id: str, transaction: Transaction | None) -> TransactionState:
    if transaction is None:
        code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if transactional_id else ErrorCode.INVALID_REQUEST
        return TransactionState(error_code=int(code), transactional_id=transactional_id)
    topics: dict[str, TopicData] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return TransactionState(
        error_code=0,
        transactional_id=transactional_id,
        transaction_state=transaction.state.label,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )


def unknown_state_filters(request: ListTransactionsRequest) -> list[str]:
    """Names that are no states. They filter all the same: nothing has them."""
    return [name for name in request.state_filters if name not in STATES_BY_LABEL]


def is_listed(
    transaction: Transaction, request: ListTransactionsRequest, now_ms: int, matches: Callable[[str], object] | None
) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.label not in request.state_filters:
        return False
    if request.duration_filter >= 0 and now_ms - transaction.start_ms <= request.duration_filter:
        return False
    return matches is None or bool(matches(transaction.transactional_id))


def partition_results(
    transaction: AddPartitionsToTxnTransaction, code_for: Callable[[TopicPartition], ErrorCode]
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=int(code_for(TopicPartition(topic.name, index)))
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )
