"""RenewDelegationToken (key 39), versions 1 and 2: always refused, for there are no delegation tokens here."""

from typing import TYPE_CHECKING

from headwater.broker.context import RequestContext
from headwater.broker.delegation_tokens import refusal_of
from headwater.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,
    request: RenewDelegationTokenRequest,  # noqa: ARG001
) -> RenewDelegationTokenResponse:
    code, time = refusal_of(broker, context.connection)
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=time, throttle_time_ms=0)
