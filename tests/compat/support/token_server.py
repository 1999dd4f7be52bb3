"""An OAuth 2.0 token endpoint on the loopback interface: client credentials in, signed tokens out; or what a test has
it do instead.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from compat.support.certificates import Issuer

CLIENT_ID = "alice"
SECRET = "canary-5150"


class TokenServer(ThreadingHTTPServer):
    """`asked`: what each request was. `misbehaves`, if set, answers instead."""

    daemon_threads = True

    def __init__(self, issuer: Issuer, lifetime_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = issuer
        self.lifetime_s = lifetime_s
        self.asked: list[dict[str, list[str]]] = []
        self.misbehaves: Callable[[BaseHTTPRequestHandler], None] | None = None
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/oauth2/token?tenant=a"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append(parse_qs(body))
        if self.server.misbehaves is not None:
            self.server.misbehaves(self)
            return
        expected = "Basic " + base64.b64encode(f"{CLIENT_ID}:{SECRET}".encode()).decode()
        if self.headers["Authorization"] != expected or self.path != "/oauth2/token?tenant=a":
            answer(self, 401, {"error": "invalid_client", "error_description": f"not {SECRET}"})
            return
        ends = time.time() + self.server.lifetime_s
        token = self.server.issuer.token(sub=CLIENT_ID, iss="us", aud="headwater", iat=time.time(), exp=ends)
        answer(self, 200, {"access_token": token, "token_type": "Bearer", "expires_in": int(self.server.lifetime_s)})

    def log_message(self, *_: object) -> None:
        pass


def answer(handler: BaseHTTPRequestHandler, status: int, fields: dict[str, Any], **headers: str) -> None:
    data = json.dumps(fields).encode()
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


@contextmanager
def token_server(issuer: Issuer, *, lifetime_s: float = 3600, certificate: str = "") -> Iterator[TokenServer]:
    server = TokenServer(issuer, lifetime_s)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.scheme = "https"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
