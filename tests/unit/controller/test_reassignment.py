"""Moves: begun, turned round, turned elsewhere, ended."""

import pytest

from headwater.base.errors import KafkaError
from headwater.controller.reassignment import (
    Moving,
    cancelled,
    check_factor,
    completed,
    moving,
    origin_of,
    started,
    target_of,
)
from headwater.metadata.image import ClusterImage, PartitionState, TopicState
from unit.controller.controller_support import TOPIC, live, outline, partition


def assignment(state: PartitionState) -> tuple[list[int], list[int], list[int]]:
    return list(state.replicas), list(state.adding), list(state.removing)


def test_the_target_stands_first_and_who_is_to_go_last() -> None:
    state = started(partition(1, (1, 2, 3)), [4, 3, 5], "t:0")
    assert assignment(state) == ([4, 3, 5, 1, 2], [4, 5], [1, 2])
    assert outline(state) == outline(partition(1, (1, 2, 3)))
    assert (target_of(state), origin_of(state)) == ([4, 3, 5], [3, 1, 2])


def test_another_order_is_no_move() -> None:
    assert assignment(started(partition(1, (1, 2, 3)), [3, 1, 2], "t:0")) == ([3, 1, 2], [], [])


def test_a_move_can_be_turned_to_another_target() -> None:
    state = partition(1, (4, 3, 1, 2), (1, 2, 3), adding=[4], removing=[1, 2])
    assert assignment(started(state, [5, 1], "t:0")) == ([5, 1, 3, 2], [5], [3, 2])
    assert assignment(started(state, [4, 2], "t:0")) == ([4, 2, 3, 1], [4], [3, 1])
    assert assignment(started(state, [3, 1, 2], "t:0")) == ([3, 1, 2], [], [])


def test_a_move_can_be_turned_round() -> None:
    state = partition(1, (4, 3, 1, 2), (1, 2, 3), adding=[4], removing=[1, 2])
    assert assignment(cancelled(state, "t:0")) == ([3, 1, 2], [], [])


def test_what_does_not_move_cannot_be_turned_round() -> None:
    with pytest.raises(KafkaError, match="NO_REASSIGNMENT_IN_PROGRESS"):
        cancelled(partition(1, (1, 2)), "t:0")


@pytest.mark.parametrize("turn", [lambda state: cancelled(state, "t:0"), lambda state: started(state, [1, 3], "t:0")])
def test_a_move_is_not_turned_away_from_all_that_are_in_sync(turn: object) -> None:
    state = partition(2, (2, 1), [2], adding=[2], removing=[1])
    with pytest.raises(KafkaError, match="for t:0 because it would require an unclean leader election") as caught:
        turn(state)  # type: ignore[operator]
    assert caught.value.code.name == "INVALID_REPLICA_ASSIGNMENT"


def test_a_move_ends_when_all_that_are_added_are_in_sync() -> None:
    waiting = partition(1, (3, 4, 1, 2), (1, 2, 3), adding=[3, 4], removing=[1, 2])
    assert completed(waiting, live(1, 2, 3, 4)) == waiting
    ready = partition(1, (3, 4, 1, 2), (4, 1, 3), adding=[3, 4], removing=[1, 2])
    ended = completed(ready, live(1, 2, 3, 4))
    assert assignment(ended) == ([3, 4], [], [])
    assert outline(ended) == (3, 6, [4, 3], [40, 30])
    assert ended.version == ready.version


def test_a_leader_that_stays_a_replica_leads_on() -> None:
    ended = completed(partition(2, (3, 2, 1), adding=[3], removing=[1]), live(1, 2, 3))
    assert outline(ended) == (2, 5, [3, 2], [30, 20])


def test_a_move_that_only_removes_waits_for_one_of_the_target() -> None:
    state = partition(2, (1, 2, 3), [2, 3], removing=[2, 3])
    assert completed(state, live(1, 2, 3)) == state
    assert outline(completed(partition(2, (1, 2, 3), [1, 2], removing=[2, 3]), live(1, 2, 3))) == (1, 6, [1], [10])


def test_a_move_does_not_end_while_nobody_leads() -> None:
    state = partition(-1, (2, 1), [1, 2], adding=[2], removing=[1])
    assert completed(state, live(3)) == state


@pytest.mark.parametrize(
    ("state", "factor"), [(partition(1, (1, 2)), 2), (partition(1, (3, 1, 2), adding=[3], removing=[1, 2]), 1)]
)
def test_the_factor_is_that_of_the_target(state: PartitionState, factor: int) -> None:
    check_factor(state, range(factor))
    with pytest.raises(KafkaError, match=f"The replication factor is changed from {factor} to 5"):
        check_factor(state, range(5))


def test_the_list_has_what_moves() -> None:
    image = ClusterImage("cluster")
    states = [partition(1, (1, 2)), partition(1, (3, 1), adding=[3], removing=[1]), partition(1, (1, 2), removing=[2])]
    image.topics[TOPIC] = TopicState("t", TOPIC, states)
    assert moving(image) == [Moving("t", 1, [3, 1], [3], [1]), Moving("t", 2, [1, 2], [], [2])]
