"""What holds for every assignor of the client and every group: valid, the same every time, balanced, sticky."""

from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from headwater.client.consumer.assignors.named import BUILT_IN
from headwater.client.consumer.assignors.spec import Assignor, MemberSubscription
from headwater.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

ALL = pytest.mark.parametrize("assignor", BUILT_IN, ids=[each.name for each in BUILT_IN])
STICKY = StickyAssignor()
COOPERATIVE = CooperativeStickyAssignor()
BOTH_STICKY = pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE], ids=["sticky", "cooperative-sticky"])

Members = dict[str, MemberSubscription]
Counts = dict[str, int]
Assignment = Mapping[str, list[TopicPartition]]

TOPICS = ["a", "b", "c", "d"]


def groups(*, alike: bool | None = None) -> st.SearchStrategy[tuple[Counts, Members]]:
    """Members that say they own this and that: what no other says, what two say, what does not exist.

    Made from one number, because drawing each part costs more than all that is tested with it.
    """
    return st.integers(0, 2**32).map(lambda seed: _group(Random(seed), alike))


def _group(chance: Random, alike: bool | None) -> tuple[Counts, Members]:
    counts = {topic: chance.randint(1, 9) for topic in chance.sample(TOPICS, chance.randint(1, len(TOPICS)))}
    known = [*sorted(counts), "missing"]
    same = chance.random() < 0.5 if alike is None else alike
    shared = chance.sample(known, chance.randint(1, len(known)))
    instances = [f"i{number}" for number in range(8)]
    chance.shuffle(instances)
    members: Members = {}
    for number in sorted(chance.sample(range(8), chance.randint(1, 8))):
        topics = tuple(sorted(shared if same else chance.sample(known, chance.randint(0, len(known)))))
        owned = {TopicPartition(chance.choice(known), chance.randint(0, 10)) for _ in range(chance.randint(0, 12))}
        generation = chance.randint(-1, 3)
        ordered = tuple(sorted(owned))
        user_data = STICKY.user_data(topics, ordered, generation)
        instance = instances[number] if chance.random() < 0.3 else None
        members[f"m{number}"] = MemberSubscription(topics, ordered, generation, None, user_data, instance)
    return counts, members


def wanted(counts: Counts, members: Members) -> set[TopicPartition]:
    topics = {topic for each in members.values() for topic in each.topics}
    return {TopicPartition(topic, index) for topic in topics for index in range(counts.get(topic, 0))}


def settle(assignor: Assignor, counts: Counts, members: Members, rounds: int = 4) -> tuple[Members, Assignment]:
    """Rebalances until nothing changes: what members were given is what they own the next time."""
    generation = max(each.generation for each in members.values())
    for _ in range(rounds):
        assignment = assignor.assign(counts, members)
        generation += 1
        after = {id_: after_assignment(assignor, each, assignment[id_], generation) for id_, each in members.items()}
        settled = {id_: set(each.owned) for id_, each in after.items()} == {
            id_: set(each.owned) for id_, each in members.items()
        }
        members = after
        if settled:
            return members, {id_: list(partitions) for id_, partitions in assignment.items()}
    raise AssertionError(f"not settled after {rounds} rounds")


def after_assignment(assignor: Assignor, member: MemberSubscription, partitions, generation: int) -> MemberSubscription:
    owned = tuple(sorted(partitions))
    return MemberSubscription(
        member.topics,
        owned,
        generation,
        None,
        assignor.user_data(member.topics, owned, generation),
        member.group_instance_id,
    )


@ALL
@given(group=groups())
def test_nobody_gets_what_it_does_not_want_and_nothing_is_given_twice(
    assignor: Assignor, group: tuple[Counts, Members]
) -> None:
    counts, members = group
    assignment = assignor.assign(counts, members)
    assert set(assignment) == set(members)
    given_out = [each for partitions in assignment.values() for each in partitions]
    assert len(given_out) == len(set(given_out))
    for member_id, partitions in assignment.items():
        assert {each.topic for each in partitions} <= set(members[member_id].topics)
    if assignor.cooperative:
        assert set(given_out) <= wanted(counts, members)
    else:
        assert set(given_out) == wanted(counts, members)


@ALL
@given(group=groups(), data=st.data())
def test_the_order_in_which_members_come_does_not_matter(
    assignor: Assignor, group: tuple[Counts, Members], data: st.DataObject
) -> None:
    counts, members = group
    shuffled = dict(data.draw(st.permutations(list(members.items()))))
    assert assignor.assign(counts, shuffled) == assignor.assign(counts, members)


@given(group=groups())
def test_a_cooperative_member_never_gets_what_another_one_still_holds(group: tuple[Counts, Members]) -> None:
    counts, members = group
    for member_id, partitions in COOPERATIVE.assign(counts, members).items():
        for partition in partitions:
            holders = {other for other, each in members.items() if partition in each.owned}
            assert not holders or member_id in holders


