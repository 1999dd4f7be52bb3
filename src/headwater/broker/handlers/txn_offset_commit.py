"""TxnOffsetCommit (key 28), versions 0 to 5: offsets that count when the transaction is committed.

v3 checks the group's generation and member. From v5 on (transaction version 2) the group's partition of
`__consumer_offsets` enters the transaction by itself; before that AddOffsetsToTxn has put it there, and a commit is
checked against the transaction that is open. While the markers of the transaction before are being written, the
coordinator is asked again (broker/coordinators/marker_wait.py).
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.marker_wait import Patience
from headwater.broker.coordinators.markers import Results
from headwater.broker.deferred import Deferred
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_IMPLICIT: Final = 5
_OF_ANOTHER_COORDINATOR: Final = frozenset(
    (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)  # the transaction's, where the client would take it for news of the group's: it is to ask here again


def handle(broker: "Broker", context: RequestContext, request: TxnOffsetCommitRequest) -> Any:
    def refused(code: ErrorCode) -> TxnOffsetCommitResponse:
        return _refused(request, code)

    groups = broker.groups
    try:
        offsets = TopicPartition(groups.runtime.topic, groups.runtime.index_for(request.group_id))
    except KafkaError as problem:
        return refused(problem.code)
    deferred = Deferred(holds_order=True)
    patience = Patience(broker)

    def verified(results: Results) -> None:
        code = results[offsets]
        if deferred.done or (code is ErrorCode.CONCURRENT_TRANSACTIONS and patience.asks_again(verify)):
            return
        if code is not ErrorCode.NONE:
            deferred.complete(refused(_for_client(code, context.api_version)))
            return
        answer = groups.call(
            context,
            request.group_id,
            lambda shard, who, ticket, now_ms: shard.txn_offset_commit(who, request, ticket, now_ms),
            refused,
        )
        if isinstance(answer, Deferred):
            answer.listen(deferred.complete)
        else:
            deferred.complete(answer)

    def verify() -> None:
        if not deferred.done:
            broker.transactions.verify_or_add(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                [offsets],
                add=context.api_version >= _FIRST_IMPLICIT,
                done=verified,
            )

    verify()
    return deferred


def _for_client(code: ErrorCode, version: int) -> ErrorCode:
    """What a failed verification is called towards clients: older ones know no TRANSACTION_ABORTABLE."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < 4:
        return ErrorCode.INVALID_TXN_STATE
    if code in _OF_ANOTHER_COORDINATOR:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return code


def _refused(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=int(code))
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
