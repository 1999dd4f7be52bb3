"""A connection that has to show who it is before it may ask anything: by TLS, by a login, or by both.

`_dispatch` is the one place where a request begins (server/connection.py), and here it is a gate: the quick handlers,
compiled or not, are behind it. The gate is open from the end of the login until `_open_until_ns`. While it is closed,
only ApiVersions, SaslHandshake and SaslAuthenticate are served, and frames are small. A session that is over closes the
gate again: whoever then asks for anything but a new login is disconnected, as in Apache Kafka.

A failed login is answered late (`connection.failed.authentication.delay.ms`), and then the connection ends. One that is
not logged in after `LOGIN_MS` ends too, and where `PENDING_MAX` wait for their login, the oldest of the address with
the most of them ends for a new one. Owned by the server's loop; the steps of its TLS handshake are taken in helper
threads (`handshakes.py`), and meanwhile the loop does not look at its socket.
"""

import logging
import select
import socket
import ssl
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.security.tls_socket import TlsSocket
from headwater.broker.context import ConnectionContext
from headwater.broker.registry import APIS
from headwater.broker.rights.connection_rights import FOR_EVER_NS
from headwater.server.connection import Connection
from headwater.server.dispatch import Begun
from headwater.server.quick_handlers import quick_handlers_for
from headwater.server.security.handshakes import Step
from headwater.server.security.listener_security import ANONYMOUS
from headwater.server.security.login import FOR_EVER, Login, Refusal, State
from headwater.server.security.tls_outbox import TlsOutbox
from headwater.wire.headers import decode_request_header

if TYPE_CHECKING:
    from headwater.server.listener import Server
    from headwater.server.loop import LoopTimer
    from headwater.server.security.listener_security import ListenerSecurity

LOGIN_MS: Final = 30_000
_KEY: Final = Struct(">h")
_SASL_HANDSHAKE, _API_VERSIONS, _SASL_AUTHENTICATE = 17, 18, 36
_LOGIN_APIS: Final = (_SASL_HANDSHAKE, _SASL_AUTHENTICATE)
_READS_PER_EVENT: Final = 16
_HEAD_BYTES: Final = 8

logger = logging.getLogger("headwater.security")


