"""A real OpenSearch for tests, from the jars of tests/compat/opensearch/pom.xml. One node, 500 MB."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from compat.support.mariadb import free_port

_HOME = Path(__file__).parent.parent / "opensearch"
JARS = _HOME / "target/lib"
_CLASSES = _HOME / "target/classes"
_PATIENCE_S = 280


class OpenSearchServer:
    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-opensearch-"))
        self.port, self._transport = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> None:
        java = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        places = [str(self.directory), str(self.port), str(self._transport)]
        command = [*java, "-cp", f"{JARS}/*:{_CLASSES}", "OpenSearchNode", *places]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        until = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(OSError):
                self("GET", "/_cluster/health?wait_for_status=yellow&timeout=5s")
                return
            assert self._process.poll() is None, f"OpenSearch did not start:\n{self.log[-4000:]}"
            assert time.monotonic() < until, f"OpenSearch is not up:\n{self.log[-4000:]}"
            time.sleep(0.5)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory)

    def __call__(self, method: str, path: str, document: Any = None) -> Any:
        body = None if document is None else json.dumps(document).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")

    def documents(self, index: str) -> dict[str, Any]:
        """All of them, by their ids; none of an index that is not there."""
        try:
            self("POST", f"/{index}/_refresh")
        except HTTPError as error:
            error.close()
            if error.code != 404:
                raise
            return {}
        found = self("POST", f"/{index}/_search", {"size": 10_000, "version": True})
        return {each["_id"]: each["_source"] for each in found["hits"]["hits"]}


@contextlib.contextmanager
def running_opensearch() -> Iterator[OpenSearchServer]:
    if shutil.which("javac") is None or not (JARS / ".complete").exists():
        pytest.skip(
            "the jars of tests/compat/opensearch/pom.xml are not there: HEADWATER_SOAK=1 tests/tools.sh (needs Maven)"
        )
    source = _HOME / "OpenSearchNode.java"
    subprocess.run(["javac", "-cp", f"{JARS}/*", "-d", str(_CLASSES), str(source)], check=True, capture_output=True)
    server = OpenSearchServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
