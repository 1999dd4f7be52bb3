"""The coordinator of a transaction is lost between its decision and the markers that tell of it (F20); what it sent
comes late (F19).

The link from the coordinator to the leader of one partition is cut, so a marker is on its way for as long as the test
likes. Producers are of both kinds: librdkafka knows transactions of version 1, where all of a producer's transactions
have one epoch, ours version 2.
"""

from collections.abc import Callable, Iterator

import pytest

from chaos.support.by_hand import coordinator
from chaos.support.cluster import Cluster
from chaos.support.open_ends import OpenEnds
from chaos.support.processes import WAIT_S
from compat.support.members import until
from compat.support.transactional import PRODUCERS, Refused, Transactional, committed_offset, read
from headwater.client import Admin

PARTITIONS = 3  # so every broker leads one
ATTEMPTS = 5  # to begin a transaction while nothing moves
KINDS = ["confluent", "headwater"]

MakeProducer = Callable[..., Transactional]


@pytest.fixture
def ends(cluster: Cluster) -> Iterator[OpenEnds]:
    with Admin(bootstrap_servers=cluster.bootstrap, request_timeout_ms=3000) as admin:  # some brokers stand still
        yield OpenEnds(cluster, admin)


@pytest.fixture
def producer_of(cluster: Cluster, topic: str) -> Iterator[MakeProducer]:
    """Producers of one transactional id, which is `topic`, by the name of their client, and perhaps whom they ask
    first.
    """
    made: list[Transactional] = []

    def make(kind: str, bootstrap: str = cluster.bootstrap) -> Transactional:
        made.append(PRODUCERS[kind](bootstrap, topic, timeout_ms=WAIT_S * 1000))
        made[-1].init()
        return made[-1]

    yield make
    cluster.heal()
    for producer in made:
        producer.close()


def decide(
    cluster: Cluster, topic: str, producer: Transactional, ends: OpenEnds, *, committed: bool
) -> tuple[int, int]:
    """A transaction over all partitions, and offsets, is decided; one of its markers cannot arrive: (coordinator,
    partition).
    """
    for _ in range(ATTEMPTS):
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send((topic, partition), "first")
        producer.offsets(topic, {(topic, 0): 7})
        old = coordinator(cluster, topic)
        apart = next(partition for partition, found in cluster.describe(topic).items() if found[0] != old)
        leader = cluster.leader(topic, apart)
        cluster.members[leader].inward.cut(cluster.members[old].name)
        if old not in (leader, cluster.leader(topic, apart)) and coordinator(cluster, topic) == old:
            break
        cluster.heal()  # one of them has lost its session by itself: this transaction leaves nothing, and another is begun
        producer.abort()
        ends.await_none(topic, PARTITIONS)
    else:
        raise AssertionError(f"coordinators and leaders do not stay where they are\n{cluster.logs()}")
    if committed:
        producer.commit()
    else:
        producer.abort()
    ends.await_state(topic, "PrepareCommit" if committed else "PrepareAbort")
    assert apart in ends.of(topic, PARTITIONS), "the marker has arrived: nothing was cut"
    return old, apart


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_coordinator_ends_what_was_decided(
    cluster: Cluster, topic: str, producer_of: MakeProducer, ends: OpenEnds, kind: str, committed: bool
) -> None:
    cluster.make_topic(topic, PARTITIONS)
    producer = producer_of(kind)
    old, _ = decide(cluster, topic, producer, ends, committed=committed)
    cluster.kill(old)
    cluster.heal()
    ends.await_coordinator_other_than(old, topic)
    ends.await_state(topic, "CompleteCommit" if committed else "CompleteAbort")
    ends.await_none(topic, PARTITIONS)
    first = ["first"] if committed else []
    assert [read(cluster.bootstrap, topic, partition) for partition in range(PARTITIONS)] == [first] * PARTITIONS
    assert committed_offset(cluster.bootstrap, topic, (topic, 0)) == (7 if committed else None)
    producer.begin()
    producer.send((topic, 0), "second")
    producer.commit()
    cluster.start(old)
    cluster.await_in_sync(topic)
    ends.await_none(topic, PARTITIONS)
    assert read(cluster.bootstrap, topic) == [*first, "second"]


