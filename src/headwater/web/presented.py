"""What a request shows to log in by: the header `Authorization`, read. Pure; secrets never show in `repr`.

`Basic` is RFC 7617 in UTF-8, `Bearer` RFC 6750. Header fields that come twice are refused: two readers could believe
different ones.
"""

import base64
import binascii
from enum import StrEnum
from typing import Final, NamedTuple

from headwater.base.security.oauthbearer import TOKEN_CHARACTERS_MAX
from headwater.web.messages import Headers

_USER_CHARACTERS_MAX: Final = 1000
_BASIC_CHARACTERS_MAX: Final = 8192
_TOKEN: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=")


class Scheme(StrEnum):
    BASIC = "Basic"
    BEARER = "Bearer"


class Presented(NamedTuple):
    scheme: Scheme
    user: str  # empty for a token
    secret: str  # the password, or the token

    def __repr__(self) -> str:
        return f"Presented({self.scheme}, user={self.user!r})"


class Malformed(ValueError):
    """It is no header that one could log in by. Says nothing of what it held."""


def presented(headers: Headers) -> Presented | None:
    """None: nobody wants to log in. Raises Malformed."""
    given = headers.all("authorization")
    if not given:
        return None
    if len(given) > 1:
        raise Malformed("there is more than one header Authorization")
    scheme, _, value = given[0].strip().partition(" ")
    value = value.strip()
    if scheme.lower() == "basic":
        return _basic(value)
    if scheme.lower() == "bearer":
        if not value or len(value) > TOKEN_CHARACTERS_MAX or not _TOKEN.issuperset(value):
            raise Malformed("the token is none")
        return Presented(Scheme.BEARER, "", value)
    raise Malformed("the header Authorization is neither Basic nor Bearer")


def _basic(value: str) -> Presented:
    if len(value) > _BASIC_CHARACTERS_MAX:
        raise Malformed("the header Authorization is too long")
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise Malformed("the header Authorization is no base64 of a user and a password") from None
    if not colon or not user or not password or len(user) > _USER_CHARACTERS_MAX or "\0" in user + password:
        raise Malformed("the header Authorization has no user, or no password")
    return Presented(Scheme.BASIC, user, password)


def basic_header(user_info: str) -> str:
    """`user:password` as the header's value."""
    return "Basic " + base64.b64encode(user_info.encode()).decode()
