"""SASL DIGEST-MD5 (RFC 2831), the client's side, for the login at ZooKeeper: `qop=auth`, one round.

ZooKeeper takes no better mechanism but Kerberos. The password does not travel; who listens may still guess it from what
does, so this belongs on TLS. The server shows in its last message that it knows the password too, and that is checked.
"""

import hashlib
import hmac
import re
from typing import Final

from headwater.base.security.login_errors import LoginFailed

_CHALLENGE_MAX: Final = 2048  # the RFC's own limit
_DIRECTIVE: Final = re.compile(rb'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,\s"]*))\s*(?:,|$)')
_ONCE: Final = "00000001"


class DigestMd5Client:
    """Of one login. `digest_uri` is service/host; ZooKeeper's is always zookeeper/zk-sasl-md5."""

    def __init__(self, username: str, password: str, client_nonce: str, digest_uri: str) -> None:
        self._username = username
        self._password = password
        self._client_nonce = client_nonce
        self._digest_uri = digest_uri
        self._expected = ""

    def answer(self, challenge: bytes) -> bytes:
        """To the server's first message. Raises LoginFailed."""
        said = _directives(challenge)
        nonce = said.get("nonce", "")
        offered = [each.strip() for each in said.get("qop", "auth").split(",")]
        if not nonce or said.get("algorithm") != "md5-sess" or "auth" not in offered:
            raise LoginFailed("the server's challenge is none of DIGEST-MD5")
        realm = said.get("realm", "")
        key = self._key(realm, nonce)
        self._expected = self._digest(key, nonce, "")
        fields = {
            "charset": "utf-8",
            "username": _quoted(self._username),
            "realm": _quoted(realm),
            "nonce": _quoted(nonce),
            "nc": _ONCE,
            "cnonce": _quoted(self._client_nonce),
            "digest-uri": _quoted(self._digest_uri),
            "maxbuf": "65536",
            "response": self._digest(key, nonce, "AUTHENTICATE"),
            "qop": "auth",
        }
        return ",".join(f"{name}={value}" for name, value in fields.items()).encode()

    def check(self, last: bytes) -> None:
        """The server's second message. Raises LoginFailed."""
        shown = _directives(last).get("rspauth", "")
        if not self._expected or not hmac.compare_digest(shown.encode(), self._expected.encode()):
            raise LoginFailed("the server has not shown that it knows the password")

    def _key(self, realm: str, nonce: str) -> str:
        secret = hashlib.md5(
            b":".join(_hashed_bytes(each) for each in (self._username, realm, self._password)), usedforsecurity=False
        ).digest()
        whole = secret + f":{nonce}:{self._client_nonce}".encode()
        return hashlib.md5(whole, usedforsecurity=False).hexdigest()

    def _digest(self, key: str, nonce: str, method: str) -> str:
        target = hashlib.md5(f"{method}:{self._digest_uri}".encode(), usedforsecurity=False).hexdigest()
        whole = f"{key}:{nonce}:{_ONCE}:{self._client_nonce}:auth:{target}"
        return hashlib.md5(whole.encode(), usedforsecurity=False).hexdigest()


def _hashed_bytes(text: str) -> bytes:
    """What fits into ISO 8859-1 is hashed as that, whatever the charset of the messages is."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _directives(message: bytes) -> dict[str, str]:
    if len(message) > _CHALLENGE_MAX:
        raise LoginFailed("the server's message is too long for DIGEST-MD5")
    found: dict[str, str] = {}
    at = 0
    while at < len(message):
        match = _DIRECTIVE.match(message, at)
        if match is None or match.end() == at:
            raise LoginFailed("the server's message is none of DIGEST-MD5")
        at = match.end()
        value = match[3] if match[2] is None else re.sub(rb"\\(.)", rb"\1", match[2], flags=re.DOTALL)
        found.setdefault(match[1].decode().lower(), value.decode("utf-8", "replace"))
    return found
