"""Members that die, come back, or share with others by degrees; topics and partitions that appear; groups that are
full.
"""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from chaos.support.dice import dice
from compat.support.broker import BrokerProcess
from compat.support.java import Java
from compat.support.members import MEMBERS, OBEDIENT, Member, places, until, until_shared
from compat.support.offsets import when_loaded
from compat.support.quick import lasting, quick
from compat.support.topics import add_partitions, fill, make_topic

Join = Callable[..., Any]


@pytest.mark.parametrize("name", ["kcat", "java"])
def test_a_dead_member_is_missed_after_its_session(group_topic: Callable[..., str], join: Join, name: str) -> None:
    topic = group_topic(4)
    doomed = join(name, group=topic, topics=(topic,), session_ms=6000)
    survivor = join("confluent", group=topic, topics=(topic,))
    until_shared([doomed, survivor], places(topic, 4))
    began = time.monotonic()
    doomed.kill() if name == "kcat" else doomed.remain()
    until_shared([survivor], places(topic, 4))
    assert time.monotonic() - began > 2  # its last heartbeat may be a moment old


@pytest.mark.parametrize("name", ["aiokafka", "confluent", "headwater", "java", "kafka-python"])
def test_a_static_member_restarts_without_a_rebalance(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, name: str
) -> None:
    topic = group_topic(4)
    long = {"group": topic, "topics": (topic,), "session_ms": 120_000}  # a restart may take its time
    stays = join("confluent", instance="stays", **long)
    leaves = join(name, instance="restarts", **long)
    until_shared([stays, leaves], places(topic, 4))
    held, events = leaves.assignment, list(stays.events)
    leaves.close()
    described = group_java.group_admin(group_broker.bootstrap, "describeGroup", group=topic)
    assert sorted(member["instance"] for member in described["members"]) == ["restarts", "stays"]
    back = join(name, instance="restarts", **long)
    until(lambda: back.assignment == held, lambda: (back.assignment, back.errors))
    stays.commit(
        dict.fromkeys(stays.assignment, 0)
    )  # refused if there were another generation that it had not heard of
    assert stays.events == events
    group_java.group_admin(group_broker.bootstrap, "removeMember", group=topic, instance="restarts")
    until(lambda: stays.events != events, lambda: stays.assignment)
    until_shared([stays, back], places(topic, 4))  # nobody joins any more, which would keep it from closing


def test_the_second_of_two_static_members_fences_the_first(group_topic: Callable[..., str], join: Join) -> None:
    topic = group_topic(1)
    first = join("java", group=topic, topics=(topic,), instance="same")
    until_shared([first], places(topic, 1))
    second = join("java", group=topic, topics=(topic,), instance="same")
    until(lambda: any("FencedInstanceId" in error for error in first.errors), lambda: first.errors)
    until_shared([second], places(topic, 1))


@pytest.mark.parametrize("name", ["confluent", "headwater", "java", "kafka-python"])
def test_a_cooperative_rebalance_takes_only_what_moves(group_topic: Callable[..., str], join: Join, name: str) -> None:
    topic = group_topic(6)
    first = join(name, group=topic, topics=(topic,), assignor="cooperative-sticky")
    until_shared([first], places(topic, 6))
    before = len(first.events)
    second = join(name, group=topic, topics=(topic,), assignor="cooperative-sticky")
    until_shared([first, second], places(topic, 6), [3, 3])
    revoked = frozenset().union(*(gone for kind, gone in first.events[before:] if kind != "assigned"))
    assert revoked == second.assignment
    assert first.assignment == frozenset(places(topic, 6)) - revoked


@pytest.mark.parametrize("name", sorted(MEMBERS))
def test_new_partitions_and_topics_are_noticed(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, name: str
) -> None:
    prefix = group_topic(1)
    pattern = "^" + prefix.replace(".", "\\.") + ".*"
    member = join(name, group=prefix, pattern=pattern, metadata_ms=300)
    until_shared([member], places(prefix, 1))
    make_topic(group_broker.bootstrap, f"{prefix}.more", 2)
    until_shared([member], places(prefix, 1) + places(f"{prefix}.more", 2))
    add_partitions(group_broker.bootstrap, prefix, 3)
    wanted = places(prefix, 3) + places(f"{prefix}.more", 2)
    until_shared([member], wanted)
    sent = fill(group_broker.bootstrap, prefix, 3, 3) + fill(group_broker.bootstrap, f"{prefix}.more", 2, 3)
    until(lambda: len(member.received) >= len(sent), lambda: member.received)
    assert sorted(member.values) == sorted(sent)