class SecureConnection(Connection):
    __slots__ = ("_is_refused", "_is_shaking", "_login", "_open_until_ns", "_security", "_step", "_timer", "_tls")

    def __init__(
        self,
        server: "Server",
        sock: "socket.socket | TlsSocket",
        context: ConnectionContext,
        shared: memoryview,
        security: "ListenerSecurity",
    ) -> None:
        self._open_until_ns: float = 0
        super().__init__(server, sock, context, shared)  # type: ignore[arg-type]
        self._security = security
        self._tls = sock if isinstance(sock, TlsSocket) else None
        self._is_shaking = self._tls is not None
        self._step: Step | None = None  # of the handshake, that waits for its turn or is under way
        self._login: Login | None = security.new_login()
        self._is_refused = False
        if self._tls is not None:
            self._outbox = TlsOutbox(sock, server.disk, self._warmed)  # type: ignore[arg-type]
            self._out = self._outbox.chunks
        self._timer: LoopTimer = self._loop.call_later(LOGIN_MS, self._too_slow)
        evicted = security.entered(self)
        if evicted is not None:
            why = "too many connections have not logged in yet, and it is the oldest of the address with the most"
            server.broker.metrics.requests_refused += 1
            security.evicted(evicted.context, why)
            evicted.end(why)

    def choose_ways(self) -> None:
        if not self._open_until_ns:  # nobody knows yet whose quotas and rights they are
            self._quick = {}
            self.context.meter = None
            return
        ends_ns = FOR_EVER_NS if self._open_until_ns == FOR_EVER else int(self._open_until_ns)
        self._quick = quick_handlers_for(self._broker, self.context, ends_ns)

    # TLS

    def on_events(self, events: int) -> None:
        if self._is_shaking:
            self._shake()
            return
        super().on_events(events)
        if self._tls is not None:
            self._drain()

    def _shake(self) -> None:
        """Hands the next step to a helper thread. Meanwhile the socket tells of its end at most, and once: that thread
        finds out by itself.
        """
        tls = self._tls
        assert tls is not None
        if self._step is not None:
            return
        self._loop.modify(self._fd, select.EPOLLONESHOT)
        self._step = Step(tls.lend, tls.step, self._shaken)
        self._server.handshakes.submit(self.context.client_host, self._step)

    def _shaken(self, is_over: bool, problem: Exception | None) -> None:
        """A step was taken, or could not be; the connection may have ended meanwhile."""
        tls = self._tls
        assert tls is not None
        self._step = None
        tls.give_back()
        if self.closed:
            return
        self._events = select.EPOLLOUT if tls.is_writing and not is_over else select.EPOLLIN
        self._loop.modify(self._fd, self._events)
        try:
            if problem is not None:
                self._not_secured(problem)
            elif is_over:
                self._secured(tls)
        except Exception:  # a completion: nobody above us closes the connection
            logger.exception("event=handler-failed fd=%d", self._fd)
            self.on_failure()

    def _secured(self, tls: TlsSocket) -> None:
        self._is_shaking = False
        self._security.counts.handshakes += 1
        if self._login is None:
            user = self._security.user_of(tls.certificate)
            if user is None:
                self._security.counts.failed += 1
                self._server.refuse(self, "no rule of ssl.principal.mapping.rules fits its certificate")
                return
            self._welcome(user, "TLS", FOR_EVER)
        self._drain()

    def _not_secured(self, problem: Exception) -> None:
        unsaid = self._security.not_secured()
        if not isinstance(problem, OSError):  # an error of ours; those of OpenSSL are OSErrors
            raise problem
        reason = problem.reason if isinstance(problem, ssl.SSLError) else problem.strerror
        if reason in ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"):
            why = "this is HTTP without TLS; the port speaks the Kafka protocol over TLS"
        elif reason in ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            why = "this is not TLS; the listener wants it (is security.protocol of the client SSL or SASL_SSL?)"
        else:
            why = f"no TLS handshake ({reason or problem})"
        self._audit("login-failed", unsaid, mechanism="TLS", reason=why)
        self._server.refuse(self, why)

    def _drain(self) -> None:
        """OpenSSL may hold what the socket's events will not tell of."""
        tls = self._tls
        assert tls is not None
        for _ in range(_READS_PER_EVENT):
            if tls.is_drained or self.closed or self._blocked:
                return
            if self._frame is not None:
                self._read_frame()
            else:
                self._read_shared()
        if not self.closed:  # the others have their turn
            self._loop.call_later(0, self._drain_later)

    def _drain_later(self) -> None:
        if not self.closed:
            try:
                self._drain()
            except Exception:
                logger.exception("event=handler-failed fd=%d", self._fd)
                self.on_failure()

    def _unblock(self) -> None:
        super()._unblock()
        if self._tls is not None and not self._blocked and not self._tls.is_drained:
            self._loop.call_later(0, self._drain_later)

    # The gate

    def _dispatch(self, buffer: memoryview, begin: int, behind: int) -> None:
        if self._loop.turn_ns < self._open_until_ns:
            if self._login is None or _KEY.unpack_from(buffer, begin)[0] not in _LOGIN_APIS:
                super()._dispatch(buffer, begin, behind)
                return
        elif self._is_refused:
            return
        self._dispatch_login(buffer[begin:behind])

    def _takes(self, size: int) -> bool:
        if self._open_until_ns:
            return super()._takes(size)
        least = 1 if self._login is not None and self._login.state is State.BARE_TOKENS else _HEAD_BYTES
        return least <= size <= self._security.login_bytes_max

    def _must_wait(self) -> bool:
        return self._is_refused or super()._must_wait()

    def _dispatch_login(self, frame: memoryview) -> None:
        """Whatever goes wrong is a failed login, late and counted: an error of ours must not be a quicker way to try
        again.
        """
        try:
            self._take_login(frame)
        except Exception as problem:
            logger.debug("event=login-broken peer=%s", self.context.client_host, exc_info=True)
            if not self.closed:
                self._refuse(f"an error of the broker ({type(problem).__name__})", None)

    def _take_login(self, frame: memoryview) -> None:
        login = self._login
        self.last_active_ns = self._loop.turn_ns
        assert login is not None, "a connection without a login is open from its TLS handshake on"
        if login.state is State.BARE_TOKENS:
            answer = login.bare_token(bytes(frame))
            if isinstance(answer, Refusal):
                self._refuse(answer.why, None)
                return
            self.answer([len(answer).to_bytes(4) + answer])
            self._look_whether_done()
            return
        try:
            begun = self._begin(login, frame)
        except KafkaError as problem:
            self._server.refuse(self, f"bad request: {problem}")
            return
        if begun is None:
            return
        if isinstance(begun.result, Refusal):
            told = begun.result.answer
            self._refuse(begun.result.why, None if told is None else begun.frame(told))
            return
        self.answer(begun.frame(begun.result))
        if begun.api.key == _SASL_AUTHENTICATE:
            self._look_whether_done()

    def _begin(self, login: Login, frame: memoryview) -> Begun | None:
        header = decode_request_header(frame)
        api = APIS.get(header.api_key)
        if header.api_key == _API_VERSIONS:
            super()._dispatch(frame, 0, len(frame))
            return None
        if api is None or header.api_key not in _LOGIN_APIS:
            name = api.name if api is not None else f"API {header.api_key}"
            if self._open_until_ns:
                self._security.counts.expired += 1
            over = "its session is over and it asked for" if self._open_until_ns else "before its login it asked for"
            self._server.refuse(self, f"{over} {name}")
            return None
        version = header.api_version
        if not api.serves[0] <= version <= api.serves[1]:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{api.name} version {version} is not served")
        if api.decode is None:
            api.load()
            assert api.decode is not None
        request: Any = api.decode(frame, header.body_at, version)
        if header.api_key == _SASL_HANDSHAKE:
            result: Any = login.handshake(version, request.mechanism)
        else:
            result = login.authenticate(bytes(request.auth_bytes))
        return Begun(api, version, header.correlation_id, result)

    def _look_whether_done(self) -> None:
        login = self._login
        assert login is not None
        if login.state is State.DONE:
            assert login.user is not None
            self._welcome(login.user, login.mechanism, login.session_ms)

    def _welcome(self, user: str, by: str, session_ms: float) -> None:
        self._timer.cancel()
        is_first = self._open_until_ns == 0
        self._security.settled(self)
        self.context.principal = f"User:{user}"
        self._open_until_ns = self._loop.turn_ns + session_ms * 1_000_000
        self.choose_ways()
        if is_first:
            self._security.logged_in(self.context, by)
            self._audit("login", self._security.anonymous() if user == ANONYMOUS else 0, mechanism=by)
        else:
            self._security.counts.logged_in_again += 1

    def _audit(self, event: str, unsaid: int | None, **details: Any) -> None:
        """`unsaid`: how many such events were left out before; None where this one is to be left out, too."""
        if unsaid is None:
            return
        if unsaid:
            details["unsaid"] = unsaid
        context = self.context
        self._broker.audit.record(event, context.principal, context.client_host, listener=context.listener, **details)

    # The end

    def _refuse(self, why: str, chunks: list[Any] | None) -> None:
        """Nothing more is read; the answer goes out later, and then the connection ends."""
        mechanism = self._login.mechanism if self._login is not None else ""
        unsaid = self._security.login_failed(self.context, mechanism, why, is_again=self._open_until_ns > 0)
        self._audit("login-failed", unsaid, mechanism=mechanism, reason=why)
        self._is_refused = True
        self._open_until_ns = 0
        self._timer.cancel()
        self._block()
        self._timer = self._loop.call_later(self._security.delay_ms(), lambda: self._end_refused(chunks))

    def _end_refused(self, chunks: list[Any] | None) -> None:
        if not self.closed:
            if chunks is not None:
                self.answer(chunks)
            self.end("its login failed")

    def _too_slow(self) -> None:
        if not self.closed and not self._open_until_ns:
            what = "the TLS handshake" if self._is_shaking else "the login"
            self._server.refuse(self, f"{what} was not over after {LOGIN_MS // 1000} s")

    def close(self, why: str) -> None:
        self._timer.cancel()
        self._security.settled(self)
        if self._step is not None and self._tls is not None and not self._tls.is_lent:
            self._server.handshakes.withdraw(self.context.client_host, self._step)
            self._step = None
        super().close(why)
