"""What one listener asks of its clients: TLS, a login, or both; and the audit lines about who came.

Made at the start for each listener that is not PLAINTEXT; what cannot work is a UserError then. Settings are read anew
for each connection. Owned by the server's loop.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.config.listener_config import PREFIX, ListenerConfig, served_mechanisms
from headwater.base.config.listeners import Listener
from headwater.base.errors import UserError
from headwater.base.security import oauthbearer
from headwater.base.security.distinguished_name import PrincipalRules, subject_of
from headwater.base.security.tls import ContextSource, TlsSettings, check_store_type, server_context
from headwater.broker.context import ConnectionContext
from headwater.server.line_limit import LineLimit
from headwater.server.security.login import Login
from headwater.server.security.sasl_servers import Mechanisms, check_users

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.metadata.image import ClusterImage
    from headwater.server.loop import Loop
    from headwater.server.security.secure_connection import SecureConnection

ANONYMOUS: Final = "ANONYMOUS"
PENDING_MAX: Final = 2000  # connections that have not shown who they are: each has a handshake's state
_LOGIN_BYTES_MAX: Final = 16 * 1024
_TOKEN_LOGIN_BYTES_MAX: Final = oauthbearer.TOKEN_CHARACTERS_MAX + 4096  # the request's header is in it

logger = logging.getLogger("headwater.security")
_SECRET: Final = os.urandom(32)  # of this process: what it makes up for users that there are not


class LoginCounts:
    """What the metrics of a listener tell, by Apache Kafka's words: to show who one is by TLS counts as a login where
    nothing else is asked for, and a TLS handshake that fails as one that fails.
    """

    __slots__ = ("again_failed", "expired", "failed", "handshakes", "logged_in", "logged_in_again")

    def __init__(self) -> None:
        self.handshakes = 0  # of TLS, that came to their end
        self.logged_in = 0
        self.failed = 0
        self.logged_in_again = 0
        self.again_failed = 0
        self.expired = 0  # connections that asked for something when their session was over


class ListenerSecurity:
    def __init__(
        self,
        config: "BrokerConfig",
        listener: Listener,
        image: "ClusterImage",
        loop: "Loop",
        now_ms: Callable[[], int],
    ) -> None:
        settings = config.listener(listener.name)
        self._settings = settings
        self._loop = loop
        self._now_ms = now_ms
        self._rules = PrincipalRules(settings.string("ssl.principal.mapping.rules") or "DEFAULT")
        self.counts = LoginCounts()
        self._failed_lines = LineLimit()
        self._evicted_lines = LineLimit()  # its own: a flood of connections must not hide who tries passwords
        self._unsecured_events = LineLimit()
        self._anonymous_events = LineLimit()
        self._mechanisms: Mechanisms | None = None
        self._keys: Callable[[], list[oauthbearer.Key]] | None = None  # of OAUTHBEARER, where it is enabled or was
        self._pending: dict[SecureConnection, None] = {}  # the oldest first
        self._pending_by_host: Counter[str] = Counter()  # no host with 0
        self.tls: ContextSource | None = None
        try:
            if listener.protocol in ("SSL", "SASL_SSL"):
                self.tls = ContextSource(lambda: tls_settings_of(config, listener), server_context)
            if listener.protocol.startswith("SASL_"):
                self._mechanisms = self._login_by(image, listener)
        except UserError as problem:
            raise UserError(
                f"Listener {listener} cannot be opened: {problem.what}", problem.why, problem.hint
            ) from None

    def _login_by(self, image: "ClusterImage", listener: Listener) -> Mechanisms:
        check_users(self._settings)
        if "OAUTHBEARER" in self._settings.mechanisms():
            from headwater.server.security.jwks import KeySet  # not for those who have no tokens

            self._keys = KeySet(self._settings, self._loop).current
        return Mechanisms(
            self._settings,
            lambda: image.user_configs,
            self._current_keys,
            self._now_ms,
            _SECRET,
            lambda: self._enabled(listener),
        )

    def _enabled(self, listener: Listener) -> list[str]:
        """A client asks for them before it shows a token: keys of a URL are on their way then."""
        enabled = served_mechanisms(listener, self._settings)
        if "OAUTHBEARER" in enabled and self._keys is None:
            self._current_keys()
        return enabled

    def _current_keys(self) -> list[oauthbearer.Key]:
        """OAUTHBEARER may have been enabled since the start."""
        if self._keys is None:
            from headwater.server.security.jwks import KeySet

            try:
                self._keys = KeySet(self._settings, self._loop, must_exist=False).current
            except UserError as problem:  # refused when it is set; who writes to the store is not asked
                logger.error("event=keys-not-read reason=%r note='nobody can log in by OAUTHBEARER'", str(problem))
                self._keys = list
        return self._keys()

    def new_login(self) -> Login | None:
        if self._mechanisms is None:
            return None
        return Login(self._mechanisms, self._now_ms, lambda: self._settings.int("connections.max.reauth.ms"))

    def entered(self, connection: "SecureConnection") -> "SecureConnection | None":
        """One more that has to show who it is; the one that has to go for it: the oldest of the address with the most,
        so that who floods from one address ends its own connections and not those of slow clients elsewhere.
        """
        self._pending[connection] = None
        self._pending_by_host[connection.context.client_host] += 1
        if len(self._pending) <= PENDING_MAX:
            return None
        most = max(self._pending_by_host.values())
        return next(each for each in self._pending if self._pending_by_host[each.context.client_host] == most)

    def settled(self, connection: "SecureConnection") -> None:
        """It has shown who it is, or is gone."""
        if connection not in self._pending:
            return
        del self._pending[connection]
        host = connection.context.client_host
        self._pending_by_host[host] -= 1
        if not self._pending_by_host[host]:
            del self._pending_by_host[host]

    @property
    def login_bytes_max(self) -> int:
        """Of a frame before the login: small, since anybody may send a part of one; more only where it may hold a
        token.
        """
        most = _TOKEN_LOGIN_BYTES_MAX if "OAUTHBEARER" in self._settings.mechanisms() else _LOGIN_BYTES_MAX
        return min(self._settings.int("sasl.server.max.receive.size"), most)

    def delay_ms(self) -> int:
        return self._settings.int("connection.failed.authentication.delay.ms")

    def user_of(self, certificate: bytes | None) -> str | None:
        """Who a client with this certificate is; None if the rules know nobody."""
        if certificate is None:
            return ANONYMOUS
        try:
            return self._rules.user_of(subject_of(certificate))
        except (ValueError, IndexError):
            return None

    # The audit lines

    def logged_in(self, context: ConnectionContext, by: str) -> None:
        self.counts.logged_in += 1
        logger.debug(
            "event=login peer=%s:%d listener=%s mechanism=%s principal=%r",
            context.client_host,
            context.client_port,
            context.listener,
            by,
            context.principal,
        )

    def login_failed(
        self, context: ConnectionContext, mechanism: str, why: str, *, is_again: bool = False
    ) -> int | None:
        """How many were left out before this one; None if this one is left out too, here and in the audit topic."""
        if is_again:
            self.counts.again_failed += 1
        else:
            self.counts.failed += 1
        unsaid = self._failed_lines.take(self._loop.turn_ns)
        if unsaid is None:
            return None
        logger.warning(
            "event=login-failed peer=%s:%d listener=%s mechanism=%s reason=%r unsaid=%d",
            context.client_host,
            context.client_port,
            context.listener,
            mechanism or "-",
            why,
            unsaid,
        )
        return unsaid

    def not_secured(self) -> int | None:
        """A TLS handshake failed: what the audit topic hears of it, as of a login that fails."""
        self.counts.failed += 1
        return self._unsecured_events.take(self._loop.turn_ns)

    def anonymous(self) -> int | None:
        """Somebody who need not show who it is has come: anybody may, as often as it likes."""
        return self._anonymous_events.take(self._loop.turn_ns)

    def evicted(self, context: ConnectionContext, why: str) -> None:
        unsaid = self._evicted_lines.take(self._loop.turn_ns)
        if unsaid is not None:
            logger.warning(
                "event=connection-closed peer=%s:%d listener=%s reason=%r unsaid=%d",
                context.client_host,
                context.client_port,
                context.listener,
                why,
                unsaid,
            )


def tls_settings_of(config: "BrokerConfig", listener: Listener) -> TlsSettings:
    settings = config.listener(listener.name)
    return tls_settings(settings)._replace(client_auth=_client_auth(config, listener, settings))


def tls_settings(settings: ListenerConfig) -> TlsSettings:
    for name in ("ssl.keystore.type", "ssl.truststore.type"):
        check_store_type(name, settings.string(name))
    return TlsSettings(
        keystore_location=settings.string("ssl.keystore.location"),
        keystore_password=settings.string("ssl.keystore.password"),
        keystore_key=settings.string("ssl.keystore.key"),
        keystore_certificate_chain=settings.string("ssl.keystore.certificate.chain"),
        key_password=settings.string("ssl.key.password"),
        truststore_location=settings.string("ssl.truststore.location"),
        truststore_password=settings.string("ssl.truststore.password"),
        truststore_certificates=settings.string("ssl.truststore.certificates"),
        enabled_protocols=tuple(settings.list("ssl.enabled.protocols")),
        cipher_suites=tuple(settings.list("ssl.cipher.suites")),
        endpoint_identification=settings.string("ssl.endpoint.identification.algorithm") or "",
    )


def _client_auth(config: "BrokerConfig", listener: Listener, settings: ListenerConfig) -> str:
    """As in Apache Kafka, a SASL_SSL listener asks for certificates only if its own setting says so: clients have shown
    who they are.
    """
    own = f"{PREFIX}{listener.name.lower()}.ssl.client.auth"
    has_own = any(name.lower() == own for layer in (config.dynamic_broker, config.static) for name in layer)
    if listener.protocol == "SASL_SSL" and not has_own:
        return "none"
    return (settings.string("ssl.client.auth") or "none").lower()
