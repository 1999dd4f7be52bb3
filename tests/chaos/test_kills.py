"""Brokers are killed (SIGKILL) at random moments while clients write and read: F1, F2, F3, F8."""

import random
import time

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chaos.support.cluster import Cluster
from chaos.support.dice import dice as throw_dice
from chaos.support.processes import WAIT_S
from chaos.support.workload import Workload
from compat.support.members import until
from compat.support.quick import lasting

SERVERS = 3
ATTEMPTS = 5  # to kill two while the third keeps up


def test_a_cluster_serves_through_every_broker(cluster: Cluster, topic: str) -> None:
    for number in cluster.members:
        cluster.make_topic(f"{topic}.{number}", 3, through=number)
        assert len(cluster.describe(f"{topic}.{number}")) == 3
    with Workload(cluster, topic) as workload:
        workload.await_progress()
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_leader_dies_in_the_middle_of_appends(cluster: Cluster, topic: str) -> None:
    dice = throw_dice()
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


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_a_follower_and_then_the_leader_die(cluster: Cluster, topic: str) -> None:
    """Before the high watermark has spread: who follows next cuts its log by epochs, not by what it thinks is
    committed.
    """
    dice = throw_dice()
    with Workload(cluster, topic, partitions=1) as workload:
        for _ in range(lasting(1, 30)):
            leader, follower, last = leave_one(cluster, topic, dice)
            cluster.start(follower)
            workload.await_progress()
            cluster.await_in_sync(topic, 2)
            cluster.kill(last)
            assert cluster.await_leader_other_than(last, topic) == follower
            cluster.start(leader, last)
            workload.await_progress()
            cluster.await_in_sync(topic)
        workload.finish()


def leave_one(cluster: Cluster, topic: str, dice: random.Random) -> tuple[int, int, int]:
    """Kills a follower and then the leader: these, and the last one, which leads now."""
    for _ in range(ATTEMPTS):
        leader = cluster.leader(topic)
        follower, last = dice.sample([number for number in cluster.members if number != leader], 2)
        cluster.kill(follower)
        time.sleep(dice.choice([0, 0, 0.1, 2]))
        cluster.kill(leader)
        until(lambda last=last: is_left_to(cluster, topic, last) is not None, cluster.logs, WAIT_S)
        if is_left_to(cluster, topic, last):
            return leader, follower, last
        cluster.start(leader, follower)
        cluster.await_in_sync(topic)
    raise AssertionError(f"the last one does not keep up\n{cluster.logs()}")


def is_left_to(cluster: Cluster, topic: str, last: int) -> bool | None:
    """Whether it leads. Not if it had left the in-sync replicas before, for want of a processor: then nobody does."""
    leader, _, in_sync = cluster.describe(topic, last)[0]
    return True if leader == last else False if leader == -1 and last not in in_sync else None


def test_the_last_replica_standing_is_waited_for(cluster: Cluster, topic: str) -> None:
    """It alone has everything that was acknowledged; the others, back before it, must not lead."""
    with Workload(cluster, topic, partitions=1, min_insync_replicas="1") as workload:
        last = cluster.leader(topic)
        others = [number for number in cluster.members if number != last]
        cluster.kill(*others)
        until(lambda: cluster.describe(topic)[0][2] == [last], lambda: cluster.describe(topic), WAIT_S)
        workload.await_progress()
        cluster.kill(last)
        cluster.start(*others)
        until(
            lambda: all(view[0][0] == -1 for view in cluster.views(topic).values()),
            lambda: cluster.views(topic),
            WAIT_S,
        )
        workload.expect_silence(1)
        assert cluster.describe(topic)[0][0] == -1
        cluster.start(last)
        workload.await_progress()
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_the_controller_dies_while_topics_are_made(cluster: Cluster, topic: str) -> None:
    """A topic is there for everybody, with leaders, or it is not there: then it can be made again."""
    dice = throw_dice()
    with Workload(cluster, topic) as workload:
        for number in range(lasting(1, 30)):
            controller = cluster.controller()
            names = [f"{topic}.{number}.{index}" for index in range(20)]
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            futures = [admin.create_topics([NewTopic(name, 3, 3)], operation_timeout=WAIT_S)[name] for name in names]
            time.sleep(dice.uniform(0, 0.3))
            cluster.kill(controller)
            for future in futures:
                future.exception(
                    2 * WAIT_S
                )  # the client gives up after one; told one way or the other: nobody is left waiting
            assert cluster.controller() != controller
            cluster.start(controller)
            for name in names:
                cluster.make_topic(name, 3)
            workload.await_progress()
        workload.finish()
