"""Clusters in which a log directory of a leader fails: it hands over, and judges nobody until then."""

import pytest

from headwater.sim.cluster_injector import _is_full
from headwater.sim.cluster_node import DIRECTORIES, SESSION_MS, ClusterNode
from sim.scene import Scene

TICK_MS = 500  # between two looks at everything

pytestmark = pytest.mark.usefixtures("only_errors_are_told")


def end_of(scene: Scene, node: ClusterNode) -> int:
    assert node.broker is not None
    return node.broker.partitions[scene.key].log.log_end_offset


def fail_disk(scene: Scene, node: ClusterNode) -> None:
    """The directory that the partition lies in, and the broker notices."""
    assert node.broker is not None
    log = node.broker.partitions[scene.key].log
    directory = next(each for each in DIRECTORIES if log.directory.startswith(f"{each}/"))
    node.disk.fail(directory)
    node.notice_failure(directory)
    scene.until(lambda: log.failed is not None)


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_whose_log_has_failed_leaves_its_followers_in_sync(seed: int) -> None:
    """They lagged because it could send them nothing. It put them out of sync before it could resign, stayed alone in
    sync, and came back without what its disk had lost. What it says at once is not heard here, as when the state has
    just changed: it looks again with the next tick.
    """
    scene = Scene(seed)
    scene.leader._assembly.logs.on_directory_failed = lambda: None
    pair = frozenset((scene.leader.place, scene.follower.place))
    scene.world.network.block([pair])
    scene.until(lambda: end_of(scene, scene.leader) > end_of(scene, scene.follower))
    assert scene.follower.node_id in scene.state.in_sync
    fail_disk(scene, scene.leader)
    scene.until(lambda: scene.state.leader == scene.follower.node_id)
    scene.world.network.free([pair])
    scene.leader.kill()
    scene.for_ms(2 * SESSION_MS)
    scene.leader.disk.mend()
    assert scene.leader.start()
    scene.until(lambda: len(scene.state.in_sync) == 2)
    scene.world.finish()


def test_a_broker_that_lost_a_directory_is_started_again_whenever_that_becomes_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seeds 71000223 and 71000483: after two seconds in which nobody could do without it, the world let it be, for
    ever.
    """
    scene = Scene(0)
    injector, node, may_lose_power = scene.world._injector, scene.leader, [False]
    monkeypatch.setattr(injector, "_may_lose_power", lambda _node: may_lose_power[0])
    fail_disk(scene, scene.leader)
    lives = node.lives
    injector._failed_syncs.add(node.node_id)
    injector._after_failed_sync(node)
    scene.for_ms(4000)
    assert node.lives == lives
    node.disk.mend()
    may_lose_power[0] = True
    scene.until(lambda: node.lives > lives and node.is_serving)
    scene.world.finish()


def test_a_second_fsync_fails_only_when_the_machine_of_the_first_has_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 1806983099 of cluster: they had no partition in common then. Later they had one, and each waited for the
    other one to be well again before it started.
    """
    scene = Scene(0)
    injector, first, second = scene.world._injector, scene.leader, scene.follower
    monkeypatch.setattr(injector, "_may_lose_power", lambda _node: True)
    assert injector._may_fail_sync(first)
    assert injector._may_fail_sync(first)  # all that its broker tries to sync
    assert not injector._may_fail_sync(second)
    injector._after_failed_sync(first)
    assert injector._may_fail_sync(second)


def about_to_be_alone(scene: Scene) -> None:
    """The leader has proposed to leave the follower out, and ZooKeeper does not have it yet."""
    leader, follower = scene.leader, scene.follower
    scene.world.zookeeper.delay_ms_max = 40
    scene.world.network.block([frozenset((leader.place, follower.place))])
    assert scene.world._injector._may_lose_power(leader)
    scene.until(lambda: leader.proposals.is_under_way(scene.key))
    assert follower.node_id in scene.state.in_sync


def test_no_fsync_fails_on_a_leader_that_is_about_to_be_alone_in_sync() -> None:
    """Seeds 4278690813, 4278693256 and 4278698649 of cluster: ZooKeeper did not have it yet, and a millisecond later
    the only replica in sync had a failed directory. Nobody could follow it or take over from it, as in Apache Kafka.
    """
    scene = Scene(0)
    injector, leader, follower = scene.world._injector, scene.leader, scene.follower
    about_to_be_alone(scene)
    assert not injector._may_fail_sync(leader)
    assert not injector._may_lose_power(leader)
    scene.until(lambda: not leader.proposals.is_under_way(scene.key))
    assert scene.state.in_sync == (leader.node_id,)
    assert not injector._may_lose_power(leader)
    scene.world.network.free()
    scene.until(lambda: injector._may_lose_power(leader))
    assert scene.state.in_sync == (leader.node_id, follower.node_id)
    scene.world.finish()


def test_the_power_of_a_leader_that_died_is_not_taken_while_its_last_word_is_under_way() -> None:
    scene = Scene(0)
    injector, leader = scene.world._injector, scene.leader
    about_to_be_alone(scene)
    leader.kill()
    assert not injector._may_lose_power(leader)
    scene.until(lambda: not leader.proposals.is_under_way(scene.key))
    scene.world.network.free()
    assert leader.start()
    scene.until(lambda: leader.is_serving and injector._may_lose_power(leader))
    scene.world.finish()


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("seed", range(5))
def test_who_has_lost_a_directory_says_so_at_once(seed: int, role: str) -> None:
    """Seed 72000063 of cluster-coordinators: the controller did not know it for half a second, let it lead alone in
    place of one that stopped, and nobody could follow it.
    """
    scene = Scene(seed)
    node = scene.leader if role == "leader" else scene.follower
    fail_disk(scene, node)
    began_ms = scene.world.clock.monotonic_ms()
    scene.until(lambda: node.node_id not in scene.state.in_sync)
    assert scene.world.clock.monotonic_ms() - began_ms < TICK_MS // 4


def test_no_disk_fails_where_the_other_one_is_full() -> None:
    """Seed 3297298183 of cluster-storage: a leader's fsync failed, and the follower, which it named as the next leader,
    left the in-sync replicas in that moment, because it had no room. So the leader stayed, alone and failed.
    """
    scene = Scene(0)
    injector, leader, follower = scene.world._injector, scene.leader, scene.follower
    follower.disk.faults.free_bytes = 100
    assert injector._may_lose_power(leader), "the follower has all that is committed"
    assert not injector._may_lose_disk(leader)
    assert not injector._may_fail_sync(leader)
    injector._disk_mended(follower)
    assert injector._may_fail_sync(leader)


def test_no_disk_is_full_while_the_other_one_has_failed() -> None:
    scene = Scene(0)
    injector, leader, follower = scene.world._injector, scene.leader, scene.follower
    injector._some_node = lambda: follower  # type: ignore[method-assign]
    fail_disk(scene, leader)
    injector._fill_disk()
    assert not _is_full(follower)
