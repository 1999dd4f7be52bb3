"""Who may read the metrics from other machines: TLS and the login of `metrics.listener`.

The settings of TLS are the broker's own, or `listener.name.metrics.ssl.*`. Users are those of the cluster: SCRAM
credentials of the metadata, the users that `sasl.jaas.config` lists for PLAIN, and those whose tokens are signed as
`sasl.oauthbearer.*` demands, or `listener.name.metrics.sasl.oauthbearer.*`. A password is checked by a helper thread,
since that is slow on purpose; one that was right is known until the user's credentials change. So is the signature of a
token, until it expires or other keys sign. Where rights are checked, the user needs DESCRIBE on the cluster. Owned by
the broker's loop.
"""

import base64
import binascii
import hmac
import logging
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from headwater.base.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.base.config.broker import BrokerConfig
from headwater.base.config.listener_config import ListenerConfig
from headwater.base.config.listeners import Listener
from headwater.base.errors import UserError
from headwater.base.security import oauthbearer, scram
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.oauthbearer import TOKEN_CHARACTERS_MAX
from headwater.base.security.tls import ContextSource, server_context
from headwater.base.security.tls_socket import TlsSocket
from headwater.server.line_limit import LineLimit
from headwater.server.security.listener_security import tls_settings_of
from headwater.server.security.sasl_servers import expected_of, plain_users

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.server.loop import Loop

NAME: Final = "METRICS"
_METHODS: Final = (["NONE"], ["BASIC"], ["BEARER"], ["BASIC", "BEARER"])
_KNOWN_MAX: Final = 100  # users whose password was right; tokens that were
_HEADER_MAX: Final = 4096
_REQUEST_BYTES_MAX: Final = 8192
_SECRET: Final = os.urandom(32)
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")

logger = logging.getLogger("headwater.security")


class Presented(NamedTuple):
    user: str
    password: str

    def __repr__(self) -> str:
        return f"Presented({self.user!r})"


class PresentedToken:
    """Whose it is, is known when it has been checked: by one helper thread, for which the exchange waits."""

    __slots__ = ("expires_ms", "token", "user", "why")

    def __init__(self, token: str) -> None:
        self.token = token
        self.user = ""
        self.expires_ms = 0
        self.why = ""  # it does not count

    def __repr__(self) -> str:
        return f"PresentedToken({self.user!r})"


def metrics_address(text: str) -> Listener:
    """Of `metrics.listener`: https://host:port or http://host:port. Raises UserError."""
    try:
        url = urlsplit(text.strip())
        port = url.port
    except ValueError:
        url, port = urlsplit(""), None
    if url.scheme not in ("http", "https") or port is None or url.path not in ("", "/") or url.username is not None:
        raise UserError(
            "Bad value for metrics.listener", "it is no address of HTTP", "Write it as https://0.0.0.0:9404"
        )
    return Listener(NAME, url.hostname or "", port, "SASL_SSL" if url.scheme == "https" else "SASL_PLAINTEXT")


class BadDynamicSettings(UserError):
    """The dynamic settings of TLS cannot work; those of the file could."""


