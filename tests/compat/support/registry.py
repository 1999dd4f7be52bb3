"""A schema registry as users start it: a process of its own, found by its `ready` line."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 60


class Registry:
    def __init__(self, bootstrap: str, **settings: object) -> None:
        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self._settings = {
            "listeners": "http://127.0.0.1:0",
            "kafkastore.bootstrap.servers": bootstrap,
            "kafkastore.topic.replication.factor": "1",
            **named,
        }
        self._process: subprocess.Popen[str] | None = None
        self._complaints = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        self.url = ""

    def start(self) -> "Registry":
        command = [sys.executable, "-m", "headwater.cli.main", "registry", "start", "--stop-on-eof"]
        for name, value in self._settings.items():
            command += ["--set", f"{name}={value}"]
        self._process = process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, text=True
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("ready "), self.log
        self.url = line.split("registry=")[1].strip()
        self._settings["listeners"] = self.url
        return self

    @property
    def log(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()

    @property
    def memory_mb(self) -> float:
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

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

    def call(self, method: str, path: str, document: object = None, **headers: str) -> tuple[int, Any]:
        """The status, and the document; raises OSError if nobody answers."""
        with contextlib.closing(self.connect()) as connection:
            return ask(connection, method, path, document, **headers)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_PATIENCE_S)

    def register(self, subject: str, schema: str) -> dict[str, Any]:
        status, answer = self.call("POST", f"/subjects/{subject}/versions", {"schema": schema})
        assert status == 200, answer
        registered: dict[str, Any] = answer
        return registered

    def __enter__(self) -> "Registry":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._complaints.close()


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, document: object = None, **headers: str
) -> tuple[int, Any]:
    body = None if document is None else json.dumps(document).encode()
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
    except http.client.HTTPException as problem:
        raise ConnectionResetError(repr(problem)) from None
    return answer.status, json.loads(data) if data else None


@contextlib.contextmanager
def registries(bootstrap: str, count: int, **settings: object) -> Iterator[list[Registry]]:
    """Several on one topic."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Registry(bootstrap, **settings)) for _ in range(count)]
