"""OAUTHBEARER (RFC 7628) and the tokens in it: signed JWTs (RFC 7519), checked against keys that somebody else
publishes (JWKS).

A token counts if its signature is by a known key, by an algorithm that fits that key, it has not expired and is not for
later, and its issuer and audience are the expected ones. `none` and the algorithms with shared secrets are not known
here at all. What a token says is believed only behind its signature.

No state but what is given; signatures need the package `cryptography` (the extra `security`).
"""

import base64
import json
import logging
import string
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import UserError
from headwater.base.security.login_errors import LoginFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    PublicKey = RSAPublicKey | EllipticCurvePublicKey

TOKEN_CHARACTERS_MAX: Final = 64 * 1024
KEYS_MAX: Final = 1000
_RSA_BITS_MIN: Final = 2048
_MESSAGE_BYTES_MAX: Final = TOKEN_CHARACTERS_MAX + 1024
_TOKEN_CHARACTERS: Final = (string.ascii_letters + string.digits + "._~+/=-").encode()
_NOT_FIRST: Final = "not the first message of OAUTHBEARER"
_HASHES: Final = {"RS256": "SHA256", "RS384": "SHA384", "RS512": "SHA512", "ES256": "SHA256"}

logger = logging.getLogger("headwater.security")


class Key(NamedTuple):
    key_id: str | None
    algorithms: frozenset[str]
    public: "PublicKey"


class Expected(NamedTuple):
    """What a token must say. Without an issuer or audiences, any will do."""

    issuer: str | None = None
    audiences: Collection[str] = ()
    clock_skew_ms: int = 30_000
    subject_claim: str = "sub"


class Verified(NamedTuple):
    subject: str
    expires_ms: int


def first_message(token: str) -> bytes:
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


def read_first_message(message: bytes) -> tuple[str, str]:
    """The token, and for whom the client wants to act (mostly nobody)."""
    if len(message) > _MESSAGE_BYTES_MAX:  # before anything looks at it: nobody has logged in yet
        raise LoginFailed("a message of OAUTHBEARER that is too long")
    header, *pairs = message.split(b"\x01")
    if pairs[-2:] != [b"", b""]:
        raise LoginFailed(_NOT_FIRST)
    return _token_of(pairs[:-2]), _authorization_id_of(header)


def _authorization_id_of(header: bytes) -> str:
    """Of `n,a=<id>,` or `n,,` (the header of GS2)."""
    parts = header.split(b",")
    if len(parts) != 3 or parts[0] not in (b"n", b"y") or parts[2] or b"\0" in parts[1]:
        raise LoginFailed(_NOT_FIRST)
    if parts[1] and not parts[1].startswith(b"a="):
        raise LoginFailed(_NOT_FIRST)
    return parts[1][2:].decode(errors="replace")


def _token_of(pairs: list[bytes]) -> str:
    split = [pair.partition(b"=") for pair in pairs]
    if not all(equals and key.isalpha() for key, equals, _ in split):
        raise LoginFailed(_NOT_FIRST)
    shown = [value for key, _, value in split if key == b"auth"]
    if len(shown) != 1:
        raise LoginFailed(f"{len(shown)} tokens in a message of OAUTHBEARER")
    scheme, _, token = shown[0].partition(b" ")
    token = token.lstrip(b" ")
    if scheme not in (b"Bearer", b"bearer") or not token or token.translate(None, _TOKEN_CHARACTERS):
        raise LoginFailed(_NOT_FIRST)
    return token.decode()


def read_keys(document: bytes) -> list[Key]:
    """The signing keys of a JWKS document; raises ValueError for what is none.

    Keys of other kinds are left out, and so is one that cannot be read: the others' tokens go on counting.
    """
    found = json.loads(document)
    entries = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise ValueError("a JWKS document has a list of keys")
    if len(entries) > KEYS_MAX:
        raise ValueError(f"more than {KEYS_MAX} keys")
    keys = [
        key for key in (_read_key_or_none(entry) for entry in entries if isinstance(entry, dict)) if key is not None
    ]
    if not keys:
        raise ValueError("there is no key for RS256, RS384, RS512 or ES256 in it")
    return keys


def _read_key_or_none(entry: Mapping[str, Any]) -> Key | None:
    try:
        return _read_key(entry)
    except UserError:
        raise
    except Exception as problem:  # noqa: BLE001  # the package has a long list of them
        logger.error("event=key-not-read kid=%r reason=%r", str(entry.get("kid"))[:80], str(problem))
        return None


