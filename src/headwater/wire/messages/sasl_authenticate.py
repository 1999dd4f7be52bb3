"""SaslAuthenticate: one step of a SASL exchange. v1 answers how long the session lives, v2 is flexible."""

from headwater.wire.schema import BYTES, INT16, INT64, STRING, Message, field


class SaslAuthenticateRequest(Message, key=36, versions=(0, 2), flexible_since=2):
    auth_bytes: bytes = field(BYTES)


class SaslAuthenticateResponse(Message, key=36, versions=(0, 2), flexible_since=2):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    auth_bytes: bytes = field(BYTES)
    session_lifetime_ms: int = field(INT64, since=1)
