"""A client that goes while its request is held back is noticed at once, and what it held is free; the group it joins
does not mind.
"""

import gc
import socket
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.server.connection import Connection
from headwater.server.node import Node
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from unit.server.support.by_hand import Client, correlation, fetch, frame, produce, produced

Connect = Callable[[], Client]
PARKED_MAX = 64  # of one connection: then nothing more is read from it


@pytest.fixture(name="held")
def held_fixture(monkeypatch: pytest.MonkeyPatch) -> list[Deferred]:
    """ApiVersions that are not answered, and want nothing begun behind them."""
    held: list[Deferred] = []

    def handle(*_: Any) -> Deferred:
        held.append(Deferred(holds_order=True))
        return held[-1]

    APIS[18].load()
    monkeypatch.setattr(APIS[18], "handle", handle)
    return held


def ping(correlation_id: int) -> bytes:
    return frame(18, 0, correlation_id, ApiVersionsRequest().encode(0))


def server_side(node: Node, client: Client) -> Connection:
    port = client.socket.getsockname()[1]
    found: list[Connection] = []

    def is_accepted() -> bool:
        found[:] = [each for each in node.server._connections.values() if each.context.client_port == port]
        return bool(found)

    assert comes(node, is_accepted)
    return found[0]


def comes(node: Node, condition: Callable[[], bool]) -> bool:
    for _ in range(1000):
        if condition():
            return True
        node.loop.turn(0.01)
    return False


def is_gone(connection: Connection, node: Node) -> bool:
    return comes(node, lambda: connection.closed)


@pytest.mark.parametrize("behind", [b"", produce(2), produce(2)[:9]], ids=["nothing", "a request", "half a request"])
def test_a_client_that_goes_while_its_request_holds_up_the_rest(
    connect: Connect, node: Node, held: list[Deferred], behind: bytes
) -> None:
    client = connect()
    connection = server_side(node, client)
    client.send(ping(1) + behind)
    assert comes(node, lambda: len(held) == 1)
    client.socket.close()
    assert is_gone(connection, node)
    assert held[0].done, "cancelled: its answer has nowhere to go"
    assert node.broker.partition("orders", 0).log.log_end_offset == 0, "nobody would hear of what came behind"


def test_a_client_that_goes_with_as_many_parked_requests_as_it_may_have(connect: Connect, node: Node) -> None:
    client = connect()
    connection = server_side(node, client)
    client.send(b"".join(fetch(number) for number in range(PARKED_MAX + 2)))
    partition = node.broker.partition("orders", 0)
    assert comes(node, lambda: len(partition.waiters) == PARKED_MAX)
    client.socket.close()
    assert is_gone(connection, node)
    assert not partition.waiters


def test_a_client_that_says_no_more_and_still_takes_its_answer_gets_all_of_it(connect: Connect, node: Node) -> None:
    client = connect()
    value = b"x" * 900_000
    client.send(produce(1, value))
    assert produced(client.receive()) == (0, 0)
    for number in range(2, 10):
        client.send(fetch(number))  # more than the socket takes: the rest waits
    client.socket.shutdown(socket.SHUT_WR)
    for number in range(2, 5):
        answer = client.receive()
        assert correlation(answer) == number
        assert len(answer) > len(value)


def join(correlation_id: int) -> bytes:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    return frame(11, 3, correlation_id, request.encode(3))


def described(client: Client) -> Any:
    client.send(frame(15, 4, 9, DescribeGroupsRequest(groups=["group"]).encode(4)))
    return DescribeGroupsResponse.decode(client.receive(), 4, 4).groups[0]


def test_a_member_that_goes_while_its_join_is_held_back_leaves_no_connection_and_stays_in_its_group(
    connect: Connect, node: Node
) -> None:
    """As in Kafka: who does not come back is put out when its session ends, not before."""
    client, other = connect(), connect()
    other.send(frame(10, 0, 1, FindCoordinatorRequest(key="group").encode(0)))
    other.receive()
    connection = server_side(node, client)
    gc.collect()
    before = sum(type(each) is Connection for each in gc.get_objects()) - 1
    client.send(join(1))
    assert described(other).group_state == "PreparingRebalance"
    client.socket.close()
    assert is_gone(connection, node)
    del connection
    assert sum(type(each) is Connection for each in gc.get_objects()) == before, "and nobody holds on to it"
    group = described(other)
    assert (ErrorCode(group.error_code), group.group_state) == (ErrorCode.NONE, "PreparingRebalance")
    assert len(group.members) == 1
