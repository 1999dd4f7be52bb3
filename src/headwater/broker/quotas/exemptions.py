"""Who is exempt from quotas: brokers of this cluster among themselves, with the requests that only they send. A client
that calls itself a broker is none (`rights/broker_connections.py`). No state.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.broker.rights.broker_connections import is_of_a_broker, is_sent_on

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

_FETCH, _LIST_OFFSETS, _API_VERSIONS, _EPOCHS, _ADD_PARTITIONS, _MARKERS = 1, 2, 18, 23, 24, 27
_FIRST_ADDED_BY_BROKERS: Final = 4
_FAILURE_DETECTOR: Final = ("headwater", "controller")  # how it calls its software


def is_between_brokers(broker: "Broker", context: "RequestContext", request: Any) -> bool:
    if _says_so(context, request):
        return is_of_a_broker(broker, context.connection)
    return is_sent_on(broker, context)


def _says_so(context: "RequestContext", request: Any) -> bool:
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
    return key == _MARKERS
