"""`metrics.port` and `metrics.listener`: a GET of /metrics (Prometheus text) or /status (JSON), and nothing else. One
request per connection. The second has a guard: TLS and a login, whose slow steps helper threads take.
"""

import json
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.server.exposition import prometheus_text, status
from headwater.server.listener import pause_accepting
from headwater.server.security.handshakes import Step

if TYPE_CHECKING:
    from headwater.base.security.tls_socket import TlsSocket
    from headwater.server.loop import Loop
    from headwater.server.node import Node
    from headwater.server.security.handshakes import Handshakes
    from headwater.server.security.metrics_guard import MetricsGuard, Presented, PresentedToken

_REQUEST_BYTES_MAX: Final = 8192
_PIECE_BYTES: Final = 4096
_PATIENCE_MS: Final = 5000
_CONNECTIONS_MAX: Final = 32
_PER_NETWORK_MAX: Final = 8  # where others come in: nobody takes all of them


class MetricsEndpoint:
    """Owned by the loop."""

    def __init__(self, node: "Node", host: str, port: int, guard: "MetricsGuard | None" = None) -> None:
        self._node = node
        self._guard = guard
        self._loop: Loop = node.loop
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=16)
        self._listener.setblocking(False)
        self._open: set[_Exchange] = set()
        self.port: int = self._listener.getsockname()[1]
        self._loop.register(self._listener.fileno(), select.EPOLLIN, self._accept)

    def close(self) -> None:
        self._loop.unregister(self._listener.fileno())
        self._listener.close()
        for exchange in list(self._open):
            exchange.close()

    def _accept(self, _events: int) -> None:
        try:
            sock, address = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor is left
            pause_accepting(self._loop, self._listener)
            return
        if len(self._open) >= _CONNECTIONS_MAX or (self._guard is not None and self._has_its_share(address[0])):
            sock.close()
            return
        if self._guard is None:
            self._open.add(_Exchange(self._loop, sock, address[0], self._answer, self._open.discard))
            return
        handshakes = self._node.server.handshakes
        try:
            exchange = _GuardedExchange(
                self._loop, sock, address[0], self._answer, self._open.discard, self._guard, handshakes
            )
        except OSError:  # gone already
            sock.close()
            return
        self._open.add(exchange)

    def _has_its_share(self, host: str) -> bool:
        from headwater.base.networks import network_of  # not for who needs none

        network = network_of(host)
        return sum(network_of(exchange.host) == network for exchange in self._open) >= _PER_NETWORK_MAX

    def _answer(self, path: str) -> bytes:
        if path == "/metrics":
            kind, body = "text/plain; version=0.0.4; charset=utf-8", prometheus_text(self._node)
        elif path == "/status":
            kind, body = "application/json", json.dumps(status(self._node))
        else:
            return _http("404 Not Found", "text/plain", "GET /metrics or /status\n")
        return _http("200 OK", kind, body)


def _http(state: str, kind: str, text: str, more: str = "") -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {state}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}Connection: close\r\n\r\n"
    return head.encode() + body


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        loop: "Loop",
        sock: "socket.socket | TlsSocket",
        host: str,
        answer: Callable[[str], bytes],
        forget: Callable[["_Exchange"], None],
    ) -> None:
        self.host = host
        self._loop = loop
        self._socket = sock
        self._answer = answer
        self._forget = forget
        self._request = bytearray()
        self._bytes_max = _REQUEST_BYTES_MAX
        self._left = memoryview(b"")
        self._is_closed = False
        self._is_complete = False  # the request
        if isinstance(sock, socket.socket):
            sock.setblocking(False)
        self._timer = loop.call_later(_PATIENCE_MS, self.close)
        loop.register(sock.fileno(), select.EPOLLIN, self._on_events, self.close)

    def _on_events(self, _events: int) -> None:
        try:
            if self._left:
                self._send()
            else:
                self._receive()
        except BlockingIOError:
            return
        except OSError:
            self.close()

    def _receive(self) -> None:
        """Some of it. What OpenSSL holds of the rest, no event tells of, so it is looked for in another turn: it comes
        in as many small records as the peer likes, before any login, and others have their turn meanwhile.
        """
        buffer = memoryview(bytearray(_PIECE_BYTES))
        count = self._socket.recv_into(buffer)
        searched = max(0, len(self._request) - 3)
        self._request += buffer[:count]
        if not count or len(self._request) > self._bytes_max:
            self.close()
        elif self._request.find(b"\r\n\r\n", searched) >= 0:
            self._is_complete = True
            self._requested()
        elif count == _PIECE_BYTES:
            self._loop.call_later(0, self._receive_more)

    def _receive_more(self) -> None:
        if not self._is_closed and not self._is_complete:  # an event may have been first
            self._on_events(0)

    def _requested(self) -> None:
        """The request is complete."""
        line = bytes(self._request).split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        is_get = len(line) == 3 and line[0] == "GET"
        self._reply(
            self._answer(line[1].split("?")[0]) if is_get else _http("405 Method Not Allowed", "text/plain", "")
        )

    def _reply(self, reply: bytes) -> None:
        self._left = memoryview(reply)
        self._loop.modify(self._socket.fileno(), select.EPOLLOUT)

    def _send(self) -> None:
        self._left = self._left[self._socket.send(self._left) :]
        if not self._left:
            self.close()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._timer.cancel()
            self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._forget(self)


