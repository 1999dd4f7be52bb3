"""Simulated peers: one broker asks another through the world's own connections."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.ids import BrokerId
from headwater.base.peers import Lane, Unreachable
from headwater.sim.faults import NO_FAULTS
from headwater.sim.network import SimConnection
from headwater.sim.peers import SimPeers
from headwater.sim.scheduler import ProcessScheduler
from headwater.sim.world import World
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.metadata import MetadataRequest


class Asker:
    def __init__(self) -> None:
        self.world = World(1, NO_FAULTS)
        self.scheduler = ProcessScheduler(self.world.clock, self.world.heap)
        self.links: list[SimConnection] = []
        self.peers = SimPeers(self.scheduler, self.world.clock, "broker-2", self._connect)
        self.told: list[tuple[str, Any, Unreachable | None]] = []

    def _connect(
        self, broker: BrokerId, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> SimConnection | None:
        assert broker == 1
        link = self.world.node.connect("broker-2", deliver, gone)
        if link is not None:
            self.links.append(link)
        return link

    def ask(self, name: str, request: Any = None, version: int = 9, lane: Lane = Lane.FETCH) -> None:
        def done(response: Any, problem: Unreachable | None) -> None:
            self.told.append((name, response, problem))

        request = request or MetadataRequest(topics=[])
        self.peers.ask(BrokerId(1), lane, request, version, done, timeout_ms=5000)

    def next(self) -> tuple[str, Any, Unreachable | None]:
        for _ in range(10_000):
            if self.told:
                return self.told.pop(0)
            self.world.step()
        raise AssertionError("nothing came")


@pytest.fixture
def asker() -> Asker:
    return Asker()


def test_answers_come_in_order_over_one_connection_for_each_lane(asker: Asker) -> None:
    asker.ask("first")
    asker.ask("second", ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    asker.ask("other", lane=Lane.CONTROL)
    told = {name: response for name, response, problem in (asker.next() for _ in range(3)) if problem is None}
    assert [name for name in told if name != "other"] == ["first", "second"]
    assert [broker.node_id for broker in told["first"].brokers] == [1]
    assert len(asker.links) == 2


def test_a_node_that_is_down_is_unreachable_until_it_is_back(asker: Asker) -> None:
    asker.ask("before")
    assert asker.next()[2] is None
    asker.ask("during")
    asker.world.node.kill()
    assert isinstance(asker.next()[2], Unreachable)
    asker.ask("down")
    assert str(asker.next()[2]) == "not known"
    assert asker.world.node.start()
    asker.ask("after")
    assert asker.next()[2] is None


def test_a_process_that_ends_leaves_no_connection_behind(asker: Asker) -> None:
    asker.ask("one")
    asker.peers.close()
    assert all(link.closed for link in asker.links)
    for _ in range(200):
        asker.world.step()
    assert asker.told == []
    asker.ask("two")
    asker.peers.forget(BrokerId(1))
    assert str(asker.next()[2]) == "the broker is gone"
