"""SaslAuthenticate (key 36), versions 0 to 2, where no login is awaited: on listeners without SASL. Those with it
answer in server/security.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    request: SaslAuthenticateRequest,  # noqa: ARG001
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=int(ErrorCode.ILLEGAL_SASL_STATE),
        error_message="SaslAuthenticate request received where no login is awaited",
        auth_bytes=b"",
        session_lifetime_ms=0,
    )
