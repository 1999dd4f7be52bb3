"""What holds for every assignor and every group: complete, only what is subscribed to, the same every time; and what
each adds.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.coordinator.groups.assignors import range as range_assignor
from headwater.coordinator.groups.assignors import uniform
from headwater.coordinator.groups.assignors.spec import Assignment, GroupSpec, MemberSpec

BOTH = pytest.mark.parametrize("assign", [uniform.assign, range_assignor.assign], ids=["uniform", "range"])


@st.composite
def groups(draw: st.DrawFn, *, homogeneous: bool | None = None) -> GroupSpec:
    counts = {number.to_bytes(16, "big"): draw(st.integers(1, 12)) for number in range(1, draw(st.integers(1, 5)) + 1)}
    member_ids = [f"member-{place}" for place in range(draw(st.integers(1, 8)))]
    everything = [(topic, partition) for topic, count in counts.items() for partition in range(count)]
    owners = draw(st.lists(st.sampled_from([*member_ids, None]), min_size=len(everything), max_size=len(everything)))
    same = draw(st.booleans()) if homogeneous is None else homogeneous
    members = {}
    for member_id in member_ids:
        topics = frozenset(counts) if same else frozenset(draw(st.sets(st.sampled_from(sorted(counts)))))
        assigned = frozenset(pair for pair, owner in zip(everything, owners, strict=True) if owner == member_id)
        members[member_id] = MemberSpec(draw(st.none() | st.just(f"i-{member_id}")), topics, assigned)
    subscribed = frozenset().union(*(member.topics for member in members.values()))
    return GroupSpec(members, {topic: count for topic, count in counts.items() if topic in subscribed})


def after(group: GroupSpec, assignment: Assignment) -> GroupSpec:
    members = {id_: spec._replace(assigned=assignment[id_]) for id_, spec in group.members.items()}
    return group._replace(members=members)


@BOTH
@given(group=groups())
def test_every_partition_has_one_owner_that_is_subscribed(assign, group: GroupSpec) -> None:
    result = assign(group)
    assert set(result) == set(group.members)
    owned = [partition for assigned in result.values() for partition in assigned]
    assert len(owned) == len(set(owned))
    assert set(owned) == {(topic, index) for topic, count in group.partition_counts.items() for index in range(count)}
    for member_id, assigned in result.items():
        assert {topic for topic, _ in assigned} <= group.members[member_id].topics


@BOTH
@given(group=groups(), data=st.data())
def test_the_order_of_members_in_memory_does_not_matter(assign, group: GroupSpec, data: st.DataObject) -> None:
    shuffled = group._replace(members=dict(data.draw(st.permutations(list(group.members.items())))))
    assert assign(shuffled) == assign(group)


@BOTH
@given(group=groups())
def test_computed_again_nothing_moves(assign, group: GroupSpec) -> None:
    first = assign(group)
    assert assign(after(group, first)) == first


@given(group=groups(homogeneous=True))
def test_uniform_differs_by_one_at_most_and_moves_no_more_than_that_takes(group: GroupSpec) -> None:
    result = uniform.assign(group)
    sizes = [len(assigned) for assigned in result.values()]
    assert max(sizes) - min(sizes) <= 1
    moved = sum(len(spec.assigned - result[member_id]) for member_id, spec in group.members.items())
    quota, extra = divmod(sum(group.partition_counts.values()), len(group.members))
    surplus = sorted((len(spec.assigned) for spec in group.members.values()), reverse=True)
    least = sum(max(0, size - quota - (place < extra)) for place, size in enumerate(surplus))
    assert moved == least


@given(group=groups(homogeneous=False))
def test_uniform_leaves_no_move_that_would_help(group: GroupSpec) -> None:
    result = uniform.assign(group)
    for giver, assigned in result.items():
        for topic in {topic for topic, _ in assigned}:
            for taker, spec in group.members.items():
                assert topic not in spec.topics or len(assigned) - len(result[taker]) <= 1, (giver, taker)


@given(group=groups())
def test_range_gives_contiguous_ranges_that_differ_by_one_at_most(group: GroupSpec) -> None:
    result = range_assignor.assign(group)
    for topic in group.partition_counts:
        cuts = [
            sorted(index for id_, index in result[member_id] if id_ == topic)
            for member_id, spec in group.members.items()
            if topic in spec.topics
        ]
        assert max(map(len, cuts)) - min(map(len, cuts)) <= 1
        assert all(cut == list(range(cut[0], cut[-1] + 1)) for cut in cuts if cut)
