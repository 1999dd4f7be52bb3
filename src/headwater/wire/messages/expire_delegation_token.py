"""ExpireDelegationToken: another end of a token, or its end now (a negative period). v2 is flexible."""

from headwater.wire.schema import BYTES, INT16, INT32, INT64, Message, field


class ExpireDelegationTokenRequest(Message, key=40, versions=(1, 2), flexible_since=2):
    hmac: bytes = field(BYTES)
    expiry_time_period_ms: int = field(INT64)


class ExpireDelegationTokenResponse(Message, key=40, versions=(1, 2), flexible_since=2):
    error_code: int = field(INT16)
    expiry_timestamp_ms: int = field(INT64)
    throttle_time_ms: int = field(INT32)
