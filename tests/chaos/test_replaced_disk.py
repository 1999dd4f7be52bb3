"""The last in-sync replica comes back with an empty disk: it must not lead, or it would make the others empty too."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.support.cluster import Cluster
from chaos.support.processes import WAIT_S
from compat.support.members import until
from headwater.base.ids import TopicPartition as Partition
from headwater.client.admin.blocking import Admin
from headwater.client.admin.replication import ElectionType


def test_an_empty_disk_does_not_erase_what_other_replicas_have(cluster: Cluster, topic: str) -> None:
    cluster.make_topic(topic, 1)
    send(cluster, topic, b"on all")
    last, *others = cluster.members
    for other in others:
        cluster.stop(other)
    until(lambda: cluster.describe(topic, last)[0][2] == [last], "the others have not left", WAIT_S)
    send(cluster, topic, b"on the last alone")
    cluster.stop(last)
    with replaced(cluster, last, cluster.members[last].log_dir) as put_back:
        told = times_told(cluster)
        cluster.start(*others, last)
        await_no_leader(cluster, topic, told)
        cluster.stop(last)
        cluster.start(last)  # its disk is not new any more, and still empty
        assert has_no_leader(cluster, topic)

        cluster.stop(last)
        put_back()
        cluster.start(last)
        cluster.await_in_sync(topic)
        assert values(cluster, topic) == [b"on all", b"on the last alone"]


def test_without_the_old_disk_another_replica_can_be_made_the_leader(cluster: Cluster, topic: str) -> None:
    cluster.make_topic(topic, 1)
    send(cluster, topic, b"on all")
    last, *others = cluster.members
    for number in (*others, last):
        cluster.stop(number)
    with replaced(cluster, last, cluster.members[last].log_dir):
        told = times_told(cluster)
        cluster.start(*others, last)
        await_no_leader(cluster, topic, told)
        with Admin(bootstrap_servers=cluster.bootstrap) as admin:
            outcome = admin.elect_leaders([Partition(topic, 0)], election_type=ElectionType.UNCLEAN)
        assert set(outcome.values()) == {None}
        cluster.await_in_sync(topic)
        assert cluster.leader(topic) in others
        assert values(cluster, topic) == [b"on all"]


def test_one_replaced_disk_of_two_does_not_erase_what_other_replicas_have(cluster: Cluster, topic: str) -> None:
    last, *others = cluster.members
    member = cluster.members[last]
    more = member.directory / "more"
    with two_disks(cluster, last, more):
        cluster.make_topic(topic, 4)
        lost = next(partition for partition in range(4) if (more / f"{topic}-{partition}").exists())
        send(cluster, topic, b"on all", lost)
        for other in others:
            cluster.stop(other)
        until(lambda: cluster.describe(topic, last)[lost][2] == [last], "the others have not left", WAIT_S)
        send(cluster, topic, b"on the last alone", lost)
        cluster.stop(last)
        with replaced(cluster, last, more):
            told = times_told(cluster)
            cluster.start(*others, last)
            await_no_leader(cluster, topic, told, lost)
            with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                outcome = admin.elect_leaders([Partition(topic, lost)], election_type=ElectionType.UNCLEAN)
            assert set(outcome.values()) == {None}
            assert cluster.leader(topic, lost) in others
            assert values(cluster, topic, lost) == [b"on all"]


@contextmanager
def replaced(cluster: Cluster, number: int, disk: Path) -> Iterator[Callable[[], None]]:
    """The directory of a broker that is stopped is away, and one that the broker makes takes its place. Calling what
    this gives puts it back, while the broker is stopped; so does a failure, so that the next test has a whole cluster.
    """
    old = disk.with_name(f"{disk.name}-old")
    shutil.rmtree(old, ignore_errors=True)
    disk.rename(old)

    def put_back() -> None:
        shutil.rmtree(disk, ignore_errors=True)
        old.rename(disk)

    try:
        yield put_back
    except BaseException:
        cluster.kill(number)
        if old.exists():
            put_back()
        raise


@contextmanager
def two_disks(cluster: Cluster, number: int, second: Path) -> Iterator[None]:
    """The broker has another log directory meanwhile."""
    member = cluster.members[number]
    cluster.stop(number)
    member.own_settings = {"log.dirs": f"{member.log_dir},{second}"}
    try:
        cluster.start(number)
        yield
    finally:
        cluster.kill(number)
        member.own_settings = {}
        cluster.start(*(each for each, found in cluster.members.items() if found.process is None))


def await_no_leader(cluster: Cluster, topic: str, told: int, partition: int = 0) -> None:
    """Not for want of a look at it: the controller has looked, and has told of it once more."""
    until(
        lambda: times_told(cluster) > told and has_no_leader(cluster, topic, partition),
        lambda: f"{cluster.views(topic)}\n{cluster.logs()}",
        WAIT_S,
    )


def times_told(cluster: Cluster) -> int:
    return sum(member.log.count("event=data-gone") for member in cluster.members.values())


def has_no_leader(cluster: Cluster, topic: str, partition: int = 0) -> bool:
    return all(view[partition][0] == -1 for view in cluster.views(topic).values())


def send(cluster: Cluster, topic: str, value: bytes, partition: int = 0) -> None:
    told: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _message: told.append(error))
    assert producer.flush(WAIT_S) == 0
    assert told == [None]


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    """Read without a coordinator, which may be waiting for the disk too. Whoever is asked knows who leads."""
    until(
        lambda: all(view[partition][0] > 0 for view in cluster.views(topic).values()),
        lambda: f"{cluster.views(topic)}\n{cluster.logs()}",
        WAIT_S,
    )
    settings = {"group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)[1]
        consumer.assign([TopicPartition(topic, partition, 0)])
        return [message.value() for message in consumer.consume(end, WAIT_S)]
    finally:
        consumer.close()
