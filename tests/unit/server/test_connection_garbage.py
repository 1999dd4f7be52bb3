"""A connection that is closed is gone at once: the collector comes seldom, and ten thousand of them were forty
megabytes each time.
"""

import gc
from collections.abc import Callable

import pytest

from headwater.broker.deferred import Deferred
from headwater.broker.handlers.fetch import Fetch
from headwater.server.connection import Connection
from unit.server.support.by_hand import Client, correlation, fetch, produce

Connect = Callable[[], Client]


def alive(kind: type) -> int:
    return sum(type(each) is kind for each in gc.get_objects())


@pytest.mark.parametrize("state", ["asked", "parked", "woken"])
def test_a_closed_connection_leaves_nothing_for_the_collector(connect: Connect, state: str) -> None:
    other = connect()
    other.send(produce(1))
    other.receive()
    gc.collect()
    before = [alive(kind) for kind in (Connection, Deferred, Fetch)]
    gc.disable()
    try:
        for number in range(5):
            client = connect()
            client.send(produce(2) if state == "asked" else fetch(2, 1 if state == "parked" else number + 1))
            if state == "woken":
                other.send(produce(3))
                other.receive()
            if state != "parked":
                assert correlation(client.receive()) == 2
            client.socket.close()
            other.node.loop.turn(0.01)
        for _ in range(100):
            if other.node.connection_count() <= 2:
                break
            other.node.loop.turn(0.01)
        assert [alive(kind) for kind in (Connection, Deferred, Fetch)] == before
    finally:
        gc.enable()
