"""Peers on real sockets: against a real node on the same loop, and against listeners that misbehave."""

import errno
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.ids import BrokerId
from headwater.base.peers import Lane, Unreachable
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.addresses import is_own_end, numeric_addresses
from headwater.server.loop import Loop
from headwater.server.node import Node
from headwater.server.peers import LoopPeers
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.wire.messages.list_groups import ListGroupsRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

NODE = BrokerId(7)
WAIT_MS = 30_000
TOPIC = "orders"


class Asker:
    """Peers on a loop, and what they were told; `until` turns the loop."""

    def __init__(self, loop: Loop, endpoints: dict[int, tuple[str, int]]) -> None:
        self.loop = loop
        self.endpoints = endpoints
        self.peers = LoopPeers(loop, lambda broker: self.endpoints.get(broker), "broker-1")
        self.told: list[tuple[str, Any, Unreachable | None]] = []

    def ask(self, name: str, request: Any, version: int, lane: Lane = Lane.CONTROL, timeout_ms: int = WAIT_MS) -> None:
        def done(response: Any, problem: Unreachable | None) -> None:
            if problem is None and hasattr(response, "responses"):
                response = bytes(response.responses[0].partitions[0].records)  # theirs only until we return
            self.told.append((name, response, problem))

        self.peers.ask(NODE, lane, request, version, done, timeout_ms=timeout_ms)

    def until(self, finished: Callable[[], bool]) -> None:
        assert self.loop.run_until(finished, WAIT_MS), "nothing came"

    def next(self) -> tuple[str, Any, Unreachable | None]:
        self.until(lambda: bool(self.told))
        return self.told.pop(0)


@pytest.fixture
def asker(node: Node) -> Iterator[Asker]:
    asker = Asker(node.loop, {NODE: ("localhost", node.endpoints[0].port)})
    yield asker
    asker.peers.close()


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


class Listener:
    """A port on which the test plays the broker."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.port: int = self.server.getsockname()[1]
        self.accepted: list[socket.socket] = []

    def accept(self) -> socket.socket:
        sock: socket.socket = self._when_it_comes(self.server.accept)[0]
        sock.setblocking(False)
        self.accepted.append(sock)
        return sock

    def receive(self, sock: socket.socket) -> bytes:
        data: bytes = self._when_it_comes(lambda: sock.recv(1 << 16))
        return data

    def _when_it_comes(self, take: Callable[[], Any]) -> Any:
        """The loop knows nothing of the test's own sockets: it is turned a little at a time."""
        until_s = time.monotonic() + WAIT_MS / 1000
        while time.monotonic() < until_s:
            try:
                return take()
            except BlockingIOError:
                self._loop.turn(0.005)
        raise AssertionError("nothing came")

    def close(self) -> None:
        for sock in (self.server, *self.accepted):
            sock.close()


@pytest.fixture
def listener(loop: Loop) -> Iterator[Listener]:
    listener = Listener(loop)
    yield listener
    listener.close()


@pytest.fixture
def alone(loop: Loop, listener: Listener) -> Iterator[Asker]:
    """Asks the listener."""
    asker = Asker(loop, {NODE: ("127.0.0.1", listener.port)})
    yield asker
    asker.peers.close()


def metadata(topic: str = TOPIC) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=topic)])


def produced(asker: Asker, value: bytes) -> None:
    batch = bytes(build_batch([Record(0, 1_700_000_000_000, None, value)]))
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[data])
    answers: list[Any] = []
    asker.peers.ask(
        NODE,
        Lane.CONTROL,
        request,
        9,
        lambda response, problem: answers.append((response, problem)),
        timeout_ms=WAIT_MS,
    )
    asker.until(lambda: bool(answers))
    assert answers[0][0].responses[0].partition_responses[0].error_code == 0


def fetch(offset: int = 0, max_bytes: int = 1 << 24) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    return FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=TOPIC, partitions=[part])],
    )


def test_a_real_broker_answers_in_order(asker: Asker) -> None:
    for index in range(20):
        asker.ask(str(index), metadata(f"topic-{index}"), 9)
    assert asker.told == []
    for index in range(20):
        name, response, problem = asker.next()
        assert (name, problem) == (str(index), None)
        assert [topic.name for topic in response.topics] == [f"topic-{index}"]


def test_a_parked_fetch_delays_its_own_lane_only(asker: Asker) -> None:
    asker.ask("make", metadata(), 9)
    asker.next()
    asker.ask("parked", fetch(), 11, Lane.FETCH)
    asker.ask("behind", metadata(), 9, Lane.FETCH)
    asker.ask("beside", metadata(), 9, Lane.TRANSACTIONS)
    assert asker.next()[0] == "beside"
    produced(asker, b"wakes it")
    assert [asker.next()[0], asker.next()[0]] == ["parked", "behind"]


