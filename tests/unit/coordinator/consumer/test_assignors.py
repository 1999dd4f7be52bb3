"""The assignors against assignments that Apache Kafka 4.3.0's own classes computed, and case by case.

`kafka_assignments.txt` has one case per line: assignor and subscription type | topic:partitions | members =>
assignment. A member is `id;instance id;its topics;its partitions before`. The cases were drawn at random;
UniformAssignor and RangeAssignor of kafka-group-coordinator-4.3.0.jar gave the right-hand sides, with members in the
order of their ids.
"""

from pathlib import Path

import pytest

from headwater.coordinator.groups.assignors import range as range_assignor
from headwater.coordinator.groups.assignors import uniform
from headwater.coordinator.groups.assignors.spec import Assignment, GroupSpec, MemberSpec, Partitions

CASES = Path(__file__).with_name("kafka_assignments.txt").read_text().splitlines()
ASSIGNORS = {"uniform": uniform.assign, "range": range_assignor.assign}


def topic(number: int) -> bytes:
    return number.to_bytes(16, "big")


def partitions(text: str) -> Partitions:
    pairs = (pair.split("-") for pair in text.split(".") if pair)
    return frozenset((topic(int(number)), int(partition)) for number, partition in pairs)


def parse(line: str) -> tuple[str, GroupSpec, Assignment]:
    question, answer = line.split(" => ")
    head, topics, members = question.split("|")
    specs = {}
    for member in members.split(" "):
        member_id, instance_id, subscribed, assigned = member.split(";")
        ids = frozenset(topic(int(number)) for number in subscribed.split(".") if number)
        specs[member_id] = MemberSpec(instance_id or None, ids, partitions(assigned))
    subscribed_ids = frozenset().union(*(spec.topics for spec in specs.values()))
    counts = {topic(int(number)): int(count) for number, count in (each.split(":") for each in topics.split(","))}
    group = GroupSpec(specs, {id_: count for id_, count in counts.items() if id_ in subscribed_ids})
    name, type_ = head.split(" ")
    assert group.homogeneous == (type_ == "HOMOGENEOUS")
    return name, group, {each.split(";")[0]: partitions(each.split(";")[1]) for each in answer.split(" ")}


@pytest.mark.parametrize("line", CASES, ids=range(len(CASES)))
def test_the_same_as_kafka(line: str) -> None:
    name, group, expected = parse(line)
    assert ASSIGNORS[name](group) == expected


A, B = topic(1), topic(2)


def group_of(members: dict[str, MemberSpec], **counts: int) -> GroupSpec:
    return GroupSpec(members, {{"a": A, "b": B}[name]: count for name, count in counts.items()})


def member(topics: set[bytes], assigned: Partitions = frozenset(), instance_id: str | None = None) -> MemberSpec:
    return MemberSpec(instance_id, frozenset(topics), assigned)


def indexes(assigned: Partitions, topic_id: bytes = A) -> list[int]:
    return sorted(partition for id_, partition in assigned if id_ == topic_id)


@pytest.mark.parametrize("assign", ASSIGNORS.values(), ids=ASSIGNORS)
def test_no_members_and_no_topics(assign) -> None:
    assert assign(GroupSpec({}, {})) == {}
    assert assign(GroupSpec({"m": member(set())}, {})) == {"m": frozenset()}


def test_range_cuts_topics_of_one_size_alike() -> None:
    result = range_assignor.assign(group_of({"x": member({A, B}), "y": member({A, B})}, a=5, b=5))
    assert indexes(result["x"]) == indexes(result["x"], B) == [0, 1, 2]
    assert indexes(result["y"]) == indexes(result["y"], B) == [3, 4]


def test_range_puts_static_members_first() -> None:
    members = {"a": member({A}), "z": member({A}, instance_id="2"), "y": member({A}, instance_id="3")}
    result = range_assignor.assign(group_of(members, a=3))
    assert [indexes(result[member_id]) for member_id in ("z", "y", "a")] == [[0], [1], [2]]


def test_uniform_gives_a_new_member_its_share_and_moves_no_more() -> None:
    old = uniform.assign(group_of({"x": member({A}), "y": member({A})}, a=6))
    members = {member_id: member({A}, assigned) for member_id, assigned in old.items()} | {"new": member({A})}
    new = uniform.assign(group_of(members, a=6))
    assert [len(new[member_id]) for member_id in ("x", "y", "new")] == [2, 2, 2]
    assert new["x"] < old["x"]
    assert new["y"] < old["y"]


def test_uniform_evens_out_over_different_subscriptions() -> None:
    members = {"x": member({A, B}), "y": member({B})}
    result = uniform.assign(group_of(members, a=2, b=4))
    assert {member_id: len(assigned) for member_id, assigned in result.items()} == {"x": 3, "y": 3}
    assert indexes(result["x"]) == [0, 1]