def test_a_marker_that_comes_late_does_not_end_the_next_transaction(
    cluster: Cluster, topic: str, producer_of: MakeProducer, ends: OpenEnds
) -> None:
    """The coordinator stands still with a marker on its way; another has ended the transaction, and the next one has
    begun.
    """
    cluster.make_topic(topic, PARTITIONS)
    producer = producer_of("headwater")
    old, apart = decide(cluster, topic, producer, ends, committed=True)
    cluster.pause(old)
    begin_the_next(topic, producer, ends, old, apart)
    cluster.heal()
    until(
        lambda: f"event=markers-given-up transactional_id='{topic}'" in cluster.members[old].log,
        lambda: f"the late marker was not refused\n{cluster.logs()}",
        WAIT_S,
    )
    check_the_next(cluster, topic, producer, ends, apart)


def test_a_marker_of_the_dead_does_not_end_the_next_transaction(
    cluster: Cluster, topic: str, producer_of: MakeProducer, ends: OpenEnds
) -> None:
    """With version 1, where both transactions have the same epoch: only the coordinator's epoch tells that the marker
    is old.
    """
    cluster.make_topic(topic, PARTITIONS)
    producer = producer_of("confluent")
    old, apart = decide(cluster, topic, producer, ends, committed=True)
    cluster.kill(old)
    begin_the_next(topic, producer, ends, old, apart)
    cluster.heal()  # the link carries what waited in it
    cluster.start(old)
    cluster.await_in_sync(topic)
    check_the_next(cluster, topic, producer, ends, apart)


def begin_the_next(topic: str, producer: Transactional, ends: OpenEnds, old: int, apart: int) -> None:
    ends.await_coordinator_other_than(old, topic)
    ends.await_state(topic, "CompleteCommit")
    producer.begin()
    producer.send((topic, apart), "second")


def check_the_next(cluster: Cluster, topic: str, producer: Transactional, ends: OpenEnds, apart: int) -> None:
    assert apart in ends.of(topic, PARTITIONS), "it is not open any more"
    assert read(cluster.bootstrap, topic, apart) == ["first"]
    producer.abort()
    ends.await_none(topic, PARTITIONS)
    assert read(cluster.bootstrap, topic, apart) == ["first"]
    assert committed_offset(cluster.bootstrap, topic, (topic, 0)) == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_zombie_is_fenced_by_an_heir_that_another_coordinator_knows(
    cluster: Cluster, topic: str, producer_of: MakeProducer, ends: OpenEnds, kind: str
) -> None:
    """The coordinator stands still; its successor hears of the heir, and the zombie must hear of it from everybody."""
    cluster.make_topic(topic, PARTITIONS)
    zombie = producer_of(kind)
    zombie.begin()
    for partition in range(PARTITIONS):
        zombie.send((topic, partition), "of the zombie")
    old = coordinator(cluster, topic)
    cluster.pause(old)
    new = ends.await_coordinator_other_than(old, topic)
    heir = producer_of(kind, cluster.members[new].bootstrap)
    cluster.heal()
    with pytest.raises(Refused) as refused:
        _finish(zombie, topic)
    assert refused.value.fenced, refused.value
    heir.begin()
    for partition in range(PARTITIONS):
        heir.send((topic, partition), "of the heir")
    heir.commit()
    ends.await_none(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        assert read(cluster.bootstrap, topic, partition) == ["of the heir"]


def _finish(zombie: Transactional, topic: str) -> None:
    zombie.send((topic, 0), "more of the zombie")
    zombie.commit()
