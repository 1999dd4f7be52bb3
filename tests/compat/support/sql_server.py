"""A SQL server as users start it: a process of its own, found by its `ready` line."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

_PATIENCE_S = 120


class SqlServer:
    def __init__(self, bootstrap: str, state: Path, service: str, **settings: str) -> None:
        """`settings`: more of the server's, with `_` for their dots."""
        self._settings = {
            "listeners": "http://127.0.0.1:0",
            "bootstrap.servers": bootstrap,
            "ksql.service.id": service,
            "ksql.streams.state.dir": str(state),
            "ksql.query.retry.backoff.initial.ms": "100",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self.url = ""

    def start(self) -> "SqlServer":
        command = [sys.executable, "-m", "headwater.cli.main", "sql", "server", "--stop-on-eof"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), self.log
        self.url = line.split("sql=")[1].strip()
        return self

    @property
    def log(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """A clean end; its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(_PATIENCE_S)
        finally:
            process.kill()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()

    def messages(self, text: str, **properties: str) -> list[str]:
        """What /ws/query sends, to its close: the last is the code and the reason of that."""
        place = urlsplit(self.url)
        assert place.hostname is not None
        request = quote(json.dumps({"ksql": text, "streamsProperties": properties}))
        found: list[str] = []
        with (
            socket.create_connection((place.hostname, place.port or 80), timeout=_PATIENCE_S) as connection,
            connection.makefile("rb") as incoming,
        ):
            head = (
                f"GET /ws/query?request={request} HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: Upgrade\r\n"
                "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            connection.sendall(head.encode())
            assert incoming.readline().startswith(b"HTTP/1.1 101 ")
            while incoming.readline() != b"\r\n":
                pass
            while True:
                first, size = incoming.read(2)
                if size >= 126:
                    size = int.from_bytes(incoming.read(2 if size == 126 else 8), "big")
                payload = incoming.read(size)
                if first == 0x88:  # a close, which is answered
                    connection.sendall(b"\x88\x80\0\0\0\0")
                    assert incoming.read() == b""
                    return [*found, f"{int.from_bytes(payload[:2], 'big')} {payload[2:].decode()}"]
                found.append(payload.decode())

    def insert(self, target: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        """Rows for /inserts-stream in one body that stays open: each is sent when the one before it is acknowledged."""
        place = urlsplit(self.url)
        assert place.hostname is not None
        with (
            socket.create_connection((place.hostname, place.port or 80), timeout=_PATIENCE_S) as connection,
            connection.makefile("rb") as incoming,
        ):
            head = f"POST /inserts-stream HTTP/1.1\r\nHost: {place.netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head.encode())
            found: list[dict[str, Any]] = []
            for line in ({"target": target}, *rows):
                data = json.dumps(line).encode() + b"\n"
                connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))
                if "target" in line:
                    continue
                if not found:
                    status = incoming.readline()
                    assert status.startswith(b"HTTP/1.1 200 "), status
                    while incoming.readline() != b"\r\n":
                        pass
                found.append(json.loads(incoming.read(int(incoming.readline(), 16))))
                incoming.readline()
            connection.sendall(b"0\r\n\r\n")
            assert incoming.readline() == b"0\r\n"
            return found

    def call(self, method: str, path: str, document: object = None, **headers: str) -> tuple[int, bytes]:
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            body = None if document is None else json.dumps(document)
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()

    @contextlib.contextmanager
    def pushed(self, sql: str) -> Iterator[Iterator[bytes]]:
        """The lines of a push query, as they come: the header first."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=_PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("POST", "/query-stream", json.dumps({"sql": sql}))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield iter(answer.readline, b"")

    def run(self, sql: str, **properties: str) -> list[dict[str, Any]]:
        """The entities of statements that must succeed."""
        status, body = self.call("POST", "/ksql", {"ksql": sql, "streamsProperties": properties})
        assert status == 200, body
        found: list[dict[str, Any]] = json.loads(body)
        return found

    def ask(self, sql: str, **properties: str) -> list[list[Any]]:
        """The rows of a query."""
        status, body = self.call("POST", "/query-stream", {"sql": sql, "properties": properties})
        assert status == 200, body
        return [json.loads(line) for line in body.splitlines()[1:]]

    def __enter__(self) -> "SqlServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            sys.stderr.write(self.log)
        self._complaints.close()
