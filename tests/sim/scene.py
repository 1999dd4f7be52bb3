"""A cluster without faults of its own, in which a test makes a few happen by hand."""

from collections.abc import Callable
from typing import Final

from headwater.base.ids import PartitionKey
from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_faults import NO_FAULTS
from headwater.sim.cluster_node import SESSION_MS
from headwater.sim.cluster_state import TrueState

STEPS_MAX: Final = 3000
RECORDS: Final = 5


class Scene:
    """A cluster that is well, and a partition that has two replicas and whose leader is not the controller."""

    def __init__(self, seed: int) -> None:
        self.world = ClusterWorld(seed, NO_FAULTS)
        while not self._happens(lambda: self._find() is not None):
            coordination = self.world.node(self.controller).coordination
            assert coordination is not None
            self.world.zookeeper.expire(coordination.session_id)  # so that another one is the controller
            self.for_ms(2 * SESSION_MS)
        found = self._find()
        assert found is not None
        self.key, state = found
        self.leader = self.world.node(state.leader)
        self.follower = self.world.node(next(number for number in state.in_sync if number != state.leader))

    def _find(self) -> tuple[PartitionKey, TrueState] | None:
        """With records that nobody has synced yet."""
        for key, state in self.world.state.partitions.items():
            if state.topic == "plain-quick" and len(state.in_sync) == 2 and self.controller not in state.in_sync:
                broker = self.world.node(state.leader).broker
                partition = None if broker is None else broker.partitions.get(key)
                if partition is not None and partition.high_watermark >= RECORDS:
                    return key, state
        return None

    @property
    def controller(self) -> int:
        return next((node.node_id for node in self.world.nodes if is_controller(node.broker)), 0)

    @property
    def state(self) -> TrueState:
        return self.world.state.partitions[self.key]

    def until(self, condition: Callable[[], bool]) -> None:
        assert self._happens(condition), "it never happened"

    def _happens(self, condition: Callable[[], bool]) -> bool:
        for _ in range(STEPS_MAX):
            if condition():
                return True
            self.world.step()
            self.world.check()
        return False

    def for_ms(self, duration_ms: int) -> None:
        end_ms = self.world.clock.monotonic_ms() + duration_ms
        self.until(lambda: self.world.clock.monotonic_ms() >= end_ms)

    def refuse(self, node_id: int) -> None:
        """The controller is refused where it lives; every connection between them is reset."""
        pair = frozenset((str(self.controller), str(node_id)))
        network = self.world.network
        while any(connection.pair == pair and not connection.closed for connection in network._open):
            network.block([pair], refuses=True)
        network.block([pair], refuses=True)


def is_controller(broker: object) -> bool:
    controller = getattr(broker, "controller", None)
    return controller is not None and controller.is_active
