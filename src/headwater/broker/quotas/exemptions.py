"""Who is exempt from quotas: brokers of this cluster among themselves. A client that calls itself a broker is none. No
state.

A request that only brokers send is looked at twice: its sender needs the right to it (CLUSTER_ACTION), or, where no
authorizer knows rights, has to ask over the listener that brokers use among themselves.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.acls import Operation
from headwater.broker.origins import FORWARDED, FORWARDED_CLIENT
from headwater.broker.rights.authorizer import caller_of

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

_FETCH, _LIST_OFFSETS, _API_VERSIONS, _EPOCHS, _ADD_PARTITIONS, _MARKERS = 1, 2, 18, 23, 24, 27
_FIRST_ADDED_BY_BROKERS: Final = 4
_FAILURE_DETECTOR: Final = ("headwater", "controller")  # how it calls its software


def is_between_brokers(broker: "Broker", context: "RequestContext", request: Any) -> bool:
    if broker.peers is None or not _is_of_a_broker(context, request):
        return False
    caller = caller_of(broker.authorizer, context.connection)
    if caller is None:
        return context.connection.listener == broker.config.inter_broker_listener().name
    return caller.may_cluster(Operation.CLUSTER_ACTION)


def _is_of_a_broker(context: "RequestContext", request: Any) -> bool:
    """By what it says."""
    key = context.api_key
    if key == _FETCH:
        state = request.replica_state
        return bool((request.replica_id if state is None else state.replica_id) >= 0)
    if key in (_LIST_OFFSETS, _EPOCHS):
        return bool(request.replica_id >= 0)
    if key == _ADD_PARTITIONS:
        return context.api_version >= _FIRST_ADDED_BY_BROKERS
    if key == _API_VERSIONS:
        return (request.client_software_name, request.client_software_version) == _FAILURE_DETECTOR
    return key == _MARKERS or (key in FORWARDED and (context.client_id or "").startswith(FORWARDED_CLIENT))
