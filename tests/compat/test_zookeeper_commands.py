"""ZooKeeper's commands with a real ZooKeeper."""

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.zookeeper import shell
from headwater.server.zookeeper.process import ZooKeeperProcess, ask, free_ports, start

WAIT_S = 120

pytestmark = pytest.mark.timeout(400)  # longer than what it waits for


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    server = start(tmp_path_factory.mktemp("zookeeper"), free_ports(1)[0])
    yield server
    server.stop()


@pytest.fixture
def typed(zookeeper: ZooKeeperProcess, capsys: pytest.CaptureFixture[str]) -> "Typed":
    return Typed(zookeeper.address, capsys)


class Typed:
    def __init__(self, address: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._address = address
        self._capsys = capsys

    def __call__(self, *words: str) -> str:
        """What a command prints; it must succeed."""
        assert shell.script([self._address, *words]) == 0
        return self._capsys.readouterr().out

    def refused(self, *words: str) -> str:
        assert shell.script([self._address, *words]) == 1
        said = self._capsys.readouterr()
        assert said.out == ""
        return said.err.strip()


def test_nodes_are_made_shown_changed_and_deleted(typed: Typed) -> None:
    assert typed("create", "/shop", "first") == "Created /shop\n"
    assert typed("create", "/shop/b") == "Created /shop/b\n"
    assert typed("create", "-s", "/shop/a-", "x") == "Created /shop/a-0000000001\n"
    assert typed("ls", "/shop") == "[a-0000000001, b]\n"
    assert typed("ls", "-R", "/shop") == "/shop\n/shop/a-0000000001\n/shop/b\n"
    assert typed("get", "/shop") == "first\n"
    assert typed("set", "-v", "0", "/shop", "größer") == ""
    assert typed("get", "/shop") == "größer\n"
    assert "dataVersion = 1\n" in typed("stat", "/shop")
    assert "numChildren = 2\n" in typed("get", "-s", "/shop")
    assert typed("delete", "/shop/b") == ""
    assert typed("ls", "/shop/a-0000000001") == "[]\n"
    assert typed("deleteall", "/shop") == ""
    assert typed.refused("ls", "/shop") == "Node does not exist: /shop"


def test_refusals_are_sentences(typed: Typed) -> None:
    typed("create", "/refusals")
    typed("create", "/refusals/child")
    assert typed.refused("get", "/missing") == "Node does not exist: /missing"
    assert typed.refused("stat", "/missing") == "Node does not exist: /missing"
    assert typed.refused("create", "/refusals") == "Node already exists: /refusals"
    assert typed.refused("delete", "/refusals") == "Node not empty: /refusals"
    assert typed.refused("set", "-v", "9", "/refusals", "x") == "version No is not valid : /refusals"
    assert typed.refused("ls", "relative") == "Path must start with / character: relative"
    typed("deleteall", "/refusals")


def test_commands_are_read_from_stdin(zookeeper: ZooKeeperProcess) -> None:
    lines = (
        'create /piped "two words"\n\nget /piped\nget /missing\nls "\nls /piped\ndeleteall /piped\nquit\nls /never\n'
    )
    ended = subprocess.run(
        [sys.executable, "-m", "headwater.cli.zookeeper.shell", f"{zookeeper.address}/"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    assert ended.stdout == "Created /piped\ntwo words\n[]\n"
    assert ended.stderr == (
        f"Connecting to {zookeeper.address}/\nNode does not exist: /missing\nNo closing quotation\n"
    )


def run(*words: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    module = f"headwater.cli.zookeeper.{words[0]}"
    return subprocess.run(
        [sys.executable, "-m", module, *words[1:]], env=environment, capture_output=True, text=True, timeout=WAIT_S
    )


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HEADWATER_DATA_DIR": str(tmp_path / "home"), "LOG_DIR": str(tmp_path / "logs")}


def properties(directory: Path, port: int) -> Path:
    path = directory / "zookeeper.properties"
    path.write_text(
        f"dataDir={directory}/data\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    return path


def test_a_server_in_the_background_runs_until_it_is_told_to_stop(tmp_path: Path, environment: dict[str, str]) -> None:
    port = free_ports(1)[0]
    path = properties(tmp_path, port)
    assert run("server_stop", environment=environment).returncode == 1
    started = run("server_start", "-daemon", str(path), environment=environment)
    try:
        assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
        assert ask("127.0.0.1", port, b"srvr").startswith(b"Zookeeper version")
        taken = run("server_start", str(path), environment=environment)
        assert taken.returncode == 1
        assert f"ZooKeeper cannot start on 127.0.0.1:{port}" in taken.stderr
        (note,) = (tmp_path / "home" / "zookeepers").iterdir()
        descriptor = os.pidfd_open(int(note.stem))
    finally:
        stopped = run("server_stop", environment=environment)
    assert stopped.returncode == 0
    _await_end(descriptor)
    assert run("server_stop", environment=environment).stdout == "No zookeeper server to stop\n"
    assert "binding to port" in (tmp_path / "logs" / "zookeeper.out").read_text()


def test_a_server_in_the_foreground_is_the_process_that_was_started(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "headwater.cli.zookeeper.server_start", str(properties(tmp_path, port))]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as server:
        assert server.stdout is not None
        try:
            _read_until(server, b"binding to port")
            assert run("server_stop", environment=environment).returncode == 0
            assert server.wait(WAIT_S) == 143
        finally:
            server.kill()


def test_what_keeps_a_server_from_starting_is_said(tmp_path: Path, environment: dict[str, str]) -> None:
    missing = run("server_start", "-daemon", str(tmp_path / "missing"), environment=environment)
    assert missing.returncode == 1
    assert missing.stderr == f"Cannot read {tmp_path}/missing: No such file or directory\n"
    path = tmp_path / "zookeeper.properties"
    path.write_text(f"dataDir=/proc/nowhere\nclientPort={free_ports(1)[0]}\n")
    unwritable = run("server_start", "-daemon", str(path), environment=environment)
    assert unwritable.returncode == 1
    assert "Unable to access datadir" in unwritable.stderr
    assert unwritable.stderr.endswith(f"ZooKeeper did not start; its log is {tmp_path}/logs/zookeeper.out\n")


def _read_until(server: "subprocess.Popen[bytes]", wanted: bytes) -> None:
    assert server.stdout is not None
    lines = []
    while line := server.stdout.readline():
        lines.append(line)
        if wanted in line:
            return
    raise AssertionError(b"".join(lines).decode())


def _await_end(descriptor: int) -> None:
    try:
        assert select.select([descriptor], [], [], WAIT_S)[0], "it lives on"
    finally:
        os.close(descriptor)
