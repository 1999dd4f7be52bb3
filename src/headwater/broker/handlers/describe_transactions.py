"""DescribeTransactions (key 65), version 0: state, producer and partitions of transactional ids."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: DescribeTransactionsRequest) -> Any:  # noqa: ARG001
    parts = [_describe(broker, transactional_id) for transactional_id in request.transactional_ids]
    return gather(parts, lambda states: DescribeTransactionsResponse(transaction_states=states))


def _describe(broker: "Broker", transactional_id: str) -> Any:
    def refused(code: ErrorCode) -> TransactionState:
        return TransactionState(error_code=int(code), transactional_id=transactional_id)

    return broker.transactions.call(
        transactional_id,
        lambda shard, ticket, _now_ms: shard.describe(transactional_id, ticket),
        refused,
        may_write=False,
    )
