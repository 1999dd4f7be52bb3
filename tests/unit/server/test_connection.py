"""Connections on real sockets, with the loop turned by hand: order, parking, limits, bad input. No sleeps."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.server.node import Node
from headwater.server.quick_handlers import PRODUCE, QUICK
from headwater.wire.headers import decode_response_header
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.messages.produce import ProduceResponse
from unit.server.support.by_hand import TOPIC, Client, correlation, fetch, fetched, frame, produce, produced


def test_pipelined_requests_are_answered_in_order(connect: Callable[[], Client]) -> None:
    client = connect()
    client.send(b"".join(produce(n) for n in range(100)))
    answers = [client.receive() for _ in range(100)]
    assert [correlation(answer) for answer in answers] == list(range(100))
    assert [produced(answer) for answer in answers] == [(0, n) for n in range(100)]


@pytest.mark.parametrize("version", range(3, 13))
def test_the_hot_path_and_the_general_way_answer_the_same(connect: Callable[[], Client], version: int) -> None:
    client = connect()
    client.send(produce(1, version=version))
    by_hot_path = client.receive()
    # A parked fetch ahead of it on the connection sends a produce the general way.
    client.send(fetch(2, offset=1) + produce(1, version=version))
    assert correlation(client.receive()) == 2
    by_general_way = client.receive()
    assert produced(by_hot_path, version) == (0, 0)
    assert produced(by_general_way, version) == (0, 1)
    _, at = decode_response_header(by_hot_path, 0, version)
    response = ProduceResponse.decode(by_hot_path, at, version)
    response.responses[0].partition_responses[0].base_offset = 1
    assert by_hot_path[:at] + b"".join(response.encode(version)) == by_general_way


def test_a_parked_fetch_holds_its_place_and_is_woken_by_an_append(connect: Callable[[], Client]) -> None:
    consumer, producer = connect(), connect()
    consumer.send(fetch(7) + frame(18, 0, 8, ApiVersionsRequest().encode(0)))
    assert not consumer.has_answer()
    producer.send(produce(1))
    answer = consumer.receive()
    assert correlation(answer) == 7
    assert len(fetched(answer).responses[0].partitions[0].records or b"") > 61
    assert correlation(consumer.receive()) == 8


def test_a_parked_fetch_waits_for_its_minimum(connect: Callable[[], Client]) -> None:
    consumer, producer = connect(), connect()
    consumer.send(fetch(7, min_bytes=200))
    producer.send(produce(1))
    producer.receive()
    assert not consumer.has_answer()
    producer.send(produce(2, b"x" * 200))
    assert len(fetched(consumer.receive()).responses[0].partitions[0].records or b"") > 261


def test_a_parked_fetch_dies_with_its_connection(connect: Callable[[], Client], node: Node) -> None:
    consumer, producer = connect(), connect()
    consumer.send(fetch(7))
    partition = node.broker.partition(TOPIC, 0)
    assert len(partition.waiters) == 1
    consumer.socket.close()
    producer.send(b"")
    assert not partition.waiters
    producer.send(produce(1))
    assert produced(producer.receive()) == (0, 0)


def test_acks_0_is_not_answered(connect: Callable[[], Client]) -> None:
    client = connect()
    client.send(produce(1, acks=0) + produce(2))
    answer = client.receive()
    assert correlation(answer) == 2
    assert produced(answer) == (0, 1)


def test_acks_2_is_refused_with_a_word_of_explanation(connect: Callable[[], Client]) -> None:
    client = connect()
    client.send(produce(1, acks=2))
    _, at = decode_response_header(answer := client.receive(), 0, 9)
    part = ProduceResponse.decode(answer, at, 9).responses[0].partition_responses[0]
    assert part.error_code == 21
    assert "0, 1 or all" in (part.error_message or "")


def test_a_large_frame_in_many_pieces(connect: Callable[[], Client]) -> None:
    client = connect()
    data = produce(1, b"x" * 900_000) + produce(2)
    for at in range(0, len(data), 70_001):
        client.send(data[at : at + 70_001])
    assert produced(client.receive()) == (0, 0)
    assert produced(client.receive()) == (0, 1)


def test_a_large_frame_after_another_is_read_in_one_turn(connect: Callable[[], Client], node: Node) -> None:
    client = connect()
    client.send(produce(1, b"x" * 200_000))
    client.receive()
    data = produce(2, b"x" * 200_000)
    assert client.socket.send(data) == len(data)
    node.loop.turn(1)
    assert len(client.socket.recv(4096)) > 4
    assert node.broker.partition(TOPIC, 0).log.log_end_offset == 2


def test_a_frame_byte_by_byte(connect: Callable[[], Client]) -> None:
    client = connect()
    for byte in produce(1):
        client.send(bytes([byte]))
    assert produced(client.receive()) == (0, 0)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", -1),
        struct.pack(">i", 3) + b"abc",
        struct.pack(">ihhi", 10, 999, 0, 1) + b"\xff\xff",
        frame(3, 9, 1, [])[:4] + b"\x00" * 15,
        struct.pack(">ihhih", 14, 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1),
    ],
    ids=["http", "tls", "2 GiB", "negative", "too short", "unknown api", "zeros", "array of 2^31"],
)
def test_garbage_closes_its_connection_and_no_other(connect: Callable[[], Client], garbage: bytes) -> None:
    healthy, bad = connect(), connect()
    bad.send(garbage)
    assert bad.is_closed()
    healthy.send(produce(1))
    assert produced(healthy.receive()) == (0, 0)


def test_a_version_from_the_future_gets_our_range_in_version_0(connect: Callable[[], Client]) -> None:
    client = connect()
    client.send(frame(18, 99, 5, ApiVersionsRequest().encode(3)))
    answer = client.receive()
    response = ApiVersionsResponse.decode(answer, 4, 0)
    assert correlation(answer) == 5
    assert response.error_code == 35
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]


def test_a_length_prefix_alone_costs_no_memory(connect: Callable[[], Client], node: Node) -> None:
    clients = [connect() for _ in range(20)]
    for client in clients:
        client.send(struct.pack(">ihhi", 8 << 20, 0, 9, 1))
    assert node.server.buffers.allocated_bytes <= 20 * 128 * 1024
    for client in clients:
        client.socket.close()
    connect().send(produce(1))
    assert node.server.buffers.reserved_bytes == node.server.buffers.allocated_bytes == 0


def open_descriptors() -> int:
    return sum(1 for each in Path("/proc/self/fd").iterdir() if each.is_symlink())


def test_a_slow_reader_is_not_read_from_and_harms_nobody(connect: Callable[[], Client], node: Node) -> None:
    slow, healthy = connect(), connect()
    for n in range(16):
        healthy.send(produce(n, b"x" * 900_000))
        healthy.receive()
    for n in range(200):  # up to 200 MB of answers that nobody takes
        try:
            slow.socket.send(fetch(n, offset=n % 16, wait_ms=0))
        except BlockingIOError:
            break
    before = open_descriptors()
    for _ in range(50):
        node.loop.turn(0)
    assert open_descriptors() < before + 100
    healthy.send(produce(99))
    assert produced(healthy.receive()) == (0, 16)
    taken = [fetched(slow.receive()) for _ in range(100)]
    assert all(len(answer.responses[0].partitions[0].records or b"") > 900_000 for answer in taken)


def test_memory_held_by_requests_is_bounded(connect: Callable[[], Client], node: Node) -> None:
    node.server.buffers.limit_bytes = 2 << 20
    clients = [connect() for _ in range(4)]
    data = produce(1, b"x" * 900_000)
    for client in clients:
        client.send(data[:600_000])
    assert node.server.buffers.reserved_bytes <= 2 << 20
    assert node.server.buffers.has_waiters
    for client in clients:
        client.send(data[600_000:])
    assert sorted(produced(client.receive()) for client in clients) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert node.server.buffers.reserved_bytes == node.server.buffers.allocated_bytes == 0


@pytest.mark.parametrize("pieces", [1, 2], ids=["in one piece", "in two"])
def test_a_quick_handler_that_declines_is_asked_once(
    connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    """It was asked twice: a replicated produce paid for two parses in C
    and two in Python before the general way began.
    """
    client, asked = connect(), []
    monkeypatch.setitem(QUICK, PRODUCE, lambda *_: asked.append(1))
    data = produce(1)
    for at in range(0, len(data), -(-len(data) // pieces)):
        client.send(data[at : at + -(-len(data) // pieces)])
    assert produced(client.receive()) == (0, 0)
    assert asked == [1]
