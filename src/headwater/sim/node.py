"""One simulated machine with a broker on it: the disk outlives the process, the process may die at any moment.

The broker is put together by `server/assembly.py`, as the real one is. Owned by the world.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.base.ids import BrokerId
from headwater.broker.broker import Broker
from headwater.metadata.image import BrokerState, Endpoint
from headwater.server.assembly import Assembly
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.network import SimConnection
from headwater.sim.scheduler import ProcessScheduler, SimRandom
from headwater.sim.trace import Violation

if TYPE_CHECKING:
    from headwater.sim.stage import Stage

PROPERTIES = {
    "log.dirs": "/data",
    "listeners": "PLAINTEXT://sim:9092",
    "auto.create.topics.enable": "false",
    "log.roll.ms": "700",  # of record time: segments roll although they stay small
    "log.index.interval.bytes": "300",
    "log.segment.delete.delay.ms": "600",
    "log.retention.check.interval.ms": "700",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


class NodeClock(SimClock):
    """The machine's own wall clock, which may be wrong; the world's monotonic time."""

    def __init__(self, world: SimClock) -> None:
        super().__init__(world.now_ms() - world.monotonic_ms())
        self._world = world

    def monotonic_ms(self) -> int:
        return self._world.monotonic_ms()

    def now_ms(self) -> int:
        return self._world.monotonic_ms() + self._wall_ahead_ms


class SimNode:
    def __init__(self, world: "Stage", node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.clock = NodeClock(world.clock)
        self.disk = SimDisk(world.seed * 31 + node_id)
        self.broker: Broker | None = None  # while the process lives
        self.lives = 0
        self._connections: dict[SimConnection, None] = {}
        self._disk_is_planned = False
        self._disk_chance = world.stream(f"disk of {node_id}")
        self._connected: Counter[str] = Counter()
        self.disk_delay_ms = (0, 3)

    # Life and death

    def start(self) -> bool:
        """Whether the broker came up. It does not when the disk refuses; somebody has to try again later."""
        self.lives += 1
        self.disk.now_ms = self.clock.now_ms()
        self._scheduler = ProcessScheduler(self.clock, self.world.heap)
        self._assembly = Assembly(
            BrokerConfig({**PROPERTIES, **self.world.properties(), "node.id": str(self.node_id)}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(self.world.seed * 1009 + self.node_id * 101 + self.lives),
            scheduler=self._scheduler,
        )
        opened: list[Broker] = []
        try:
            self._assembly.open(opened.append)
        except (UserError, OSError) as problem:
            self.world.note(f"node {self.node_id} does not start: {problem}")
            self._end()
            return False
        (broker,) = opened  # nothing here is large enough for a worker process
        node = BrokerId(self.node_id)
        broker.image.brokers[node] = BrokerState(node, [Endpoint("PLAINTEXT", "sim", 9092)])
        broker.image.controller_id = node
        self.broker = broker
        return True

    def kill(self) -> None:
        self._end()

    def lose_power(self) -> None:
        self._end()
        self.disk.crash()

    def stop(self) -> None:
        """A clean stop, in the order of `server/node.py`."""
        assert self.broker is not None
        for connection in list(self._connections):
            connection.close("the broker is shutting down")
        self._scheduler.die()
        self.disk.run()  # what is under way comes to its end first
        self._assembly.close()
        if self.disk.open_references:
            raise Violation(f"{self.disk.open_references} references to files after a clean stop")
        self._end()

    def _end(self) -> None:
        self.broker = None
        self._scheduler.die()
        for connection in list(self._connections):
            connection.close("the process died", process_died=True)
        self.disk.kill()

    # Connections

    def connect(
        self, client: str, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> SimConnection | None:
        if self.broker is None:
            return None
        connection = SimConnection(self, client, deliver, gone)
        self._connections[connection] = None
        return connection

    def stream_for(self, client: str) -> random.Random:
        """For the next connection between the two."""
        self._connected[client] += 1
        return self.world.stream(f"{client} to {self.node_id}, {self._connected[client]}")

    def forget(self, connection: SimConnection) -> None:
        del self._connections[connection]

    def cut_all(self) -> None:
        for connection in list(self._connections):
            connection.close("cut")

    # After every event

    def after_event(self) -> None:
        """The device works through what was submitted, one piece after the other, each after a while."""
        self.disk.now_ms = self.clock.now_ms()
        if self.disk.work_count and not self._disk_is_planned:
            self._disk_is_planned = True
            self.world.heap.call_later(self._disk_chance.randint(*self.disk_delay_ms), self._run_disk)

    def _run_disk(self) -> None:
        self._disk_is_planned = False
        self.disk.run(1)

    def check(self) -> None:
        """Every reference to a file has an owner: an open segment, the metadata file, an answer, work under way."""
        if self.broker is None:
            return
        expected = len(self.broker.logs.context.handles) + 1 + self.disk.work_references
        for connection in self._connections:
            expected += connection.slice_count()
        if self.disk.open_references != expected:
            raise Violation(f"{self.disk.open_references} references to files, and owners for {expected}")