@pytest.mark.parametrize("size_bytes", [100, 250_000, 270_000, 3_000_000])
def test_answers_of_any_size_come_whole_again_and_again(make_node: Callable[..., Node], size_bytes: int) -> None:
    node = make_node(message_max_bytes=8 << 20)
    asker = Asker(node.loop, {NODE: ("localhost", node.endpoints[0].port)})
    asker.ask("make", metadata(), 9)
    asker.next()
    values = [bytes([65 + index]) * size_bytes for index in range(3)]
    for value in values:
        produced(asker, value)
    for index in (0, 1, 2, 1, 0):
        asker.ask("fetch", fetch(index, size_bytes), 11, Lane.FETCH)
        _, records, problem = asker.next()
        assert problem is None
        assert values[index] in records
    asker.peers.close()


def test_a_large_and_a_small_answer_in_one_stream_are_told_apart(make_node: Callable[..., Node]) -> None:
    node = make_node(message_max_bytes=8 << 20)
    asker = Asker(node.loop, {NODE: ("localhost", node.endpoints[0].port)})
    asker.ask("make", metadata(), 9)
    asker.next()
    produced(asker, b"x" * 2_000_000)
    for name in ("large", "small", "large", "small", "small"):
        request, version = (fetch(), 11) if name == "large" else (metadata(), 9)
        asker.ask(name, request, version, Lane.FETCH)
    assert [asker.next()[0] for _ in range(5)] == ["large", "small", "large", "small", "small"]
    asker.peers.close()


def test_nobody_listens(loop: Loop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    asker = Asker(loop, {NODE: ("127.0.0.1", port)})
    asker.ask("one", metadata(), 9)
    assert asker.told == [], "never inside ask"
    assert refused(asker.next())
    asker.endpoints[NODE] = ("localhost", port)
    asker.ask("two", metadata(), 9)
    assert refused(asker.next()), "by each of its addresses"
    asker.peers.close()


def refused(told: tuple[str, Any, Unreachable | None]) -> bool:
    problem = told[2]
    assert problem is not None
    return problem.is_refused


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((errno.ECONNREFUSED, errno.ECONNREFUSED), True),
        ((errno.ECONNREFUSED, errno.EADDRNOTAVAIL), True),
        ((errno.ECONNREFUSED, errno.EHOSTUNREACH), False),
        ((errno.ETIMEDOUT, errno.ECONNREFUSED), False),
        ((errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL), False),
    ],
)
def test_refused_is_what_no_address_contradicts(
    loop: Loop, monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int], expected: bool
) -> None:
    left = list(codes)
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: left.pop(0))
    asker = Asker(loop, {NODE: ("localhost", 9092)})
    asker.ask("one", metadata(), 9)
    assert refused(asker.next()) is expected
    asker.peers.close()


def test_the_end_of_an_open_connection_is_told_although_nobody_waits_for_an_answer(
    alone: Asker, listener: Listener
) -> None:
    lost: list[int] = []
    alone.peers.on_lost = lost.append
    alone.ask("answered", ListGroupsRequest(), 0)
    connection = listener.accept()
    listener.receive(connection)
    connection.send(b"\0\0\0\x0a" + bytes(10))
    assert alone.next()[2] is None
    connection.close()
    alone.until(lambda: lost == [NODE])


def test_a_broker_without_an_address(loop: Loop) -> None:
    asker = Asker(loop, {})
    asker.ask("one", metadata(), 9)
    assert asker.told == []
    assert str(asker.next()[2]) == "not known"
    asker.peers.close()


def test_a_silent_broker_is_given_up_and_connected_to_anew(alone: Asker, listener: Listener) -> None:
    alone.ask("answered", ListGroupsRequest(), 0)
    first = listener.accept()
    listener.receive(first)
    first.send(b"\0\0\0\x0a" + bytes(10))
    assert alone.next()[2] is None
    alone.ask("one", metadata(), 9, timeout_ms=50)
    assert listener.receive(first) != b"", "what was asked"
    assert alone.next()[0] == "one"
    assert listener.receive(first) == b"", "closed"
    alone.ask("two", metadata(), 9)
    listener.accept()


def test_a_broker_that_closes_the_connection_is_told_to_all_who_wait(alone: Asker, listener: Listener) -> None:
    alone.ask("one", metadata(), 9)
    alone.ask("two", metadata(), 9)
    listener.accept().close()
    assert [alone.next()[0], alone.next()[0]] == ["one", "two"]


