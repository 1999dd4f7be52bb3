"""UnregisterBroker (key 64), version 0: forgets a broker that will not come back.

Registered are the brokers that live: a session with ZooKeeper holds each registration, and a broker alone knows itself
only. A living one would stand in the metadata again at once: that is refused, where Apache Kafka's controllers would
take it out of the cluster.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: UnregisterBrokerRequest,
) -> UnregisterBrokerResponse:
    if request.broker_id not in broker.image.brokers:
        return UnregisterBrokerResponse(
            error_code=int(ErrorCode.BROKER_ID_NOT_REGISTERED),
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    return UnregisterBrokerResponse(
        error_code=int(ErrorCode.INVALID_REQUEST),
        error_message=f"Broker ID {request.broker_id} is running: stop it before it is unregistered.",
    )
