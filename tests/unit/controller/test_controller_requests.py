"""What clients ask of the controller, and how they are answered."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.controller.controller import BATCH_MAX, REQUESTS_MAX, RETRY_MS
from headwater.controller.planning import Election
from headwater.controller.reassignment import Move
from unit.controller.controller_support import Harness, broker, outline, partition

ALL = (1, 2, 3)
WELL = (1, 2, 3)
MINUTE_MS = 60_000


class Answers:
    def __init__(self) -> None:
        self.error: str | None = None
        self.results: list[str] = []
        self.count = 0

    def __call__(self, error: KafkaError | None, results: list[KafkaError | None]) -> None:
        self.count += 1
        self.error = None if error is None else error.code.name
        self.results = ["NONE" if result is None else result.code.name for result in results]


def elect(harness: Harness, kind: Election, *indexes: int, topic: str = "t") -> Answers:
    answers = Answers()
    partitions = [TopicPartition(topic, index) for index in indexes]
    harness.controller.elect(partitions, kind, MINUTE_MS, answers)
    harness.settle()
    return answers


def reassign(
    harness: Harness, *moves: tuple[int, list[int] | None], topic: str = "t", change_factor: bool = True
) -> Answers:
    answers = Answers()
    harness.controller.reassign([Move(topic, *move) for move in moves], change_factor, MINUTE_MS, answers)
    harness.settle()
    return answers


def assignment(harness: Harness, index: int = 0) -> tuple[list[int], list[int], list[int]]:
    state = harness.partitions[index]
    return list(state.replicas), list(state.adding), list(state.removing)


def test_preferred_elections() -> None:
    states = [partition(2, ALL), partition(1, ALL), partition(2, ALL, [2]), partition(2, (4, 2), [2])]
    harness = Harness(states, *WELL).active()
    answers = elect(harness, Election.PREFERRED, 0, 1, 2, 3, 4, -1)
    assert answers.error is None
    assert answers.results == [
        "NONE",
        "ELECTION_NOT_NEEDED",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert [state.leader for state in harness.partitions] == [1, 1, 2, 2]
    assert elect(harness, Election.PREFERRED, 0, topic="none").results == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_unclean_elections_that_a_client_asks_for_need_no_config_and_are_counted() -> None:
    states = [partition(-1, ALL, [4]), partition(2, ALL), partition(-1, (4, 5), [4])]
    harness = Harness(states, *WELL).active()
    answers = elect(harness, Election.UNCLEAN, 0, 1, 2)
    assert answers.results == ["NONE", "ELECTION_NOT_NEEDED", "ELIGIBLE_LEADERS_NOT_AVAILABLE"]
    assert outline(harness.partitions[0]) == (1, 6, [1], [10])
    assert harness.metrics.unclean_elections == 1


def test_a_preferred_election_does_not_become_an_unclean_one() -> None:
    harness = Harness([partition(-1, ALL, [4])], *WELL).active()
    assert elect(harness, Election.PREFERRED, 0).results == ["PREFERRED_LEADER_NOT_AVAILABLE"]
    assert harness.partitions[0].leader == -1


def test_a_partition_that_is_named_twice_is_refused_the_second_time() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    assert elect(harness, Election.PREFERRED, 0, 0).results == ["NONE", "INVALID_REQUEST"]
    assert reassign(harness, (0, [2, 1, 3]), (0, [3, 2, 1])).results == ["NONE", "INVALID_REQUEST"]
    assert assignment(harness) == ([2, 1, 3], [], [])


def test_a_move_from_its_beginning_to_its_end() -> None:
    harness = Harness([partition(1, (1, 2))], 1, 2, 3, 4).active()
    assert reassign(harness, (0, [3, 4])).results == ["NONE"]
    assert assignment(harness) == ([3, 4, 1, 2], [3, 4], [1, 2])
    assert [tuple(each) for each in harness.controller.listing()] == [("t", 0, [3, 4, 1, 2], [3, 4], [1, 2])]
    harness.proposed(0, [1, 2, 3])
    harness.settle()
    assert assignment(harness) == ([3, 4, 1, 2], [3, 4], [1, 2])
    harness.proposed(0, [1, 2, 3, 4])
    harness.settle()
    assert assignment(harness) == ([3, 4], [], [])
    assert outline(harness.partitions[0]) == (3, 6, [3, 4], [30, 40])
    assert harness.controller.listing() == []


def test_a_move_goes_on_under_the_next_controller() -> None:
    harness = Harness([partition(1, (2, 1), adding=[2], removing=[1])], 1, 2).active()
    assert assignment(harness) == ([2], [], [])
    assert outline(harness.partitions[0]) == (2, 6, [2], [20])


def test_a_move_that_is_cancelled() -> None:
    harness = Harness([partition(1, (1, 2)), partition(1, (1, 2))], 1, 2, 3).active()
    reassign(harness, (0, [3]))
    harness.proposed(0, [1, 2])
    harness.settle()
    assert reassign(harness, (0, None), (1, None)).results == ["NONE", "NO_REASSIGNMENT_IN_PROGRESS"]
    assert assignment(harness) == ([1, 2], [], [])


def test_a_leader_that_a_cancelled_move_had_brought_hands_over() -> None:
    state = partition(3, (3, 4, 1, 2), [1, 3], adding=[3, 4], removing=[1, 2])
    harness = Harness([state], 1, 2, 3).active()
    assert reassign(harness, (0, None)).results == ["NONE"]
    assert outline(harness.partitions[0]) == (1, 6, [1], [10])


@pytest.mark.parametrize(
    ("index", "replicas", "more", "code"),
    [
        (0, [], {}, "INVALID_REPLICA_ASSIGNMENT"),
        (0, [1, 9], {}, "INVALID_REPLICA_ASSIGNMENT"),
        (0, [1, 1], {}, "INVALID_REPLICA_ASSIGNMENT"),
        (0, [1], {"change_factor": False}, "INVALID_REPLICATION_FACTOR"),
        (0, [3, 1], {"change_factor": False}, "NONE"),
        (1, [1], {}, "UNKNOWN_TOPIC_OR_PARTITION"),
        (0, [1], {"topic": "none"}, "UNKNOWN_TOPIC_OR_PARTITION"),
        (0, None, {}, "NO_REASSIGNMENT_IN_PROGRESS"),
        (0, [1, 2], {}, "NONE"),
    ],
)
def test_what_can_be_moved(index: int, replicas: list[int] | None, more: Any, code: str) -> None:
    harness = Harness([partition(1, (1, 2))], *WELL).active()
    assert reassign(harness, (index, replicas), **more).results == [code]


def test_fewer_replicas_are_there_at_once() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    assert reassign(harness, (0, [3, 2])).results == ["NONE"]
    assert assignment(harness) == ([3, 2], [], [])
    assert outline(harness.partitions[0]) == (3, 6, [2, 3], [20, 30])


def test_who_is_not_the_controller_says_so() -> None:
    harness = Harness([partition(2, ALL)], *WELL)
    assert elect(harness, Election.PREFERRED, 0).error == "NOT_CONTROLLER"
    assert reassign(harness, (0, [1])).error == "NOT_CONTROLLER"
    assert harness.store.tries == 0


def test_who_waits_when_it_ceases_is_told_so_once() -> None:
    harness = Harness([partition(2, ALL), partition(2, ALL)], *WELL).active()
    harness.store.is_held = True
    under_way, waiting = elect(harness, Election.PREFERRED, 0), elect(harness, Election.PREFERRED, 1)
    assert (under_way.count, waiting.count) == (0, 0)
    harness.controller.deactivate()
    assert (under_way.error, waiting.error) == ("NOT_CONTROLLER", "NOT_CONTROLLER")
    harness.store.release()
    harness.settle()
    assert (under_way.count, waiting.count) == (1, 1)
    assert harness.store.tries == 1


def test_a_commit_that_fails_is_the_answer() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    assert elect(harness, Election.PREFERRED, 0).error == "REQUEST_TIMED_OUT"
    harness.store.fails_with = None
    harness.wait(RETRY_MS)
    assert harness.partitions[0].leader == 2
    assert elect(harness, Election.PREFERRED, 0).results == ["NONE"]


def test_a_request_that_lost_a_race_is_tried_again() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.store.is_held = True
    harness.proposed(0, [1, 2])
    harness.settle()
    answers = elect(harness, Election.PREFERRED, 0)
    assert (harness.store.tries, answers.count) == (1, 0)
    harness.store.release()
    harness.settle()
    assert answers.results == ["NONE"]
    assert outline(harness.partitions[0]) == (1, 6, [1, 2], [10, 20])


def test_a_request_that_always_loses_ends_at_its_deadline() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.store.fails_with = ErrorCode.INVALID_UPDATE_VERSION
    answers = elect(harness, Election.PREFERRED, 0)
    harness.wait(MINUTE_MS - 1)
    assert answers.count == 0
    harness.wait(RETRY_MS)
    assert answers.error == "REQUEST_TIMED_OUT"


def test_what_another_commit_did_first_is_done() -> None:
    """The second attempt finds the election held already: by its own first attempt, for all that it knows."""
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.store.fails_with = ErrorCode.INVALID_UPDATE_VERSION
    answers = elect(harness, Election.PREFERRED, 0)
    harness.store.fails_with = None
    harness.partitions[0].leader = harness.partitions[0].replicas[0]
    harness.wait(RETRY_MS)
    assert answers.results == ["NONE"]


def test_a_large_request_is_committed_in_pieces_and_answered_once() -> None:
    harness = Harness([partition(2, ALL) for _ in range(BATCH_MAX + 1)], *WELL).active()
    answers = elect(harness, Election.PREFERRED, *range(BATCH_MAX + 1))
    assert answers.results == ["NONE"] * (BATCH_MAX + 1)
    assert [len(commit) for commit in harness.store.commits] == [BATCH_MAX, 1]
    assert answers.count == 1


def test_repairs_and_requests_take_turns() -> None:
    harness = Harness([partition(2, ALL), partition(2, ALL), partition(3, (3, 1))], *WELL).active()
    harness.store.is_held = True
    first, second = elect(harness, Election.PREFERRED, 0), elect(harness, Election.PREFERRED, 1)
    harness.store.is_held = False
    harness.store.release()
    harness.gone(3)
    assert first.results == second.results == ["NONE"]
    assert harness.partitions[2].leader == 1
    assert [state.in_sync_replicas for state in harness.partitions] == [[1, 2], [1, 2], [1]]


def test_there_is_a_limit_to_those_who_wait() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.store.is_held = True
    waiting = [elect(harness, Election.PREFERRED, 0) for _ in range(REQUESTS_MAX)]
    assert elect(harness, Election.PREFERRED, 0).error == "REQUEST_TIMED_OUT"
    assert not any(each.count for each in waiting)


def test_an_election_for_a_partition_on_a_stopping_broker_goes_elsewhere() -> None:
    harness = Harness([partition(2, ALL)], broker(1, stopping=True), 2, 3).active()
    assert elect(harness, Election.PREFERRED, 0).results == ["PREFERRED_LEADER_NOT_AVAILABLE"]


def test_an_empty_request_is_answered() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    assert elect(harness, Election.PREFERRED).count == 1
