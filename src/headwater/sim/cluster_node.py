"""A machine of a cluster: a broker that joins others, may stand still for a while, and hands over before it stops.

Between `start` and `is_serving` lies what the real one does: a session with ZooKeeper, the cluster's id, its logs, its
registration, the image. Owned by the world.
"""

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import BrokerId, PartitionKey
from headwater.broker.broker import Broker
from headwater.metadata.image import Endpoint
from headwater.server.assembly import Assembly
from headwater.sim.cluster_network import ClientEnd, ClusterConnection
from headwater.sim.cluster_proposals import Proposals
from headwater.sim.network import SimConnection
from headwater.sim.node import PROPERTIES, SimNode
from headwater.sim.peers import REFUSED, Refusal, SimPeers
from headwater.sim.scheduler import ProcessScheduler, SimRandom
from headwater.sim.trace import Violation
from headwater.sim.zookeeper_client import SimCoordination

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld

SESSION_MS: Final = 700
DIRECTORIES: Final = ("/data", "/more")
_LEAVE_MS: Final = 5000
_PAUSED_DISK_MS: Final = 50


class ClusterNode(SimNode):
    world: "ClusterWorld"

    def __init__(self, world: "ClusterWorld", node_id: int) -> None:
        super().__init__(world, node_id)
        self.place = str(node_id)
        self.is_serving = False
        self.is_paused = False
        self.is_up = False  # the process lives, serving or not yet
        self.is_machine_on = True  # while it is, connections to a process that does not serve are refused
        self.has_run = False  # since the world last looked
        self.coordination: SimCoordination | None = None
        self.proposals = Proposals(world.clock.monotonic_ms, lambda: world.zookeeper.delay_ms_max)
        self._outgoing: list[ClusterConnection] = []  # to other brokers
        self._told: dict[PartitionKey, tuple[int, int, int, bool]] = {}
        self._generation = 0  # of the process, so that late callbacks of an earlier one are known

    def start(self) -> bool:
        self.has_run = True
        self.lives += 1
        self._generation += 1
        generation = self._generation
        self.is_up = self.is_machine_on = True
        self.disk.now_ms = self.clock.now_ms()
        self._scheduler = ProcessScheduler(self.clock, self.world.heap, self._runs)
        self.coordination = self.world.zookeeper.client(self._scheduler, SESSION_MS)
        if self.world.is_cut_from_zookeeper(self):
            self.world.zookeeper.cut_off(self.coordination)
        self._peers = SimPeers(self._scheduler, self.clock, f"broker-{self.place}", self._dial)
        self._assembly = Assembly(
            BrokerConfig({**PROPERTIES, **self.world.properties(), **self._own_properties()}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(self.world.seed * 1009 + self.node_id * 101 + self.lives),
            scheduler=self._scheduler,
            coordination=self.coordination,
            peers=self._peers,
        )
        self._assembly.on_all_failed = self._give_up
        try:
            self._assembly.open(lambda broker: self._join(generation, broker))
        except (UserError, OSError) as problem:
            self.world.note(f"node {self.node_id} does not start: {problem}")
            self._end()
            return False
        return True

    def _give_up(self, why: str) -> None:
        """As the real one does when no log directory is left. What runs comes to its end first."""
        generation = self._generation

        def end() -> None:
            if generation == self._generation:
                self.world.note(f"node {self.node_id} gives up: {why}")
                self.kill()

        self.world.heap.call_later(0, end)

    def _own_properties(self) -> dict[str, str]:
        return {
            "node.id": self.place,
            "listeners": f"PLAINTEXT://node{self.place}:9092",
            "broker.rack": f"rack{self.node_id % 2}",
            "log.dirs": ",".join(DIRECTORIES),
        }

    def _tell_logs(self, what: str) -> None:
        """What it has of each partition, for a story."""
        if self.world.story is not None and self.broker is not None:
            for partition, log in self.broker.logs.logs.items():
                extent = f"[{log.log_start_offset}, {log.log_end_offset})"
                self.world.tell(str(partition), f"node {self.node_id} {what} {extent}")

    def tell_changes(self) -> None:
        """Of its partitions since the last time, for a story."""
        for key, partition in self.broker.partitions.items() if self.broker is not None else ():
            log = partition.log
            now = (log.log_start_offset, partition.high_watermark, log.log_end_offset, partition.is_leader)
            if self._told.get(key) != now:
                self._told[key] = now
                what = "leads with" if partition.is_leader else "follows with"
                self.world.tell(
                    str(log.partition),
                    f"node {self.node_id} {what} [{now[0]}, {now[2]}) and a high watermark of {now[1]}",
                )

    def _join(self, generation: int, broker: Broker) -> None:
        self.broker = broker
        self.proposals.watch(broker.store)
        self._tell_logs("comes back with")

        def joined(problem: KafkaError | None) -> None:
            if generation != self._generation:
                return
            if problem is not None:
                raise Violation(f"I16: node {self.node_id} cannot join: {problem}")
            self.is_serving = True
            self.world.note(f"node {self.node_id} serves")

        self._assembly.join(broker, [Endpoint("PLAINTEXT", f"node{self.place}", 9092)], joined)

    def lose_power(self) -> None:
        """Nobody is left to close connections: others notice when no answer comes."""
        self._tell_logs("loses its power with")
        self._outgoing.clear()
        super().lose_power()
        self.is_machine_on = self._disk_chance.random() < 0.5  # again, soon

    def _end(self) -> None:
        self.has_run = True
        for connection in self._outgoing:
            connection.leave()
        self._outgoing.clear()
        self.is_serving = self.is_up = self.is_paused = False
        self._generation += 1
        self.proposals.process_ended()
        super()._end()
        self.coordination = None

    def _runs(self) -> None:
        self.has_run = True
        self.world.running = self.node_id
        self.disk.now_ms = self.clock.now_ms()

    # Standing still

    def pause(self) -> None:
        self.is_paused = True
        self._scheduler.pause()

    def resume(self) -> None:
        self.is_paused = False
        self._scheduler.resume()

    def enter(self, function: Callable[[], None]) -> None:
        """What comes over the network is handled when the process runs."""
        self._scheduler.enter(function)

    def _run_disk(self) -> None:
        if self.is_up and self.is_paused:
            self.world.heap.call_later(_PAUSED_DISK_MS, self._run_disk)
        else:
            self._runs()
            super()._run_disk()

    @property
    def has_failed_directory(self) -> bool:
        return self.broker is not None and bool(self.broker.logs.failed_directories())

    def notice_failure(self, directory: str) -> None:
        """Of one of its log directories, with the first thing that it reads or writes there."""
        found = [] if self.broker is None else self.broker.logs.logs.values()
        log = next((log for log in found if log.directory.startswith(f"{directory}/")), None)
        if log is not None:
            self.enter(lambda: log.fail(OSError(errno.EIO, os.strerror(errno.EIO), log.directory)))

    # Stopping

    def stop_cleanly(self, done: Callable[[], None]) -> None:
        """Hands its leaderships over, as long as its patience lasts; then closes everything."""
        generation = self._generation
        self.has_run = True

        def left() -> None:
            if generation == self._generation and self.broker is not None:
                self._generation += 1
                self.stop()
                done()

        def given_up() -> None:
            self._scheduler.enter(left)

        self._assembly.leave(left)
        self.world.heap.call_later(_LEAVE_MS, given_up)

    def stop(self) -> None:
        assert self.broker is not None
        self.is_serving = False
        for connection in list(self._connections):
            connection.close("the broker is shutting down")
        self._peers.close()
        self.disk.run()
        self._assembly.close()
        self._scheduler.die()
        if self.disk.open_references:
            raise Violation(f"{self.disk.open_references} references to files after a clean stop")
        self._end()

    # Connections

    def _dial(
        self, broker: BrokerId, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> ClientEnd | Refusal | None:
        """To another broker, from this process: it hears nothing while it stands still, or when it is dead."""
        enter = self._scheduler.enter
        connection = self.world.network.connect(
            self.place,
            self.world.node(broker),
            lambda data: enter(lambda: deliver(data)),
            lambda why: enter(lambda: gone(why)),
        )
        if connection is None or connection is REFUSED:
            return connection
        self._outgoing = [each for each in self._outgoing if not each.closed]
        self._outgoing.append(connection)
        return ClientEnd(connection)

    def accept(self, connection: SimConnection) -> None:
        self._connections[connection] = None

    def after_event(self) -> None:
        if self.disk.work_count or self.is_up:
            super().after_event()

    def check(self) -> None:
        if self.broker is None or not self.is_serving:
            return
        expected = len(self.broker.logs.context.handles) + self.disk.work_references
        for connection in self._connections:
            expected += connection.slice_count()
        if self.disk.open_references != expected:
            raise Violation(
                f"node {self.node_id}: {self.disk.open_references} references to files, and owners for {expected}"
            )