class _GuardedExchange(_Exchange):
    """Behind TLS, where the listener has it, and behind a login, where it asks for one."""

    def __init__(
        self,
        loop: "Loop",
        sock: socket.socket,
        host: str,
        answer: Callable[[str], bytes],
        forget: Callable[["_Exchange"], None],
        guard: "MetricsGuard",
        handshakes: "Handshakes",
    ) -> None:
        self._guard = guard
        self._handshakes = handshakes
        self._step: Step | None = None  # that waits for its turn, or is under way
        self._is_lent = False
        self._is_refused = False  # what it showed was wrong: the answer is held back
        self._tls = guard.secured(sock)
        self._is_shaking = self._tls is not None
        super().__init__(loop, self._tls or sock, host, answer, forget)
        self._bytes_max = guard.request_bytes_max

    def _on_events(self, events: int) -> None:
        if self._step is not None:
            return
        if self._is_shaking:
            assert self._tls is not None
            self._submit(self._tls.step, self._shaken)
        elif self._is_refused and not self._left:  # it has hung up
            self.close()
        else:
            super()._on_events(events)

    def _submit(self, take: Callable[[], bool], done: Callable[[bool, Exception | None], None]) -> None:
        """To a helper thread. Meanwhile the socket is looked at by nobody else."""

        def lend() -> None:
            self._is_lent = True
            if self._is_shaking and self._tls is not None:
                self._tls.lend()

        def taken(is_so: bool, problem: Exception | None) -> None:
            self._step, self._is_lent = None, False
            if self._is_shaking and self._tls is not None and self._tls.is_lent:
                self._tls.give_back()
            if not self._is_closed:
                done(is_so, problem)

        self._loop.modify(self._socket.fileno(), select.EPOLLONESHOT)
        self._step = Step(lend, take, taken)
        self._handshakes.submit(self.host, self._step)

    def _shaken(self, is_over: bool, problem: Exception | None) -> None:
        assert self._tls is not None
        if problem is not None:
            self.close()
            return
        self._is_shaking = not is_over
        is_writing = self._tls.is_writing and not is_over
        self._loop.modify(self._socket.fileno(), select.EPOLLOUT if is_writing else select.EPOLLIN)
        if is_over:
            super()._on_events(0)

    def _requested(self) -> None:
        guard = self._guard
        if not guard.has_login:
            super()._requested()
            return
        shown = guard.presented(bytes(self._request))
        if shown is None:
            self._refuse(None)
        elif guard.is_known(shown):
            self._welcome(shown)
        else:
            self._submit(guard.check(shown), lambda is_right, _problem: self._checked(shown, is_right))

    def _checked(self, shown: "Presented | PresentedToken", is_right: bool) -> None:
        if is_right:
            self._guard.remember(shown)
            self._welcome(shown)
        else:
            self._refuse(shown)

    def _welcome(self, shown: "Presented | PresentedToken") -> None:
        if self._guard.may_read(self.host, shown):
            super()._requested()
        else:
            self._reply(_http("403 Forbidden", "text/plain", "DESCRIBE on the cluster is needed\n"))

    def _refuse(self, shown: "Presented | PresentedToken | None") -> None:
        """Who showed nothing is asked at once; who showed something wrong waits."""
        reply = _http("401 Unauthorized", "text/plain", "", self._guard.challenges)
        if shown is None:
            self._reply(reply)
            return
        self._is_refused = True
        self._guard.failed(self.host, shown)
        self._loop.modify(self._socket.fileno(), select.EPOLLONESHOT)
        self._loop.call_later(self._guard.delay_ms(), lambda: None if self._is_closed else self._reply(reply))

    def close(self) -> None:
        if not self._is_closed and self._step is not None and not self._is_lent:
            self._handshakes.withdraw(self.host, self._step)
            self._step = None
        super().close()
