"""Small clusters, each from its seed: whatever goes wrong in them, nothing that was promised is lost, and all comes
right again.

`many_clusters.py` has many more of them.
"""

import logging
import os
import subprocess
import sys

import pytest

from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_faults import NO_FAULTS, ClusterFaults, only
from headwater.sim.stage import SimulationFailed

WITH_ONE_FAULT = 3
STEPS = 1000


pytestmark = pytest.mark.usefixtures("only_errors_are_told")


@pytest.mark.parametrize(
    "faults",
    [
        only(0, cuts_per_mille=40),
        only(400, kill=1),
        only(400, power_loss=1),
        only(400, clean_restart=1),
        only(500, pause=1),
        only(400, partition=1, cut_from_followers=1),
        only(400, cut_from_zookeeper=2, session_lost=2, zookeeper_away=1),
    ],
    ids=["cuts", "kills", "power losses", "clean restarts", "pauses", "partitions", "ZooKeeper"],
)
def test_clusters_with_one_kind_of_fault_very_often(faults: ClusterFaults) -> None:
    for seed in range(WITH_ONE_FAULT):
        ClusterWorld(seed, faults).run(STEPS)


def test_all_that_clients_do_happens_in_a_cluster_without_faults() -> None:
    """Worlds in which nothing is done find nothing."""
    world = ClusterWorld(1, NO_FAULTS)
    world.run(2500)
    topics = {topic.name: topic for topic in world.catalog.topics.values()}
    assert {"plain-safe", "plain-quick", "durable"} <= topics.keys()
    for name in ("plain-safe", "plain-quick", "durable"):
        assert all(history.ends.latest > 10 for history in topics[name].partitions)


def test_leaders_change_and_brokers_come_back_in_clusters_with_faults() -> None:
    changes = lives = 0
    for seed in range(20):
        world = ClusterWorld(seed)
        world.run(STEPS)
        changes += world.state.leader_changes
        lives += sum(node.lives - 1 for node in world.nodes)
    assert changes > 10
    assert lives > 3


def test_the_same_seed_gives_the_same_trace_of_a_cluster_in_another_process() -> None:
    """Nothing may depend on where objects lie in memory or how strings are hashed."""
    hashes = {
        subprocess.run(
            [sys.executable, "-m", "headwater.sim", "--world", "cluster", "--seed", "12", "--steps", "1500"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ClusterWorld(3)
    monkeypatch.setattr(world, "check", _broken)
    with pytest.raises(SimulationFailed, match=r"ValueError: broken\n\n  make sim WORLD=cluster SEED=3 STEPS=10\n"):
        world.run(10)


def _broken() -> None:
    raise ValueError("broken")


def test_an_exception_that_was_only_written_down_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ClusterWorld(3)
    step = world.step

    def stumble() -> None:
        step()
        try:
            _broken()
        except ValueError:
            logging.getLogger("headwater.broker").exception("event=stumbled")

    monkeypatch.setattr(world, "step", stumble)
    with pytest.raises(SimulationFailed, match=r"an exception that nobody expected: event=stumbled"):
        world.run(10)
