"""Small clusters of groups and transactions, each from its seed: coordinators move from broker to broker and keep their
word.

`many_clusters.py` has many more of them.
"""

import pytest

from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_faults import NO_FAULTS, ClusterFaults, only

WITH_ONE_FAULT = 3
STEPS = 1000


pytestmark = pytest.mark.usefixtures("only_errors_are_told")


@pytest.mark.parametrize(
    "faults",
    [
        only(0, cuts_per_mille=40),
        only(500, kill=1, clean_restart=1),
        only(500, partition=1, cut_from_followers=1),
        only(500, cut_from_zookeeper=1, session_lost=1, pause=1),
    ],
    ids=["cuts", "restarts", "partitions", "brokers that are deposed"],
)
def test_clusters_of_coordinators_with_one_kind_of_fault_very_often(faults: ClusterFaults) -> None:
    for seed in range(WITH_ONE_FAULT):
        ClusterCoordinatorWorld(seed, faults).run(STEPS)


def test_all_that_coordinators_do_happens_in_a_cluster_without_faults() -> None:
    """Worlds in which nothing is done find nothing. What one world does is its dice's; a few together do everything."""
    worlds = [ClusterCoordinatorWorld(seed, NO_FAULTS) for seed in range(1, 5)]
    for world in worlds:
        world.run(4000)
    transactions = [each for world in worlds for each in world.transactions.transactions]
    ended = [transaction.is_committed for transaction in transactions]
    assert ended.count(True) > 12
    assert ended.count(False) > 5
    assert any(t.has_offsets and t.is_committed for t in transactions)
    assert max(world.groups.generation("classic") for world in worlds) > 1
    assert any(world.groups._claims for world in worlds), "nobody has owned anything by the word of a true coordinator"