def _read_key(entry: Mapping[str, Any]) -> Key | None:
    if entry.get("use", "sig") != "sig":
        return None
    key_id = entry["kid"] if isinstance(entry.get("kid"), str) else None
    said = entry.get("alg")
    if entry.get("kty") == "RSA":
        algorithms = {"RS256", "RS384", "RS512"}
    elif entry.get("kty") == "EC" and entry.get("crv") == "P-256":
        algorithms = {"ES256"}
    else:
        return None
    if said is not None:
        algorithms &= {said}
    return Key(key_id, frozenset(algorithms), _public_key(entry)) if algorithms else None


def _public_key(entry: Mapping[str, Any]) -> "PublicKey":
    require_cryptography("to check the signatures of tokens")
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if entry["kty"] == "RSA":
        key = rsa.RSAPublicNumbers(_number(entry["e"]), _number(entry["n"])).public_key()
        if key.key_size < _RSA_BITS_MIN:
            raise ValueError(f"an RSA key of {key.key_size} bits; {_RSA_BITS_MIN} are the least")
        return key
    return ec.EllipticCurvePublicNumbers(_number(entry["x"]), _number(entry["y"]), ec.SECP256R1()).public_key()


def require_cryptography(purpose: str) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise UserError(
            f"The package `cryptography` is needed {purpose}",
            "it is not installed",
            "pip install 'headwater[security]'",
        ) from None


def verify(token: str, keys: Collection[Key], expected: Expected, now_ms: int) -> Verified:
    """Raises LoginFailed, whose message tells the broker's log which check it was."""
    if len(token) > TOKEN_CHARACTERS_MAX:
        raise LoginFailed("a token that is too long")
    parts = token.split(".")
    if len(parts) != 3:
        raise LoginFailed("the token is not a signed JWT")
    header = _json_of(parts[0])
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in _HASHES:
        raise LoginFailed(f"the token is signed by {str(algorithm)[:20]!r}; taken are {', '.join(_HASHES)}")
    if header.get("crit"):
        raise LoginFailed("the token's header has critical extensions")
    candidates = [key for key in keys if algorithm in key.algorithms and header.get("kid") in (None, key.key_id)]
    signed, signature = f"{parts[0]}.{parts[1]}".encode(), _bytes_of(parts[2])
    if not any(_is_signed(key.public, algorithm, signed, signature) for key in candidates):
        raise LoginFailed("no known key has signed the token")
    return _check_claims(_json_of(parts[1]), expected, now_ms)


def _is_signed(key: "PublicKey", algorithm: str, signed: bytes, signature: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    digest = getattr(hashes, _HASHES[algorithm])()
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, signed, padding.PKCS1v15(), digest)
        else:
            if len(signature) != 64:
                return False
            halves = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
            key.verify(encode_dss_signature(*halves), signed, ec.ECDSA(digest))
    except InvalidSignature:
        return False
    return True


def _check_claims(claims: Mapping[str, Any], expected: Expected, now_ms: int) -> Verified:
    skew_ms = expected.clock_skew_ms
    expires_ms = _time_ms(claims, "exp")
    if expires_ms is None or expires_ms + skew_ms <= now_ms:
        raise LoginFailed("the token has expired" if expires_ms is not None else "the token never expires")
    for name in ("nbf", "iat"):
        from_ms = _time_ms(claims, name)
        if from_ms is not None and from_ms - skew_ms > now_ms:
            raise LoginFailed(f"the token is for later ({name})")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise LoginFailed("the token is of another issuer")
    audiences = claims.get("aud")
    if expected.audiences:
        told = [audiences] if isinstance(audiences, str) else audiences if isinstance(audiences, list) else []
        if not any(audience in expected.audiences for audience in told if isinstance(audience, str)):
            raise LoginFailed("the token is for another audience")
    subject = claims.get(expected.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise LoginFailed(f"the token does not say who it is for ({expected.subject_claim})")
    return Verified(subject, expires_ms)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise LoginFailed(f"{name} of the token is no time")
    return int(value * 1000)


def _json_of(part: str) -> dict[str, Any]:
    try:
        found = json.loads(_bytes_of(part))
    except (ValueError, RecursionError):
        raise LoginFailed("a part of the token is no JSON") from None
    if not isinstance(found, dict):
        raise LoginFailed("a part of the token is no object")
    return found


def _bytes_of(part: str) -> bytes:
    try:
        return base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise LoginFailed("a part of the token is no base64url") from None


def _number(text: object) -> int:
    if not isinstance(text, str) or len(text) > 4096:
        raise ValueError("a number of a key is missing")
    return int.from_bytes(_bytes_of(text))
