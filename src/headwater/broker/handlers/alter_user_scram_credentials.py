"""AlterUserScramCredentials (key 51), version 0: gives users SCRAM credentials and takes them away. The controller
answers.

The client sends what PBKDF2 made of the password; kept are the two keys that RFC 5802 makes of that, as Apache Kafka
keeps them. Each user succeeds or fails on its own, and a user that stands in a request twice for one mechanism is
refused.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.security import scram
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.requested_change import RequestedChange
from headwater.metadata.image import Change, UserConfigured
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

USER_CHARACTERS_MAX: Final = 1000
USERS_MAX: Final = 100_000
_SALT_BYTES_MAX: Final = 1024


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: AlterUserScramCredentialsRequest,
) -> Deferred:
    return _Alteration(broker, request).submit()


class _Alteration(RequestedChange):
    def __init__(self, broker: "Broker", request: AlterUserScramCredentialsRequest) -> None:
        super().__init__(broker)
        self._request = request
        self._outcomes: dict[str, KafkaError | None] = {}

    def plan(self) -> Sequence[Change]:
        request = self._request
        named = [(each.name, each.mechanism) for each in request.deletions]
        named += [(each.name, each.mechanism) for each in request.upsertions]
        counts = Counter(named)
        users = dict.fromkeys(name for name, _ in named)
        changes: list[Change] = []
        for user in users:
            try:
                if any(count > 1 for (name, _), count in counts.items() if name == user):
                    raise KafkaError(
                        ErrorCode.DUPLICATE_RESOURCE,
                        "A user credential cannot be altered twice in the same request",
                    )
                changes.append(self._plan_user(user))
            except KafkaError as problem:
                self._outcomes[user] = problem
            else:
                self._outcomes[user] = None
        return changes

    def _plan_user(self, user: str) -> Change:
        if not user or len(user) > USER_CHARACTERS_MAX or "\0" in user:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
        known = self._broker.image.user_configs
        if user not in known and len(known) >= USERS_MAX:
            raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"There are {USERS_MAX} users already")
        config = dict(known.get(user, {}))
        for deletion in self._request.deletions:
            if deletion.name == user and config.pop(_mechanism(deletion.mechanism).value, None) is None:
                raise KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        for upsertion in self._request.upsertions:
            if upsertion.name == user:
                mechanism = _mechanism(upsertion.mechanism)
                _check_iterations(upsertion.iterations)
                if not 0 < len(upsertion.salt) <= _SALT_BYTES_MAX or not upsertion.salted_password:
                    raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt or the salted password is missing")
                credential = scram.credential_of(
                    mechanism, bytes(upsertion.salted_password), bytes(upsertion.salt), upsertion.iterations
                )
                config[mechanism.value] = credential.to_text()
        return UserConfigured(user, config)

    def done(self, error: KafkaError | None) -> None:
        results = [
            AlterUserScramCredentialsResult(
                user=user,
                error_code=int(problem.code) if problem is not None else 0,
                error_message=problem.message if problem is not None else None,
            )
            for user, problem in ((user, outcome or error) for user, outcome in self._outcomes.items())
        ]
        self.deferred.complete(AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results))


def _mechanism(number: int) -> scram.ScramMechanism:
    found = scram.BY_NUMBER.get(number)
    if found is None:
        raise KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return found


def _check_iterations(iterations: int) -> None:
    if iterations < scram.ITERATIONS_MIN:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > scram.ITERATIONS_MAX:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
