"""The consumer protocol of KIP-848: librdkafka, Java and our client, the broker assigns; and groups that change over to
it.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import Java
from compat.support.members import Member, Place, places, shared, until, until_shared
from compat.support.quick import quick
from compat.support.topics import add_partitions, fill, make_topic

NAMES = ["confluent", "headwater", "java"]
Join = Callable[..., Any]


def join_in_turn(join: Join, names: list[str], everywhere: list[Place], **how: Any) -> list[Any]:
    """Each when those before it have their shares. librdkafka 2.16 may never hear of a revocation that comes while it
    takes in its first assignment, as it does when several join and the broker stands still for a moment; with Apache
    Kafka, too.
    """
    members: list[Any] = []
    for name in names:
        members.append(join(name, protocol="consumer", **how))
        busy = min(len(members), len(everywhere))
        until(
            lambda busy=busy: shared(members, everywhere) and sum(bool(each.assignment) for each in members) == busy,
            lambda: [(each.assignment, each.errors) for each in members],
        )
    return members


@pytest.mark.parametrize("name", NAMES)
def test_members_come_and_go(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, name: str
) -> None:
    topic = group_topic(4)
    first = join(name, group=topic, topics=(topic,), protocol="consumer")
    until_shared([first], places(topic, 4))
    second = join(name, group=topic, topics=(topic,), protocol="consumer")
    until_shared([first, second], places(topic, 4), [2, 2])
    sent = fill(group_broker.bootstrap, topic, 4, 10)
    until(lambda: len(first.received) + len(second.received) >= len(sent), lambda: (first.errors, second.errors))
    assert sorted(first.values + second.values) == sorted(sent)
    revoked = frozenset().union(*(gone for kind, gone in first.events if kind != "assigned"))
    assert revoked == second.assignment  # only what moved
    described = group_java.group_admin(group_broker.bootstrap, "describeGroup", group=topic)
    assert (described["state"], described["type"], described["assignor"]) == ("Stable", "Consumer", "uniform")
    assert sorted(len(member["assignment"]) for member in described["members"]) == [2, 2]
    for member in (first, second):
        member.commit()
    second.close()
    until_shared([first], places(topic, 4))
    assert first.committed(*places(topic, 4)) == dict.fromkeys(places(topic, 4), 10)
    more = fill(group_broker.bootstrap, topic, 4, 5, start=10)
    until(lambda: set(more) <= set(first.values), lambda: first.errors)


@pytest.mark.parametrize("name", NAMES)
def test_more_members_than_partitions(group_topic: Callable[..., str], join: Join, name: str) -> None:
    topic = group_topic(2)
    members = join_in_turn(join, [name] * 3, places(topic, 2), group=topic, topics=(topic,))
    until_shared(members, places(topic, 2), [0, 1, 1])
    busy = next(member for member in members if member.assignment)
    busy.close()
    until_shared([member for member in members if member is not busy], places(topic, 2))


@pytest.mark.parametrize(("remote", "sizes"), [("range", [2, 4]), ("uniform", [3, 3])])
def test_the_assignors_of_the_broker(
    group_broker: BrokerProcess,
    group_topic: Callable[..., str],
    join: Join,
    group_java: Java,
    remote: str,
    sizes: list[int],
) -> None:
    """Two topics of three partitions: range gives each member the same numbers of both."""
    one, two = group_topic(3, ".one"), group_topic(3, ".two")
    members = [
        join(name, group=one, topics=(one, two), protocol="consumer", remote=remote) for name in ("headwater", "java")
    ]
    until_shared(members, places(one, 3) + places(two, 3), sizes)
    assert group_java.group_admin(group_broker.bootstrap, "describeGroup", group=one)["assignor"] == remote


@pytest.mark.parametrize("name", NAMES)
def test_a_static_member_comes_back_to_its_partitions(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join, name: str
) -> None:
    broker = broker_factory(tmp_path, **quick(group_consumer_session_timeout_ms=60_000))  # a restart may take its time
    make_topic(broker.bootstrap, topic, 4)
    common = {"broker": broker, "group": topic, "topics": (topic,), "protocol": "consumer"}
    stays = join("java", instance="stays", **common)
    until_shared([stays], places(topic, 4))  # one after the other: see `join_in_turn`
    leaves = join(name, instance="restarts", **common)
    until_shared([stays, leaves], places(topic, 4), [2, 2])
    held, moved = leaves.assignment, _moved(stays)
    leaves.close()
    back = join(name, instance="restarts", **common)
    until(lambda: back.assignment == held, lambda: (back.assignment, back.errors))
    assert _moved(stays) == moved


def _moved(member: Member) -> list[tuple[str, frozenset[Place]]]:
    """Java tells of each reconciliation with an `assigned` of no partitions, which may come into this process after
    another member has what was given up.
    """
    return [(kind, places) for kind, places in member.events if places]


def test_a_dead_member_is_missed_after_its_session(group_topic: Callable[..., str], join: Join) -> None:
    """The session is the broker's: 6 s here. A static member that leaves for a while is one that may never return."""
    topic = group_topic(4)
    survivor = join("confluent", group=topic, topics=(topic,), protocol="consumer")
    until_shared([survivor], places(topic, 4))
    doomed = join("java", group=topic, topics=(topic,), protocol="consumer", instance="doomed")
    until_shared([survivor, doomed], places(topic, 4), [2, 2])
    began = time.monotonic()
    doomed.close()
    until_shared([survivor], places(topic, 4))
    assert time.monotonic() - began > 3


