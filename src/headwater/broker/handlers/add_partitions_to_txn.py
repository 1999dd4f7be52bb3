"""AddPartitionsToTxn (key 24), versions 0 to 5: partitions enter a transaction. v4 is for brokers: many transactions,
and `verify_only`.

A partition that does not exist is refused, and then nothing is added: the others are told OPERATION_NOT_ATTEMPTED.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.coordinator.transactions.listing import partition_results
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_BATCHED: Final = 4


def handle(broker: "Broker", context: RequestContext, request: AddPartitionsToTxnRequest) -> Any:
    if context.api_version >= _FIRST_BATCHED:
        parts = [_add(broker, context, transaction) for transaction in request.transactions]
        return gather(parts, lambda results: AddPartitionsToTxnResponse(results_by_transaction=results))
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return gather(
        [_add(broker, context, only)],
        lambda results: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results),
    )


def _add(broker: "Broker", context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> Any:
    def refused(code: ErrorCode) -> AddPartitionsToTxnResult:
        return partition_results(transaction, lambda _: code)

    def exists(name: TopicPartition) -> bool:
        topic_id = broker.image.ids_by_name.get(name.topic)
        return topic_id is not None and 0 <= name.partition < len(broker.image.topics[topic_id].partitions)

    names = [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    if not transaction.verify_only and not all(exists(name) for name in names):
        return partition_results(
            transaction,
            lambda name: ErrorCode.OPERATION_NOT_ATTEMPTED if exists(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
    return broker.transactions.call(
        transaction.transactional_id,
        lambda shard, ticket, now_ms: shard.add_partitions(transaction, context.api_version, ticket, now_ms),
        refused,
        may_write=not transaction.verify_only,
    )
