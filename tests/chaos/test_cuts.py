"""Brokers stand still, lose ZooKeeper, or lose each other, while clients write and read: F4, F5, F6, F7."""

import random
import time

import pytest

from chaos.support.cluster import SESSION_MS, Cluster
from chaos.support.dice import dice
from chaos.support.processes import WAIT_S
from chaos.support.workload import Workload
from compat.support.members import until
from compat.support.quick import lasting

SERVERS = 3
ROUNDS = lasting(1, 20)


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_leader_stands_still_and_comes_back(cluster: Cluster, topic: str) -> None:
    """Longer than its session: when it goes on it still thinks that it leads,
    and finds requests that came meanwhile.
    """
    with Workload(cluster, topic) as workload:
        for _ in range(ROUNDS):
            leader = cluster.leader(topic)
            cluster.pause(leader)
            cluster.await_leader_other_than(leader, topic)
            workload.await_progress()
            cluster.resume(leader)
            workload.await_progress()
            cluster.await_in_sync(topic)
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_leader_loses_zookeeper_only(cluster: Cluster, topic: str) -> None:
    """Its clients and followers still reach it, and it cannot know that another leads."""
    with Workload(cluster, topic) as workload:
        for _ in range(ROUNDS):
            leader = cluster.leader(topic)
            cluster.cut_from_zookeeper(leader)
            cluster.await_leader_other_than(leader, topic)
            workload.await_progress()
            cluster.heal()
            workload.await_progress()
            cluster.await_in_sync(topic)
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_leader_loses_its_followers_only(cluster: Cluster, topic: str) -> None:
    """It stays the leader, alone in sync: too few for these writers, until the followers are back."""
    with Workload(cluster, topic, partitions=1) as workload:
        for _ in range(ROUNDS):
            until(
                lambda: leads_alone(cluster, topic),
                lambda: f"{cluster.views(topic)}\n{cluster.logs()}",
                WAIT_S,
            )
            workload.expect_silence(0.5)
            cluster.heal()
            workload.await_progress()
            cluster.await_in_sync(topic)
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_leader_loses_one_follower(cluster: Cluster, topic: str) -> None:
    chance = dice()
    with Workload(cluster, topic, partitions=1) as workload:
        for _ in range(ROUNDS):
            apart: set[int] = set()
            until(
                lambda apart=apart: has_lost_one(cluster, topic, apart, chance),
                lambda: f"{cluster.views(topic)}\n{cluster.logs()}",
                WAIT_S,
            )
            workload.await_progress()
            cluster.heal()
            cluster.await_in_sync(topic)
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_ensemble_is_down(cluster: Cluster, topic: str) -> None:
    """Longer than the sessions of the brokers. First one server, which is no harm; then all of them."""
    with Workload(cluster, topic) as workload:
        cluster.kill_server(dice().randrange(len(cluster.servers)))
        workload.await_progress()
        cluster.start_servers()
        for index in range(len(cluster.servers)):
            cluster.kill_server(index)
        time.sleep(lasting(2 * SESSION_MS / 1000, 60))
        cluster.start_servers()
        workload.await_progress()
        cluster.make_topic(f"{topic}.more", 3)
        workload.finish()


def leads_alone(cluster: Cluster, topic: str) -> bool:
    """Cuts whoever leads now from the others: on a busy machine the leader may lose its session, and another be asked
    for.
    """
    leader, _, in_sync = cluster.describe(topic)[0]
    for other in cluster.members:
        if leader in cluster.members and other != leader:
            cluster.cut_between(leader, other)
    return in_sync == [leader]


def has_lost_one(cluster: Cluster, topic: str, apart: set[int], chance: random.Random) -> bool:
    """Cuts whoever leads now from a follower; these two are `apart`, and the one that does not lead leaves the set."""
    leader, _, in_sync = cluster.describe(topic)[0]
    if leader in cluster.members and leader not in apart:
        cluster.heal()
        apart.clear()
        apart.update((leader, chance.choice([number for number in cluster.members if number != leader])))
        cluster.cut_between(*apart)
    return leader in apart and not apart <= set(in_sync)
