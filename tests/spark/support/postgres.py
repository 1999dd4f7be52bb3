"""A real PostgreSQL for tests: from the system's packages, or those that tests/tools.sh unpacked; on a unix socket.

PostgreSQL refuses to run as root, so then it runs as `nobody`. Its directory goes when it goes.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_UNPACKED = Path(__file__).parent.parent / "target/postgres"


def open_directory() -> str:
    """A directory that `nobody` may enter too, with a short name: a socket's path has little room. Some machines close
    /tmp.
    """
    return next(
        (each for each in ("/tmp", "/var/tmp", "/dev/shm") if os.path.isdir(each) and os.stat(each).st_mode & 0o001),
        "/tmp",
    )


class Postgres:
    """`url` for clients; `stop` and `start` for tests that need it to be away; `kill` as a crash."""

    def __init__(self, binaries: Path, *more: str) -> None:
        """`more` are lines of its configuration: `wal_level=logical`."""
        self._binaries = binaries
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-postgres-", dir=open_directory()))
        self.url = f"postgresql://headwater@/postgres?host={self.directory}"
        if os.geteuid() == 0:
            shutil.chown(self.directory, "nobody")
        self._run("initdb", "--auth=trust", "--username=headwater", "--no-sync", "--no-locale", "--encoding=UTF8")
        settings = f"listen_addresses='' unix_socket_directories='{self.directory}' fsync=off logging_collector=off"
        with (self.directory / "data/postgresql.conf").open("a") as config:
            config.write("\n".join([*settings.split(), *more]) + "\n")

    def start(self) -> None:
        self._run("pg_ctl", "--wait", "--timeout=120", f"--log={self.directory}/log", "start")

    def stop(self, mode: str = "fast") -> None:
        """`immediate` is as good as a crash: the unlogged tables are empty afterwards."""
        self._run("pg_ctl", "--wait", "--timeout=120", f"--mode={mode}", "stop")

    def close(self) -> None:
        if (self.directory / "data/postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.directory)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), f"--pgdata={self.directory}/data", *arguments]
        environment = dict(os.environ)
        if self._binaries.is_relative_to(_UNPACKED):
            libraries = [str(each) for each in _UNPACKED.glob("usr/lib/*-linux-gnu")]
            environment["LD_LIBRARY_PATH"] = ":".join(libraries)
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=self.directory, timeout=240
        )
        assert done.returncode == 0, done.stdout.decode()


def binaries() -> Path | None:
    for root in (Path("/"), _UNPACKED):
        found = sorted(root.glob("usr/lib/postgresql/*/bin/initdb"))
        if found:
            return found[-1].parent
    return None


@contextlib.contextmanager
def running_postgres(*settings: str) -> Iterator[Postgres]:
    where = binaries()
    if where is None:
        pytest.skip("PostgreSQL is not installed (tests/tools.sh gets it where it can)")
    server = Postgres(where, *settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server
