"""Clusters whose logs are trimmed, or may lose: what was deleted stays deleted, what may be lost is lost on every
replica.

`many_clusters.py` has many more of them.
"""

import pytest

from headwater.sim.cluster_faults import NO_FAULTS, ClusterFaults, only
from headwater.sim.cluster_history import ClusterHistory, LossyHistory, TrimmedHistory
from headwater.sim.cluster_storage import ClusterStorageWorld
from headwater.sim.trace import Violation

STEPS = 1000


pytestmark = pytest.mark.usefixtures("only_errors_are_told")


@pytest.mark.parametrize(
    "faults",
    [only(400, failed_sync=1), only(300, cut_from_followers=1, slow_disk=1), only(400, kill=1, clean_restart=1)],
    ids=["failed syncs", "followers that lag", "restarts"],
)
def test_clusters_of_such_logs_with_one_kind_of_fault_very_often(faults: ClusterFaults) -> None:
    for seed in range(3):
        ClusterStorageWorld(seed, faults).run(STEPS)


def test_records_are_deleted_and_followers_are_read_in_a_cluster_without_faults() -> None:
    """Worlds in which nothing is done find nothing."""
    world = ClusterStorageWorld(1, NO_FAULTS)
    world.run(2500)
    histories = {history.name: history for topic in world.catalog.topics.values() for history in topic.partitions}
    trimmed = [history for history in histories.values() if isinstance(history, TrimmedHistory)]
    assert len(trimmed) == 6
    assert sum(history.deleted_up_to > 0 for history in trimmed) >= 2
    starts = [
        partition.log.log_start_offset
        for node in world.nodes
        if node.broker is not None
        for partition in node.broker.partitions.values()
        if partition.topic == "trimmed-brief"
    ]
    assert max(starts) > 0


def test_leaders_come_from_outside_the_in_sync_replicas_where_that_is_allowed() -> None:
    for seed in range(90, 490):  # one in a hundred has one; so far it is 96
        world = ClusterStorageWorld(seed, only(250, kill=2, cut_from_followers=3))
        world.run(STEPS)
        if world.state.unclean_elections:
            return
    raise AssertionError("no world had one")


def test_what_was_deleted_is_not_back_unless_a_broker_died() -> None:
    history = TrimmedHistory("clicks-0", False, lambda _end: None)
    history.deleted(5)
    history.deleted(3)
    history.told_earliest(2, history.ends)  # by a leader that has not heard of it
    history.audited(5, 7)
    with pytest.raises(Violation, match="I15: clicks-0 was deleted up to 5, and begins at 4"):
        history.audited(4, 7)
    history.broker_died()
    history.audited(0, 7)


def test_what_may_be_lost_may_be_another_later_and_what_may_not_must_stay() -> None:
    for kind, is_allowed in ((LossyHistory, True), (ClusterHistory, False)):
        history = kind("clicks-0", False, lambda _end: None)
        history.sent(b"a")
        history.sent(b"b")
        history.acknowledged(0, [b"a"])
        if is_allowed:
            history.seen(0, b"b")
            history.audited(0, 0)
        else:
            with pytest.raises(Violation, match="I2"):
                history.seen(0, b"b")
            with pytest.raises(Violation, match="I1"):
                history.audited(0, 0)
