"""CreateDelegationToken: a token by which somebody logs in as its owner.

v2 is flexible, v3 has owners other than the caller, and tells who has asked.
"""

from headwater.wire.schema import BYTES, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class CreatableRenewers(Struct):
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)


class CreateDelegationTokenRequest(Message, key=38, versions=(1, 3), flexible_since=2):
    owner_principal_type: str | None = field(STRING, since=3, nullable_since=3)
    owner_principal_name: str | None = field(STRING, since=3, nullable_since=3)
    renewers: list[CreatableRenewers] = field(Array(CreatableRenewers))
    max_lifetime_ms: int = field(INT64)


class CreateDelegationTokenResponse(Message, key=38, versions=(1, 3), flexible_since=2):
    error_code: int = field(INT16)
    principal_type: str = field(STRING)
    principal_name: str = field(STRING)
    token_requester_principal_type: str = field(STRING, since=3)
    token_requester_principal_name: str = field(STRING, since=3)
    issue_timestamp_ms: int = field(INT64)
    expiry_timestamp_ms: int = field(INT64)
    max_timestamp_ms: int = field(INT64)
    token_id: str = field(STRING)
    hmac: bytes = field(BYTES)
    throttle_time_ms: int = field(INT32)
