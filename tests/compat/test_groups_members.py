"""Groups of one client each: who gets which partitions, and that each group gets every message once."""

from collections.abc import Callable
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import MEMBERS, places, until, until_shared
from compat.support.topics import fill

NAMES = sorted(MEMBERS)
Join = Callable[..., Any]


@pytest.mark.parametrize("name", NAMES)
def test_one_member_gets_everything(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, name: str
) -> None:
    topic = group_topic(3)
    sent = fill(group_broker.bootstrap, topic, 3, 20)
    member = join(name, group=topic, topics=(topic,))
    until(lambda: len(member.received) >= len(sent), lambda: (len(member.received), member.errors))
    assert sorted(member.values) == sorted(sent)
    for partition in range(3):
        offsets = [got.offset for got in member.received if got.partition == partition]
        assert offsets == list(range(20))
    until_shared([member], places(topic, 3))


@pytest.mark.parametrize("name", NAMES)
def test_members_come_and_go(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, name: str
) -> None:
    topic = group_topic(4)
    first = join(name, group=topic, topics=(topic,))
    until_shared([first], places(topic, 4))
    second = join(name, group=topic, topics=(topic,))
    until_shared([first, second], places(topic, 4), [2, 2])
    sent = fill(group_broker.bootstrap, topic, 4, 10)
    until(lambda: len(first.received) + len(second.received) >= len(sent), lambda: (first.errors, second.errors))
    assert sorted(first.values + second.values) == sorted(sent)
    assert len(first.received) == len(second.received)
    second.close()
    until_shared([first], places(topic, 4))


@pytest.mark.parametrize("name", NAMES)
def test_more_members_than_partitions_sit_idle_and_step_in(
    group_topic: Callable[..., str], join: Join, name: str
) -> None:
    topic = group_topic(2)
    members = [join(name, group=topic, topics=(topic,)) for _ in range(3)]
    until_shared(members, places(topic, 2), [0, 1, 1])
    busy = next(member for member in members if member.assignment)
    rest = [member for member in members if member is not busy]
    busy.close()
    until_shared(rest, places(topic, 2))


def test_each_group_gets_every_message(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join
) -> None:
    topic = group_topic(2)
    sent = fill(group_broker.bootstrap, topic, 2, 50)
    members = [join(name, group=f"{topic}.{name}", topics=(topic,)) for name in NAMES]
    for member in members:
        until(
            lambda member=member: len(member.received) >= len(sent), lambda member=member: (member.name, member.errors)
        )
        assert sorted(member.values) == sorted(sent), member.name


@pytest.mark.parametrize("name", NAMES)
def test_every_assignor(group_topic: Callable[..., str], join: Join, name: str) -> None:
    """Two topics of three partitions and two members: range gives 4 and 2 of them, the others 3 and 3."""
    one, two = group_topic(3, ".one"), group_topic(3, ".two")
    wanted = places(one, 3) + places(two, 3)
    groups = {
        assignor: [join(name, group=f"{one}.{assignor}", topics=(one, two), assignor=assignor) for _ in range(2)]
        for assignor in MEMBERS[name].assignors
    }
    for assignor, members in groups.items():
        until_shared(members, wanted, [2, 4] if assignor == "range" else [3, 3])


def test_a_group_of_all_clients(group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join) -> None:
    """librdkafka (new and old), Java and all Python clients agree on range, and on who leads."""
    partitions = 2 * len(NAMES)
    topic = group_topic(partitions)
    members = [join(name, group=topic, topics=(topic,)) for name in NAMES]
    until_shared(members, places(topic, partitions), [2] * len(NAMES))
    sent = fill(group_broker.bootstrap, topic, partitions, 5)
    until(lambda: sum(len(member.received) for member in members) >= len(sent), lambda: [m.errors for m in members])
    assert sorted(value for member in members for value in member.values) == sorted(sent)
    gone = members.pop(0)
    gone.close()
    until_shared(members, places(topic, partitions))
