"""Brokers are killed (SIGKILL) at random moments while clients write and read: F1, F2, F3, F8."""

import random
import time

import pytest

from chaos.support.cluster import Cluster
from chaos.support.workload import Workload
from compat.support.quick import lasting


def test_a_cluster_serves_through_every_broker(cluster: Cluster, topic: str) -> None:
    for number in cluster.members:
        cluster.make_topic(f"{topic}.{number}", 3, through=number)
        assert len(cluster.describe(f"{topic}.{number}")) == 3
    with Workload(cluster, topic) as workload:
        workload.await_progress()
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(240, 3600))
def test_the_leader_dies_in_the_middle_of_appends(cluster: Cluster, topic: str) -> None:
    dice = random.Random(time.time_ns())
    with Workload(cluster, topic) as workload:
        for _ in range(lasting(2, 50)):
            time.sleep(dice.uniform(0, 0.5))
            leader = cluster.leader(topic)
            cluster.kill(leader)
            cluster.await_leader_other_than(leader, topic)
            workload.await_progress()
            cluster.start(leader)
            cluster.await_in_sync(topic)
        workload.finish()
