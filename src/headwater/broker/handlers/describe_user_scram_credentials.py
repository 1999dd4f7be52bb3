"""DescribeUserScramCredentials (key 50), version 0: by which SCRAM mechanisms users can log in. Never the secrets.

No list, or an empty one, asks for all users that have any. A user without credentials is RESOURCE_NOT_FOUND, one that
is asked for twice DUPLICATE_RESOURCE. Any broker answers.
"""

from collections import Counter
from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode
from headwater.base.security.scram import ScramCredential, ScramMechanism
from headwater.broker.context import RequestContext
from headwater.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    asked = Counter(each.name for each in request.users or ())
    if asked:
        results = [_describe(broker, user, is_twice=count > 1) for user, count in asked.items()]
    else:
        users = [user for user in sorted(broker.image.user_configs) if user and _credentials(broker, user)]
        results = [_describe(broker, user, is_twice=False) for user in users]
    return DescribeUserScramCredentialsResponse(throttle_time_ms=0, error_code=0, error_message=None, results=results)


def _describe(broker: "Broker", user: str, *, is_twice: bool) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_code=0, error_message=None, credential_infos=[])
    if is_twice:
        result.error_code = int(ErrorCode.DUPLICATE_RESOURCE)
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        return result
    result.credential_infos = _credentials(broker, user)
    if not result.credential_infos:
        result.error_code = int(ErrorCode.RESOURCE_NOT_FOUND)
        result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    return result


def _credentials(broker: "Broker", user: str) -> list[CredentialInfo]:
    config = broker.image.user_configs.get(user, {})
    found = []
    for mechanism in ScramMechanism:
        if mechanism.value in config:
            try:
                credential = ScramCredential.from_text(config[mechanism.value])
            except ValueError:
                continue
            found.append(CredentialInfo(mechanism=mechanism.number, iterations=credential.iterations))
    return found
