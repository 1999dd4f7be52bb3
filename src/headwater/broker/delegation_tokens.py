"""Delegation tokens (KIP-48) are not there: what their four APIs answer, which is what Apache Kafka answers without
`delegation.token.secret.key`.

Who has not shown who he is gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, before anything else is looked at; everybody else
DELEGATION_TOKEN_AUTH_DISABLED. No state.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import ConnectionContext
from headwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

ANONYMOUS: Final = "User:ANONYMOUS"
NO_TIME: Final = -1  # of a token that was refused before anybody looked whether there are tokens


def has_no_login(broker: "Broker", connection: ConnectionContext) -> bool:
    """Whether the connection is one by which nobody can ask for tokens: plain text, or TLS without a certificate."""
    protocol = next((each.protocol for each in broker.config.listeners() if each.name == connection.listener), "")
    return protocol in ("", "PLAINTEXT") or (protocol == "SSL" and connection.principal == ANONYMOUS)


def refusal_of(broker: "Broker", connection: ConnectionContext) -> tuple[int, int]:
    """The error, and the time of expiry that Apache Kafka tells beside it."""
    if has_no_login(broker, connection):
        return int(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED), NO_TIME
    return int(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED), 0


def owner_of(connection: ConnectionContext, request: CreateDelegationTokenRequest) -> str:
    """The principal whose token is asked for."""
    if not request.owner_principal_name:
        return connection.principal
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def creation_refused(
    connection: ConnectionContext, request: CreateDelegationTokenRequest, code: int, time: int
) -> CreateDelegationTokenResponse:
    kind, _, name = owner_of(connection, request).partition(":")
    requester_kind, _, requester = connection.principal.partition(":")
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=kind,
        principal_name=name,
        token_requester_principal_type=requester_kind,
        token_requester_principal_name=requester,
        issue_timestamp_ms=time,
        expiry_timestamp_ms=time,
        max_timestamp_ms=time,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )
