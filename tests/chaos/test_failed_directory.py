"""A broker of a cluster loses one of its log directories: others lead what lay there, and nobody leads with an empty
log.
"""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from chaos.support.cluster import Cluster
from chaos.support.member import Member
from chaos.support.processes import WAIT_S
from compat.support.failing_disk import failing_settings
from compat.support.members import until
from headwater.client import Admin

PARTITIONS = 12


def two_directories(cluster: Cluster, number: int) -> tuple[Path, Path]:
    """Of that broker, from its next start on."""
    member = cluster.members[number]
    paths = member.log_dir, member.directory / "more"
    member.own_settings = {"log.dirs": ",".join(map(str, paths))}
    return paths


def partitions_in(path: Path) -> int:
    return sum(each.is_dir() for each in path.iterdir())


def test_what_a_failed_directory_led_is_led_by_others(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 2
    cluster.stop(number)
    well, failing = two_directories(cluster, number)
    flag = tmp_path / "fails"
    with monkeypatch.context() as patch:
        for name, value in failing_settings(tmp_path, failing, flag).items():
            patch.setenv(name, value)
        cluster.start(number)
    cluster.make_topic(topic, PARTITIONS + partitions_in(well))  # a new directory gets all until it has as many
    lead_what_is_preferred(cluster, topic)
    led = [partition for partition, state in cluster.describe(topic).items() if state[1][0] == number]
    lost = next(partition for partition in led if (failing / f"{topic}-{partition}").exists())
    kept = next(partition for partition in led if (well / f"{topic}-{partition}").exists())
    send(cluster, topic, lost, b"before")
    sessions = sessions_of(cluster.members[number])

    flag.touch()
    send(cluster, topic, lost, b"after")
    assert cluster.await_leader_other_than(number, topic, lost) > 0
    until(lambda: number not in cluster.describe(topic)[lost][2], lambda: f"{cluster.views(topic)}", WAIT_S)
    # Only a session that ended, as may happen on a busy machine, takes from it what it keeps.
    assert cluster.leader(topic, kept) == number or sessions_of(cluster.members[number]) > sessions
    send(cluster, topic, kept, b"goes on")
    assert values(cluster, topic, lost) == [b"before", b"after"]

    cluster.kill(number)
    flag.unlink()
    cluster.start(number)
    cluster.await_in_sync(topic)
    assert values(cluster, topic, lost) == [b"before", b"after"]


def test_the_last_in_sync_replica_does_not_lead_without_its_directory(cluster: Cluster, topic: str) -> None:
    last, *others = cluster.members
    cluster.stop(last)
    _, lost_path = two_directories(cluster, last)
    cluster.start(last)
    cluster.make_topic(topic, 2)
    lost = next(partition for partition in (0, 1) if (lost_path / f"{topic}-{partition}").exists())
    send(cluster, topic, lost, b"on all")
    for other in others:
        cluster.stop(other)
    until(lambda: cluster.describe(topic, last)[lost][2] == [last], "the others have not left", WAIT_S)
    send(cluster, topic, lost, b"on the last alone")
    cluster.stop(last)
    meta = lost_path / "meta.properties"
    text = meta.read_bytes()
    meta.write_bytes(b"\x00" * 20)

    cluster.start(*others, last)
    member: Member = cluster.members[last]
    until(lambda: f"partition={topic}-{lost}" in offline_lines(member), cluster.logs, WAIT_S)
    assert not (member.log_dir / f"{topic}-{lost}").exists()

    cluster.stop(last)
    meta.write_bytes(text)
    cluster.start(last)
    cluster.await_in_sync(topic)
    assert values(cluster, topic, lost) == [b"on all", b"on the last alone"]


def lead_what_is_preferred(cluster: Cluster, topic: str) -> None:
    """Until the first replica of every partition leads it, also where that one has lost its session since the topic was
    made.
    """

    def is_done() -> bool:
        admin.elect_leaders()
        return all(state[0] == state[1][0] for state in cluster.describe(topic).values())

    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        until(is_done, lambda: f"{cluster.views(topic)}\n{cluster.logs()}", WAIT_S)


def sessions_of(member: Member) -> int:
    """How many it has had with ZooKeeper."""
    return member.log.count("event=registered ")


def offline_lines(member: Member) -> str:
    return "\n".join(line for line in member.log.splitlines() if "event=log-not-opened" in line)


def send(cluster: Cluster, topic: str, partition: int, value: bytes) -> None:
    told: list[object] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _message: told.append(error))
    assert producer.flush(WAIT_S) == 0
    assert told == [None]


def values(cluster: Cluster, topic: str, partition: int) -> list[bytes | None]:
    settings = {"group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, **settings})
    try:
        end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)[1]
        consumer.assign([TopicPartition(topic, partition, 0)])
        return [message.value() for message in consumer.consume(end, WAIT_S)]
    finally:
        consumer.close()
