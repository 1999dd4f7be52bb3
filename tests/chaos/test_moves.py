"""Partitions move between brokers, and brokers are restarted one after the other, while clients write and read: F23."""

import time

import pytest

from chaos.support.cluster import Cluster
from chaos.support.dice import dice as throw_dice
from chaos.support.processes import WAIT_S
from chaos.support.workload import Workload
from compat.support.members import until
from compat.support.quick import lasting
from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.client.admin.blocking import Admin

TRY_AGAIN = {ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
BROKERS = 4  # one more than a partition has replicas, so that there is somewhere to move to


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_partitions_move_while_brokers_die(cluster: Cluster, topic: str) -> None:
    dice = throw_dice()
    with Workload(cluster, topic, group=True) as workload:
        for number in range(lasting(2, 30)):
            wanted = {index: dice.sample(list(cluster.members), 3) for index in range(workload.partitions)}
            move(cluster, topic, wanted)
            time.sleep(dice.uniform(0, 0.3))
            dead = dice.choice(list(cluster.members))
            if number:  # the first move is left in peace
                cluster.kill(dead)
                time.sleep(dice.uniform(0, 2))
                cluster.start(dead)
            until(lambda wanted=wanted: is_moved(cluster, topic, wanted), lambda: told(cluster, topic), WAIT_S)
            workload.await_progress()
            cluster.await_in_sync(topic)
        until(lambda: has_no_leftovers(cluster, topic), lambda: told(cluster, topic), WAIT_S)
        workload.finish()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_brokers_are_restarted_one_after_the_other(cluster: Cluster, topic: str) -> None:
    """Cleanly: others lead before a broker is gone, and it is in sync again soon."""
    with Workload(cluster, topic, partitions=4, group=True) as workload:
        for _ in range(lasting(1, 20)):
            for number in cluster.members:
                cluster.stop(number)
                until(
                    lambda number=number: is_led_by_others(cluster, topic, number), lambda: told(cluster, topic), WAIT_S
                )
                cluster.start(number)
                cluster.await_in_sync(topic)
            workload.await_progress()
        workload.finish()


def move(cluster: Cluster, topic: str, wanted: dict[int, list[int]]) -> None:
    """Asks until it is taken on: a broker may have lost its session for want of a processor, and be about to have
    another.
    """
    replicas = {TopicPartition(topic, index): each for index, each in wanted.items()}

    def is_taken_on() -> bool:
        codes = {error.code for error in admin.alter_partition_reassignments(replicas).values() if error is not None}
        assert codes <= TRY_AGAIN, codes
        return not codes

    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        until(is_taken_on, lambda: told(cluster, topic), WAIT_S)


def is_led_by_others(cluster: Cluster, topic: str, gone: int) -> bool:
    return all(leader not in (-1, gone) for leader, _, _ in cluster.describe(topic).values())


def is_moved(cluster: Cluster, topic: str, wanted: dict[int, list[int]]) -> bool:
    views = cluster.views(topic)
    return len(views) == len(cluster.members) and all(
        set(view[index][1]) == set(view[index][2]) == set(replicas)
        for view in views.values()
        for index, replicas in wanted.items()
    )


def has_no_leftovers(cluster: Cluster, topic: str) -> bool:
    """A broker that is no replica any more has no copy."""
    return all(
        (member.log_dir / f"{topic}-{index}").exists() == (number in replicas)
        for index, (_, replicas, _) in cluster.describe(topic).items()
        for number, member in cluster.members.items()
    )


def told(cluster: Cluster, topic: str) -> str:
    return f"{cluster.views(topic)}\n{cluster.logs()}"
