"""Who leads and who is in sync, after each thing that can happen to a broker."""

import pytest

from headwater.base.ids import NO_BROKER
from headwater.controller.elections import came_back_empty, change_to, decide
from unit.controller.controller_support import TOPIC, broker, live, outline, partition

ALL = (1, 2, 3)


def test_what_is_well_stays_as_it_is() -> None:
    state = partition(1, ALL)
    outcome = decide(state, live(1, 2, 3))
    assert outcome.state == state
    assert change_to(TOPIC, 0, state, outcome.state) is None


def test_a_dead_follower_leaves_the_in_sync_replicas_and_the_leader_epoch_stays() -> None:
    assert outline(decide(partition(1, ALL), live(1, 2)).state) == (1, 5, [1, 2], [10, 20])


def test_the_next_in_sync_replica_in_the_order_of_the_replicas_follows_a_dead_leader() -> None:
    assert outline(decide(partition(1, (1, 3, 2), (2, 3, 1)), live(2, 3)).state) == (3, 6, [2, 3], [20, 30])


def test_a_replica_that_is_not_in_sync_does_not_lead() -> None:
    outcome = decide(partition(1, ALL, [1]), live(2, 3))
    assert outline(outcome.state) == (NO_BROKER, 6, [1], [10])
    assert not outcome.is_unclean


def test_when_all_are_dead_all_stay_in_sync() -> None:
    assert outline(decide(partition(2, ALL, [2, 3]), live(1)).state) == (NO_BROKER, 6, [2, 3], [20, 30])


def test_without_a_leader_nothing_is_due_until_one_can_be() -> None:
    state = partition(-1, ALL, [2, 3])
    assert decide(state, live(1)).state == state


def test_who_comes_back_cleanly_leads_again_under_a_new_leader_epoch() -> None:
    state = partition(-1, ALL, [2, 3])
    assert outline(decide(state, live(1, broker(2, 25, 20))).state) == (2, 6, [2], [25])


def test_a_leader_that_was_away_for_a_moment_leads_on_under_a_new_leader_epoch() -> None:
    state = partition(1, ALL)
    assert outline(decide(state, live(broker(1, 15, 10), 2, 3)).state) == (1, 6, [1, 2, 3], [15, 20, 30])


def test_a_follower_that_came_back_cleanly_stays_in_sync_in_its_new_life() -> None:
    state = partition(1, ALL)
    assert outline(decide(state, live(1, broker(2, 25, 20), 3)).state) == (1, 5, [1, 2, 3], [10, 25, 30])


def test_two_lives_later_nobody_vouches_for_what_a_broker_has() -> None:
    state = partition(1, ALL)
    assert outline(decide(state, live(1, broker(2, 29, 25), 3)).state) == (1, 5, [1, 3], [10, 30])


@pytest.mark.parametrize("previous", [-1, 19])
def test_who_comes_back_after_a_crash_is_not_in_sync(previous: int) -> None:
    state = partition(2, ALL)
    assert outline(decide(state, live(1, broker(2, 25, previous), 3)).state) == (1, 6, [1, 3], [10, 30])


def test_the_last_member_stays_and_leads_whatever_happened_to_it() -> None:
    state = partition(2, ALL, [2])
    assert outline(decide(state, live(1, broker(2, 25), 3)).state) == (2, 6, [2], [25])


def test_who_crashed_does_not_count_while_a_dead_member_may_have_more() -> None:
    state = partition(-1, ALL, [1, 2])
    assert outline(decide(state, live(broker(2, 25), 3)).state) == (NO_BROKER, 5, [1], [10])


def test_if_all_crashed_the_leader_stays_or_else_the_first_replica_leads() -> None:
    crashed = live(broker(1, 15), broker(2, 25), broker(3, 35))
    assert outline(decide(partition(2, ALL), crashed).state) == (2, 6, [2], [25])
    assert outline(decide(partition(-1, ALL, [3, 2]), crashed).state) == (2, 6, [2], [25])
    stopping = crashed | live(broker(2, 25, stopping=True))
    assert outline(decide(partition(2, ALL, [2, 3]), stopping).state) == (3, 6, [3], [35])


def test_epochs_that_nobody_wrote_down_match_no_life() -> None:
    state = partition(1, ALL, epochs=[])
    assert outline(decide(state, live(1, 2, 3)).state) == (1, 6, [1], [10])  # and -1 is no previous life
    assert outline(decide(partition(1, ALL, epochs=[10]), live(1, 2, 3)).state) == (1, 5, [1], [10])


def test_a_stopping_broker_hands_over_and_leaves() -> None:
    brokers = live(broker(1, stopping=True), 2, 3)
    assert outline(decide(partition(1, ALL), brokers).state) == (2, 6, [2, 3], [20, 30])
    assert outline(decide(partition(2, ALL), brokers).state) == (2, 5, [2, 3], [20, 30])


def test_a_stopping_broker_stays_if_there_is_nobody_else() -> None:
    state = partition(1, ALL, [1])
    assert decide(state, live(broker(1, stopping=True), 2, 3)).state == state
    both = partition(2, ALL, [1, 2])
    assert decide(both, live(broker(1, stopping=True), broker(2, stopping=True), 3)).state == both
    assert outline(decide(both, live(broker(1, stopping=True), 3)).state) == (1, 6, [1], [10])


