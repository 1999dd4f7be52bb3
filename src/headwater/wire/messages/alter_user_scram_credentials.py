"""AlterUserScramCredentials: sets and removes SCRAM credentials. Flexible from the start.

The password stays with the client: it sends what PBKDF2 made of it.
"""

from headwater.wire.schema import BYTES, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class ScramCredentialDeletion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


class ScramCredentialUpsertion(Struct):
    name: str = field(STRING)
    mechanism: int = field(INT8)  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int = field(INT32)
    salt: bytes = field(BYTES)
    salted_password: bytes = field(BYTES)


class AlterUserScramCredentialsRequest(Message, key=51, versions=(0, 0), flexible_since=0):
    deletions: list[ScramCredentialDeletion] = field(Array(ScramCredentialDeletion))
    upsertions: list[ScramCredentialUpsertion] = field(Array(ScramCredentialUpsertion))


class AlterUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class AlterUserScramCredentialsResponse(Message, key=51, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    results: list[AlterUserScramCredentialsResult] = field(Array(AlterUserScramCredentialsResult))
