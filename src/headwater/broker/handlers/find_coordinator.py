"""FindCoordinator (key 10), versions 0 to 6: which broker coordinates a group (type 0), a transactional id (1) or a
share group (2).

v1 has the type, v3 is flexible, v4 asks for many keys at once. The internal topic is made when somebody first asks, and
the answer waits for it. Share groups are not served: INVALID_REQUEST, as an Apache broker without them says.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.runtime import Runtime
from headwater.broker.deferred import Deferred
from headwater.metadata.image import Endpoint
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_BATCHED: Final = 4
_GROUP: Final = 0
_TRANSACTION: Final = 1


def handle(
    broker: "Broker", context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse | Deferred:
    keys = request.coordinator_keys if context.api_version >= _FIRST_BATCHED else [request.key]
    runtime: Runtime[Any]
    if request.key_type == _GROUP:
        runtime = broker.groups.runtime
    elif request.key_type == _TRANSACTION:
        runtime = broker.transactions.runtime
    else:
        refusal = KafkaError(ErrorCode.INVALID_REQUEST, f"Coordinators of type {request.key_type} are not served.")
        return _response(context, [_refused(key, refusal) for key in keys])
    deferred = Deferred()

    def topic_is_there(error: KafkaError | None) -> None:
        found = [_find(broker, context, key, runtime, error) for key in keys]
        deferred.complete(_response(context, found))

    runtime.ensure_topic(topic_is_there)
    return deferred


def _find(
    broker: "Broker", context: RequestContext, key: str, runtime: Runtime[Any], error: KafkaError | None
) -> Coordinator:
    if error is not None:
        return _refused(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
    leader = broker.image.topic(runtime.topic).partitions[runtime.index_for(key)].leader
    endpoint = _endpoint(broker, leader, context.connection.listener)
    if endpoint is None:
        return _refused(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."))
    return Coordinator(
        key=key, node_id=leader, host=endpoint.host, port=endpoint.port, error_code=0, error_message=None
    )


def _endpoint(broker: "Broker", broker_id: BrokerId, listener: str) -> Endpoint | None:
    state = broker.image.brokers.get(broker_id)
    return None if state is None else next((each for each in state.endpoints if each.listener == listener), None)


def _refused(key: str, problem: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=int(problem.code), error_message=problem.message
    )


def _response(context: RequestContext, found: list[Coordinator]) -> FindCoordinatorResponse:
    if context.api_version >= _FIRST_BATCHED:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
