"""TLS handshakes are not the loop's work: a bounded number of threads takes their steps, addresses take turns, and
others are served meanwhile.
"""

import os
import queue
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from compat.support.certificates import Authority
from headwater.base.security.tls_socket import TlsSocket
from headwater.server.line_limit import LineLimit
from headwater.server.node import Node
from headwater.server.security import listener_security
from headwater.server.security.handshakes import Handshakes, Step, Turns, threads_for
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.server.support.by_hand import TOPIC, Client, correlation, frame

WAIT_S = 60.0
WAIT_MS = 60_000


def nothing() -> bool:
    return True


def unlent() -> None:
    pass


def step(name: str, told: list[str]) -> Step:
    return Step(unlent, nothing, lambda _is_over, _problem: told.append(name))


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


def test_a_step_that_is_withdrawn_is_not_taken() -> None:
    turns = Turns()
    told: list[str] = []
    steps = {name: step(name, told) for name in ("a1", "a2", "a3", "b1")}
    for name, each in steps.items():
        turns.add(name[0], each)
    for name in ("a2", "b1", "b1"):
        turns.withdraw(name[0], steps[name])
    assert len(turns) == 2
    while (taken := turns.take()) is not None:
        taken.done(True, None)
    turns.withdraw("a", steps["a1"])
    assert (told, len(turns)) == (["a1", "a3"], 0)


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
            handshakes.submit("flood", Step(unlent, slow, lambda is_over, _problem: outcomes.append(is_over)))
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
            handshakes.submit("a", Step(unlent, take, lambda _is_over, problem: problems.append(problem)))
        posted.get(timeout=WAIT_S)()
        posted.get(timeout=WAIT_S)()
        assert [type(problem) for problem in problems] == [ssl.SSLError, type(None)]
    finally:
        handshakes.close()


class NoThreads:
    """A system that starts `left` more threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
        self.left = left
        real = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if not self.left:
                raise RuntimeError("can't start new thread")
            self.left -= 1
            real(thread)

        monkeypatch.setattr(threading.Thread, "start", start)


def test_without_a_thread_the_step_fails_and_the_end_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    system = NoThreads(monkeypatch, 0)
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    handshakes = Handshakes(posted.put, threads_max=2)
    problems: list[Exception | None] = []
    lent: list[None] = []
    each = Step(lambda: lent.append(None), nothing, lambda _is_over, problem: problems.append(problem))
    handshakes.submit("a", each)
    assert [type(problem) for problem in problems] == [BlockingIOError]
    assert (handshakes.under_way, handshakes.waiting, lent) == (0, 0, [])
    system.left = 1
    handshakes.submit("a", each)
    posted.get(timeout=WAIT_S)()
    assert problems[1:] == lent == [None]
    handshakes.close()


def test_where_more_threads_cannot_be_started_those_that_are_there_take_all_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    NoThreads(monkeypatch, 1)
    posted: queue.Queue[Callable[[], None]] = queue.Queue()
    handshakes = Handshakes(posted.put, threads_max=3)
    told: list[str] = []
    names = [f"s{number}" for number in range(5)]
    for name in names:
        handshakes.submit("a", step(name, told))
    assert (handshakes.under_way, handshakes.waiting) == (1, 4)
    for _ in names:
        posted.get(timeout=WAIT_S)()
    assert told == names
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


def test_connections_that_end_while_they_wait_for_their_turn_close_their_sockets_at_once(
    secured: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evicted, too slow, or closed: who waits holds a descriptor for each, and nothing else bounds them."""
    monkeypatch.setattr(listener_security, "PENDING_MAX", 3)
    gate = Gate(monkeypatch)
    made: list[TlsSocket] = []
    real = TlsSocket.__init__

    def noted(tls: TlsSocket, *arguments: Any) -> None:
        real(tls, *arguments)
        made.append(tls)

    monkeypatch.setattr(TlsSocket, "__init__", noted)
    monkeypatch.setattr(secured.server.handshakes, "_threads_max", 1)
    handshakes, server = secured.server.handshakes, secured.server
    with ExitStack() as stack:
        stack.callback(gate.open.set)
        for number in range(1, 9):
            connect_by_tls(stack, secured, authority)
            expected = min(number, 3) - (number <= 3)  # the first is under way, until it is evicted

            def waits(count: int = number, waiting: int = expected) -> bool:
                return len(made) == count and handshakes.waiting == waiting

            assert secured.loop.run_until(waits, WAIT_MS)
            left = [tls for tls in made if tls.fileno() != -1]
            assert len(left) == server.connection_count + (number > 3), "and the one that a thread has"
        for connection in list(server._connections.values()):
            connection.close("test")
        assert (handshakes.under_way, handshakes.waiting) == (1, 0)
        assert [tls.fileno() == -1 for tls in made] == [False] + [True] * 7
        gate.open.set()
        assert secured.loop.run_until(lambda: made[0].fileno() == -1, WAIT_MS)
        assert gate.entered.qsize() == 1


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


class Told:
    """What the audit trail hears, and how many events were left out before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: Node) -> None:
        self.events: list[tuple[str, int]] = []
        monkeypatch.setattr(node.broker.audit, "record", self._record)

    def _record(self, event: str, _principal: str, _host: str, **details: Any) -> None:
        self.events.append((event, details.get("unsaid", 0)))


def limit(lines: LineLimit, left: int) -> None:
    lines._since_ns = 10**18  # later than any turn of the loop: the limit's second does not end by itself
    lines._left = left


def has_failed(security: listener_security.ListenerSecurity, count: int) -> bool:
    return security.counts.failed == count


def test_handshakes_that_fail_are_told_in_the_audit_topic_up_to_a_limit(
    secured: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(monkeypatch, secured)
    security = secured.server.securities["SSL"]
    limit(security._unsecured_events, 2)
    for number in range(1, 7):
        if number == 6:
            limit(security._unsecured_events, 1)
        with socket.create_connection(("127.0.0.1", port_of(secured)), timeout=WAIT_S) as visitor:
            visitor.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert secured.loop.run_until(partial(has_failed, security, number), WAIT_MS)
    assert told.events == [("login-failed", 0), ("login-failed", 0), ("login-failed", 3)]


def test_who_comes_without_a_name_is_told_in_the_audit_topic_up_to_a_limit(
    secured: Node, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(monkeypatch, secured)
    security = secured.server.securities["SSL"]
    limit(security._anonymous_events, 1)
    with ExitStack() as stack:
        clients = [connect_by_tls(stack, secured, authority) for _ in range(3)]

        def all_shaken() -> bool:
            for client in clients:
                with suppress(ssl.SSLWantReadError):
                    client.do_handshake()
            return security.counts.logged_in == 3

        assert secured.loop.run_until(all_shaken, WAIT_MS)
    assert told.events == [("login", 0)]
