"""The client's side of a login, without I/O: which mechanism, who, and what goes into each SaslAuthenticate.

A `Credentials` is made from settings once; each login (and each later one on the same connection) is a `SaslClient` of
its own. Secrets never show in `repr`.
"""

import base64
import os
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from headwater.base.errors import UserError
from headwater.base.security import oauthbearer, scram
from headwater.base.security.jaas import one_module
from headwater.base.security.login_errors import LoginFailed

SUPPORTED: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES: Final = {
    "PlainLoginModule": ("PLAIN",),
    "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    "OAuthBearerLoginModule": ("OAUTHBEARER",),
}
_NONCE_BYTES: Final = 24


class SaslClient(Protocol):
    def first(self) -> bytes: ...
    def receive(self, message: bytes) -> bytes | None:
        """The next message; None when nothing more is to be said. Raises LoginFailed."""


class Credentials(NamedTuple):
    mechanism: str
    user: str = ""
    password: str = ""
    token: Callable[[], str] | None = None  # of OAUTHBEARER: asked for each login, because tokens expire

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, user={self.user!r})"

    def login(self) -> SaslClient:
        if self.mechanism == "PLAIN":
            return _PlainClient(self.user, self.password)
        if self.mechanism == "OAUTHBEARER":
            assert self.token is not None
            return _BearerClient(self.token())
        return scram.ScramClient(scram.MECHANISMS[self.mechanism], self.user, self.password, new_nonce())


def new_nonce() -> str:
    return base64.b64encode(os.urandom(_NONCE_BYTES)).decode().rstrip("=")


class _PlainClient:
    def __init__(self, user: str, password: str) -> None:
        self._message = b"\0".join((b"", user.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def receive(self, message: bytes) -> bytes | None:  # noqa: ARG002
        return None


class _BearerClient:
    def __init__(self, token: str) -> None:
        self._message = oauthbearer.first_message(token)

    def first(self) -> bytes:
        return self._message

    def receive(self, message: bytes) -> bytes | None:
        if message:  # the reason of a refusal; the answer to it ends the exchange
            return b"\x01"
        return None


def check_mechanism(mechanism: str, setting: str) -> str:
    if mechanism not in SUPPORTED:
        reason = "Kerberos is not there yet" if mechanism == "GSSAPI" else "nobody knows it"
        raise UserError(f"Bad value for {setting}: {mechanism}", reason, f"Use one of {', '.join(SUPPORTED)}")
    return mechanism


def credentials_from(
    mechanism: str,
    *,
    jaas: str | None,
    user: str | None = None,
    password: str | None = None,
    token_url: str | None = None,
    setting: str = "sasl.jaas.config",
) -> Credentials:
    """From a pasted `sasl.jaas.config`, or from a user and a password. Raises UserError."""
    options: dict[str, str] = {}
    if jaas:
        module = one_module(jaas, setting)
        fits = _MODULES.get(module.short_name)
        if fits is None or mechanism not in fits:
            raise UserError(
                f"{setting} does not fit the mechanism {mechanism}",
                f"its login module is {module.short_name}",
                f"Set sasl.mechanism={(fits or SUPPORTED)[-1]}, or another login module",
            )
        options = module.options
        if options.get("tokenauth", "").lower() == "true":
            raise UserError(f"{setting} has tokenauth=true", "delegation tokens are not there yet")
    if mechanism == "OAUTHBEARER":
        return Credentials(mechanism, token=_token_source(token_url))
    user, password = options.get("username", user), options.get("password", password)
    if not user or password is None:
        raise UserError(
            f"A login by {mechanism} needs a user and a password",
            f"{setting} names neither or only one of them",
            'Set sasl.jaas.config=... required username="..." password="...";',
        )
    if "\0" in user + password:
        raise UserError(f"A login by {mechanism} cannot have zero bytes in the user or the password")
    return Credentials(mechanism, user, password)


def _token_source(url: str | None) -> Callable[[], str]:
    if not url or not url.startswith("file://"):
        raise UserError(
            "A login by OAUTHBEARER needs a token",
            "sasl.oauthbearer.token.endpoint.url is not set"
            if not url
            else "tokens are read from files so far; nothing is asked over HTTP",
            "Set sasl.oauthbearer.token.endpoint.url=file:///path/of/the/token",
        )
    path = url.removeprefix("file://")

    def read() -> str:
        try:
            with open(path, encoding="ascii") as file:
                return file.read(oauthbearer.TOKEN_CHARACTERS_MAX + 1).strip()
        except (OSError, UnicodeDecodeError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) else "it is no token"
            raise LoginFailed(f"cannot read the token in {path}: {reason}") from None

    return read
