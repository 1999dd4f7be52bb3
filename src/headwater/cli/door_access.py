"""How a command reaches an HTTP door: its address, the login that it sends, and whom it trusts behind https://.

Users of a door are those of the cluster. So a command sends the login that is meant for this door
(`settings.find_door`), unless the address has one itself (`https://alice:secret@host:8081`). Such a login goes over TLS
or within this machine only.
"""

import http.client
import ssl
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from headwater.base.errors import UserError
from headwater.web.listeners import HttpListener
from headwater.web.presented import basic_header

_PORTS: Final = {"http": 80, "https": 443}


class DoorAccess(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str
    authorization: str  # empty: none
    tls: ssl.SSLContext | None

    def __repr__(self) -> str:
        return f"DoorAccess({self.url})"

    @property
    def url(self) -> str:
        """Without the login."""
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{self.path}"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}

    def connect(self, timeout_s: float | None = None) -> http.client.HTTPConnection:
        if self.scheme == "https":
            return http.client.HTTPSConnection(self.host, self.port, timeout=timeout_s, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout_s)


def door_access(
    url: str, security: Mapping[str, str], what: str, example: str, default_port: int | None = None
) -> DoorAccess:
    """`security`: a client's settings of TLS and its login. Raises UserError, without a login that stands in the
    address.
    """
    shown = url.rpartition("@")[2]
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        port = parts.port
    except ValueError:  # a port that there is not, or half of an IPv6 address; its words may quote the login
        raise UserError(f"{shown!r} is no address of {what}", "", f"Write it as {example}") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise UserError(f"{shown!r} is no address of {what}", "", f"Write it as {example}")
    is_safe = parts.scheme == "https" or HttpListener(parts.hostname, 0).is_loopback
    authorization = _own_login(parts) or (_login_of(security) if is_safe else "")
    tls = _context(security) if parts.scheme == "https" else None
    path = parts.path.rstrip("/")
    return DoorAccess(
        parts.scheme, parts.hostname, port or default_port or _PORTS[parts.scheme], path, authorization, tls
    )


def security_for(other: DoorAccess, door: DoorAccess, security: Mapping[str, str]) -> dict[str, str]:
    """For another server than the one that `security` is meant for: whom to trust, but no login."""
    is_same = (other.host, other.port) == (door.host, door.port)
    return {name: text for name, text in security.items() if is_same or name.startswith("ssl.")}


def _own_login(parts: SplitResult) -> str:
    if not parts.username:
        return ""
    return basic_header(f"{unquote(parts.username)}:{unquote(parts.password or '')}")


def _login_of(security: Mapping[str, str]) -> str:
    if not str(security.get("security.protocol", "")).upper().startswith("SASL_"):
        return ""
    from headwater.client.settings.admin import read_admin_settings

    credentials = read_admin_settings(security, {}).session.credentials
    if credentials is None:
        return ""
    if credentials.token is not None:
        return f"Bearer {_token(credentials.token)}"
    return basic_header(f"{credentials.user}:{credentials.password}")


def _token(source: Callable[[], str]) -> str:
    """Read from its file, or asked for at its endpoint: each command is a client of its own."""
    from headwater.base.security.login_errors import LoginFailed
    from headwater.client.reactor.token_source import TokenSource
    from headwater.client.token_requests import TokenNotFetched

    try:
        return source.fetch() if isinstance(source, TokenSource) else source()
    except (LoginFailed, TokenNotFetched) as problem:
        hint = "See sasl.oauthbearer.token.endpoint.url in the settings"
        raise UserError("There is no token to log in with", str(problem), hint) from None


def _context(security: Mapping[str, str]) -> ssl.SSLContext:
    from headwater.base.security.tls import client_context
    from headwater.client.settings.admin import read_admin_settings
    from headwater.client.settings.security import tls_settings

    given = {name: text for name, text in security.items() if name.startswith("ssl.")}
    return client_context(tls_settings(read_admin_settings(given, {}).values))
