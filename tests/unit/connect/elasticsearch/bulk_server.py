"""A small server that speaks `_bulk`, with documents in memory, external versions and faults that a test gives it."""

import gzip
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

Item = dict[str, Any]
Reply = tuple[int, bytes] | None  # None: the connection is closed without an answer


def error(status: int, kind: str, reason: str = "no") -> Item:
    return {"status": status, "error": {"type": kind, "reason": reason}}


class BulkServer:
    """`replies` are given to the next bulk requests instead of an answer; `faults` say what becomes of an id instead of
    being written, once for each entry.
    """

    def __init__(self) -> None:
        self.indices: dict[str, dict[str, tuple[int, Any]]] = {}
        self.mappings: dict[str, Any] = {}
        self.tombstones: dict[tuple[str, str], int] = {}
        self.replies: list[Reply] = []
        self.faults: dict[str, list[Item]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.bulks: list[list[tuple[str, str | None]]] = []  # of each bulk request, what it does to which id
        self.size_max = 1 << 30
        self.lock = threading.Lock()
        self.url = ""

    def documents(self, index: str) -> dict[str, Any]:
        return {name: document for name, (_, document) in self.indices.get(index, {}).items()}

    def bulk(self, body: bytes) -> Reply:
        lines = [json.loads(each) for each in body.split(b"\n") if each]
        actions: list[tuple[str, Item, Any]] = []
        while lines:
            kind, head = next(iter(lines.pop(0).items()))
            actions.append((kind, head, None if kind == "delete" else lines.pop(0)))
        self.bulks.append([(kind, head.get("_id")) for kind, head, _ in actions])
        if self.replies:
            return self.replies.pop(0)
        if len(body) > self.size_max:
            return 413, b""
        items = [{kind: self._do(kind, head, document)} for kind, head, document in actions]
        return 200, json.dumps({"errors": any("error" in next(iter(each.values())) for each in items), "items": items}).encode()  # fmt: skip

    def _do(self, kind: str, head: Item, document: Any) -> Item:
        index = self.indices.setdefault(head["_index"], {})
        name = head.get("_id", f"made-{len(index)}")
        if self.faults.get(name):
            return self.faults[name].pop(0)
        before = index.get(name, (self.tombstones.get((head["_index"], name), -1), None))[0]
        version = head.get("version", before + 1)
        if version <= before:
            return error(409, "version_conflict_engine_exception")
        if kind == "delete":
            self.tombstones[head["_index"], name] = version
            return {"status": 200 if index.pop(name, None) else 404}
        if kind == "update":
            assert document["doc_as_upsert"] is True
            document = {**index.get(name, (0, {}))[1], **document["doc"]}
        index[name] = (version, document)
        return {"status": 201}

    def other(self, method: str, path: str, body: bytes) -> Reply:
        index, _, rest = unquote(path[1:]).partition("/")
        if method == "HEAD":
            return (200 if index in self.indices else 404), b""
        if method == "GET" and rest == "_mapping":
            return 200, json.dumps({index: {"mappings": self.mappings.get(index, {})}}).encode()
        if method == "PUT" and rest == "_mapping":
            self.mappings[index] = json.loads(body)
            return 200, b"{}"
        if method == "PUT" and index in self.indices:
            return 400, b'{"error": {"type": "resource_already_exists_exception"}}'
        self.indices[index] = {}
        self.mappings[index] = json.loads(body).get("mappings", {})
        return 200, b"{}"


def _handler(server: BulkServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            path = urlsplit(self.path).path
            with server.lock:
                server.requests.append((self.command, self.path))
                server.headers.append(dict(self.headers))
                reply = server.bulk(body) if path.endswith("/_bulk") else server.other(self.command, path, body)
            if reply is None:
                self.close_connection = True
                return
            status, data = reply
            self.send_response(status)
            if self.headers.get("Accept-Encoding") == "gzip" and data:
                data = gzip.compress(data)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_PUT = _serve

        def log_message(self, *_: Any) -> None: ...

    return Handler


@contextmanager
def bulk_server(tls: ssl.SSLContext | None = None) -> Iterator[BulkServer]:
    made = BulkServer()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    http.daemon_threads = True
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    made.url = f"http{'' if tls is None else 's'}://127.0.0.1:{http.server_address[1]}"
    try:
        yield made
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
