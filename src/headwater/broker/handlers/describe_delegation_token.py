"""DescribeDelegationToken (key 41), versions 1 to 3: always refused, for there are no delegation tokens here."""

from typing import TYPE_CHECKING

from headwater.broker.context import RequestContext
from headwater.broker.delegation_tokens import refusal_of
from headwater.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,
    request: DescribeDelegationTokenRequest,  # noqa: ARG001
) -> DescribeDelegationTokenResponse:
    code, _ = refusal_of(broker, context.connection)
    return DescribeDelegationTokenResponse(error_code=code, tokens=[], throttle_time_ms=0)
