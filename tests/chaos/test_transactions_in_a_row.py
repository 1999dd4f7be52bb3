"""A producer of transaction version 2 that goes on at once, while the markers of its last transaction are on their way.

As a Go client did in read-process-write with many short transactions: its offsets came first, and now and then it took
a transaction back that it had just begun. It was told that it was fenced, and nobody had fenced it.
"""

import random

import pytest

from chaos.support.by_hand import GROUP, ByHand, coordinator
from chaos.support.cluster import Cluster
from chaos.support.dice import chosen_seed
from chaos.support.open_ends import OpenEnds
from chaos.support.workload import read_all
from compat.support.quick import lasting
from headwater.base.ids import TopicPartition
from headwater.client import Admin


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
@pytest.mark.parametrize("dies", [False, True], ids=["all live", "brokers die"])
def test_nobody_is_fenced_whom_nobody_has_fenced(cluster: Cluster, topic: str, dies: bool) -> None:
    seed = chosen_seed()
    chance = random.Random(seed)
    group, count = f"{topic}.group", lasting(40, 1500)
    cluster.make_topic(topic, 1)
    producer = ByHand(cluster, f"{topic}.id", topic)
    producer.init()
    committed: list[bytes] = []
    offset = -1
    down: list[int] = []
    for number in range(count):
        if dies and number % 15 == 7:
            victims = [
                cluster.leader(topic), coordinator(cluster, f"{topic}.id"), coordinator(cluster, group, GROUP)
            ]  # fmt: skip
            down = [chance.choice(victims)]
            cluster.kill(*down)
        if down and number % 15 == 12:
            cluster.start(*down)
            down = []
        if chance.random() < 0.2:
            producer.end(committed=False)  # of which nothing was begun
            continue
        assert producer.send_offset(group, number) == 0, number
        value = b"%d" % number
        if chance.random() < 0.7:
            assert producer.send(value) == 0, number
        else:
            value = b""
        is_committed = chance.random() < 0.8
        producer.end(committed=is_committed)
        if is_committed:
            offset = number
            committed += [value] if value else []
    cluster.start(*down)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        OpenEnds(cluster, admin).await_none(topic, 1)
        found = admin.list_group_offsets(group, require_stable=True)
    logs, _ = read_all(cluster.bootstrap, topic, 1)
    assert [value for _, value in logs[0]] == committed
    assert found[TopicPartition(topic, 0)].offset == offset
