"""AddOffsetsToTxn (key 25), versions 0 to 4: the offsets of a group will belong to the transaction."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: AddOffsetsToTxnRequest) -> Any:
    def refused(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=int(code))

    groups = broker.groups.runtime
    try:
        offsets = TopicPartition(groups.topic, groups.index_for(request.group_id))
    except KafkaError as problem:
        return refused(problem.code)
    return broker.transactions.call(
        request.transactional_id,
        lambda shard, ticket, now_ms: shard.add_offsets(request, context.api_version, offsets, ticket, now_ms),
        refused,
    )
