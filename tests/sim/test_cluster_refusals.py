"""Clusters in which connections are refused: by machines whose brokers died, and by a network that lies about one that
lives.
"""

import pytest

from headwater.controller.failure_detector import FailureDetector
from headwater.sim.cluster_node import SESSION_MS
from sim.scene import Scene

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


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
    doubt = FailureDetector._doubt
    monkeypatch.setattr(
        FailureDetector,
        "_doubt",
        lambda failure_detector, watched: doubted.append(watched.broker_id) or doubt(failure_detector, watched),
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
    """Of two in sync, the follower loses what it had not synced, and the controller is refused by the leader, which
    lives and has all.
    """
    scene = Scene(seed)
    scene.follower.lose_power()
    scene.follower.is_machine_on = False
    scene.refuse(scene.leader.node_id)
    scene.for_ms(SESSION_MS // 2)
    assert scene.follower.start()
    scene.for_ms(3 * SESSION_MS)
    scene.world.finish()
