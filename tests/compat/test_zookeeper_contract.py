"""The port on a real ZooKeeper keeps the same promises as the simulated one."""

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from compat.support.zookeeper import CHECKS, CONNECTED, LOST, SUSPENDED, Caller, Stage
from headwater.base.coordination import ConnectionLost, CoordinationError, Create
from headwater.server.loop import Loop
from headwater.server.zookeeper.client import KazooCoordination
from headwater.server.zookeeper.process import ZooKeeperProcess, free_ports, start

WAIT_S = 180
SESSION_MS = 30_000  # so that a busy machine does not look like a dead one


class RealStage:
    """Clients of one server, each stage in a chroot of its own."""

    _numbers = itertools.count()

    def __init__(self, address: str) -> None:
        self.loop = Loop()
        self.connect = f"{address}/stages/{next(self._numbers)}"
        self.clients: list[Caller] = []

    def client(self) -> Caller:
        coordination = KazooCoordination(self.connect, SESSION_MS, self.loop.post)
        self.clients.append(Caller(coordination, self.until))
        return self.clients[-1].connected()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, "it does not happen"
            self.loop.turn(0.05)

    def disconnect(self, client: Caller) -> None:
        connection = kazoo_of(client)._connection._socket
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def expire(self, client: Caller) -> None:
        """From elsewhere: who takes a session over and closes it ends it. Meanwhile its owner cannot take it back."""
        kazoo = kazoo_of(client)
        thief = KazooClient(self.connect.partition("/")[0], client_id=kazoo.client_id)
        with kazoo._turn:
            thief.start(timeout=WAIT_S)
            thief.stop()
        thief.close()

    def close(self) -> None:
        for client in self.clients:
            client.coordination.close()
        self.loop.close()


def kazoo_of(client: Caller) -> KazooClient:
    assert isinstance(client.coordination, KazooCoordination)
    return client.coordination._connection


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    server = start(directory, free_ports(1)[0])
    yield server
    server.stop()


@pytest.fixture
def stage(zookeeper: ZooKeeperProcess) -> Iterator[RealStage]:
    stage = RealStage(zookeeper.address)
    yield stage
    stage.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_contract(check: Callable[[Stage], None], stage: RealStage) -> None:
    check(stage)


def test_a_request_made_in_the_belief_of_a_lost_session_is_not_done_in_the_next(stage: RealStage) -> None:
    """The loop was busy while its session ended and another began: it decides before it knows."""
    client = stage.client()
    kazoo, old_session_id = kazoo_of(client), client.coordination.session_id
    stage.expire(client)
    deadline = time.monotonic() + WAIT_S
    while not kazoo.connected or kazoo.client_id[0] == old_session_id:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    problems: list[CoordinationError | None] = []
    client.coordination.write([Create("/ghost")], lambda _written, problem: problems.append(problem))
    stage.until(lambda: bool(problems))
    assert [type(problem) for problem in problems] == [ConnectionLost]
    assert client.states == [CONNECTED, SUSPENDED, LOST, CONNECTED]
    assert client.get("/ghost") is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_client_whose_thread_died_gets_another_session(stage: RealStage) -> None:
    """kazoo gives up for ever when a server answers what it does not expect."""
    client = stage.client()
    old_session_id = client.coordination.session_id

    def surprise(_timeout_s: float) -> None:
        raise RuntimeError("what is that")

    connection = kazoo_of(client)._connection
    thread = connection._connection_routine
    connection._read_socket = surprise
    client.coordination.get("/", lambda _node, _problem: None)
    stage.until(lambda: LOST in client.states)
    # It tells of the loss while it dies. Its last words must come in this test, which expects them,
    # and not in the next.
    thread.join(WAIT_S)
    assert not thread.is_alive()
    client.connected()
    assert client.coordination.session_id not in (0, old_session_id)
    assert client.write(Create("/a")) == ["/a"]
