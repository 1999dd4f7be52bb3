"""A query from topic to topic over three brokers keeps its promise while each of them dies and comes back, never two at
once.

Whatever a broker was at that moment (leader of the records, of the decisions or of the progress, coordinator of the
tasks' transactions or of the group, controller), the query goes on by itself, and in the end holds each input once.
"""

import time
from pathlib import Path

import pytest

from chaos.support.cluster import Cluster, running
from chaos.support.dice import dice as throw_dice
from compat.support.quick import lasting
from headwater.client import Admin
from spark.support.copying import PARTITIONS, PATIENCE_S, TOPIC, Copy, copies, lag, send

TASKS = 2
OF_THE_CLUSTER = ("__consumer_offsets", "__transaction_state", "_headwater.sink.decisions", "_headwater.sink.progress")


def await_all_in_sync(cluster: Cluster) -> None:
    for topic in (TOPIC, f"{TOPIC}.target", *OF_THE_CLUSTER):
        cluster.await_in_sync(topic)


@pytest.mark.soak
@pytest.mark.timeout(lasting(900, 7200))
def test_each_effect_once_while_brokers_die(tmp_path: Path) -> None:
    dice = throw_dice()
    settings = {"default_replication_factor": "3", "min_insync_replicas": "2"}
    with (
        running(tmp_path / "cluster", **settings) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap) as admin,
    ):
        for topic in (TOPIC, f"{TOPIC}.target"):
            cluster.make_topic(topic, PARTITIONS)
        sent = send(cluster.bootstrap, 0)
        with Copy(cluster.bootstrap, tmp_path, TASKS) as copy:
            copy.wait_for("batch")
            victims = dice.sample(sorted(cluster.members), len(cluster.members))
            for victim in victims * lasting(1, 10):
                await_all_in_sync(cluster)
                time.sleep(dice.uniform(0, 1))
                cluster.kill(victim)
                sent += send(cluster.bootstrap, len(sent))
                await_no_lag(admin, copy)  # with two brokers
                cluster.start(victim)
            sent += send(cluster.bootstrap, len(sent))
            await_no_lag(admin, copy)
        assert sorted(copies(cluster.bootstrap)) == sorted(f"copy of {value}" for value in sent)


def await_no_lag(admin: Admin, copy: Copy) -> None:
    """The offsets of the group follow a batch that is done."""
    deadline_s = time.monotonic() + PATIENCE_S
    while lag(admin):
        assert copy.alive, copy.log
        assert time.monotonic() < deadline_s, copy.log
        time.sleep(0.2)
