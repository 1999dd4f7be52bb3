"""A controller whose only log directory has failed:
until it ends, a moment later, it elects others and never itself.
"""

import errno

import pytest

from headwater.base.ids import NO_BROKER, PartitionKey
from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_faults import NO_FAULTS
from headwater.sim.cluster_node import ClusterNode
from headwater.sim.cluster_state import TrueState

STEPS_MAX = 3000

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


class Scene:
    """A cluster that is well, and a partition with two in sync: another one leads it, the controller follows."""

    def __init__(self, seed: int) -> None:
        self.world = ClusterWorld(seed, NO_FAULTS)
        found = None
        for number in range(10 * STEPS_MAX):
            found = self._find()
            if found is not None:
                break
            self.step()
            if number % STEPS_MAX == STEPS_MAX - 1:
                self._other_controller()
        assert found is not None, "the controller follows nobody"
        self.key, self.controller, state = found
        self.leader = self.world.node(state.leader)

    def _other_controller(self) -> None:
        for node in self.world.nodes:
            if node.broker is not None and node.broker.controller is not None and node.broker.controller.is_active:
                assert node.coordination is not None
                self.world.zookeeper.expire(node.coordination.session_id)

    def _find(self) -> tuple[PartitionKey, ClusterNode, TrueState] | None:
        for node in self.world.nodes:
            if node.broker is None or node.broker.controller is None or not node.broker.controller.is_active:
                continue
            for key, state in self.world.state.partitions.items():
                follows = node.node_id in state.in_sync and state.leader not in (NO_BROKER, node.node_id)
                if follows and len(state.in_sync) == 2 and self._has_records(key, state):
                    return key, node, state
        return None

    def _has_records(self, key: PartitionKey, state: TrueState) -> bool:
        broker = self.world.node(state.leader).broker
        partition = None if broker is None else broker.partitions.get(key)
        return partition is not None and partition.high_watermark > 0

    @property
    def state(self) -> TrueState:
        return self.world.state.partitions[self.key]

    def step(self) -> None:
        self.world.step()
        self.world.check()

    def fail_logs(self) -> None:
        assert self.controller.broker is not None
        for log in list(self.controller.broker.logs.logs.values()):
            log.fail(OSError(errno.EIO, "Input/output error"))

    def kill_leader(self) -> None:
        """Nobody waits for the end of its session."""
        coordination = self.leader.coordination
        assert coordination is not None
        self.leader.kill()
        self.world.zookeeper.expire(coordination.session_id)


@pytest.mark.parametrize("seed", range(1, 6))
def test_it_is_not_left_as_the_only_one_in_sync_when_the_leader_dies(seed: int) -> None:
    scene = Scene(seed)
    leader, controller = scene.leader.node_id, scene.controller.node_id
    scene.fail_logs()
    scene.kill_leader()
    for _ in range(STEPS_MAX):
        scene.step()
        assert scene.state.leader != controller
        if not scene.controller.is_up:
            break
    assert not scene.controller.is_up
    assert leader in scene.state.in_sync
    assert scene.leader.start()
    assert scene.controller.start()
    scene.world.finish()
