"""Where replicas are put: spread evenly, over racks, and with as few moves as it takes."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.ids import TopicPartition
from headwater.cli.placements import alternating, rebalance, spread

PLAIN = {1: None, 2: None, 3: None}
RACKS = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}


def _partitions(*replicas: list[int]) -> dict[TopicPartition, list[int]]:
    return {TopicPartition("t", at): each for at, each in enumerate(replicas)}


def test_first_replicas_go_round_and_the_others_shift_with_each_round() -> None:
    assert spread(PLAIN, 6, 2, start=0, shift=0) == [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2]]
    assert spread({7: None}, 2, 1, start=0, shift=0) == [[7], [7]]


def test_neighbours_are_on_different_racks() -> None:
    assert alternating(RACKS) == [1, 3, 5, 2, 4, 6]
    assert alternating({1: "a", 2: "a", 3: "a", 4: "b"}) == [1, 4, 2, 3]


@given(st.integers(0, 5), st.integers(0, 5), st.integers(1, 30), st.integers(1, 6))
def test_spread_uses_every_rack_before_one_twice(start: int, shift: int, count: int, replicas: int) -> None:
    placed = spread(RACKS, count, replicas, start=start, shift=shift)
    for chosen in placed:
        assert len(set(chosen)) == replicas
        assert len({RACKS[broker] for broker in chosen}) == min(3, replicas)
    leaders = Counter(chosen[0] for chosen in placed)
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in RACKS) <= 1


def test_nothing_moves_that_is_right_already() -> None:
    assert rebalance(_partitions([1, 2], [2, 3], [3, 1]), PLAIN) == {}


def test_a_new_broker_gets_its_share_and_no_more_is_moved() -> None:
    current = _partitions([1, 2], [2, 1], [1, 2], [2, 1], [1, 2], [2, 1])
    moved = rebalance(current, PLAIN)
    after = {**current, **moved}
    assert Counter(broker for each in after.values() for broker in each) == {1: 4, 2: 4, 3: 4}
    copied = sum(len(set(after[each]) - set(current[each])) for each in current)
    assert copied == 4
    assert Counter(each[0] for each in after.values()) == {1: 2, 2: 2, 3: 2}


def test_a_broker_that_is_left_out_keeps_nothing() -> None:
    current = _partitions([1, 2], [2, 3], [3, 1])
    moved = rebalance(current, {1: None, 3: None})
    assert set(moved) >= {TopicPartition("t", 0), TopicPartition("t", 1)}
    assert all(sorted(each) == [1, 3] for each in {**current, **moved}.values())


@pytest.mark.parametrize(("replicas", "expected"), [(1, 1), (3, 3), (9, 3)])
def test_the_number_of_replicas_changes_up_to_the_number_of_brokers(replicas: int, expected: int) -> None:
    current = _partitions([1, 2], [2, 3])
    after = {**current, **rebalance(current, PLAIN, replicas)}
    assert {len(set(each)) for each in after.values()} == {expected}


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(1, 6), st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=6),
    st.lists(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True), max_size=12),
)
def test_any_rebalance_is_complete_and_balanced(racks: dict[int, str | None], replicas: list[list[int]]) -> None:
    current = _partitions(*replicas)
    after = {**current, **rebalance(current, racks)}
    for partition, chosen in after.items():
        assert len(chosen) == len(set(chosen)) == min(len(racks), len(current[partition]))
        assert set(chosen) <= set(racks)
    if set(racks.values()) == {None} and after:
        load = Counter(broker for each in after.values() for broker in each)
        assert max(load.values()) - min(load.get(broker, 0) for broker in racks) <= 1


def test_evening_out_keeps_replicas_on_different_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    current = _partitions([3, 1], [3, 1], [3, 1], [3, 1])
    after = {**current, **rebalance(current, racks)}
    assert all({racks[broker] for broker in each} == {"a", "b"} for each in after.values())
    assert Counter(broker for each in after.values() for broker in each) == {3: 4, 1: 2, 2: 2}
