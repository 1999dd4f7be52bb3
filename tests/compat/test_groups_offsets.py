"""Committed offsets: by every client, read back by every other; where a member begins; seek and pause."""

import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from compat.support.broker import BrokerProcess
from compat.support.java import Java
from compat.support.members import MEMBERS, OBEDIENT, until
from compat.support.offsets import when_loaded
from compat.support.raw import Raw, message
from compat.support.topics import fill

Join = Callable[..., Any]


def _committed(java: Java, broker: BrokerProcess, group: str) -> dict[tuple[str, int], int]:
    found = java.group_admin(broker.bootstrap, "offsets", group=group)["offsets"]
    return {(topic, partition): offset for topic, partition, offset in found}


@pytest.mark.parametrize("name", OBEDIENT)
def test_commits_are_read_back_by_every_client(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, name: str
) -> None:
    topic = group_topic(2)
    fill(group_broker.bootstrap, topic, 2, 10)
    member = join(name, group=topic, topics=(topic,))
    until(lambda: len(member.received) == 20, lambda: member.errors)
    member.commit()
    assert _committed(group_java, group_broker, topic) == {(topic, 0): 10, (topic, 1): 10}
    member.commit({(topic, 1): 4})  # one partition, and an explicit step back
    expected = {(topic, 0): 10, (topic, 1): 4}
    assert _committed(group_java, group_broker, topic) == expected
    assert member.committed((topic, 0), (topic, 1)) == expected
    member.close()
    for other in OBEDIENT:
        reader = join(other, group=topic, topics=(topic,))
        until(lambda reader=reader: len(reader.received) >= 6, lambda reader=reader: (reader.name, reader.errors))
        assert sorted(reader.values) == [b"1/%d" % number for number in range(4, 10)], other
        assert reader.committed((topic, 0), (topic, 1)) == expected
        reader.close()


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_automatic_commits(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, name: str
) -> None:
    topic = group_topic(1)
    fill(group_broker.bootstrap, topic, 1, 10)
    member = join(name, group=topic, topics=(topic,), auto_commit_ms=100)
    until(lambda: _committed(group_java, group_broker, topic) == {(topic, 0): 10}, lambda: member.errors)
    member.close()
    fill(group_broker.bootstrap, topic, 1, 5, start=10)
    again = join(name, group=topic, topics=(topic,), auto_commit_ms=100)
    until(lambda: len(again.received) >= 5, lambda: again.errors)
    assert [got.offset for got in again.received] == list(range(10, 15))


@pytest.mark.parametrize("name", ["confluent", "kafka-python", "java"])
def test_asynchronous_commits_arrive(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, name: str
) -> None:
    """A hundred commits, none waited for, then one that is: the last one stands."""
    topic = group_topic(1)
    member = join(name, group=topic, topics=(topic,))
    until(lambda: member.assignment, lambda: member.errors)
    member.commit_soon(*({(topic, 0): offset} for offset in range(1, 101)))
    member.commit({(topic, 0): 101})
    assert _committed(group_java, group_broker, topic) == {(topic, 0): 101}


@pytest.mark.parametrize("name", OBEDIENT)
def test_where_a_member_without_an_offset_begins(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, name: str
) -> None:
    topic = group_topic(1)
    fill(group_broker.bootstrap, topic, 1, 10)
    first = join(name, group=f"{topic}.earliest", topics=(topic,), reset="earliest")
    last = join(name, group=f"{topic}.latest", topics=(topic,), reset="latest")
    until(lambda: len(first.received) == 10 and last.assignment, lambda: (first.errors, last.errors))
    deadline = time.monotonic() + 60
    number = 10
    while not last.received and time.monotonic() < deadline:  # it asks for the end a moment after it was assigned
        fill(group_broker.bootstrap, topic, 1, 1, start=number)
        number += 1
        time.sleep(0.1)
    assert last.received[0].offset >= 10
    assert [got.offset for got in first.received[:10]] == list(range(10))


@pytest.mark.parametrize("name", OBEDIENT)
def test_seek_and_pause(group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, name: str) -> None:
    topic = group_topic(2)
    fill(group_broker.bootstrap, topic, 2, 10)
    member = join(name, group=topic, topics=(topic,))
    until(lambda: len(member.received) == 20, lambda: member.errors)
    member.seek((topic, 0), 7)
    until(lambda: len(member.received) >= 23, lambda: member.received[20:])
    assert [got.offset for got in member.received[20:]] == [7, 8, 9]
    member.pause((topic, 1))
    fill(group_broker.bootstrap, topic, 2, 5, start=10)
    until(lambda: len(member.received) >= 28, lambda: member.received[23:])
    time.sleep(0.3)
    assert {got.partition for got in member.received[23:]} == {0}
    member.resume((topic, 1))
    until(lambda: len(member.received) >= 33, lambda: member.received[28:])
    assert [(got.partition, got.offset) for got in member.received[28:]] == [(1, offset) for offset in range(10, 15)]


def test_a_standalone_consumer_commits_without_joining(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java
) -> None:
    topic = group_topic(1)
    fill(group_broker.bootstrap, topic, 1, 10)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": group_broker.bootstrap, "group.id": topic, "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert len(consumer.consume(10, 60)) == 10
        when_loaded(lambda: consumer.commit(offsets=[TopicPartition(topic, 0, 8, "a note")], asynchronous=False))
        (found,) = when_loaded(lambda: consumer.committed([TopicPartition(topic, 0)], 60))
        assert (found.offset, found.metadata) == (8, "a note")
    finally:
        consumer.close()
    assert _committed(group_java, group_broker, topic) == {(topic, 0): 8}
    described = group_java.group_admin(group_broker.bootstrap, "describeGroup", group=topic)
    assert (described["state"], described["members"]) == ("Empty", [])


def test_a_commit_of_a_stale_generation_is_refused(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join
) -> None:
    topic = group_topic(1)
    member = join("confluent", group=topic, topics=(topic,))
    until(lambda: member.assignment, lambda: member.errors)
    (described,) = group_java.group_admin(group_broker.bootstrap, "describeGroup", group=topic)["members"]
    with Raw(group_broker.bootstrap) as connection:
        for generation, member_id, error in [
            (99, described["memberId"], 22),  # ILLEGAL_GENERATION
            (0, described["memberId"], 22),
            (1, "somebody else", 25),  # UNKNOWN_MEMBER_ID
            (-1, "", 25),  # a standalone commit into a group that has members
        ]:
            assert _commit(connection, topic, generation, member_id) == error, (generation, member_id)
    assert member.committed((topic, 0)) == {(topic, 0): None}


def _commit(connection: Raw, topic: str, generation: int, member_id: str) -> int:
    partition = message("offset_commit", 8, "OffsetCommitRequestPartition")(
        partition_index=0, committed_offset=3, committed_leader_epoch=-1, committed_metadata=""
    )
    wanted = message("offset_commit", 8, "OffsetCommitRequestTopic")(name=topic, partitions=(partition,))
    response = connection.call(
        message("offset_commit", 8, "OffsetCommitRequest")(
            group_id=topic, generation_id_or_member_epoch=generation, member_id=member_id, topics=(wanted,)
        )
    )
    return int(response.topics[0].partitions[0].error_code)
