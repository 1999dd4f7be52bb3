"""A server that speaks MongoDB's protocol: FerretDB 1.24 with SQLite behind it, built by tests/compat/get_ferretdb.sh.
It has no change streams and no transactions.
"""

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymongo
import pymongo.errors
import pytest

from compat.support.mariadb import free_port

PROGRAM = Path(__file__).parent.parent / "target/ferretdb/ferretdb"
_PATIENCE_S = 120


class FerretDb:
    """`stop` and `start` for tests that need it to be away."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-ferretdb-"))
        self._port = free_port()
        self.url = f"mongodb://127.0.0.1:{self._port}/"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        settings = {
            "listen-addr": f"127.0.0.1:{self._port}",
            "debug-addr": "-",
            "handler": "sqlite",
            "sqlite-url": f"file:{self.directory}/",
            "state-dir": self.directory,
            "telemetry": "disable",
        }
        command = [str(PROGRAM), *(f"--{name}={value}" for name, value in settings.items())]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory)
        until = time.monotonic() + _PATIENCE_S
        while True:
            with contextlib.suppress(pymongo.errors.PyMongoError), self.client() as client:
                client.admin.command("ping")
                return
            alive = self._process.poll() is None and time.monotonic() < until
            assert alive, f"FerretDB did not start:\n{(self.directory / 'log').read_text()[-4000:]}"
            time.sleep(0.1)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    def client(self) -> Any:
        return pymongo.MongoClient(self.url, serverSelectionTimeoutMS=500, tz_aware=True)

    def documents(self, collection: str) -> list[dict[str, Any]]:
        with self.client() as client:
            return list(client["shop"][collection].find().sort("_id", 1))

    def insert(self, collection: str, *documents: dict[str, Any]) -> None:
        with self.client() as client:
            client["shop"][collection].insert_many(documents)


@contextlib.contextmanager
def running_ferretdb() -> Iterator[FerretDb]:
    if not PROGRAM.exists():
        pytest.skip("FerretDB is not there: HEADWATER_SOAK=1 tests/tools.sh builds it (needs Go)")
    server = FerretDb()
    try:
        server.start()
        yield server
    finally:
        server.close()