def test_the_preferred_replica_takes_over_only_if_it_is_in_sync() -> None:
    brokers = live(1, 2, 3)
    assert outline(decide(partition(2, ALL), brokers, preferred=True).state) == (1, 6, [1, 2, 3], [10, 20, 30])
    assert decide(partition(2, ALL, [2, 3]), brokers, preferred=True).state == partition(2, ALL, [2, 3])
    assert decide(partition(2, ALL), brokers).state == partition(2, ALL)


def test_an_unclean_leader_is_told_as_such_and_is_the_only_one_in_sync() -> None:
    outcome = decide(partition(1, ALL, [1]), live(2, 3), unclean=True)
    assert outcome.is_unclean
    assert outline(outcome.state) == (2, 6, [2], [20])


def test_an_election_that_can_be_clean_is_so_even_where_it_need_not_be() -> None:
    outcome = decide(partition(1, ALL, [1, 3]), live(2, 3), unclean=True)
    assert not outcome.is_unclean
    assert outline(outcome.state) == (3, 6, [3], [30])


def test_of_unclean_leaders_one_that_crashed_in_sync_is_best_and_a_stopping_one_worst() -> None:
    state = partition(1, ALL, [1, 3])
    assert outline(decide(state, live(2, broker(3, 35)), unclean=True).state) == (3, 6, [3], [35])
    lost = partition(1, ALL, [1])
    assert outline(decide(lost, live(broker(2, stopping=True), 3), unclean=True).state) == (3, 6, [3], [30])
    assert outline(decide(lost, live(broker(2, stopping=True)), unclean=True).state) == (2, 6, [2], [20])


def test_not_even_an_unclean_election_finds_a_leader_where_nobody_lives() -> None:
    outcome = decide(partition(1, ALL, [1]), live(4), unclean=True)
    assert not outcome.is_unclean
    assert outline(outcome.state) == (NO_BROKER, 6, [1], [10])


def test_a_leader_in_its_second_life_that_was_elected_uncleanly_has_a_new_leader_epoch() -> None:
    outcome = decide(partition(2, ALL, [1, 2]), live(broker(2, 25)), unclean=True)
    assert outcome.is_unclean
    assert outline(outcome.state) == (2, 6, [2], [25])


def test_a_change_is_made_over_the_version_that_it_was_decided_from() -> None:
    before = partition(1, ALL, adding=[3], version=12)
    change = change_to(TOPIC, 4, before, decide(before, live(1, 2)).state)
    assert change is not None
    assert (change.topic_id, change.partition, change.version) == (TOPIC, 4, 12)
    assert (change.replicas, change.adding, change.removing) == ((1, 2, 3), (3,), ())
    assert outline(change) == (1, 5, [1, 2], [10, 20])


# Brokers that came back without their data


def test_an_empty_replica_does_not_lead_even_as_the_last_member() -> None:
    for since in (25, 21):  # in the life that began empty, and in the next one
        outcome = decide(partition(2, ALL, [2]), live(1, broker(2, 25, since=since), 3))
        assert outline(outcome.state) == (NO_BROKER, 6, [2], [20])
        assert not outcome.is_unclean


def test_a_partition_waits_for_the_data_and_not_for_the_broker() -> None:
    waiting = decide(partition(2, ALL, [2]), live(1, broker(2, 25, since=25), 3)).state
    assert decide(waiting, live(1, broker(2, 25, since=25), 3)).state == waiting
    assert decide(waiting, live(1, broker(2, 29, 25, since=25), 3)).state == waiting, "also after a restart"
    assert outline(decide(waiting, live(1, broker(2, 29, 20), 3)).state) == (2, 7, [2], [29]), "the old disk is back"


def test_an_empty_replica_that_was_taken_in_since_counts_as_any_other() -> None:
    state = partition(2, ALL, [2])
    assert decide(state, live(broker(2, 20, since=20))).state == state
    assert outline(decide(state, live(broker(2, 25, 20, since=20))).state) == (2, 6, [2], [25])
    assert outline(decide(state, live(broker(2, 25, since=20))).state) == (2, 6, [2], [25])


def test_of_an_epoch_that_nobody_wrote_down_nothing_is_known_to_be_gone() -> None:
    """As of a topic that was made just when its brokers died: it would never have had a leader."""
    assert outline(decide(partition(-1, ALL, [2], epochs=[]), live(broker(2, 25, since=25))).state) == (2, 6, [2], [25])


def test_an_empty_replica_leaves_where_there_are_others() -> None:
    empty = broker(2, 25, since=25)
    assert outline(decide(partition(1, ALL), live(1, empty, 3)).state) == (1, 5, [1, 3], [10, 30])
    assert outline(decide(partition(2, ALL, [2, 3]), live(empty)).state) == (NO_BROKER, 6, [3], [30]), "3 has all"
    assert outline(decide(partition(2, ALL, [2, 3]), live(empty, broker(3, 35))).state) == (3, 6, [3], [35])


def test_an_unclean_election_takes_an_empty_replica_last() -> None:
    empty = broker(2, 25, since=25)
    assert outline(decide(partition(-1, (2, 1, 3), [2]), live(empty, 3), unclean=True).state) == (3, 6, [3], [30])
    assert outline(decide(partition(-1, (2, 1, 3), [2]), live(empty), unclean=True).state) == (2, 6, [2], [25])


def test_who_came_back_empty_is_known_by_name() -> None:
    empty = broker(2, 25, since=25)
    assert came_back_empty(partition(2, ALL, [2]), live(1, empty)) == [2]
    assert came_back_empty(partition(2, ALL, [2, 3]), live(1, empty)) == [], "it waits for 3"
    assert came_back_empty(partition(1, ALL), live(1, empty)) == []
