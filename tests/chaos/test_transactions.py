"""Transactions while their coordinators die: F18, F19. Copies by transactions have a file of their own, and decisions
too.
"""

from chaos.support.by_hand import ByHand, coordinator
from chaos.support.cluster import Cluster
from chaos.support.history import History
from chaos.support.open_ends import OpenEnds
from chaos.support.workload import check_replicas, read_all
from headwater.base.errors import ErrorCode
from headwater.client import Admin

FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


def test_a_zombie_is_fenced_by_whoever_coordinates(cluster: Cluster, topic: str) -> None:
    """Another producer has taken its transactional id over, and then the coordinator died."""
    cluster.make_topic(topic, 1)
    zombie, heir = (ByHand(cluster, f"{topic}.id", topic) for _ in range(2))
    zombie.init()
    assert zombie.send(b"of the zombie") == 0
    heir.init()  # aborts what the zombie began
    assert heir.send(b"of the heir") == 0
    old = coordinator(cluster, f"{topic}.id")
    cluster.kill(old)
    assert ErrorCode(zombie.send(b"of the zombie again")) in FENCED
    heir.end(committed=True)
    assert heir.send(b"of the heir again") == 0
    heir.end(committed=True)
    cluster.start(old)
    _await_markers(cluster, topic)
    logs, ends = read_all(cluster.bootstrap, topic, 1)
    assert [value for _, value in logs[0]] == [b"of the heir", b"of the heir again"]
    _check_files(cluster, topic, ends)


def test_an_end_that_was_held_back_does_not_end_the_next_transaction(cluster: Cluster, topic: str) -> None:
    """Sent again to the coordinator, and after its death to the next one."""
    cluster.make_topic(topic, 1)
    producer = ByHand(cluster, f"{topic}.id", topic)
    producer.init()
    assert producer.send(b"committed") == 0
    held_back = producer.end(committed=True)
    assert producer.send(b"aborted") == 0
    assert ErrorCode(producer.replay(held_back)) in FENCED
    old = coordinator(cluster, f"{topic}.id")
    cluster.kill(old)
    assert ErrorCode(producer.replay(held_back)) in FENCED
    assert producer.send(b"aborted too") == 0
    producer.end(committed=False)
    cluster.start(old)
    _await_markers(cluster, topic)
    logs, ends = read_all(cluster.bootstrap, topic, 1)
    assert [value for _, value in logs[0]] == [b"committed"]
    _check_files(cluster, topic, ends)


def _await_markers(cluster: Cluster, topic: str) -> None:
    """An end is answered when it is decided, before its marker is written; readers stop there until it is."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        OpenEnds(cluster, admin).await_none(topic, 1)


def _check_files(cluster: Cluster, topic: str, ends: dict[int, int]) -> None:
    cluster.await_in_sync(topic)
    history = History()
    check_replicas(cluster, history, topic, ends)
    history.check()