@pytest.mark.parametrize("answer", [b"\0\0\0\x05xxxxx", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"HTTP/1.1 400 Bad"])
def test_nonsense_ends_the_connection(alone: Asker, listener: Listener, answer: bytes) -> None:
    alone.ask("one", metadata(), 9)
    sock = listener.accept()
    listener.receive(sock)
    sock.send(answer)
    assert isinstance(alone.next()[2], Unreachable)
    assert listener.receive(sock) == b""


def test_an_answer_byte_by_byte(alone: Asker, listener: Listener) -> None:
    alone.ask("one", ListGroupsRequest(), 0)
    sock = listener.accept()
    listener.receive(sock)
    for byte in b"\0\0\0\x0a" + b"\0\0\0\0" + b"\0\x0f" + b"\0\0\0\0":
        sock.send(bytes([byte]))
        alone.loop.turn(0.001)
    _, response, problem = alone.next()
    assert problem is None
    assert response.error_code == 15


def test_requests_that_the_socket_does_not_take_at_once_wait_and_go_out_whole(alone: Asker, listener: Listener) -> None:
    names = [MetadataRequestTopic(name=f"{'x' * 200}{index}") for index in range(50_000)]
    alone.ask("large", MetadataRequest(topics=names), 9)
    alone.ask("small", metadata(), 9)
    sock = listener.accept()
    received = bytearray()
    while len(received) < 4 or b"orders" not in received[-40:]:
        received += listener.receive(sock)
        alone.loop.turn(0.001)
    size = int.from_bytes(received[:4])
    assert size > 10_000_000
    second = received[4 + size :]
    assert int.from_bytes(second[:4]) == len(second) - 4


def test_what_is_asked_in_a_clients_name_says_so(alone: Asker, listener: Listener) -> None:
    alone.ask("control", metadata(), 9, Lane.CONTROL)
    assert b"__forwarded-broker-1" in listener.receive(listener.accept())
    alone.ask("markers", metadata(), 9, Lane.MARKERS)
    sent = listener.receive(listener.accept())
    assert b"broker-1" in sent
    assert b"__forwarded" not in sent


def test_a_broker_that_is_forgotten_is_another_process_now(alone: Asker, listener: Listener, loop: Loop) -> None:
    alone.ask("one", metadata(), 9)
    sock = listener.accept()
    listener.receive(sock)
    alone.peers.forget(NODE)
    assert alone.told == []
    assert str(alone.next()[2]) == "the broker is gone"
    assert listener.receive(sock) == b""
    other = Listener(loop)
    alone.endpoints[NODE] = ("127.0.0.1", other.port)
    alone.ask("two", metadata(), 9)
    assert listener.receive(other.accept()) != b""
    other.close()


def test_a_name_is_looked_up_beside_the_loop(alone: Asker, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []

    def lookup(host: str, port: int, **_: object) -> Any:
        looked_up.append(host)
        refused = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1))
        return [refused, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    alone.endpoints[NODE] = ("broker.example", listener.port)
    alone.ask("one", metadata(), 9)
    assert listener.receive(listener.accept()) != b"", "the second address, as the first refused"
    assert looked_up == ["broker.example"]


def test_a_name_that_does_not_exist(alone: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def lookup(host: str, port: int, **_: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port}")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    alone.endpoints[NODE] = ("broker.example", 9092)
    alone.ask("one", metadata(), 9)
    told = alone.next()
    assert str(told[2]) == "its name has no address"
    assert not refused(told)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", ["127.0.0.1", "::1"]),
        ("10.1.2.3", ["10.1.2.3"]),
        ("fe80::1", ["fe80::1"]),
        ("broker.example", []),
    ],
)
def test_what_needs_no_name_server(host: str, expected: list[str]) -> None:
    assert [address[0] for _, address in numeric_addresses(host, 9092)] == expected


def test_a_connection_to_itself_is_seen() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.connect(sock.getsockname())  # the kernel lets both ends be one
        assert is_own_end(sock)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sock:
        assert not is_own_end(sock)


def test_after_the_end_nothing_is_told(alone: Asker, listener: Listener) -> None:
    alone.ask("one", metadata(), 9)
    sock = listener.accept()
    listener.receive(sock)
    alone.peers.close()
    assert listener.receive(sock) == b""
    alone.ask("two", metadata(), 9)
    for _ in range(5):
        alone.loop.turn(0.001)
    assert alone.told == []
    with pytest.raises(BlockingIOError):
        listener.server.accept()
