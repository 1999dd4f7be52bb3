"""Our assignors beside Kafka's own, on the same bytes: range and round robin to the letter, the sticky ones in what
counts.

The sticky assignors may differ in which of two equal partitions moves; they may not in how even the shares are, nor in
how much stays where it was.
"""

from collections.abc import Iterator
from random import Random

import pytest

from compat.support.java import Java
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import decode_assignment, decode_subscription, encode_subscription
from headwater.client.consumer.assignors.named import BUILT_IN
from headwater.client.consumer.assignors.spec import Assignor, MemberSubscription

ASSIGNORS = {each.name: each for each in BUILT_IN}
Members = dict[str, MemberSubscription]


@pytest.fixture(scope="module")
def java_assignors() -> Iterator[Java]:
    harness = Java("Assignors")
    yield harness
    harness.close()


def of_java(java: Java, assignor: str, counts: dict[str, int], members: Members) -> dict[str, set[TopicPartition]]:
    said = {
        member_id: {"metadata": encode_subscription(each).hex(), "instance": each.group_instance_id}
        for member_id, each in members.items()
    }
    answer = java.call("assign", assignor=assignor, counts=counts, members=said)
    return {member_id: set(decode_assignment(bytes.fromhex(data))) for member_id, data in answer.items()}


def of_ours(assignor: str, counts: dict[str, int], members: Members) -> dict[str, set[TopicPartition]]:
    return {id_: set(each) for id_, each in ASSIGNORS[assignor].assign(counts, members).items()}


def random_group(dice: Random, *, alike: bool) -> tuple[dict[str, int], Members]:
    counts = {topic: dice.randint(1, 7) for topic in "abcd"[: dice.randint(1, 4)]}
    topics = sorted(counts)
    shared = tuple(sorted(dice.sample(topics, dice.randint(1, len(topics)))))
    return counts, {
        f"m{number}": MemberSubscription(
            shared if alike else tuple(sorted(dice.sample(topics, dice.randint(1, len(topics))))),
            group_instance_id=f"i{dice.randint(0, 99)}-{number}" if dice.random() < 0.3 else None,
        )
        for number in range(dice.randint(1, 6))
    }


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_the_same_assignment_to_the_letter(java_assignors: Java, assignor: str) -> None:
    dice = Random(3)
    for _ in range(60):
        counts, members = random_group(dice, alike=dice.random() < 0.5)
        assert of_ours(assignor, counts, members) == of_java(java_assignors, assignor, counts, members)


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_as_even_and_as_sticky_through_the_changes_of_a_group(java_assignors: Java, assignor: str) -> None:
    """Members come and go; each side goes on from what it assigned itself, told in the bytes of the other."""
    dice = Random(5)
    for _ in range(25):
        counts, members = random_group(dice, alike=True)
        for generation in range(1, 4):
            ours, kept_by_us = _settled(ASSIGNORS[assignor], None, counts, members, generation)
            theirs, kept_by_them = _settled(ASSIGNORS[assignor], java_assignors, counts, members, generation)
            assert sorted(map(len, ours.values())) == sorted(map(len, theirs.values()))
            assert kept_by_us == kept_by_them
            members = _after(ASSIGNORS[assignor], members, ours, generation)
            if dice.random() < 0.5 and len(members) > 1:
                members.pop(dice.choice(sorted(members)))
            else:
                members[f"n{generation}"] = MemberSubscription(next(iter(members.values())).topics)


def _settled(
    assignor: Assignor, java: Java | None, counts: dict[str, int], members: Members, generation: int
) -> tuple[dict[str, set[TopicPartition]], int]:
    """The assignment after as many rebalances as it takes, and how many partitions stayed where they were."""
    before = {id_: set(decode_claim(assignor, each)) for id_, each in members.items()}
    while True:
        name = assignor.name
        found = of_ours(name, counts, members) if java is None else of_java(java, name, counts, members)
        after = _after(assignor, members, found, generation)
        if not assignor.cooperative or all(set(members[id_].owned) <= found[id_] for id_ in members):
            given = {each for partitions in found.values() for each in partitions}
            topics = next(iter(members.values())).topics
            if len(given) == sum(counts.get(topic, 0) for topic in topics):
                return found, sum(len(found[id_] & before[id_]) for id_ in members)
        members = after


def decode_claim(assignor: Assignor, member: MemberSubscription) -> tuple[TopicPartition, ...]:
    if assignor.cooperative:
        return member.owned
    return decode_assignment(b"\0\0" + member.user_data) if member.user_data else ()


def _after(assignor: Assignor, members: Members, found: dict[str, set[TopicPartition]], generation: int) -> Members:
    return {
        id_: MemberSubscription(
            each.topics,
            tuple(sorted(found[id_])) if assignor.cooperative else (),
            generation,
            None,
            assignor.user_data(each.topics, sorted(found[id_]), generation),
            each.group_instance_id,
        )
        for id_, each in members.items()
    }


@pytest.mark.parametrize("assignor", sorted(ASSIGNORS))
def test_a_member_says_the_same_in_the_same_bytes(java_assignors: Java, assignor: str) -> None:
    topics, assigned = ("a", "b"), (TopicPartition("a", 1), TopicPartition("a", 2), TopicPartition("b", 0))
    answer = java_assignors.call(
        "join", assignor=assignor, topics=topics, assigned=[list(each) for each in assigned], generation=7
    )
    theirs = decode_subscription(bytes.fromhex(answer["metadata"]))
    ours = MemberSubscription(
        topics,
        assigned if ASSIGNORS[assignor].cooperative else (),
        7,
        None,
        ASSIGNORS[assignor].user_data(topics, assigned, 7),
    )
    assert theirs == ours
    assert encode_subscription(ours).hex() == answer["metadata"]
