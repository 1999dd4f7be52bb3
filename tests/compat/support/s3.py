"""A server that speaks S3's protocol (moto), in a process of its own, with one bucket; and one that refuses uploads."""

import http.client
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from headwater.server.zookeeper.process import free_ports

BUCKET = "lake"
LOGIN = {"aws.access.key.id": "key", "aws.secret.access.key": "secret"}
_PATIENCE_S = 120


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Its address."""
    (port,) = free_ports(1)
    said = folder / "moto.log"
    with said.open("wb") as log:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not _make_bucket(port):
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "moto does not serve"
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _make_bucket(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("PUT", f"/{BUCKET}")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def refusing_server(refused: str) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the requests that came. It takes uploads in parts,
    but none whose address has `refused` in it.
    """
    came: list[str] = []

    class Handler(_Uploads):
        requests, refuses = came, refused

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", came
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Uploads(BaseHTTPRequestHandler):
    requests: list[str]
    refuses: str

    def do_POST(self) -> None:
        self._take(b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")

    def do_PUT(self) -> None:
        self._take(b"")

    def _take(self, answer: bytes) -> None:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                self.rfile.read(size + 2)
            self.rfile.readline()
        else:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append(f"{self.command} {self.path}")
        refused = self.refuses in self.path
        body = b"<Error><Code>AccessDenied</Code><Message>refused</Message></Error>" if refused else answer
        self.send_response(403 if refused else 200)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        del format, args
