"""CreateDelegationToken (key 38), versions 1 to 3: always refused, for there are no delegation tokens here.

The owner is whom the request names (v3), else whoever asks. Renewers that are not users are refused before it is said
that there are no tokens, as in Apache Kafka.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.delegation_tokens import NO_TIME, creation_refused, refusal_of
from headwater.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker", context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    code, time = refusal_of(broker, context.connection)
    is_of_users = all(renewer.principal_type == "User" for renewer in request.renewers)
    if code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED and not is_of_users:
        code, time = int(ErrorCode.INVALID_PRINCIPAL_TYPE), NO_TIME
    return creation_refused(context.connection, request, code, time)
