"""Our consumer in one group with those of others: it leads them, they lead it, and everybody gets its share."""

from collections.abc import Callable
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import MEMBERS, Member, places, until, until_shared
from compat.support.topics import fill

Join = Callable[..., Any]

OTHERS = {
    assignor: [
        name for name in ("confluent", "kafka-python", "aiokafka", "java") if assignor in MEMBERS[name].assignors
    ]
    for assignor in ("range", "roundrobin", "sticky", "cooperative-sticky")
}
CASES = [(assignor, leads) for assignor in OTHERS for leads in ("headwater", OTHERS[assignor][-1])]


@pytest.mark.parametrize(("assignor", "leads"), CASES)
def test_a_group_of_many_clients(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, assignor: str, leads: str
) -> None:
    """The first to join leads. When it leaves, another one does."""
    names = sorted({"headwater", *OTHERS[assignor]}, key=lambda name: name != leads)
    topic = group_topic(2 * len(names))
    everywhere = places(topic, 2 * len(names))
    members = []
    for name in names:
        members.append(join(name, group=topic, topics=(topic,), assignor=assignor))
        if name == leads:
            until_shared(members, everywhere)
    until_shared(members, everywhere, [2] * len(names))
    sent = fill(group_broker.bootstrap, topic, 2 * len(names), 3)
    until_all(members, sent)
    members.pop(0).close()
    until_shared(members, everywhere)
    assert not [error for member in members for error in member.errors if member.name == "headwater"]


def until_all(members: list[Member], sent: list[bytes]) -> None:
    until(
        lambda: sorted(value for member in members for value in member.values) == sorted(sent),
        lambda: [(member.name, len(member.received), member.errors) for member in members],
    )


@pytest.mark.parametrize("first", ["headwater", "java"])
def test_a_group_of_the_consumer_protocol(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join, first: str
) -> None:
    topic = group_topic(6)
    names = sorted(["confluent", "headwater", "java"], key=lambda name: name != first)
    members: list[Any] = []
    for name in names:  # one after the other, for librdkafka's sake: see test_groups_consumer_protocol.py
        members.append(join(name, group=topic, topics=(topic,), protocol="consumer"))
        until_shared(members, places(topic, 6))
    until_shared(members, places(topic, 6), [2, 2, 2])
    sent = fill(group_broker.bootstrap, topic, 6, 5)
    until_all(members, sent)
    members.pop(0).close()
    until_shared(members, places(topic, 6), [3, 3])


def test_the_broker_matches_a_pattern_for_us(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join
) -> None:
    one = group_topic(2, ".a")
    two = group_topic(1, ".b")
    pattern = one.removesuffix(".a").replace(".", "\\.") + "\\.[a-c]"
    member = join("headwater", group=one, pattern=pattern, protocol="consumer")
    until_shared([member], places(one, 2) + places(two, 1))
    until_all([member], fill(group_broker.bootstrap, two, 1, 3))


def test_a_group_moves_over_to_the_consumer_protocol_and_nothing_is_lost(
    group_broker: BrokerProcess, group_topic: Callable[..., str], join: Join
) -> None:
    """A member of the new protocol joins a classic group of ours: the broker serves both until the last old one is
    gone.
    """
    topic = group_topic(4)
    old = join("headwater", group=topic, topics=(topic,), assignor="cooperative-sticky", auto_commit_ms=100)
    until_shared([old], places(topic, 4))
    new = join("headwater", group=topic, topics=(topic,), protocol="consumer", auto_commit_ms=100)
    until_shared([old, new], places(topic, 4), [2, 2])
    sent = fill(group_broker.bootstrap, topic, 4, 5)
    until_all([old, new], sent)
    old.close()
    until_shared([new], places(topic, 4))
    more = fill(group_broker.bootstrap, topic, 4, 2, start=5)
    until(lambda: set(more) <= set(new.values), lambda: new.errors)
