"""How this broker shows others who it is: TLS and a login on the connections that it makes to them.

A `SecurePeerSocket` is a `PeerSocket` that is opened later: behind the TLS handshake, which checks the other's
certificate and host name, and behind the login. Where the other says how long the login holds, it is repeated in time,
on the same connection and between the lane's own requests: its frames have a correlation id that no lane uses. Owned by
the broker's loop.
"""

import logging
import select
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.sasl_client import Credentials, SaslClient, check_mechanism, credentials_from
from headwater.base.security.tls import ContextSource, client_context
from headwater.base.security.tls_socket import TlsSocket
from headwater.server.peers import PeerSocket
from headwater.server.security.listener_security import tls_settings
from headwater.wire.errors import DecodeError
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.server.loop import Loop, LoopTimer
    from headwater.server.peer_lane import PeerLane

_LOGIN_ID: Final = -2  # the correlation id of a login's requests
_LOGIN_ID_BYTES: Final = _LOGIN_ID.to_bytes(4, signed=True)
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2
_AGAIN_AT: Final = 0.85  # of the time that a login holds
_READS_PER_EVENT: Final = 64

logger = logging.getLogger("headwater.security")


class PeerSecurity:
    """Of the listener that brokers use among themselves. Raises UserError for settings that cannot work."""

    def __init__(self, config: "BrokerConfig") -> None:
        listener = config.inter_broker_listener()
        settings = config.listener(listener.name)
        self.tls: ContextSource | None = None
        self._settings = settings
        self._mechanism = ""
        self._known: tuple[str | None, Credentials] | None = None
        if listener.protocol in ("SSL", "SASL_SSL"):
            self.tls = ContextSource(lambda: tls_settings(settings), client_context)
        if listener.protocol.startswith("SASL_"):
            name = "sasl.mechanism.inter.broker.protocol"
            mechanism = check_mechanism((settings.string(name) or "").upper(), name)
            if mechanism not in settings.mechanisms():
                raise UserError(
                    f"Bad value for {name}: {mechanism}",
                    f"the listener {listener.name}, which brokers use, does not take it",
                    "Add it to sasl.enabled.mechanisms",
                )
            self._mechanism = mechanism
            jaas = settings.string("sasl.jaas.config", mechanism)
            self._known = jaas, self._credentials(jaas)

    @property
    def credentials(self) -> Credentials | None:
        """As they are now: a dynamic config may have changed them. What cannot be used leaves the old ones."""
        if self._known is None:
            return None
        jaas = self._settings.string("sasl.jaas.config", self._mechanism)
        if jaas != self._known[0]:
            try:
                self._known = jaas, self._credentials(jaas)
            except UserError as problem:
                logger.error("event=login-not-reloaded reason=%r note='the old one goes on'", str(problem))
                self._known = jaas, self._known[1]
        return self._known[1]

    def _credentials(self, jaas: str | None) -> Credentials:
        token_url = self._settings.string("sasl.oauthbearer.token.endpoint.url")
        return credentials_from(self._mechanism, jaas=jaas, token_url=token_url)

    def socket_to(self, loop: "Loop", shared: memoryview, lane: "PeerLane", host: str, port: int) -> "SecurePeerSocket":
        return SecurePeerSocket(loop, shared, lane, host, port, self)


