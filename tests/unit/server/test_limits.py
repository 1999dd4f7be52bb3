"""Limits of listeners: addresses, descriptors, idle time, and the metrics endpoint's own."""

import errno
import json
import socket
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.server.node import Node
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from headwater.wire.primitives import encode_uvarint
from unit.server.support.by_hand import Client, correlation, frame, produce, produced

MakeNode = Callable[..., Node]
Connect = Callable[[], Client]


def ping(correlation_id: int) -> bytes:
    return frame(18, 0, correlation_id, ApiVersionsRequest().encode(0))


def is_served(client: Client) -> bool:
    try:
        client.send(ping(1))
        return correlation(client.receive()) == 1
    except (EOFError, ConnectionError):
        return False
    finally:
        client.socket.close()


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_connections_beyond_a_limit_are_closed_and_there_is_room_again_later(make_node: MakeNode, limit: str) -> None:
    node = make_node(**{limit: 2})
    first, second, third = Client(node), Client(node), Client(node)
    assert third.is_closed()
    third.socket.close()
    first.socket.close()
    node.loop.turn(0.01)
    assert is_served(Client(node))
    second.socket.close()


@pytest.mark.parametrize("is_metrics", [False, True])
def test_without_descriptors_listening_pauses_and_goes_on(
    make_node: MakeNode, is_metrics: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A listener that cannot accept stays readable: the metrics endpoint made the loop spin."""
    node = make_node(metrics_port=0)
    assert node.metrics is not None
    listener = node.metrics._listener if is_metrics else node.server._listeners[0]
    accepts = []

    class Exhausted:
        def accept(self) -> Any:
            accepts.append(1)
            raise OSError(errno.EMFILE, "Too many open files")

        def __getattr__(self, name: str) -> Any:
            return getattr(listener, name)

    if is_metrics:
        monkeypatch.setattr(node.metrics, "_listener", Exhausted())
    else:
        monkeypatch.setitem(
            node.loop._handlers, listener.fileno(), lambda _events: node.server._accept(Exhausted(), "PLAINTEXT")
        )
    with socket.create_connection(listener.getsockname()):
        for _ in range(20):
            node.loop.turn(0.001)
    assert len(accepts) == 1


def test_idle_connections_are_closed_and_a_large_request_on_its_way_is_not_idle(make_node: MakeNode) -> None:
    node = make_node(connections_max_idle_ms=1000)
    idle, uploading = Client(node), Client(node)
    uploading.send(produce(1, b"x" * 900_000)[:500_000])
    for connection in node.server._connections.values():
        connection.last_active_ns = 0
    node.server._close_idle()
    assert idle.is_closed()
    assert node.server.connection_count == 1
    idle.socket.close()
    uploading.socket.close()


@pytest.mark.parametrize(("piece_bytes", "is_refused"), [(1, True), (300_000, False)])
def test_a_large_request_that_comes_drop_by_drop_gives_way_to_those_who_wait_for_its_memory(
    make_node: MakeNode, piece_bytes: int, is_refused: bool
) -> None:
    """A byte now and then was progress: a few such clients kept everybody else's large requests waiting for ever."""
    node = make_node(queued_max_request_bytes=8 << 20)
    slow, waiting = Client(node), Client(node)
    data = produce(1, bytes(6 << 20))
    slow.send(data[:1_000_000])
    waiting.send(produce(1, bytes(4 << 20))[:1_000_000])
    assert node.server.buffers.has_waiters
    for connection in node.server._connections.values():
        connection.frame_progress_ns -= 21_000_000_000
    slow.send(data[1_000_000 : 1_000_000 + piece_bytes])
    node.server._close_idle()
    assert node.server.buffers.has_waiters != is_refused
    assert slow.is_closed() if is_refused else node.server.connection_count == 2
    for client in (slow, waiting):
        client.socket.close()


def test_a_request_without_records_is_refused_before_millions_of_names_become_objects(connect: Connect) -> None:
    """A hundred megabytes of empty topic names held up everybody for a minute, and took gigabytes."""
    greedy, other = connect(), connect()
    count = (8 << 20) // 2
    names = encode_uvarint(count + 1) + b"\x01\x00" * count + bytes(4)
    greedy.node.server.frame_bytes_max = 16 << 20
    greedy.send(frame(3, 9, 1, [names]))
    assert greedy.is_closed()
    other.send(produce(1, bytes(9 << 20)))  # records are another matter
    assert produced(other.receive())[0] == ErrorCode.MESSAGE_TOO_LARGE


def test_a_large_request_of_few_elements_is_served(connect: Connect) -> None:
    """Assignments of a group were refused above eight megabytes, though Kafka takes what socket.request.max.bytes
    allows.
    """
    leader = connect()
    leader.node.server.frame_bytes_max = 16 << 20
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=bytes(12 << 20))
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[assignment])
    leader.send(frame(14, 3, 7, request.encode(3)))
    answer = leader.receive()
    assert correlation(answer) == 7
    assert SyncGroupResponse.decode(answer, 4, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_negative_idle_time_is_no_limit(make_node: MakeNode) -> None:
    """It closed every connection, every ten seconds."""
    node = make_node(connections_max_idle_ms=-1)
    client = Client(node)
    node.loop.turn(0.01)
    node.server._close_idle()
    assert is_served(client)


def test_what_unblocks_a_connection_does_not_overwrite_the_requests_that_are_being_handled(
    connect: Connect, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frames that waited on one connection were put into the read buffer that another was being read from."""
    held, active = connect(), connect()
    waiting: list[Deferred] = []

    def handle(*_: Any) -> Any:
        if not waiting:
            waiting.append(Deferred(holds_order=True))
            return waiting[0]
        waiting[0].complete(ApiVersionsResponse(error_code=0, api_keys=[]))
        return ApiVersionsResponse(error_code=0, api_keys=[])

    APIS[18].load()
    monkeypatch.setattr(APIS[18], "handle", handle)
    held.send(ping(1) + produce(2, b"h" * 5000) + produce(3, b"h" * 5000))
    active.send(ping(1) + produce(2, b"a" * 100) + produce(3, b"a" * 100))
    for client in (active, held):
        assert correlation(client.receive()) == 1
        for number in (2, 3):
            answer = client.receive()
            assert correlation(answer) == number
            assert produced(answer)[0] == 0
    assert node.broker.partition("orders", 0).log.log_end_offset == 4


def ask(node: Node, request: bytes) -> bytes:
    assert node.metrics is not None
    with socket.create_connection(("127.0.0.1", node.metrics.port)) as sock:
        sock.sendall(request)
        sock.setblocking(False)
        data = b""
        for _ in range(2000):
            node.loop.turn(0.005)
            try:
                piece = sock.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return data
            if not piece:
                return data
            data += piece
    raise AssertionError("no end")


def test_metrics_and_status_and_nothing_else(make_node: MakeNode) -> None:
    node = make_node(metrics_port=0)
    head, _, body = ask(node, b"GET /metrics HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert b"headwater_connections " in body
    status = json.loads(ask(node, b"GET /status?x=1 HTTP/1.1\r\n\r\n").partition(b"\r\n\r\n")[2])
    assert status["id"] == node.broker.broker_id
    assert ask(node, b"GET /etc/passwd HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert ask(node, b"POST /metrics HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 405")
    assert ask(node, b"x" * 20_000) == b""


def test_the_metrics_endpoint_has_few_connections_and_little_patience(make_node: MakeNode) -> None:
    node = make_node(metrics_port=0)
    assert node.metrics is not None
    many = []
    for _ in range(40):
        many.append(socket.create_connection(("127.0.0.1", node.metrics.port)))
        node.loop.turn(0.001)
    assert len(node.metrics._open) == 32
    for exchange in list(node.metrics._open):
        assert exchange._timer.function is not None
        exchange._timer.function()
    assert not node.metrics._open
    for sock in many:
        sock.close()
