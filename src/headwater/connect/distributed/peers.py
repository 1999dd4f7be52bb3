"""Calls between the workers of a group, signed with the key that only they can read, as Kafka Connect signs them.

The signature is the HMAC of the body, in base64. `sign` and `is_signed` are pure.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from headwater.connect.distributed.config_records import SessionKey
from headwater.connect.errors import ConnectError

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
HMAC_SHA256: Final = "HmacSHA256"
_KEY_BYTES: Final = 32
_TIMEOUT_S: Final = 30.0


class PeerError(ConnectError):
    """The other worker did not do it, or did not answer."""


def new_session_key(now_ms: int) -> SessionKey:
    return SessionKey(secrets.token_bytes(_KEY_BYTES), HMAC_SHA256, now_ms)


def sign(key: SessionKey, body: bytes) -> dict[str, str]:
    """The headers of a request."""
    digest = hmac.new(key.key, body, hashlib.sha256).digest()
    return {SIGNATURE: base64.b64encode(digest).decode(), ALGORITHM: HMAC_SHA256}


def is_signed(key: SessionKey, body: bytes, signature: str, algorithm: str) -> bool:
    expected = sign(key, body)[SIGNATURE]
    return algorithm == HMAC_SHA256 and hmac.compare_digest(expected.encode(), signature.encode())


def ask_leader(
    url: str,
    method: str,
    connector: str,
    what: str,
    document: Any,
    key: SessionKey | None,
    tls: "ContextSource | None" = None,
) -> None:
    """`PUT /connectors/{connector}/fence`, `POST .../tasks`. Raises PeerError."""
    if key is None:
        raise PeerError("The workers have no key to sign with yet")
    body = json.dumps(document).encode()
    headers: Mapping[str, str] = {"Content-Type": "application/json", **sign(key, body)}
    target = f"{url.rstrip('/')}/connectors/{quote(connector, safe='')}/{what}?forward=false"
    try:
        with urlopen(
            Request(target, body, headers, method=method),
            timeout=_TIMEOUT_S,
            context=None if tls is None else tls.current(),
        ) as answer:
            answer.read()
    except HTTPError as error:
        with error:
            text = error.read(2000).decode(errors="replace")
        raise PeerError(f"The leader at {url} refused: {error.code} {text}") from None
    except (URLError, OSError, ValueError) as error:
        raise PeerError(f"The leader at {url} does not answer: {getattr(error, 'reason', error)}") from None
