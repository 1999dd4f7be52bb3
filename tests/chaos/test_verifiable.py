"""The Java clients of Kafka's own system tests, while brokers die."""

from pathlib import Path

import pytest

from chaos.support.cluster import Cluster
from chaos.support.dice import dice as throw_dice
from chaos.support.verifiable import JavaWorkload
from compat.support.quick import lasting


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_what_java_was_told_stays_true_while_brokers_die(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    dice = throw_dice()
    with JavaWorkload(cluster, topic, tmp_path) as workload:
        for _ in range(lasting(2, 40)):
            victim = dice.choice([cluster.leader(topic), *cluster.members])
            cluster.kill(victim)
            workload.await_progress()
            cluster.start(victim)
            cluster.await_in_sync(topic)
            workload.await_progress()
        workload.finish()