@given(group=groups())
def test_cooperative_rebalances_settle_with_everything_given(group: tuple[Counts, Members]) -> None:
    counts, members = group
    _, assignment = settle(COOPERATIVE, counts, members)
    assert {each for partitions in assignment.values() for each in partitions} == wanted(counts, members)


@BOTH_STICKY
@given(group=groups(alike=True))
def test_members_alike_differ_by_one_at_most(assignor: Assignor, group: tuple[Counts, Members]) -> None:
    _, assignment = settle(assignor, *group)
    loads = [len(partitions) for partitions in assignment.values()]
    assert max(loads) - min(loads) <= 1


@BOTH_STICKY
@given(group=groups())
def test_nobody_could_take_a_partition_from_one_who_has_two_more(
    assignor: Assignor, group: tuple[Counts, Members]
) -> None:
    counts, members = group
    _, assignment = settle(assignor, counts, members)
    for giver, partitions in assignment.items():
        for taker in members:
            if len(partitions) - len(assignment[taker]) >= 2 and giver != taker:
                assert not {each.topic for each in partitions} & set(members[taker].topics)


@BOTH_STICKY
@given(group=groups())
def test_assigned_again_nothing_moves(assignor: Assignor, group: tuple[Counts, Members]) -> None:
    counts, members = group
    members, assignment = settle(assignor, counts, members)
    again = assignor.assign(counts, members)
    assert {id_: set(each) for id_, each in again.items()} == {id_: set(each) for id_, each in assignment.items()}


@BOTH_STICKY
@given(group=groups(alike=True), data=st.data())
def test_who_stays_keeps_all_when_another_one_leaves(
    assignor: Assignor, group: tuple[Counts, Members], data: st.DataObject
) -> None:
    counts, members = group
    members, _ = settle(assignor, counts, members)
    if len(members) == 1:
        return
    gone = data.draw(st.sampled_from(sorted(members)))
    rest = {id_: each for id_, each in members.items() if id_ != gone}
    _, after = settle(assignor, counts, rest)
    for member_id, each in rest.items():
        assert set(after[member_id]) >= set(each.owned)


@BOTH_STICKY
@given(group=groups(alike=True))
def test_one_who_joins_takes_its_share_and_nothing_else_moves(
    assignor: Assignor, group: tuple[Counts, Members]
) -> None:
    counts, members = group
    members, _ = settle(assignor, counts, members)
    topics = next(iter(members.values())).topics
    _, after = settle(assignor, counts, members | {"newcomer": MemberSubscription(topics)})
    for member_id, each in members.items():
        assert set(after[member_id]) <= set(each.owned)


@given(claimed=st.integers(-1, 3), rival=st.integers(-1, 3))
def test_the_claim_of_the_later_generation_counts(claimed: int, rival: int) -> None:
    topics = ("a",)
    mine, other = (TopicPartition("a", 0), TopicPartition("a", 1)), (TopicPartition("a", 0), TopicPartition("a", 2))
    members = {
        "m0": MemberSubscription(topics, user_data=STICKY.user_data(topics, mine, claimed)),
        "m1": MemberSubscription(topics, user_data=STICKY.user_data(topics, other, rival)),
    }
    assignment = STICKY.assign({"a": 4}, members)
    if claimed > rival:
        assert TopicPartition("a", 0) in assignment["m0"]
    if rival > claimed:
        assert TopicPartition("a", 0) in assignment["m1"]


# The bytes

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
partitions_of_topics = st.lists(st.builds(TopicPartition, text, st.integers(0, 2**31 - 1)), unique=True).map(
    lambda each: tuple(sorted(each))
)


@given(
    subscription=st.builds(
        MemberSubscription,
        st.lists(text).map(tuple),
        partitions_of_topics,
        st.integers(-1, 2**31 - 1),
        st.none() | text,
        st.none() | st.binary(max_size=20),
    )
)
def test_a_subscription_comes_back_as_it_went(subscription: MemberSubscription) -> None:
    assert decode_subscription(encode_subscription(subscription)) == subscription


@given(partitions=partitions_of_topics, user_data=st.none() | st.binary(max_size=9))
def test_an_assignment_comes_back_as_it_went(partitions: tuple[TopicPartition, ...], user_data: bytes | None) -> None:
    assert decode_assignment(encode_assignment(partitions, user_data)) == partitions


@given(data=st.binary(max_size=60))
def test_whatever_a_member_writes_is_read_or_refused(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        try:
            read(data)
        except KafkaError:
            continue


@given(data=st.binary(max_size=40), group=groups())
def test_user_data_of_strangers_harms_nobody(data: bytes, group: tuple[Counts, Members]) -> None:
    counts, members = group
    members["stranger"] = MemberSubscription(("a",), user_data=data)
    assignment = STICKY.assign(counts, members)
    assert {each for partitions in assignment.values() for each in partitions} == wanted(counts, members)
    COOPERATIVE.assign(counts, members)
