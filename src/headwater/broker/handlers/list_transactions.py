"""ListTransactions (key 66), versions 0 to 2: what this coordinator knows, by state, producer, from v1 on duration,
from v2 on an RE2 pattern.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.coordinator.groups.consumer.subscriptions import compile_regex
from headwater.coordinator.transactions.listing import unknown_state_filters
from headwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:  # noqa: ARG001
    matches = None
    if request.transactional_id_pattern:
        try:
            matches = compile_regex(request.transactional_id_pattern).fullmatch
        except KafkaError as problem:
            return ListTransactionsResponse(error_code=int(problem.code))
    runtime = broker.transactions.runtime
    now_ms = broker.now_ms()
    states = [state for hosted in runtime.active() for state in hosted.shard.list(request, now_ms, matches)]
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if runtime.is_loading else ErrorCode.NONE
    return ListTransactionsResponse(
        error_code=int(code), unknown_state_filters=unknown_state_filters(request), transaction_states=states
    )
