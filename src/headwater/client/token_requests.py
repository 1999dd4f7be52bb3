"""Tokens of OAUTHBEARER from an HTTP endpoint, by client credentials (RFC 6749, 4.4): what is asked, what an answer
means, and when a token is to be renewed. Pure: who sends it, and when, is in `reactor/token_source.py`.

Nothing here repeats the client's secret, a token, or what an endpoint says beyond its error code: it might echo them.
"""

import base64
import binascii
import json
import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote_plus, urlencode

from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.oauthbearer import TOKEN_CHARACTERS_MAX

ANSWER_BYTES_MAX: Final = 1 << 20
_TOKEN: Final = re.compile(r"[A-Za-z0-9\-._~+/]+=*")  # of RFC 6750: nothing that could end the message it is put into
_ERROR_CODE: Final = re.compile(r"[a-z_]{1,64}")
_OK: Final = 200
_REFUSALS: Final = range(400, 500)
_TRY_AGAIN: Final = (408, 425, 429)
_LIFETIME_S_MAX: Final = 10 * 365 * 86_400


class TokenNotFetched(Exception):
    """The endpoint could not be reached, or is in trouble: it may be asked again."""


class TokenRequest(NamedTuple):
    """`url_encodes`: `sasl.oauthbearer.header.urlencode`, for endpoints that keep to the letter of RFC 6749."""

    url: str
    client_id: str
    client_secret: str
    scope: str | None = None
    url_encodes: bool = False

    def __repr__(self) -> str:
        return f"TokenRequest({self.url!r}, client_id={self.client_id!r})"

    def headers(self) -> dict[str, str]:
        user, password = self.client_id, self.client_secret
        if self.url_encodes:
            user, password = quote_plus(user), quote_plus(password)
        return {
            "Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode(),
            "Accept": "application/json",
            "Cache-Control": "no-cache",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    def body(self) -> bytes:
        wanted = {"grant_type": "client_credentials"}
        if self.scope:
            wanted["scope"] = self.scope
        return urlencode(wanted).encode()


class Token(NamedTuple):
    text: str
    lifetime_s: float | None  # from when it came; None where nobody says

    def __repr__(self) -> str:
        return f"Token(lifetime_s={self.lifetime_s})"


class Renewal(NamedTuple):
    """When a token is renewed: after a part of its life, as Java's `sasl.login.refresh.*` say."""

    window_factor: float = 0.8
    window_jitter: float = 0.05
    period_s_min: float = 60
    buffer_s: float = 300

    def after_s(self, lifetime_s: float | None, chance: float) -> float:
        """How long after it came. `chance` is in [0, 1)."""
        if lifetime_s is None:
            return 0.0  # it may have ended by the next login
        after = lifetime_s * (self.window_factor + self.window_jitter * chance)
        if self.period_s_min + self.buffer_s > lifetime_s:
            return after  # too short for either of them
        return max(self.period_s_min, min(after, lifetime_s - self.buffer_s))


def read_answer(status: int, body: bytes, now_s: float) -> Token:
    """Raises LoginFailed for a refusal, which another attempt would not change, and TokenNotFetched for the rest.
    `now_s` is the time of day, in which tokens say when they expire.
    """
    if status != _OK:
        reason = f"it answered {status}{_error_code(body)}"
        if status in _REFUSALS and status not in _TRY_AGAIN:
            raise LoginFailed(reason)
        raise TokenNotFetched(reason)
    if len(body) > ANSWER_BYTES_MAX:
        raise LoginFailed("its answer is longer than a megabyte")
    answer = _json_of(body)
    text = answer.get("access_token")
    if not isinstance(text, str) or len(text) > TOKEN_CHARACTERS_MAX or not _TOKEN.fullmatch(text):
        raise LoginFailed("its answer has no access_token, or one that is none")
    limits = [limit for limit in (_seconds(answer.get("expires_in")), _life_of(text, now_s)) if limit is not None]
    lifetime = min(limits) if limits else None
    if lifetime is not None and lifetime <= 0:
        raise TokenNotFetched("it gave a token that has expired already")
    return Token(text, lifetime)


def _life_of(token: str, now_s: float) -> float | None:
    """What the claim `exp` leaves of it, if it is a JWT. The broker is who checks it."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = _json_of(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, LoginFailed):
        return None
    expires_at = claims.get("exp")
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        return None
    return max(-1.0, min(float(_LIFETIME_S_MAX), expires_at - now_s))


def _seconds(value: object) -> float | None:
    """Of `expires_in`; some endpoints write it as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return None
    return float(min(value, _LIFETIME_S_MAX))


def _json_of(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise LoginFailed("its answer is no JSON object")
    return found


def _error_code(body: bytes) -> str:
    """` (invalid_client)`, as RFC 6749 has it; nothing else of what was answered."""
    try:
        code = _json_of(body[:ANSWER_BYTES_MAX]).get("error")
    except LoginFailed:
        return ""
    return f" ({code})" if isinstance(code, str) and _ERROR_CODE.fullmatch(code) else ""
