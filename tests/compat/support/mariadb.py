"""A real MariaDB for tests: from the system's packages, or those that tests/tools.sh unpacked.

MariaDB refuses to run as root, so then it runs as `nobody`. Its directory goes when it goes.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from spark.support.postgres import open_directory

_UNPACKED = Path(__file__).parent.parent / "target/mariadb"
_PATIENCE_S = 120
PASSWORD = "pass&word"
_USERS = (
    "CREATE DATABASE shop CHARACTER SET latin1;\n"  # what tables of ours must not depend on
    f"CREATE USER 'headwater'@'%' IDENTIFIED BY '{PASSWORD}';\n"
    "GRANT ALL ON *.* TO 'headwater'@'%';\n"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class MariaDb:
    """`url` for connectors; `stop` and `start` for tests that need it to be away."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.directory = Path(tempfile.mkdtemp(prefix="headwater-mariadb-", dir=open_directory()))
        self._port = free_port()
        self.url = f"jdbc:mariadb://127.0.0.1:{self._port}/shop"
        self.login = {"connection.url": self.url, "connection.user": "headwater", "connection.password": PASSWORD}
        self._process: subprocess.Popen[bytes] | None = None
        data = self.directory / "data"
        data.mkdir()
        if os.geteuid() == 0:
            shutil.chown(self.directory, "nobody")
            shutil.chown(data, "nobody")
        scripts = [
            root / "usr/share/mysql" / name for name in ("mysql_system_tables.sql", "mysql_system_tables_data.sql")
        ]
        sql = "CREATE DATABASE mysql;\nUSE mysql;\n" + "".join(each.read_text() for each in scripts)
        self._bootstrap(sql)
        self._bootstrap("FLUSH PRIVILEGES;\n" + _USERS)

    def _bootstrap(self, sql: str) -> None:
        command = self._command("--bootstrap", "--log-warnings=0")
        done = subprocess.run(
            command,
            input=sql.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment(),
            timeout=240,
        )
        assert done.returncode == 0, done.stdout.decode()

    def _command(self, *arguments: str) -> list[str]:
        settings = {
            "basedir": self._root / "usr",
            "datadir": self.directory / "data",
            "lc-messages-dir": self._root / "usr/share/mysql",
            "character-sets-dir": self._root / "usr/share/mysql/charsets",
            "socket": self.directory / "socket",
            "bind-address": "127.0.0.1",
            "port": self._port,
            "pid-file": self.directory / "pid",
            "innodb-flush-method": "fsync",
            "innodb-flush-log-at-trx-commit": 0,
            "innodb-log-file-size": "8M",
            "innodb-buffer-pool-size": "32M",
            "innodb-use-native-aio": 0,
            "default-time-zone": "+05:00",  # no connector may depend on the server's
        }
        server = [str(self._root / "usr/sbin/mariadbd"), "--no-defaults", "--skip-name-resolve", "--skip-log-bin"]
        command = [*server, *(f"--{name}={value}" for name, value in settings.items()), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command]
        return command

    def _environment(self) -> dict[str, str]:
        libraries = ":".join(str(each) for each in _UNPACKED.glob("usr/lib/*-linux-gnu"))
        return {**os.environ, **({"LD_LIBRARY_PATH": libraries} if self._root == _UNPACKED else {})}

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log, env=self._environment())
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                self.connect().close()
                return
            except pymysql.err.OperationalError:
                alive = self._process.poll() is None and time.monotonic() < until
            assert alive, f"MariaDB did not start:\n{(self.directory / 'log').read_text()}"
            time.sleep(0.05)

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    def connect(self) -> Any:
        return pymysql.connect(
            host="127.0.0.1",
            port=self._port,
            user="headwater",
            password=PASSWORD,
            database="shop",
            charset="utf8mb4",
            autocommit=True,
        )

    def empty(self) -> None:
        """The database has no tables."""
        for (table,) in self("SELECT table_name FROM information_schema.tables WHERE table_schema = 'shop'"):
            self(f"DROP TABLE `{table.replace('`', '``')}`")

    def __call__(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        connection = self.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                cursor.execute(sql, parameters or None)
                return list(cursor.fetchall())
        finally:
            connection.close()


@contextlib.contextmanager
def running_mariadb() -> Iterator[MariaDb]:
    found = next((root for root in (Path("/"), _UNPACKED) if (root / "usr/sbin/mariadbd").exists()), None)
    if found is None:
        pytest.skip("MariaDB is not installed (tests/tools.sh gets it where it can)")
    server = MariaDb(found)
    try:
        server.start()
        yield server
    finally:
        server.close()
