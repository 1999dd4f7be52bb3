"""Brokers are killed and come back with less, or other, than they wrote, while clients write and read: F9, F10, F11."""

import pytest

from chaos.support.cluster import Cluster
from chaos.support.damage import DAMAGES
from chaos.support.dice import dice as throw_dice
from chaos.support.workload import Workload
from compat.support.quick import lasting


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
@pytest.mark.parametrize("name", DAMAGES)
def test_a_broker_comes_back_with_damaged_files(cluster: Cluster, topic: str, name: str) -> None:
    """At once, as a quick restart after a power loss would: it must not lead before it has everything again."""
    dice = throw_dice()
    with Workload(cluster, topic, group=True) as workload:
        for number in range(lasting(1, 10)):
            leader = cluster.leader(topic)
            hurt = dice.choice(list(cluster.members)) if number else leader
            cluster.kill(hurt)
            DAMAGES[name](cluster.members[hurt].log_dir, dice)
            cluster.start(hurt)
            workload.await_progress()
            for each in (
                topic,
                "__consumer_offsets",
            ):  # or the next to be hurt could be the only one that has everything
                cluster.await_in_sync(each)
        workload.finish()