def test_a_group_takes_no_more_members_than_its_limit(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join
) -> None:
    broker = broker_factory(tmp_path, **quick(group_max_size=2))
    make_topic(broker.bootstrap, topic, 4)
    members = [join("confluent", broker=broker, group=topic, topics=(topic,)) for _ in range(2)]
    until_shared(members, places(topic, 4))
    third = join("java", broker=broker, group=topic, topics=(topic,))
    until(lambda: any("GroupMaxSizeReached" in error for error in third.errors), lambda: third.errors)
    assert not third.assignment
    until_shared(members, places(topic, 4))
    members.pop().close()
    fourth = join("java", broker=broker, group=topic, topics=(topic,))
    until_shared([*members, fourth], places(topic, 4))


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 900))
def test_a_storm_of_members_ends_in_order(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, topic: str
) -> None:
    """Members join and leave at random; whoever holds a partition reads it, and in the end nothing is lost."""
    members_at_most, partitions, seconds = lasting(10, 50), lasting(20, 100), lasting(2.0, 60.0)
    group_topic(partitions)
    chance = dice()
    living: list[Member] = []
    everyone: list[Member] = []
    sent: list[bytes] = []
    numbers = itertools.count()
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if len(living) < 2 or (len(living) < members_at_most and chance.random() < 0.6):
            assignor = "cooperative-sticky"
            living.append(join("confluent", group=topic, topics=(topic,), assignor=assignor, auto_commit_ms=200))
            everyone.append(living[-1])
        else:
            living.pop(chance.randrange(len(living))).close()
        sent += fill(group_broker.bootstrap, topic, partitions, 1, start=next(numbers))
        if chance.random() < 0.3:  # else the next one comes into the rebalance of this one
            until(lambda: any(member.assignment for member in living), lambda: [m.errors for m in living])
    while len(living) < members_at_most:
        living.append(join("confluent", group=topic, topics=(topic,), assignor="cooperative-sticky"))
        everyone.append(living[-1])
    until_shared(living, places(topic, partitions))
    sent += fill(group_broker.bootstrap, topic, partitions, 1, start=next(numbers))
    until(lambda: set(sent) <= {value for one in everyone for value in one.values}, lambda: len(sent))
    assert {error for member in everyone for error in member.errors} == set()
    for member in everyone:
        _never_back_within_an_assignment(member)


def _never_back_within_an_assignment(member: Member) -> None:
    """A member that keeps a partition reads on; only one that lost it may meet a record again."""
    returned = {place for kind, gone in member.events if kind != "assigned" for place in gone}
    last: dict[tuple[str, int], int] = {}
    for got in member.received:
        place = (got.topic, got.partition)
        if place not in returned:
            assert got.offset == last.get(place, got.offset - 1) + 1, (place, got.offset, last)
        last[place] = got.offset


@pytest.mark.parametrize("name", OBEDIENT)
def test_offsets_and_members_live_through_a_killed_broker(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join, name: str
) -> None:
    broker = broker_factory(tmp_path, **quick())
    make_topic(broker.bootstrap, topic, 2)
    sent = fill(broker.bootstrap, topic, 2, 10)
    # A session that a busy machine does not end: who must join again depends on its client alone (see
    # KafkaPythonMember).
    members = [join(name, broker=broker, group=topic, topics=(topic,), session_ms=60_000) for _ in range(2)]
    until(lambda: sum(len(member.received) for member in members) >= 20, lambda: [m.errors for m in members])
    until_shared(members, places(topic, 2))
    for member in members:
        member.commit(dict.fromkeys(member.assignment, 6))
    broker.kill()
    broker.start()
    wanted = {(topic, 0): 6, (topic, 1): 6}
    until(lambda: _asked(broker, topic, 2) == wanted, lambda: _asked(broker, topic, 2))
    more = fill(broker.bootstrap, topic, 2, 5, start=10)
    until(
        lambda: set(more) <= {value for member in members for value in member.values},
        lambda: [(member.errors, member.assignment) for member in members],
    )
    until_shared(members, places(topic, 2))
    until(
        lambda: _commit_all(members, broker, topic) == {(topic, 0): 15, (topic, 1): 15},
        lambda: _asked(broker, topic, 2),
    )
    assert {value for member in members for value in member.values} == set(sent + more)


def _commit_all(members: list[Any], broker: BrokerProcess, topic: str) -> dict[tuple[str, int], int]:
    """Positions, which after a rebalance are at first those that were committed before."""
    for member in members:
        member.commit()
    return _asked(broker, topic, 2)


def _asked(broker: BrokerProcess, group: str, partitions: int) -> dict[tuple[str, int], int]:
    """Committed offsets, by a client that is not in the group."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        wanted = [confluent_kafka.TopicPartition(group, partition) for partition in range(partitions)]
        found = when_loaded(lambda: consumer.committed(wanted, 60))
        return {(one.topic, one.partition): one.offset for one in found}
    finally:
        consumer.close()
