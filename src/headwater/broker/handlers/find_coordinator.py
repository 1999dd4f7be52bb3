"""FindCoordinator (key 10), versions 0 to 6. No coordinator runs yet: every key is told COORDINATOR_NOT_AVAILABLE, which clients try again.

The API is here all the same, because librdkafka 2.16 drops lz4 when a broker does not advertise it.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_BATCHED: Final = 4
_NOT_AVAILABLE: Final = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
_MESSAGE: Final = "The coordinator is not available."


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    if context.api_version < _FIRST_BATCHED:
        return FindCoordinatorResponse(error_code=_NOT_AVAILABLE, error_message=_MESSAGE, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=_NOT_AVAILABLE, error_message=_MESSAGE)
            for key in request.coordinator_keys
        ]
    )
