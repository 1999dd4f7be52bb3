"""Clusters in which the disk of a leader is full: it hands over, and nothing is lost if its successor is not there."""

import pytest

from headwater.sim.cluster_node import SESSION_MS, ClusterNode
from headwater.sim.disk import UNLIMITED
from sim.scene import Scene

LAG_MS = 800  # replica.lag.time.max.ms of simulated clusters

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


def end_of(scene: Scene, node: ClusterNode) -> int:
    assert node.broker is not None
    return node.broker.partitions[scene.key].log.log_end_offset


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_without_room_stays_in_sync_until_its_successor_has_shown_that_it_lives(seed: int) -> None:
    """Seed 3094112829: the successor had lost its power, its session lasted on, and it was left alone in sync with
    nothing.
    """
    scene = Scene(seed)
    scene.follower.lose_power()
    scene.follower.is_machine_on = False
    scene.leader.disk.faults.free_bytes = 0
    scene.for_ms(SESSION_MS)
    assert scene.leader.node_id in scene.state.in_sync
    scene.for_ms(SESSION_MS)
    assert scene.follower.start()
    scene.for_ms(3 * SESSION_MS)
    scene.leader.disk.faults.free_bytes = UNLIMITED
    scene.world.finish()


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_without_room_holds_nobody_up(seed: int) -> None:
    scene = Scene(seed)
    scene.leader.disk.faults.free_bytes = 0
    scene.until(lambda: scene.state.leader == scene.follower.node_id)
    scene.until(lambda: end_of(scene, scene.follower) > end_of(scene, scene.leader))
    at_ms = scene.world.clock.monotonic_ms()
    scene.until(lambda: scene.state.in_sync == (scene.follower.node_id,))
    assert scene.world.clock.monotonic_ms() - at_ms < LAG_MS
    scene.leader.disk.faults.free_bytes = UNLIMITED
    scene.until(lambda: len(scene.state.in_sync) == 2)
    scene.world.finish()
