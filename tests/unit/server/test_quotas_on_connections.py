"""Quotas on real connections, with the loop turned by hand: what is told, who waits, and who does not."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import KafkaError
from headwater.metadata.image import AddressConfigured, Change, ClientConfigured, UserConfigured
from headwater.server import hot_path
from headwater.server.node import Node
from headwater.server.quick_handlers import QUICK
from headwater.wire.headers import decode_response_header
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.messages.produce import ProduceResponse
from unit.server.support.by_hand import TOPIC, Client, correlation, fetch, fetched, frame, produce, produced

CLIENT_ID = "test"  # of frames by hand
USER = "ANONYMOUS"


def commit(node: Node, *changes: Change) -> None:
    done: list[KafkaError | None] = []
    node.broker.changes.submit(lambda: changes, done.append)
    assert node.loop.run_until(lambda: bool(done), 60_000)
    assert done == [None]


def throttle_of(answer: bytes, version: int = 9) -> int:
    _, at = decode_response_header(answer, 0, version)
    told: int = ProduceResponse.decode(answer, at, version).throttle_time_ms
    return told


@pytest.fixture
def quick_produces(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    answers: list[bool] = []
    way = hot_path.handle_frame

    def counted(*arguments: Any) -> Any:
        answer = way(*arguments)
        answers.append(answer is not None)
        return answer

    monkeypatch.setitem(QUICK, 0, counted)
    return answers


@pytest.fixture
def clients(connect: Callable[[], Client]) -> tuple[Client, Client]:
    return connect(), connect()


def test_without_a_quota_nothing_stands_in_the_way_and_with_one_it_does(
    connect: Callable[[], Client], node: Node
) -> None:
    connect().send(produce(1))

    def ways() -> set[bool]:
        return {each._quick is QUICK for each in node.server._connections.values()}

    assert node.broker.quotas is None
    assert ways() == {True}
    commit(node, UserConfigured(USER, {"SCRAM-SHA-256": "no quota"}))
    assert ways() == {True}
    commit(node, ClientConfigured(None, "", {"producer_byte_rate": "1000"}))
    assert ways() == {False}
    late = connect()
    late.send(produce(1))
    assert produced(late.receive())[0] == 0
    assert ways() == {False}
    commit(node, ClientConfigured(None, "", {}))
    assert ways() == {True}
    assert {each.context.meter for each in node.server._connections.values()} == {None}


def test_a_produce_within_its_quota_takes_the_quick_way(
    clients: tuple[Client, Client], node: Node, quick_produces: list[bool]
) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "100000"}))
    for number in range(5):
        clients[0].send(produce(number))
        answer = clients[0].receive()
        assert (produced(answer), throttle_of(answer)) == ((0, number), 0)
    assert quick_produces == [True] * 5


@pytest.mark.parametrize(
    "change",
    [
        UserConfigured(USER, {"producer_byte_rate": "100"}),
        ClientConfigured(USER, CLIENT_ID, {"producer_byte_rate": "100"}),
        ClientConfigured(None, "", {"producer_byte_rate": "100"}),
    ],
    ids=["user", "user and client", "any client"],
)
def test_who_sends_too_much_is_told_so_and_waits_and_nobody_else_does(
    clients: tuple[Client, Client], node: Node, change: Change
) -> None:
    commit(node, change)
    greedy, modest = clients
    greedy.send(produce(1, b"x" * 60_000))
    answer = greedy.receive()
    assert produced(answer)[0] == 0
    assert throttle_of(answer) > 30_000
    greedy.send(produce(2))
    commit(node, ClientConfigured(USER, "other", {"producer_byte_rate": "1000000"}))
    modest.send(_as_other(produce(3)))
    answer = modest.receive()
    assert (produced(answer)[0], throttle_of(answer)) == (0, 0)
    assert not greedy.has_answer()
    assert node.broker.partition(TOPIC, 0).log.log_end_offset == 2


def _as_other(request: bytes) -> bytes:
    """The same request of another client id."""
    changed = request[4:].replace(b"\x00\x04test", b"\x00\x05other", 1)
    return len(changed).to_bytes(4) + changed


def test_the_wait_ends(clients: tuple[Client, Client], node: Node) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "1000"}))
    client = clients[0]
    client.send(produce(1, b"x" * 10_300) + produce(2, b"y"))
    began_s = time.monotonic()
    throttle_ms = throttle_of(client.receive())
    assert 100 < throttle_ms < 5000
    answer = client.receive()
    assert time.monotonic() - began_s > (throttle_ms - 50) / 1000
    assert (correlation(answer), produced(answer)[0]) == (2, 0)


def test_a_produce_without_an_answer_makes_wait_as_well(clients: tuple[Client, Client], node: Node) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "100"}))
    clients[0].send(produce(1, b"x" * 60_000, acks=0) + produce(2))
    assert not clients[0].has_answer()
    assert node.broker.partition(TOPIC, 0).log.log_end_offset == 1


def test_a_client_that_goes_away_while_it_waits_leaves_nothing(clients: tuple[Client, Client], node: Node) -> None:
    commit(node, ClientConfigured(None, CLIENT_ID, {"producer_byte_rate": "100"}))
    before = node.connection_count()
    clients[0].send(produce(1, b"x" * 60_000))
    clients[0].receive()
    clients[0].socket.close()
    assert node.loop.run_until(lambda: node.connection_count() == before - 1, 60_000)


def test_a_fetch_that_is_too_much_gets_an_answer_without_records(
    make_node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(quota_window_num=2)  # what happened counts for two seconds
    client, producer = Client(node), Client(node)
    producer.send(frame(3, 9, 1, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]).encode(9)))
    producer.receive()
    for number in range(2):
        producer.send(produce(number, b"x" * 3000))
        producer.receive()
    commit(node, ClientConfigured(None, CLIENT_ID, {"consumer_byte_rate": "7000"}))
    asked: list[int] = []
    monkeypatch.setitem(QUICK, 1, lambda *_: asked.append(1))

    def ask(number: int) -> tuple[int, int]:
        """How long to wait, and the size of what came."""
        client.send(fetch(number))
        answer = fetched(client.receive())
        assert (answer.error_code, answer.session_id) == (0, 0)
        parts = [part for topic in answer.responses for part in topic.partitions]
        return answer.throttle_time_ms, sum(len(part.records or b"") for part in parts)

    assert ask(1)[0] == 0
    began_s, told, waited_ms = time.monotonic(), ask(2), 0
    while told[0]:  # until the first does not count any more
        assert told[1] == 0
        waited_ms += told[0]
        told = ask(3)
    assert told[1] > 6000
    assert time.monotonic() - began_s > (waited_ms - 50) / 1000
    assert waited_ms or time.monotonic() - began_s > 2, "on a machine that stood still, the first counted no more"
    assert asked == [], "a quota of fetches goes the general way"
    client.socket.close()
    producer.socket.close()


def test_the_first_batch_is_given_whatever_its_size(clients: tuple[Client, Client], node: Node) -> None:
    """A consumer with a small quota would never get past a large batch."""
    client, producer = clients
    producer.send(produce(1, b"x" * 50_000))
    producer.receive()
    commit(node, ClientConfigured(None, CLIENT_ID, {"consumer_byte_rate": "10"}))
    client.send(fetch(2))
    answer = fetched(client.receive())
    assert len(answer.responses[0].partitions[0].records or b"") > 50_000


def test_a_share_of_the_thread(clients: tuple[Client, Client], node: Node) -> None:
    commit(node, UserConfigured(USER, {"request_percentage": "0.0001"}))
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    clients[0].send(frame(3, 9, 1, request.encode(9)))
    answer = clients[0].receive()
    _, at = decode_response_header(answer, 0, 9)
    assert MetadataResponse.decode(answer, at, 9).throttle_time_ms == 1000, "never longer than a window"
    began_s = time.monotonic()
    clients[1].send(produce(2) + produce(3))
    assert throttle_of(clients[1].receive()) == 1000
    assert correlation(clients[1].receive()) == 3
    assert time.monotonic() - began_s > 0.95


def test_connections_beyond_the_quota_of_their_address_are_closed_and_the_others_stay(
    make_node: Callable[..., Node],
) -> None:
    node = make_node(quota_window_num=2)
    commit(node, AddressConfigured("", {"connection_creation_rate": "3"}))
    clients = [Client(node) for _ in range(4)]
    for client in clients:
        client.send(b"")
    assert node.connection_count() == 3
    assert clients[3].is_closed()
    assert not clients[0].has_answer()
    commit(node, AddressConfigured("127.0.0.1", {"connection_creation_rate": "1000"}))
    clients.append(Client(node))
    clients[4].send(frame(18, 0, 1, []))
    assert correlation(clients[4].receive()) == 1
    for client in clients:
        client.socket.close()
