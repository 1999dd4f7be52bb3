"""AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group will belong to the transaction.

The group's coordinator may never have been looked for: the client does so only after this. The topic of the offsets is
made then, as by FindCoordinator, or the client would ask the transaction's coordinator for ever. Markers of the
transaction before are waited for.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: AddOffsetsToTxnRequest) -> Any:
    groups = broker.groups.runtime
    if groups.partition_count:
        return _add(broker, context, request)
    deferred = Deferred()

    def topic_is_there(problem: KafkaError | None) -> None:
        if problem is not None:
            deferred.complete(_refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        answer = _add(broker, context, request)
        if isinstance(answer, Deferred):
            answer.listen(deferred.complete)
        else:
            deferred.complete(answer)

    groups.ensure_topic(topic_is_there)
    return deferred


def _add(broker: "Broker", context: RequestContext, request: AddOffsetsToTxnRequest) -> Any:
    groups = broker.groups.runtime
    try:
        offsets = TopicPartition(groups.topic, groups.index_for(request.group_id))
    except KafkaError as problem:
        return _refused(problem.code)

    def ask() -> Any:
        return broker.transactions.call(
            request.transactional_id,
            lambda shard, ticket, now_ms: shard.add_offsets(request, context.api_version, offsets, ticket, now_ms),
            _refused,
        )

    return broker.transactions.marker_waits.ask(
        request.transactional_id, ask, lambda response: int(response.error_code)
    )


def _refused(code: ErrorCode) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=int(code))
