"""SaslHandshake: chooses a SASL mechanism. Never flexible.

After v0 the tokens follow as bare frames; after v1 they travel in SaslAuthenticate.
"""

from headwater.wire.schema import INT16, STRING, Array, Message, field


class SaslHandshakeRequest(Message, key=17, versions=(0, 1)):
    mechanism: str = field(STRING)


class SaslHandshakeResponse(Message, key=17, versions=(0, 1)):
    error_code: int = field(INT16)
    mechanisms: list[str] = field(Array(STRING))
