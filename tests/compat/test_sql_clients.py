"""Clients of ksqlDB that others wrote, as they are, against our server. Each runs in a process of its own and prints
what it got, step by step.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.sql_server import SqlServer

_SCRIPTS = Path(__file__).parent / "ksqldb_clients"
_PACKAGES = Path(__file__).parent / "target/ksqldb_clients/node_modules"
_WORDS = [["tree"], ["wind"]]


@pytest.fixture(scope="module")
def server(broker_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    with SqlServer(broker_address, tmp_path_factory.mktemp("sql"), "clients") as running:
        yield running


def _steps(server: SqlServer, *command: str) -> dict[str, Any]:
    name = Path(command[-1]).stem
    done = subprocess.run(
        [*command, server.url, name],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "NODE_PATH": str(_PACKAGES)},
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


def _node() -> str:
    found = shutil.which("node")
    if found is None or not _PACKAGES.exists():
        pytest.skip("Node.js or the packages of ksqldb_clients/package.json are not there: run tests/tools.sh")
    return found


def test_ksqldb_of_pypi(server: SqlServer) -> None:
    assert _steps(server, sys.executable, str(_SCRIPTS / "ksqldb_python.py")) == {
        "statement": "SUCCESS",
        "inserted": ["ok", "ok"],
        "pulled": [["wind", 2]],
        "pushed": [["WORD"], *_WORDS],
        "properties": True,
        "wrong": [400, 40001],
    }


def test_ksqldb_client_of_npm(server: SqlServer) -> None:
    found = _steps(server, _node(), str(_SCRIPTS / "ksqldb_client.js"))
    status, code, message = found.pop("wrong")
    assert (status, code) == (400, 40001)
    assert message.startswith("line 1:14: ")  # where, in the words of the language that was written
    assert found == {
        "statement": "SUCCESS",
        "inserted": ["ok", "ok"],
        "pulled": [{"WORD": "wind", "N": 2}],
        "pushed": [200, [{"WORD": "tree"}, {"WORD": "wind"}]],
        "streams": ["KSQLDB_CLIENT_WORDS"],
        "described": [["WORD", "STRING"], ["N", "INTEGER"]],
        "lists": [True, True, True],
    }


def test_ksqldb_js_of_npm(server: SqlServer) -> None:
    found = _steps(server, _node(), str(_SCRIPTS / "ksqldb_js.js"))
    unknown, prohibited = found.pop("refused")
    assert "Column 'NOTHING' cannot be resolved" in unknown
    assert "prohibited by the KSQL server" in prohibited
    assert found == {
        "stream": "SUCCESS",
        "inserted": ["ok", "ok"],
        "pulled": [["wind", 2]],
        "between": ["tree", "wind"],
        "query": True,
        "table": "SUCCESS",
        "status": "SUCCESS",
        "server": ["RUNNING", True, [True], True],
        "pushed": [["late"]],
    }
