"""Admin calls about the SCRAM credentials of users. A password never leaves the client: its salted hash does. No
state.
"""

import hashlib
import secrets
from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import failure, of_any, of_controller
from headwater.client.errors import error_for, raise_for
from headwater.client.session import Session
from headwater.wire.messages import alter_user_scram_credentials as alter_wire
from headwater.wire.messages import describe_user_scram_credentials as describe_wire

_SALT_BYTES: Final = 24
_ITERATIONS: Final = 4096


class ScramMechanism(IntEnum):
    SHA_256 = 1
    SHA_512 = 2


class ScramCredentialInfo(NamedTuple):
    mechanism: ScramMechanism
    iterations: int


class ScramUpsertion(NamedTuple):
    """Gives a user a password for a mechanism, instead of the one there may be. Without a salt, one is made up."""

    user: str
    password: bytes
    mechanism: ScramMechanism = ScramMechanism.SHA_512
    iterations: int = _ITERATIONS
    salt: bytes | None = None

    def __repr__(self) -> str:
        return f"ScramUpsertion({self.user!r}, {self.mechanism.name}, iterations={self.iterations})"


class ScramDeletion(NamedTuple):
    user: str
    mechanism: ScramMechanism


async def describe_user_scram_credentials(
    session: Session, users: Iterable[str] | None = None
) -> dict[str, list[ScramCredentialInfo] | KafkaError]:
    """For which mechanisms these users, or all that have any, have credentials. RESOURCE_NOT_FOUND: none."""
    request = describe_wire.DescribeUserScramCredentialsRequest(
        users=None if users is None else [describe_wire.UserName(name=user) for user in dict.fromkeys(users)]
    )
    response = await of_any(session, request, describe_wire.DescribeUserScramCredentialsResponse)
    raise_for(response.error_code, response.error_message)
    return {
        each.user: error_for(each.error_code, each.error_message)
        if each.error_code
        else [ScramCredentialInfo(ScramMechanism(info.mechanism), info.iterations) for info in each.credential_infos]
        for each in response.results
    }


async def alter_user_scram_credentials(
    session: Session, alterations: Iterable[ScramUpsertion | ScramDeletion]
) -> dict[str, KafkaError | None]:
    """What became of each user's alterations."""
    wanted = list(alterations)
    request = alter_wire.AlterUserScramCredentialsRequest(
        deletions=[
            alter_wire.ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in wanted
            if isinstance(each, ScramDeletion)
        ],
        upsertions=[_upsertion(each) for each in wanted if isinstance(each, ScramUpsertion)],
    )
    response = await of_controller(
        session,
        request,
        alter_wire.AlterUserScramCredentialsResponse,
        lambda answer: [each.error_code for each in answer.results],
    )
    return {each.user: failure(each.error_code, each.error_message) for each in response.results}


def _upsertion(wanted: ScramUpsertion) -> alter_wire.ScramCredentialUpsertion:
    if wanted.iterations < 1 or not wanted.password:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"user {wanted.user!r} needs a password and iterations")
    salt = secrets.token_bytes(_SALT_BYTES) if wanted.salt is None else wanted.salt
    algorithm = "sha256" if wanted.mechanism == ScramMechanism.SHA_256 else "sha512"
    return alter_wire.ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=wanted.mechanism,
        iterations=wanted.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(algorithm, wanted.password, salt, wanted.iterations),
    )
