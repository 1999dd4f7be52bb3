"""TLS handshakes are not the loop's work: a bounded number of threads takes their steps, addresses take turns, and
others are served meanwhile.
"""

import os
import queue
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat.support.certificates import Authority
from headwater.base.security.tls_socket import TlsSocket
from headwater.server.node import Node
from headwater.server.security.handshakes import Handshakes, Step, Turns, threads_for
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.server.support.by_hand import TOPIC, Client, correlation, frame

WAIT_S = 60.0
WAIT_MS = 60_000


def nothing() -> bool:
    return True


def step(name: str, told: list[str]) -> Step:
    return Step(nothing, lambda _is_over, _problem: told.append(name))


def test_addresses_take_turns() -> None:
    turns = Turns()
    told: list[str] = []
    for address, name in (("flood", "f1"), ("flood", "f2"), ("flood", "f3"), ("a", "a1"), ("b", "b1"), ("a", "a2")):
        turns.add(address, step(name, told))
    assert len(turns) == 6
    while (taken := turns.take()) is not None:
        taken.done(True, None)
    assert told == ["f1", "a1", "b1", "f2", "a2", "f3"]
    assert len(turns) == 0


@pytest.mark.parametrize(("cpus", "threads"), [(1, 1), (2, 1), (4, 3), (64, 4)])
def test_a_core_is_left_to_the_loop(cpus: int, threads: int) -> None:
    assert threads_for(cpus) == threads


def test_no_more_steps_are_under_way_than_there_are_threads() -> None:
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    handshakes = Handshakes(posted.put, threads_max=2)
    entered: queue.Queue[int] = queue.Queue()
    go_on = threading.Semaphore(0)
    outcomes: list[bool] = []

    def slow() -> bool:
        entered.put(threading.get_ident())
        assert go_on.acquire(timeout=WAIT_S)
        return True

    try:
        for _ in range(7):
            handshakes.submit("flood", Step(slow, lambda is_over, _problem: outcomes.append(is_over)))
        threads = {entered.get(timeout=WAIT_S), entered.get(timeout=WAIT_S)}
        assert (handshakes.under_way, handshakes.waiting) == (2, 5)
        assert entered.empty(), "a third has begun"
        for left in range(6, -1, -1):
            go_on.release()
            posted.get(timeout=WAIT_S)()
            assert handshakes.under_way + handshakes.waiting == left
            assert handshakes.under_way <= 2
        threads |= {entered.get(timeout=WAIT_S) for _ in range(5)}
        assert len(threads) <= 2
        assert threading.get_ident() not in threads
        assert outcomes == [True] * 7
    finally:
        for _ in range(7):
            go_on.release()
        handshakes.close()


def test_what_breaks_in_a_step_is_told_and_the_next_one_is_taken() -> None:
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    handshakes = Handshakes(posted.put, threads_max=1)
    problems: list[Exception | None] = []

    def broken() -> bool:
        raise ssl.SSLError(1, "no")

    try:
        for take in (broken, nothing):
            handshakes.submit("a", Step(take, lambda _is_over, problem: problems.append(problem)))
        posted.get(timeout=WAIT_S)()
        posted.get(timeout=WAIT_S)()
        assert [type(problem) for problem in problems] == [ssl.SSLError, type(None)]
    finally:
        handshakes.close()


# With a broker


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def secured(make_node: Callable[..., Node], authority: Authority) -> Node:
    return make_node(
        **{
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.location": authority.pem("broker"),
        }
    )


def port_of(node: Node) -> int:
    (found,) = (endpoint.port for endpoint in node.endpoints if endpoint.listener == "SSL")
    return found


def connect_by_tls(stack: ExitStack, node: Node, authority: Authority) -> ssl.SSLSocket:
    """Has sent its ClientHello."""
    context = ssl.create_default_context(cafile=authority.path)
    raw = stack.enter_context(socket.create_connection(("127.0.0.1", port_of(node)), timeout=WAIT_S))
    raw.setblocking(False)
    client = stack.enter_context(context.wrap_socket(raw, server_hostname="localhost", do_handshake_on_connect=False))
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return client


class Gate:
    """Steps of handshakes stop here until it opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered: queue.Queue[TlsSocket] = queue.Queue()
        self.open = threading.Event()
        real = TlsSocket.step

        def held(tls: TlsSocket) -> bool:
            if threading.current_thread() is threading.main_thread():
                raise AssertionError("a step on the loop's thread")
            self.entered.put(tls)
            assert self.open.wait(WAIT_S)
            return real(tls)

        monkeypatch.setattr(TlsSocket, "step", held)


def test_others_are_served_while_handshakes_are_under_way(
    secured: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    handshakes = secured.server.handshakes
    with ExitStack() as stack:
        stack.callback(gate.open.set)
        clients = [connect_by_tls(stack, secured, authority) for _ in range(20)]
        assert secured.loop.run_until(lambda: handshakes.under_way + handshakes.waiting == 20, WAIT_MS)
        assert handshakes.under_way == threads_for(os.cpu_count() or 1)
        plain = Client(secured)
        stack.callback(plain.socket.close)
        plain.send(frame(3, 9, 1, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]).encode(9)))
        assert correlation(plain.receive()) == 1
        gate.open.set()
        counts = secured.server.securities["SSL"].counts

        def all_shaken() -> bool:
            for client in clients:
                try:
                    client.do_handshake()
                except ssl.SSLWantReadError:
                    continue
            return counts.handshakes == 20

        assert secured.loop.run_until(all_shaken, WAIT_MS)
        assert (handshakes.under_way, handshakes.waiting) == (0, 0)


def test_a_connection_that_ends_in_the_middle_of_a_step_keeps_its_descriptor_until_the_step_is_over(
    secured: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another connection would get the descriptor, and OpenSSL would write into it."""
    gate = Gate(monkeypatch)
    with ExitStack() as stack:
        stack.callback(gate.open.set)
        connect_by_tls(stack, secured, authority)
        assert secured.loop.run_until(lambda: not gate.entered.empty(), WAIT_MS)
        tls = gate.entered.get_nowait()
        (connection,) = secured.server._connections.values()
        connection.close("test")
        assert secured.server.connection_count == 0
        assert tls.fileno() != -1
        gate.open.set()
        assert secured.loop.run_until(lambda: tls.fileno() == -1, WAIT_MS)


def test_a_broker_that_stops_in_the_middle_of_handshakes_closes_their_sockets(
    secured: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    handshakes = secured.server.handshakes
    with ExitStack() as stack:
        stack.callback(gate.open.set)
        for _ in range(6):
            connect_by_tls(stack, secured, authority)
        assert secured.loop.run_until(lambda: handshakes.under_way + handshakes.waiting == 6, WAIT_MS)
        sockets = [connection._socket for connection in secured.server._connections.values()]
        gate.open.set()
        secured.server.close()
        assert [each.fileno() for each in sockets] == [-1] * 6


def test_what_is_no_tls_is_told_and_counted(secured: Node, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", port_of(secured)), timeout=WAIT_S) as visitor:
        visitor.sendall(b"GET / HTTP/1.1\r\n\r\n")
        counts = secured.server.securities["SSL"].counts
        assert secured.loop.run_until(lambda: counts.failed == 1, WAIT_MS)
    assert "this is HTTP without TLS" in caplog.text
