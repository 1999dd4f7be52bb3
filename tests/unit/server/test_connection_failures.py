"""What goes wrong in the middle of a connection's work costs that connection, and no descriptor, memory or answer of
others.
"""

import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from headwater.server import hot_path
from headwater.server import outbox as outbox_module
from headwater.server.connection import Connection
from headwater.server.node import Node
from headwater.server.quick_handlers import FETCH, PRODUCE, QUICK
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.fetch import FetchResponse
from unit.server.support.by_hand import TOPIC, Client, correlation, fetch, fetched, frame, produce, produced

Connect = Callable[[], Client]


def server_side(node: Node, client: Client) -> Connection:
    port = client.socket.getsockname()[1]
    (found,) = (c for c in node.server._connections.values() if c.context.client_port == port)
    return found


def references(node: Node) -> int:
    """Who holds the file of the first partition's segment: the segment, and slices on their way out."""
    file: Any = node.broker.partition(TOPIC, 0).log.active.file
    return int(file._references)


def ping(correlation_id: int) -> bytes:
    return frame(18, 0, correlation_id, ApiVersionsRequest().encode(0))


def filled(node: Node, client: Client) -> None:
    client.send(produce(1, b"x" * 900_000))
    client.receive()


@pytest.fixture
def unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled way sends nothing, as when the socket is full or gone, and leaves all to the outbox."""
    monkeypatch.setattr(outbox_module, "send_chunks", lambda *_: (0, 0))


@pytest.mark.usefixtures("unsent")
def test_requests_behind_a_lost_connection_are_not_begun(connect: Connect, node: Node) -> None:
    client = connect()
    filled(node, client)

    def gone(*_: object) -> int:
        raise ConnectionResetError(104, "Connection reset by peer")

    server_side(node, client)._outbox._send = gone
    client.send(fetch(2, wait_ms=0) + fetch(3, wait_ms=0) + fetch(4, wait_ms=60_000, offset=1))
    assert client.is_closed()
    assert references(node) == 1
    assert not node.broker.partition(TOPIC, 0).waiters


@pytest.mark.usefixtures("unsent")
def test_frames_behind_a_full_socket_are_handled_when_it_drained_at_once(connect: Connect, node: Node) -> None:
    client = connect()
    filled(node, client)
    connection = server_side(node, client)._outbox
    send, calls = connection._send, []

    def full_once(*arguments: Any) -> int:
        calls.append(1)
        if len(calls) == 1:
            raise BlockingIOError
        return send(*arguments)

    connection._send = full_once
    client.send(fetch(2, wait_ms=0) + ping(3))
    assert correlation(client.receive()) == 2
    assert correlation(client.receive()) == 3


@pytest.mark.parametrize("size", [10, 400_000], ids=["small", "large"])
def test_a_handler_that_breaks_closes_its_connection_and_gives_its_memory_back(
    connect: Connect, node: Node, size: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bytes:
        raise AssertionError("an invariant of ours")

    client, healthy = connect(), connect()
    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setitem(QUICK, PRODUCE, broken)
        client.send(produce(1, b"x" * size))
        assert client.is_closed()
    assert node.server.connection_count == 2
    assert node.server.buffers.reserved_bytes == node.server.buffers.allocated_bytes == 0
    healthy.send(produce(2))
    assert produced(healthy.receive()) == (0, 0)
    assert QUICK[PRODUCE] is hot_path.handle_frame


@pytest.mark.usefixtures("unsent")
def test_a_request_that_breaks_behind_an_answer_from_a_cold_file_closes_its_connection(
    connect: Connect, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The file's completion handles the frames that waited. The connection stayed open, and handled them once more."""
    client = connect()
    filled(node, client)
    real, handled = Connection._dispatch, []

    def breaks(connection: Connection, buffer: memoryview, begin: int, behind: int) -> None:
        correlation_id = int.from_bytes(buffer[begin + 4 : begin + 8], "big")
        handled.append(correlation_id)
        assert correlation_id != 4, "an invariant of ours"
        real(connection, buffer, begin, behind)

    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setattr(Connection, "_dispatch", breaks)
        patched.setattr(outbox_module, "is_warm", lambda _: False)
        client.send(fetch(2, wait_ms=0) + ping(3) + produce(4))
        assert correlation(client.receive()) == 2
        with pytest.raises((EOFError, ConnectionResetError)):
            client.receive_exactly(1 << 20)
    assert handled == [2, 3, 4]
    assert references(node) == 1


@pytest.mark.parametrize("is_parked", [False, True])
def test_an_answer_that_cannot_be_encoded_closes_the_connection_and_releases_its_slices(
    connect: Connect,
    node: Node,
    is_parked: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    client, producer = connect(), connect()
    if not is_parked:
        filled(node, producer)

    def broken(*_: object) -> list[bytes]:
        raise TypeError("an encoder of ours")

    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setattr(FetchResponse, "encode", broken)
        patched.setitem(QUICK, FETCH, lambda *_: None)
        client.send(fetch(2))
        if is_parked:
            filled(node, producer)
        assert client.is_closed()
    assert references(node) == 1


def test_a_parked_fetch_that_breaks_does_not_cost_the_others_their_wake_up(
    connect: Connect, node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    consumers = [connect() for _ in range(3)]
    for number, consumer in enumerate(consumers):
        consumer.send(fetch(number))
    partition = node.broker.partition(TOPIC, 0)
    log, reads = partition.log, []
    real = type(log).read

    def breaks_once(*arguments: Any, **named: Any) -> Any:
        reads.append(1)
        if len(reads) == 1:
            raise AssertionError("an invariant of ours")
        return real(*arguments, **named)

    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL):
        patched.setattr(type(log), "read", breaks_once)
        connect().send(produce(1))
        outcomes = [consumer.is_closed() for consumer in consumers]
    assert sorted(outcomes) == [False, False, True]
    assert references(node) == 1


def test_a_segment_that_cannot_be_opened_is_a_storage_error_of_its_partition(
    connect: Connect, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect()
    filled(node, client)

    def no_handles(*_: object, **__: object) -> None:
        raise OSError(24, "Too many open files")

    segment = node.broker.partition(TOPIC, 0).log.active
    segment.close()
    with monkeypatch.context() as patched:
        patched.setattr(type(segment), "open_file", no_handles)
        client.send(fetch(2))
        assert fetched(client.receive()).responses[0].partitions[0].error_code == 56
    client.send(fetch(3, wait_ms=0))
    assert fetched(client.receive()).responses[0].partitions[0].error_code == 0


def test_answers_that_are_due_go_out_before_bad_input_closes_the_connection(connect: Connect) -> None:
    client = connect()
    client.send(produce(1) + ping(2) + b"\xff\xff\xff\xff")
    assert produced(client.receive()) == (0, 0)
    assert correlation(client.receive()) == 2
    assert client.is_closed()


def test_a_connection_that_still_takes_its_answer_is_not_idle(connect: Connect, node: Node) -> None:
    """Ten minutes for one answer over a slow line is slow, not idle."""
    client = connect()
    filled(node, client)
    connection = server_side(node, client)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    client.send(fetch(1, wait_ms=0) + fetch(2, wait_ms=0))
    assert connection._out
    connection.last_active_ns = connection.frame_progress_ns = 0
    client.receive_exactly(800_000)
    assert connection._out
    node.server._close_idle()
    assert not connection.closed
