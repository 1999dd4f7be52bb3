"""Clusters in which connections are refused: by machines whose brokers died, and by a network that lies about one that lives."""

from collections.abc import Callable

import pytest

from headwater.base.ids import PartitionKey
from headwater.controller.vigil import Vigil
from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_faults import NO_FAULTS
from headwater.sim.cluster_node import SESSION_MS
from headwater.sim.cluster_state import TrueState

STEPS_MAX = 3000
RECORDS = 5

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


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


@pytest.mark.parametrize("seed", range(5))
def test_another_leads_before_the_session_of_one_that_was_killed_has_ended(seed: int) -> None:
    scene = Scene(seed)
    scene.leader.kill()
    scene.until(lambda: scene.state.leader == scene.follower.node_id)
    assert scene.world.state.registration(scene.leader.node_id) is not None
    assert scene.state.in_sync == (scene.follower.node_id,)
    assert scene.leader.start()
    scene.world.finish()


@pytest.mark.parametrize("seed", range(5))
def test_one_that_lives_is_deposed_once_and_comes_back_although_it_is_refused_for_long(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubted: list[int] = []
    doubt = Vigil._doubt
    monkeypatch.setattr(
        Vigil, "_doubt", lambda vigil, watched: doubted.append(watched.broker_id) or doubt(vigil, watched)
    )
    scene = Scene(seed)
    scene.refuse(scene.leader.node_id)
    scene.until(lambda: scene.state.leader == scene.follower.node_id)
    scene.until(lambda: scene.leader.node_id in scene.state.in_sync)
    scene.for_ms(3 * SESSION_MS)
    assert scene.leader.node_id in scene.state.in_sync
    assert doubted == [scene.leader.node_id]
    scene.world.finish()


@pytest.mark.parametrize("seed", range(5))
def test_the_only_one_in_sync_is_not_deposed(seed: int) -> None:
    scene = Scene(seed)
    scene.follower.kill()
    scene.until(lambda: scene.state.in_sync == (scene.leader.node_id,))
    scene.leader.kill()
    scene.until(lambda: scene.world.state.registration(scene.leader.node_id) is None)
    assert scene.state.in_sync == (scene.leader.node_id,)
    assert scene.follower.start()
    scene.for_ms(3 * SESSION_MS)
    assert scene.state.leader != scene.follower.node_id
    assert scene.leader.start()
    scene.world.finish()


@pytest.mark.parametrize("seed", range(10))
def test_one_that_lost_its_power_is_not_left_alone_in_sync(seed: int) -> None:
    """Of two in sync, the follower loses what it had not synced, and the controller is refused by the leader, which lives and has all."""
    scene = Scene(seed)
    scene.follower.lose_power()
    scene.follower.is_machine_on = False
    scene.refuse(scene.leader.node_id)
    scene.for_ms(SESSION_MS // 2)
    assert scene.follower.start()
    scene.for_ms(3 * SESSION_MS)
    scene.world.finish()