def test_subscriptions_by_a_pattern_of_re2(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join
) -> None:
    """Both clients at once, each in its group: the broker looks for new topics every ten seconds."""
    prefix = group_topic(1)
    pattern = prefix.replace(".", "\\.") + "(\\.more)?"
    confluent = join("confluent", group=f"{prefix}.1", pattern=f"^{pattern}", protocol="consumer", metadata_ms=300)
    java = join("java", group=f"{prefix}.2", pattern=pattern, protocol="consumer", metadata_ms=300)
    for member in (confluent, java):
        until_shared([member], places(prefix, 1))
    make_topic(group_broker.bootstrap, f"{prefix}.less", 2)
    make_topic(group_broker.bootstrap, f"{prefix}.more", 2)
    for member in (confluent, java):
        until_shared([member], places(prefix, 1) + places(f"{prefix}.more", 2))
    add_partitions(group_broker.bootstrap, prefix, 3)
    for member in (confluent, java):
        until_shared([member], places(prefix, 3) + places(f"{prefix}.more", 2))


@pytest.mark.parametrize("old", ["confluent", "java", "kafka-python"])
def test_a_running_group_changes_over_member_by_member(
    group_broker: BrokerProcess, group_topic: Callable[..., str], group_java: Java, join: Join, old: str
) -> None:
    """Classic members first, then consumer ones beside them, then only those; then back. Nothing is lost on the way."""
    topic = group_topic(4)
    everyone: list[Any] = []

    def enter(name: str, **how: str) -> Any:
        everyone.append(join(name, group=topic, topics=(topic,), auto_commit_ms=100, **how))
        return everyone[-1]

    def kind() -> str:
        return str(group_java.group_admin(group_broker.bootstrap, "listGroups")[topic]["type"])

    classic = enter(old, assignor="range")
    until_shared([classic], places(topic, 4))
    sent = fill(group_broker.bootstrap, topic, 4, 5)
    until(lambda: set(sent) <= set(classic.values), lambda: classic.errors)
    assert kind() == "Classic"
    new = enter("java", protocol="consumer")
    until_shared([classic, new], places(topic, 4), [2, 2])
    assert kind() == "Consumer"
    sent += fill(group_broker.bootstrap, topic, 4, 5, start=5)
    until(
        lambda: set(sent) <= {value for one in everyone for value in one.values}, lambda: [m.errors for m in everyone]
    )
    classic.close()
    until_shared([new], places(topic, 4))
    returned = enter(old, assignor="range")
    until_shared([new, returned], places(topic, 4), [2, 2])
    new.close()
    until_shared([returned], places(topic, 4))
    sent += fill(group_broker.bootstrap, topic, 4, 5, start=10)
    until(
        lambda: set(sent) <= {value for one in everyone for value in one.values}, lambda: [m.errors for m in everyone]
    )
    assert kind() == "Classic"


@pytest.mark.parametrize("name", NAMES)
def test_offsets_and_members_live_through_a_killed_broker(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, join: Join, name: str
) -> None:
    broker = broker_factory(tmp_path, **quick(group_consumer_session_timeout_ms=10_000))
    make_topic(broker.bootstrap, topic, 2)
    members = join_in_turn(join, [name] * 2, places(topic, 2), broker=broker, group=topic, topics=(topic,))
    until_shared(members, places(topic, 2))
    sent = fill(broker.bootstrap, topic, 2, 10)
    until(lambda: sum(len(member.received) for member in members) >= 20, lambda: [m.errors for m in members])
    for member in members:
        member.commit()
    broker.kill()
    broker.start()
    more = fill(broker.bootstrap, topic, 2, 5, start=10)
    until(
        lambda: set(sent + more) <= {value for member in members for value in member.values},
        lambda: [(member.errors, member.assignment) for member in members],
    )
    until_shared(members, places(topic, 2))
    for member in members:
        until(lambda member=member: _committed_by(member) == {15}, lambda member=member: _committed_by(member))


def _committed_by(member: Any) -> set[int]:
    """Positions, which after a rebalance are at first those that were committed before."""
    member.commit()
    return set(member.committed(*member.assignment).values())
