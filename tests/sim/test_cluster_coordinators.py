"""Small clusters of groups and transactions, each from its seed: coordinators move from broker to broker and keep their
word.

`many_clusters.py` has many more of them.
"""

import pytest

from headwater.sim.cluster_clients.coordinating import ClusterConvertingMember
from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_faults import NO_FAULTS, ClusterFaults, only
from headwater.sim.stage import SimulationFailed

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


def test_a_member_does_not_own_by_the_word_of_a_coordinator_of_which_a_replica_in_sync_has_not_heard() -> None:
    """The replica may have records of the term before, undo that word with them when it leads next, and break no
    promise.
    """
    world = ClusterCoordinatorWorld(1, NO_FAULTS)
    for _ in range(2000):
        world.step()
        world.check()
    (member,) = (each for each in world.clients if each.name == "mixed-0")
    assert isinstance(member, ClusterConvertingMember)
    term = world.coordinator_of("mixed")
    assert term is not None
    broker = world.node(term[0]).broker
    assert broker is not None
    key = world._coordinating("mixed")
    assert key is not None
    in_sync = broker.partitions[key].in_sync
    assert in_sync is not None
    assert member.was_coordinated_by(term)
    follower = next(iter(in_sync.followers.values()))
    follower.log_end_offset = -1  # as at the beginning of a term
    assert not member.was_coordinated_by(term)


class HastyWorld(ClusterCoordinatorWorld):
    """Its coordinators end a session long before its member counts on that."""

    def properties(self) -> dict[str, str]:
        return {**super().properties(), "group.consumer.session.timeout.ms": "400"}


def _run_hasty_worlds() -> None:
    for seed in range(5):
        HastyWorld(seed, NO_FAULTS).run(3 * STEPS)


def test_a_partition_that_is_given_to_two_members_is_found() -> None:
    with pytest.raises(SimulationFailed, match=r"I14: .* both own partition"):
        _run_hasty_worlds()
