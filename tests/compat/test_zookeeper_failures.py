"""The port when ZooKeeper's servers die, stand still, or start again; and ZooKeeper's process itself."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.zookeeper import CONNECTED, SUSPENDED, Caller
from headwater.base.coordination import ConnectionLost, CoordinationError, Create, SetData
from headwater.base.errors import UserError
from headwater.server.loop import Loop
from headwater.server.zookeeper.client import KazooCoordination
from headwater.server.zookeeper.process import (
    ZooKeeperProcess,
    ask,
    free_ports,
    is_serving,
    start,
    start_ensemble,
)

WAIT_S = 180
SESSION_MS = 20_000  # so that a busy machine does not look like a dead one


class World:
    """Servers, clients and the loop that they share; all are gone after the test."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.servers: list[ZooKeeperProcess] = []
        self.clients: list[Caller] = []

    def client(self, connect: str, session_timeout_ms: int = SESSION_MS) -> Caller:
        self.clients.append(Caller(KazooCoordination(connect, session_timeout_ms, self.loop.post), self.until))
        return self.clients[-1].connected()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"it does not happen: {[client.states for client in self.clients]}"
            self.loop.turn(0.05)

    def close(self) -> None:
        for server in self.servers:
            server.kill()
        for client in self.clients:
            client.coordination.close()
        self.loop.close()


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def server_of(client: Caller, servers: list[ZooKeeperProcess]) -> ZooKeeperProcess:
    assert isinstance(client.coordination, KazooCoordination)
    port = client.coordination._connection._connection._socket.getpeername()[1]
    return next(server for server in servers if server.port == port)


def until_written(world: World, client: Caller, path: str) -> None:
    """While there is no connection, writes fail; a while later they do not."""

    def is_written() -> bool:
        try:
            client.write(SetData(path, b"x"))
        except CoordinationError:
            return False
        return True

    world.until(is_written)


def test_a_client_goes_on_with_another_server_of_the_ensemble(world: World, tmp_path: Path) -> None:
    world.servers = start_ensemble(tmp_path, 3)
    client = world.client(",".join(server.address for server in world.servers) + "/some/where")
    client.write(Create("/a"), Create("/mine", ephemeral=True))
    session_id = client.coordination.session_id
    server_of(client, world.servers).kill()
    world.until(lambda: SUSPENDED in client.states)
    until_written(world, client, "/a")
    assert client.coordination.session_id == session_id
    assert client.get("/mine") is not None


def test_a_server_that_starts_again_has_kept_the_session(world: World, tmp_path: Path) -> None:
    world.servers = [start(tmp_path, free_ports(1)[0])]
    client = world.client(world.servers[0].address)
    client.write(Create("/a"), Create("/mine", ephemeral=True))
    told: list[str] = []
    client.get("/a", lambda: told.append("a"))
    session_id = client.coordination.session_id
    world.servers[0].kill()
    world.until(lambda: client.states == [CONNECTED, SUSPENDED])
    world.servers.append(start(tmp_path, world.servers[0].port))
    world.until(lambda: client.states == [CONNECTED, SUSPENDED, CONNECTED])
    assert client.coordination.session_id == session_id
    assert client.get("/mine") is not None
    client.write(SetData("/a", b"x"))
    world.until(lambda: told == ["a"])


def test_a_server_that_stands_still_is_noticed_although_much_is_asked_of_it(world: World, tmp_path: Path) -> None:
    """kazoo by itself waits for ever as long as there is something to send."""
    world.servers = [start(tmp_path, free_ports(1)[0])]
    client = world.client(world.servers[0].address, 4000)
    problems: list[CoordinationError | None] = []
    os.kill(world.servers[0].pid, signal.SIGSTOP)

    def ask_on() -> None:
        if client.states[-1] is CONNECTED:
            client.coordination.get("/", lambda _node, problem: problems.append(problem))
            world.loop.call_later(20, ask_on)

    ask_on()
    world.until(lambda: client.states[-1] is SUSPENDED)
    assert type(problems[-1]) is ConnectionLost
    os.kill(world.servers[0].pid, signal.SIGCONT)
    client.connected()


def test_close_does_not_wait_for_a_server_that_is_gone(world: World, tmp_path: Path) -> None:
    world.servers = [start(tmp_path, free_ports(1)[0])]
    client = world.client(world.servers[0].address)
    world.servers[0].kill()
    world.until(lambda: client.states == [CONNECTED, SUSPENDED])
    client.coordination.close()
    assert client.coordination.session_id == 0


def test_much_at_once_does_not_block(world: World, tmp_path: Path) -> None:
    world.servers = [start(tmp_path, free_ports(1)[0])]
    client = world.client(world.servers[0].address)
    client.write(Create("/a"))
    answers: list[tuple[object, CoordinationError | None]] = []
    for _ in range(3000):
        client.coordination.write([SetData("/a", b"x")], lambda written, problem: answers.append((written, problem)))
    world.until(lambda: len(answers) == 3000)
    assert answers == [([version], None) for version in range(1, 3001)]


def test_the_server_writes_into_its_directory_and_stops(tmp_path: Path) -> None:
    server = start(tmp_path / "zookeeper", free_ports(1)[0])
    try:
        assert server.is_alive
        assert is_serving("127.0.0.1", server.port)
        assert ask("127.0.0.1", server.port, b"ruok") == b"imok"
        assert sorted(path.name for path in (tmp_path / "zookeeper").iterdir()) == [
            "version-2",
            "zoo.cfg",
            "zookeeper.log",
        ]
    finally:
        server.stop()
    assert not server.is_alive
    assert not is_serving("127.0.0.1", server.port)


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    server = start(tmp_path / "1", free_ports(1)[0])
    try:
        with pytest.raises(
            UserError, match=f"ZooKeeper cannot start on 127.0.0.1:{server.port}. Address already in use"
        ):
            start(tmp_path / "2", server.port)
    finally:
        server.stop()


def test_the_server_dies_with_its_parent(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    code = (
        "import pathlib, sys; from headwater.server.zookeeper.process import start;"
        f"server = start(pathlib.Path({str(tmp_path)!r}), {port}); print(server.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        descriptor = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            parent.wait()
            assert select.select([descriptor], [], [], WAIT_S)[0], "it lives on"
        finally:
            os.close(descriptor)