class MetricsGuard:
    def __init__(self, broker: "Broker", listener: Listener, loop: "Loop") -> None:
        """Raises UserError, also as BadDynamicSettings."""
        config = broker.config
        methods = sorted(each.strip().upper() for each in config.list("metrics.authentication.method"))
        if methods not in _METHODS:
            raise UserError(
                f"Bad value for metrics.authentication.method: {','.join(methods)}",
                hint="Use NONE, BASIC, BEARER, or BASIC,BEARER",
            )
        self._broker = broker
        self._settings = config.listener(NAME)
        self._known: dict[str, tuple[bytes, object]] = {}
        self._known_tokens: dict[bytes, tuple[str, int, object]] = {}
        self._lines = LineLimit()
        self._takes_passwords, self._takes_tokens = "BASIC" in methods, "BEARER" in methods
        self.has_login = methods != ["NONE"]
        self.challenges = "".join(
            f'WWW-Authenticate: {each.capitalize()} realm="headwater"\r\n' for each in methods if self.has_login
        )
        self.request_bytes_max = _REQUEST_BYTES_MAX + (TOKEN_CHARACTERS_MAX if self._takes_tokens else 0)
        is_loopback = listener.host.lower() in _LOOPBACK
        if self.has_login and listener.protocol != "SASL_SSL" and not is_loopback:
            raise UserError(
                "The metrics endpoint would take passwords or tokens in plain text",
                "metrics.authentication.method is set, and metrics.listener has no TLS",
                "Write metrics.listener=https://...",
            )
        self.tls = _context_source(config, listener) if listener.protocol == "SASL_SSL" else None
        self._keys = _keys(self._settings, loop) if self._takes_tokens else list  # last: it may go on fetching keys
        if not self.has_login and not is_loopback:
            logger.warning("event=open-door what='metrics' listener=%s note='anybody may use it'", listener)

    def secured(self, sock: socket.socket) -> TlsSocket | None:
        """The connection with TLS, if it has any: its handshake is to come. Raises OSError if the peer has gone."""
        sock.setblocking(False)
        sock.getpeername()  # raises before `ssl` takes the descriptor, which it would leave open when it raises
        return None if self.tls is None else TlsSocket(sock, self.tls.current())

    def presented(self, head: bytes) -> Presented | PresentedToken | None:
        """What the header Authorization says; None if there is none that one could log in by, or more than one."""
        lines = head.decode("latin-1").split("\r\n")[1:]
        given = [
            value.strip()
            for name, _, value in (line.partition(":") for line in lines)
            if name.lower() == "authorization"
        ]
        scheme, _, value = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        value = value.strip()
        if scheme.lower() == "bearer" and self._takes_tokens and value:
            return PresentedToken(value)
        if scheme.lower() != "basic" or not self._takes_passwords or len(value) > _HEADER_MAX:
            return None
        try:
            user, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return None
        return Presented(user, password) if user and colon and password else None

    def is_known(self, shown: Presented | PresentedToken) -> bool:
        """This password was right before, and the user's credentials are the same; or this token was, and has not
        expired.
        """
        if isinstance(shown, PresentedToken):
            user, expires_ms, signing = self._known_tokens.get(_digest_of(shown.token), ("", 0, None))
            if self._broker.clock.now_ms() >= expires_ms or signing != self._signing():
                return False
            shown.user = user
            return True
        known = self._known.get(shown.user)
        return (
            known is not None
            and hmac.compare_digest(known[0], _digest(shown))
            and known[1] == self._credentials(shown.user)
        )

    def check(self, shown: Presented | PresentedToken) -> Callable[[], bool]:
        """For a helper thread: whether it is the user's password. The same work for a user that there is not. Of a
        token, whether it counts.
        """
        if isinstance(shown, PresentedToken):
            return self._check_token(shown)
        credentials = self._credentials(shown.user)

        def is_right() -> bool:
            texts, plain = credentials
            mechanism, credential = _first(texts)
            salted = scram.salted_password(mechanism, shown.password, credential.salt, credential.iterations)
            found = scram.credential_of(mechanism, salted, credential.salt, credential.iterations)
            by_scram = hmac.compare_digest(found.stored_key, credential.stored_key)
            by_plain = hmac.compare_digest((plain or "").encode(), shown.password.encode())
            return (by_scram and bool(texts)) or (by_plain and plain is not None)

        return is_right

    def _check_token(self, shown: PresentedToken) -> Callable[[], bool]:
        keys, expected = self._signing()
        now_ms = self._broker.clock.now_ms()

        def counts() -> bool:
            try:
                shown.user, shown.expires_ms = oauthbearer.verify(shown.token, keys, expected, now_ms)
            except LoginFailed as problem:
                shown.why = str(problem)
            return not shown.why

        return counts

    def _signing(self) -> tuple[list[oauthbearer.Key], oauthbearer.Expected]:
        """What makes a token count, as it is now."""
        return self._keys(), expected_of(self._settings)

    def remember(self, shown: Presented | PresentedToken) -> None:
        if isinstance(shown, PresentedToken):
            if len(self._known_tokens) >= _KNOWN_MAX:
                self._known_tokens.clear()
            self._known_tokens[_digest_of(shown.token)] = shown.user, shown.expires_ms, self._signing()
            return
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[shown.user] = _digest(shown), self._credentials(shown.user)

    def failed(self, host: str, shown: Presented | PresentedToken) -> None:
        unsaid = self._lines.take(self._broker.clock.monotonic_ms() * 1_000_000)
        if unsaid is not None:
            why = shown.why if isinstance(shown, PresentedToken) else "the user or the password is wrong"
            logger.warning(
                "event=login-failed peer=%s door=metrics user=%r reason=%r unsaid=%d",
                host,
                shown.user[:200],
                why,
                unsaid,
            )

    def may_read(self, host: str, shown: Presented | PresentedToken) -> bool:
        authorizer = self._broker.authorizer
        return authorizer is None or authorizer.allows(
            f"User:{shown.user}", host, int(Operation.DESCRIBE), int(ResourceType.CLUSTER), CLUSTER_NAME
        )

    def delay_ms(self) -> int:
        return self._settings.int("connection.failed.authentication.delay.ms")

    def _credentials(self, user: str) -> tuple[dict[str, str], str | None]:
        config = self._broker.image.user_configs.get(user, {})
        try:
            plain = plain_users(self._settings).get(user)
        except UserError:
            plain = None
        return {name: text for name, text in config.items() if name in scram.MECHANISMS}, plain


def _context_source(config: BrokerConfig, listener: Listener) -> ContextSource:
    try:
        return ContextSource(lambda: tls_settings_of(config, listener), server_context)
    except UserError as problem:
        server_context(tls_settings_of(BrokerConfig(config.static), listener))
        raise BadDynamicSettings(problem.what, problem.why, problem.hint) from None


def _first(texts: dict[str, str]) -> tuple[scram.ScramMechanism, scram.ScramCredential]:
    for name, text in sorted(texts.items(), reverse=True):
        try:
            return scram.MECHANISMS[name], scram.ScramCredential.from_text(text)
        except ValueError:
            continue
    return scram.ScramMechanism.SHA_512, scram.ScramCredential(
        bytes(16), bytes(64), bytes(64), scram.ITERATIONS_DEFAULT
    )


def _keys(settings: ListenerConfig, loop: "Loop") -> Callable[[], list[oauthbearer.Key]]:
    from headwater.server.security.jwks import KeySet  # not for those who have no tokens

    return KeySet(settings, loop).current


def _digest(shown: Presented) -> bytes:
    return _digest_of(f"{shown.user}\0{shown.password}")


def _digest_of(text: str) -> bytes:
    return hmac.digest(_SECRET, text.encode(), "sha256")
