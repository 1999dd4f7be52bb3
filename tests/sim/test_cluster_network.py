"""The network between brokers and clients, and processes that stand still: order is kept, nothing arrives where it
cannot.
"""

import random
from typing import Any

import pytest

from headwater.sim.clock import SimClock
from headwater.sim.cluster_faults import NO_FAULTS
from headwater.sim.cluster_network import Network
from headwater.sim.peers import REFUSED
from headwater.sim.scheduler import ProcessScheduler, SimScheduler
from headwater.sim.stage import Stage

WAY = [frozenset(("client", "1"))]


class Machine:
    """A node that writes down which frames arrive."""

    place = "1"
    is_serving = True
    is_machine_on = True
    broker = None

    def __init__(self, world: Stage) -> None:
        self.world = world
        self.scheduler = ProcessScheduler(world.clock, world.heap)
        self.enter = self.scheduler.enter
        self.connections: list[Any] = []
        self.received: list[bytes] = []

    def stream_for(self, client: str) -> random.Random:
        return self.world.stream(client)

    def accept(self, connection: Any) -> None:
        self.connections.append(connection)
        connection._arrived = lambda frame: None if connection.closed else self.received.append(frame)

    def forget(self, connection: Any) -> None:
        self.connections.remove(connection)


class Wires:
    def __init__(self, seed: int) -> None:
        self.world = Stage(seed, NO_FAULTS)
        self.network = Network(self.world)
        self.machine = Machine(self.world)
        self.gone: list[str] = []
        self.connection = self.connect()

    def connect(self) -> Any:
        return self.network.connect("client", self.machine, lambda _data: None, self.gone.append)  # type: ignore[arg-type]

    def run(self) -> None:
        while self.world.heap.due_in_ms() is not None:
            self.world.run_event()


@pytest.mark.parametrize("seed", range(10))
def test_what_is_sent_arrives_in_order(seed: int) -> None:
    wires = Wires(seed)
    frames = [b"%d" % number for number in range(20)]
    for frame in frames:
        wires.connection.send(frame)
    wires.run()
    assert wires.machine.received == frames


def test_a_process_that_is_gone_is_refused_while_its_machine_runs() -> None:
    wires = Wires(0)
    wires.machine.is_serving = False
    assert wires.connect() is REFUSED
    wires.machine.is_machine_on = False
    assert wires.connect() is None
    wires.machine.is_machine_on = True
    wires.network.block(WAY)
    assert wires.connect() is None, "nothing comes through"


def test_some_blocks_refuse() -> None:
    wires = Wires(0)
    wires.network.block(WAY, refuses=True)
    assert wires.connect() is REFUSED
    wires.network.free(WAY)
    assert wires.connect() not in (None, REFUSED)


@pytest.mark.parametrize("seed", range(10))
def test_a_blocked_way_resets_a_connection_or_holds_back_what_is_sent(seed: int) -> None:
    wires = Wires(seed)
    wires.network.block(WAY)
    assert wires.connect() is None
    wires.connection.send(b"a")
    wires.connection.send(b"b")
    wires.connection.leave()
    wires.run()
    assert wires.machine.received == []
    wires.network.free()
    wires.run()
    assert wires.machine.connections == []
    if wires.gone:
        assert wires.machine.received == []
    else:
        assert wires.machine.received == [b"a", b"b"], "sent before it gave up, so it may arrive after it did"
    assert wires.connect() is not None


def test_both_kinds_of_blocked_ways_come_up() -> None:
    reset = []
    for seed in range(10):
        wires = Wires(seed)
        wires.network.block(WAY)
        wires.run()
        reset.append(bool(wires.gone))
    assert set(reset) == {True, False}


def test_a_client_learns_that_a_broker_has_closed_once_the_way_is_free() -> None:
    wires = next(wires for wires in map(Wires, range(20)) if _fell_silent(wires))
    wires.connection.close("the process died")
    wires.run()
    assert wires.gone == []
    wires.network.free()
    wires.run()
    assert wires.gone == ["the process died"]


def _fell_silent(wires: Wires) -> bool:
    wires.network.block(WAY)
    wires.run()
    return not wires.gone


def test_a_process_that_stands_still_does_everything_later_and_in_order() -> None:
    clock = SimClock()
    heap = SimScheduler(clock)
    process = ProcessScheduler(clock, heap)
    done: list[str] = []
    process.call_later(10, lambda: done.append("timer"))
    cancelled = process.call_later(20, lambda: done.append("cancelled"))
    process.pause()
    clock.advance(30)
    heap.run_due()
    process.enter(lambda: done.append("frame"))
    assert done == []
    cancelled.cancel()
    process.resume()
    heap.run_due()
    assert done == ["timer", "frame"]
    process.enter(lambda: done.append("runs"))
    assert done == ["timer", "frame", "runs"]


def test_a_process_that_dies_while_it_stands_still_does_nothing_more() -> None:
    clock = SimClock()
    heap = SimScheduler(clock)
    process = ProcessScheduler(clock, heap)
    process.pause()
    process.enter(lambda: pytest.fail("it is dead"))
    process.die()
    process.resume()
    heap.run_due()
    process.enter(lambda: pytest.fail("it is dead"))
