"""ExpireDelegationToken (key 40), versions 1 and 2: always refused, for there are no delegation tokens here."""

from typing import TYPE_CHECKING

from headwater.broker.context import RequestContext
from headwater.broker.delegation_tokens import refusal_of
from headwater.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,
    request: ExpireDelegationTokenRequest,  # noqa: ARG001
) -> ExpireDelegationTokenResponse:
    code, time = refusal_of(broker, context.connection)
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=time, throttle_time_ms=0)
