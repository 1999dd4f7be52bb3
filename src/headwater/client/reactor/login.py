"""The login of a link, by SASL: a token where one is needed, SaslHandshake, then as many SaslAuthenticate as the
mechanism needs. No state of its own.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.sasl_client import Credentials
from headwater.client.addresses import Address
from headwater.client.errors import ConnectionFailed
from headwater.client.reactor.kernel import Kernel
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Call = Callable[[Any, Any], Awaitable[Any]]


async def has_token(
    address: Address, credentials: Credentials, kernel: Kernel, post: Callable[[Callable[[], None]], None]
) -> None:
    """Returns when the credentials can be shown: tokens may have to be fetched first. Raises KafkaError, of the code
    that nobody tries again where the endpoint of tokens has refused.
    """
    if credentials.token is None:
        return
    from headwater.client.reactor.token_source import TokenSource  # not for those who have passwords
    from headwater.client.token_requests import TokenNotFetched

    if isinstance(credentials.token, TokenSource):
        try:
            await credentials.token.renew(kernel, post)
        except LoginFailed as problem:
            raise _failed(address, str(problem)) from None
        except TokenNotFetched as problem:
            raise ConnectionFailed(address, str(problem)) from None


async def log_in(address: Address, credentials: Credentials, call: Call) -> int:
    """How long the login holds, in ms; 0 if nobody says. Raises KafkaError(SASL_AUTHENTICATION_FAILED), which nobody
    tries again.
    """
    handshake: SaslHandshakeResponse = await call(
        SaslHandshakeRequest(mechanism=credentials.mechanism), SaslHandshakeResponse
    )
    if handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE and not handshake.mechanisms:
        raise _failed(address, "the listener there wants no login (is it PLAINTEXT or SSL?)")
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "nothing"
        raise _failed(address, f"the broker does not take {credentials.mechanism}; it takes {offered}")
    try:
        client = credentials.login()
        message = client.first()
        while True:
            answer: SaslAuthenticateResponse = await call(
                SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse
            )
            if answer.error_code:
                raise _failed(address, answer.error_message or "the login failed")
            following = client.receive(bytes(answer.auth_bytes))
            if following is None:
                return max(0, answer.session_lifetime_ms)
            message = following
    except LoginFailed as problem:
        raise _failed(address, str(problem)) from None


def _failed(address: Address, why: str) -> KafkaError:
    return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, f"{address}: {why}")
