"""Who is exempt from quotas: brokers among themselves, where they may (CLUSTER_ACTION). A client that calls itself a broker is none. No state."""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.acls import Operation
from headwater.broker.forwarding import FORWARDED_CLIENT
from headwater.broker.rights.authorizer import caller_of

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

_FETCH, _LIST_OFFSETS, _EPOCHS, _ADD_PARTITIONS, _MARKERS = 1, 2, 23, 24, 27
_FIRST_ADDED_BY_BROKERS: Final = 4


def is_between_brokers(broker: "Broker", context: "RequestContext", request: Any) -> bool:
    key, version = context.api_key, context.api_version
    if key == _FETCH:
        state = request.replica_state
        asks = (request.replica_id if state is None else state.replica_id) >= 0
    elif key in (_LIST_OFFSETS, _EPOCHS):
        asks = request.replica_id >= 0
    elif key == _ADD_PARTITIONS:
        asks = version >= _FIRST_ADDED_BY_BROKERS
    else:
        asks = key == _MARKERS or (context.client_id or "").startswith(FORWARDED_CLIENT)
    if not asks:
        return False
    caller = caller_of(broker.authorizer, context.connection)
    return caller is None or caller.may_cluster(Operation.CLUSTER_ACTION)
