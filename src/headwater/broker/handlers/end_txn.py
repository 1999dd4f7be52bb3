"""EndTxn (key 26), versions 0 to 5: commits or aborts. From v5 on (transaction version 2) the producer's epoch grows
with every transaction.

One that comes while the markers of the transaction before are being written waits for them
(broker/coordinators/marker_wait.py).
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.coordinator.transactions.shard import end_txn_error
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: EndTxnRequest) -> Any:
    version = context.api_version

    def refused(code: ErrorCode) -> EndTxnResponse:
        return end_txn_error(code, version)

    def ask() -> Any:
        return broker.transactions.call_with_producer_id(
            request.transactional_id,
            lambda shard: shard.needs_producer_id(request),
            lambda shard, producer_id, ticket, now_ms: shard.end_txn(request, version, producer_id, ticket, now_ms),
            refused,
        )

    return broker.transactions.marker_waits.ask(
        request.transactional_id, ask, lambda response: int(response.error_code)
    )
