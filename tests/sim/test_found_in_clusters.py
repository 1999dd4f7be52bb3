"""What the simulated cluster has found, each as small as it can be told. The worlds that found them change; the bugs
stay named.
"""

import pytest

from headwater.base.errors import KafkaError
from headwater.log.rolling import cross_gap
from headwater.sim.disk import UNLIMITED, SimDisk
from headwater.sim.gaps import go_on_further
from unit.replication.cluster_lab import ClusterLab


class Lowest:
    """Chance at its worst: of what was not synced, nothing is kept."""

    def randint(self, low: int, high: int) -> int:
        return low

    def random(self) -> float:
        return 0.0


def worst(disk: SimDisk) -> None:
    disk._chance = Lowest()  # type: ignore[assignment]


@pytest.fixture(name="lab")
def lab_fixture() -> ClusterLab:
    lab = ClusterLab(3, replicas=2)
    lab.run(600)
    return lab


def test_a_leader_that_lost_power_led_on_before_the_controller_knew_and_its_follower_cut_off_what_was_committed(
    lab: ClusterLab,
) -> None:
    for _ in range(5):
        lab.produce(1)
    lab.run(600)
    assert lab.replica(1).high_watermark == 5
    worst(lab.nodes[1].disk)
    lab.kill(1, power_loss=True)
    lab.restart(1)  # the state says still that it leads
    lab.run(1000)
    assert lab.replica(1).log.log_end_offset < 5
    assert not lab.replica(1).is_leader
    assert lab.replica(2).log.log_end_offset == 5
    lab.elect(2, in_sync=[2])
    lab.run(2000)
    assert lab.content(1) == lab.content(2)
    assert lab.replica(1).log.log_end_offset == 5


def test_a_broker_leads_on_with_a_new_session_since_it_has_lost_nothing(lab: ClusterLab) -> None:
    leading = lab.replica(1)
    lab._register(lab.nodes[1])
    assert lab.replica(1) is leading
    assert leading.is_leader


def test_a_high_watermark_told_with_a_divergence_was_never_told_again_and_the_follower_stayed_behind(
    lab: ClusterLab,
) -> None:
    for _ in range(4):
        lab.produce(1)
    lab.run(600)
    lab.cut = {(2, 1)}
    lab.run(600)
    lab.produce(1, acks=1)  # which 2 never gets
    lab.kill(1)
    lab.elect(2, in_sync=[2])
    lab.restart(1)
    lab.run(3000)
    assert lab.content(1) == lab.content(2)
    assert lab.replica(1).high_watermark == lab.replica(2).high_watermark == 4


def test_a_leader_whose_disk_was_full_when_its_term_began_told_followers_that_it_did_not_know_the_epoch_before_its_own(
    lab: ClusterLab,
) -> None:
    """Its log was empty, and nobody wrote to it: so its epoch never began, and the follower never came in sync. Seed
    10000035.
    """
    lab.nodes[1].disk.faults.free_bytes = 0
    lab.elect(2)
    lab.run(600)
    lab.elect(1, in_sync=[1])
    lab.nodes[1].disk.faults.free_bytes = UNLIMITED
    lab.run(3000)
    assert lab.state().in_sync_replicas == [1, 2]


def test_a_follower_with_another_history_kept_what_its_leader_had_deleted_and_could_take_nothing_behind_it(
    lab: ClusterLab,
) -> None:
    """The leader's log begins inside a batch, at the offset where the follower cut its own records off. Seed 67 of
    cluster-storage.
    """
    lab.cut = {(2, 1), (1, 2)}
    lab.run(600)
    lab.produce(1, count=4, acks=1)
    lab.elect(2, in_sync=[2])
    lab.produce(2)
    lab.produce(2, count=5)
    lab.run(100)
    lab.replica(2).log.delete_records_before(4)
    lab.cut = set()
    lab.run(3000)
    assert lab.state().in_sync_replicas == [2, 1]
    first, second = lab.replica(1).log, lab.replica(2).log
    assert (first.log_start_offset, first.log_end_offset) == (second.log_start_offset, second.log_end_offset) == (4, 6)


def test_followers_cross_a_gap_wider_than_an_index_can_tell(lab: ClusterLab) -> None:
    """They never had anything behind it: the error came when it was written already, and again with every fetch."""
    lab.produce(1)
    lab.run(600)
    log = lab.replica(1).log
    cross_gap(log, log.log_end_offset + (3 << 31), lab.clock.now_ms())
    lab.produce(1)
    lab.produce(1)
    lab.run(600)
    assert lab.replica(1).high_watermark == lab.replica(2).log.log_end_offset == (3 << 31) + 3
    assert lab.content(1) == lab.content(2)


def test_a_leader_that_had_no_room_behind_a_gap_forgot_its_term_and_nobody_could_follow_it(lab: ClusterLab) -> None:
    """By the simulation's hand: no leader truncates its log. Seed 3271860479 of cluster-storage."""
    lab.elect(2, in_sync=[2])
    disk, partition = lab.nodes[2].disk, lab.replica(2)
    disk.faults.free_bytes = 10_000
    with pytest.raises(KafkaError, match="No space left"):
        go_on_further(partition, 1 << 31, bytes(20_000), lab.clock.now_ms())
    disk.faults.free_bytes = UNLIMITED
    assert (partition.log.log_start_offset, partition.log.log_end_offset) == (0, 0)
    lab.run(3000)
    assert lab.state().in_sync_replicas == [2, 1]
