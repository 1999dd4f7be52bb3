"""DescribeDelegationToken: the tokens of some owners, or of all. v2 is flexible, v3 tells who has asked for a token."""

from headwater.wire.schema import BYTES, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribeDelegationTokenRequest(Message, key=41, versions=(1, 3), flexible_since=2):
    owners: list[DescribeDelegationTokenOwner] | None = field(Array(DescribeDelegationTokenOwner), nullable_since=0)


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class DescribedDelegationToken(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp: int = field(INT64)
    expiry_timestamp: int = field(INT64)
    max_timestamp: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = field(Array(DescribedDelegationTokenRenewer))


class DescribeDelegationTokenResponse(Message, key=41, versions=(1, 3), flexible_since=2):
    error_code: int = field(INT16)
    tokens: list[DescribedDelegationToken] = field(Array(DescribedDelegationToken))
    throttle_time_ms: int = field(INT32)
