"""DescribeUserScramCredentials: which SCRAM credentials users have, never the secrets. Flexible from the start."""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class UserName(Struct):
    name: str = field(STRING)


class DescribeUserScramCredentialsRequest(Message, key=50, versions=(0, 0), flexible_since=0):
    users: list[UserName] | None = field(Array(UserName), nullable_since=0)  # None for all


class CredentialInfo(Struct):
    mechanism: int = field(INT8)  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int = field(INT32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    credential_infos: list[CredentialInfo] = field(Array(CredentialInfo))


class DescribeUserScramCredentialsResponse(Message, key=50, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    results: list[DescribeUserScramCredentialsResult] = field(Array(DescribeUserScramCredentialsResult))
