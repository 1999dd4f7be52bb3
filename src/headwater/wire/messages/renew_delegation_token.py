"""RenewDelegationToken: longer validity of a token that is about to expire. v2 is flexible."""

from headwater.wire.schema import BYTES, INT16, INT32, INT64, Message, field


class RenewDelegationTokenRequest(Message, key=39, versions=(1, 2), flexible_since=2):
    hmac: bytes = field(BYTES)
    renew_period_ms: int = field(INT64)


class RenewDelegationTokenResponse(Message, key=39, versions=(1, 2), flexible_since=2):
    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
