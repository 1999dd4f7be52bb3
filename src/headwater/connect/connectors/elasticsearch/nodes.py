"""Requests to the servers of a cluster over HTTP, with connections that are kept. For several threads at once.

A server that cannot be reached is passed over for the next; when none can be, or an answer does not come, that is a
RetriableError. Redirections are not followed: they could take the password elsewhere.
"""

import gzip
import http.client
import ssl
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable
from typing import Final, NamedTuple

from headwater.connect.connectors.elasticsearch.options import Node, Nodes
from headwater.connect.errors import RetriableError

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"


class Answer(NamedTuple):
    status: int
    data: bytes


class Timeouts(NamedTuple):
    connect_s: float
    read_s: float
    idle_s: float  # 0: connections are kept for ever


class _Unreachable(Exception):
    """Nothing was sent."""


class _Kept(NamedTuple):
    connection: http.client.HTTPConnection
    since: float


class Cluster:
    def __init__(
        self,
        nodes: Nodes,
        timeouts: Timeouts,
        *,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        compress: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes, self._timeouts, self._tls, self._compress, self._clock = (
            nodes.nodes,
            timeouts,
            tls,
            compress,
            clock,
        )
        self._headers = {"Accept": JSON, "User-Agent": "headwater-connect"}
        if login is not None:
            self._headers["Authorization"] = f"Basic {b64encode(':'.join(login).encode()).decode()}"
        if compress:
            self._headers["Accept-Encoding"] = "gzip"
        self._lock = threading.Lock()
        self._kept: dict[Node, list[_Kept]] = {}
        self._next = 0

    def request(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> Answer:
        """Raises RetriableError."""
        with self._lock:
            first = self._next
            self._next += 1
        wrong = ""
        for at in range(len(self._nodes)):
            node = self._nodes[(first + at) % len(self._nodes)]
            try:
                return self._ask(node, method, path, body, kind)
            except _Unreachable as error:
                wrong = f"{node}: {error}"
            except (OSError, http.client.HTTPException) as error:
                raise RetriableError(f"Elasticsearch at {node} does not answer: {_sentence(error)}") from None
        raise RetriableError(f"Elasticsearch cannot be reached at {wrong}")

    def _ask(self, node: Node, method: str, path: str, body: bytes | None, kind: str) -> Answer:
        kept = self._take(node)
        if kept is not None:
            try:
                return self._exchange(node, kept, method, path, body, kind)
            except (ConnectionError, http.client.RemoteDisconnected):
                pass  # which the server had given up meanwhile; with a new one it counts
        return self._exchange(node, self._connect(node), method, path, body, kind)

    def _exchange(
        self, node: Node, connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None, kind: str
    ) -> Answer:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = kind
            if self._compress:
                body, headers["Content-Encoding"] = gzip.compress(body, 1), "gzip"
        try:
            connection.request(method, node.path + path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            if answer.getheader("Content-Encoding", "").lower() == "gzip":
                data = _unzipped(data)
        except BaseException:
            connection.close()
            raise
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._kept.setdefault(node, []).append(_Kept(connection, self._clock()))
        return Answer(answer.status, data)

    def _connect(self, node: Node) -> http.client.HTTPConnection:
        limit = self._timeouts.connect_s
        made = (
            http.client.HTTPConnection(node.host, node.port, timeout=limit)
            if self._tls is None
            else http.client.HTTPSConnection(node.host, node.port, timeout=limit, context=self._tls)
        )
        try:
            made.connect()
        except OSError as error:
            made.close()
            raise _Unreachable(_sentence(error)) from None
        made.sock.settimeout(self._timeouts.read_s)
        return made

    def _take(self, node: Node) -> http.client.HTTPConnection | None:
        """The one that was used last, if it is not too old."""
        with self._lock:
            kept = self._kept.get(node, [])
            found = kept.pop() if kept else None
            old: list[_Kept] = []
            if found is not None and 0 < self._timeouts.idle_s <= self._clock() - found.since:
                old, found = [found, *kept], None
                kept.clear()
        for each in old:
            each.connection.close()
        return None if found is None else found.connection

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, {}
        for each in kept.values():
            for one in each:
                one.connection.close()


def _unzipped(data: bytes) -> bytes:
    try:
        return gzip.decompress(data)
    except (EOFError, zlib.error) as error:
        raise http.client.HTTPException(f"the answer is not gzip: {error}") from None


def _sentence(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