class SecurePeerSocket(PeerSocket):
    def __init__(
        self, loop: "Loop", shared: memoryview, lane: "PeerLane", host: str, port: int, security: PeerSecurity
    ) -> None:
        self._security = security
        self._host = host
        self._tls: TlsSocket | None = None
        self._is_shaking = False
        self._is_given = False  # to its lane
        self._client: SaslClient | None = None
        self._answered: Callable[[memoryview], None] = self._no_login
        self._again: LoopTimer | None = None
        super().__init__(loop, shared, lane, host, port)

    # TLS

    def _opened(self) -> None:
        if self._security.tls is None:
            self._secured()
            return
        plain = self._socket
        assert isinstance(plain, socket.socket)
        try:
            self._tls = TlsSocket(plain, self._security.tls.current(), self._host)
        except (OSError, ValueError) as problem:
            self._not_secured(problem)
            return
        self._socket = self._tls
        self._is_shaking = True
        self._shake()

    def _on_events(self, events: int) -> None:
        if self._is_shaking:
            self._shake()
            return
        super()._on_events(events)
        self._drain()

    def _shake(self) -> None:
        tls = self._tls
        assert tls is not None
        try:
            is_over = tls.step()
        except (ssl.SSLError, OSError) as problem:
            self._not_secured(problem)
            return
        if not is_over:
            events = select.EPOLLOUT if tls.is_writing else select.EPOLLIN
            if events != self._events:
                self._events = events
                self._loop.modify(tls.fileno(), events)
            return
        self._is_shaking = False
        self._secured()
        self._drain()

    def _not_secured(self, problem: Exception) -> None:
        reason = getattr(problem, "verify_message", None) or getattr(problem, "reason", None) or str(problem)
        logger.warning("event=peer-not-secured host=%r reason=%r", self._host, reason)
        self._lose(f"no TLS with it: {reason}")

    def _drain(self) -> None:
        tls = self._tls
        for _ in range(_READS_PER_EVENT):
            if tls is None or self._is_closed or self._is_shaking or tls.is_drained:
                return
            self._read()
        self._loop.call_later(0, self._drain)

    # The login

    def _secured(self) -> None:
        self._is_open = True
        self._want()
        if self._security.credentials is None:
            self._give()
        else:
            self._log_in(self._security.credentials)

    def _give(self) -> None:
        if not self._is_given:
            self._is_given = True
            super()._opened()

    def _log_in(self, credentials: Credentials) -> None:
        try:
            self._client = credentials.login()
        except LoginFailed as problem:
            self._not_logged_in(str(problem))
            return
        self._answered = self._shaken_hands
        self._ask(SaslHandshakeRequest(mechanism=credentials.mechanism), _HANDSHAKE_VERSION)

    def _ask(self, request: Any, version: int) -> None:
        header = encode_request_header(request.KEY, version, _LOGIN_ID, "headwater-broker")
        self.send(b"".join([header, *request.encode(version)]))

    def _received(self, frame: memoryview) -> None:
        if frame[:4] != _LOGIN_ID_BYTES:
            super()._received(frame)
            return
        try:
            self._answered(frame)
        except (DecodeError, LoginFailed) as problem:
            self._not_logged_in(str(problem))

    def _no_login(self, _frame: memoryview) -> None:
        raise LoginFailed("an answer to a login that nobody has begun")

    def _shaken_hands(self, frame: memoryview) -> None:
        _, at = decode_response_header(frame, SaslHandshakeRequest.KEY, _HANDSHAKE_VERSION)
        answer = SaslHandshakeResponse.decode(frame, at, _HANDSHAKE_VERSION)
        if answer.error_code:
            raise LoginFailed(f"it takes only {', '.join(answer.mechanisms)}")
        assert self._client is not None
        self._answered = self._authenticated
        self._ask(SaslAuthenticateRequest(auth_bytes=self._client.first()), _AUTHENTICATE_VERSION)

    def _authenticated(self, frame: memoryview) -> None:
        _, at = decode_response_header(frame, SaslAuthenticateRequest.KEY, _AUTHENTICATE_VERSION)
        answer = SaslAuthenticateResponse.decode(frame, at, _AUTHENTICATE_VERSION)
        if answer.error_code:
            raise LoginFailed(answer.error_message or "the login failed")
        assert self._client is not None
        message = self._client.receive(bytes(answer.auth_bytes))
        if message is not None:
            self._ask(SaslAuthenticateRequest(auth_bytes=message), _AUTHENTICATE_VERSION)
            return
        self._client = None
        self._answered = self._no_login
        if answer.session_lifetime_ms > 0:
            self._again = self._loop.call_later(int(answer.session_lifetime_ms * _AGAIN_AT), self._log_in_again)
        self._give()

    def _log_in_again(self) -> None:
        if not self._is_closed and self._security.credentials is not None:
            self._log_in(self._security.credentials)

    def _not_logged_in(self, why: str) -> None:
        logger.warning("event=peer-login-failed host=%r reason=%r", self._host, why)
        self._lose(f"the login at it failed: {why}")

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        super().close()
