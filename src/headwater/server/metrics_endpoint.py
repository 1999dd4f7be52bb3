"""`metrics.port`: a GET of /metrics (Prometheus text) or /status (JSON), and nothing else. One request per
connection.
"""

import json
import select
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.server.exposition import prometheus_text, status
from headwater.server.listener import pause_accepting

if TYPE_CHECKING:
    from headwater.server.loop import Loop
    from headwater.server.node import Node

_REQUEST_BYTES_MAX: Final = 8192
_PATIENCE_MS: Final = 5000
_CONNECTIONS_MAX: Final = 32


class MetricsEndpoint:
    """Owned by the loop."""

    def __init__(self, node: "Node", host: str, port: int) -> None:
        self._node = node
        self._loop: Loop = node.loop
        self._listener = socket.create_server((host, port), backlog=16)
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
            sock, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError:  # no descriptor is left
            pause_accepting(self._loop, self._listener)
            return
        if len(self._open) >= _CONNECTIONS_MAX:
            sock.close()
            return
        self._open.add(_Exchange(self._loop, sock, self._answer, self._open.discard))

    def _answer(self, path: str) -> bytes:
        if path == "/metrics":
            kind, body = "text/plain; version=0.0.4; charset=utf-8", prometheus_text(self._node)
        elif path == "/status":
            kind, body = "application/json", json.dumps(status(self._node))
        else:
            return _http("404 Not Found", "text/plain", "GET /metrics or /status\n")
        return _http("200 OK", kind, body)


def _http(state: str, kind: str, text: str) -> bytes:
    body = text.encode()
    head = f"HTTP/1.1 {state}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


class _Exchange:
    """One request and its answer."""

    def __init__(
        self,
        loop: "Loop",
        sock: socket.socket,
        answer: Callable[[str], bytes],
        forget: Callable[["_Exchange"], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._answer = answer
        self._forget = forget
        self._request = b""
        self._left = memoryview(b"")
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
        piece = self._socket.recv(4096)
        self._request += piece
        if not piece or len(self._request) > _REQUEST_BYTES_MAX:
            self.close()
        elif b"\r\n\r\n" in self._request:
            line = self._request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            is_get = len(line) == 3 and line[0] == "GET"
            reply = self._answer(line[1].split("?")[0]) if is_get else _http("405 Method Not Allowed", "text/plain", "")
            self._left = memoryview(reply)
            self._loop.modify(self._socket.fileno(), select.EPOLLOUT)

    def _send(self) -> None:
        self._left = self._left[self._socket.send(self._left) :]
        if not self._left:
            self.close()

    def close(self) -> None:
        if self._socket.fileno() != -1:
            self._timer.cancel()
            self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._forget(self)
