"""The driver: when it looks, what it commits, what it does when a commit is refused, and when it ceases."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_BROKER, PartitionKey
from headwater.controller.controller import BATCH_MAX, RETRY_MS
from headwater.metadata.image import BrokerConfigured, PartitionsAdded, ProducerIdsReserved, TopicDeleted
from unit.controller.controller_support import TOPIC, Desk, broker, outline, partition

ALL = (1, 2, 3)
WELL = (1, 2, 3)


def test_nothing_is_decided_before_it_is_the_controller() -> None:
    desk = Desk([partition(1, ALL)], 2, 3)
    desk.gone(3)
    desk.controller.reconcile()
    desk.settle()
    assert desk.store.tries == 0


def test_a_new_controller_looks_at_everything() -> None:
    desk = Desk([partition(1, ALL), partition(2, ALL)], 2, 3).active()
    assert [outline(state) for state in desk.partitions] == [(2, 6, [2, 3], [20, 30]), (2, 5, [2, 3], [20, 30])]
    assert desk.metrics.is_active
    assert len(desk.store.commits) == 1


def test_a_cluster_that_is_well_is_left_alone() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    assert desk.store.tries == 0


def test_a_broker_that_dies_and_one_that_comes_back() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.gone(1)
    assert outline(desk.partitions[0]) == (2, 6, [2, 3], [20, 30])
    desk.gone(2, 3)
    assert outline(desk.partitions[0]) == (NO_BROKER, 7, [2, 3], [20, 30])
    assert desk.metrics.offline_partitions == 1
    desk.came(broker(3, 35, 30))
    assert outline(desk.partitions[0]) == (3, 8, [3], [35])
    assert desk.metrics.offline_partitions == 0


def test_a_stopping_broker_is_relieved_and_returns_to_nothing_by_itself() -> None:
    desk = Desk([partition(1, ALL), partition(1, (1,))], *WELL).active()
    desk.came(broker(1, stopping=True))
    assert outline(desk.partitions[0]) == (2, 6, [2, 3], [20, 30])
    assert outline(desk.partitions[1]) == (1, 5, [1], [10])


def test_in_sync_replicas_that_a_leader_proposes_are_looked_at() -> None:
    desk = Desk([partition(2, ALL, [2])], broker(1, stopping=True), 2, 3).active()
    desk.proposed(0, [2, 3])
    desk.settle()
    assert desk.store.tries == 0
    desk.proposed(0, [2, 3, 1])
    desk.settle()
    assert outline(desk.partitions[0]) == (2, 5, [2, 3], [20, 30])


def test_a_lost_race_is_planned_again_from_the_newer_state() -> None:
    desk = Desk([partition(1, ALL, [1, 2])], *WELL).active()
    desk.store.is_held = True
    assert not desk.proposed(0, ALL)
    desk.settle()  # written, and not told yet
    desk.store.is_held = False
    desk.gone(2)
    assert (desk.store.tries, desk.store.commits) == (1, [])
    desk.store.release()
    desk.settle()
    assert outline(desk.partitions[0]) == (1, 5, [1, 3], [10, 30])
    assert desk.store.tries == 2


def test_after_a_refusal_it_rests_until_a_change_comes_or_a_while_has_passed() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    desk.gone(1)
    assert desk.store.tries == 1
    desk.store.announce(ProducerIdsReserved(1000))
    desk.wait(RETRY_MS - 1)
    assert desk.store.tries == 1
    desk.wait(1)
    assert desk.store.tries == 2
    desk.store.fails_with = None
    desk.wait(RETRY_MS)
    assert outline(desk.partitions[0]) == (2, 6, [2, 3], [20, 30])


def test_one_race_does_not_hold_up_all_others() -> None:
    desk = Desk([partition(1, ALL) for _ in range(20)], *WELL).active()
    desk.store.is_held = True
    desk.proposed(7, [1, 2])
    desk.settle()
    desk.store.is_held = False
    desk.gone(1)
    for _ in range(40):
        desk.wait(RETRY_MS)
    assert [index for index, state in enumerate(desk.partitions) if state.leader == 1] == [7]


def test_while_a_commit_is_under_way_changes_are_only_noted() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.is_slow = True
    desk.gone(3)
    desk.gone(2)
    assert desk.store.tries == 1
    desk.store.write_next()
    assert outline(desk.partitions[0]) == (1, 5, [1, 2], [10, 20])
    desk.settle()
    assert desk.store.tries == 2
    desk.store.write_next()
    assert outline(desk.partitions[0]) == (1, 5, [1], [10])


def test_many_partitions_are_committed_in_pieces_and_first_those_without_a_leader() -> None:
    states = [partition(1 if index < 10 else 3, ALL) for index in range(BATCH_MAX + 20)]
    desk = Desk(states, *WELL).active()
    desk.gone(3)
    assert [len(commit) for commit in desk.store.commits] == [BATCH_MAX, 20]
    assert {change.partition for change in desk.store.commits[1]} >= set(range(10))
    assert all(state.leader == 1 and state.in_sync_replicas == [1, 2] for state in desk.partitions)


def test_after_it_ceases_nothing_is_committed_and_a_late_answer_changes_nothing() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.announce()
    desk.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    desk.gone(1)
    desk.controller.deactivate()
    desk.controller.deactivate()
    desk.store.fails_with = None
    desk.wait(10 * RETRY_MS)
    desk.gone(2)
    assert desk.store.tries == 1
    assert not desk.metrics.is_active
    assert desk.metrics.offline_partitions == 0
    desk.active()
    assert outline(desk.partitions[0]) == (3, 6, [3], [30])


def test_a_term_that_begins_while_a_commit_of_the_last_is_under_way() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.is_slow = True
    desk.gone(3)
    desk.controller.deactivate()
    desk.active()
    assert desk.store.tries == 2
    desk.store.write_next()  # of the last term: its answer is not taken for that of this one
    desk.gone(2)
    assert desk.store.tries == 2
    desk.store.write_next()  # refused: the first was faster
    desk.store.is_slow = False
    desk.wait(RETRY_MS)
    assert outline(desk.partitions[0]) == (1, 5, [1], [10])


def test_it_ceases_when_the_store_says_that_another_one_decides() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.is_controller = False
    desk.gone(1)
    assert not desk.controller.is_active
    desk.wait(10 * RETRY_MS)
    assert desk.store.tries == 1


@pytest.mark.parametrize(
    ("topic", "broker_wide", "count"), [({}, False, 0), ({}, True, 1), ("true", False, 1), ("false", True, 0)]
)
def test_unclean_elections_are_as_the_topic_says_or_else_the_brokers(
    topic: object, broker_wide: bool, count: int
) -> None:
    own = {"unclean.leader.election.enable": topic} if topic else {}
    desk = Desk([partition(1, ALL, [1])], 2, 3, topic=own, unclean_leader_election_enable=str(broker_wide).lower())
    desk.active()
    assert desk.metrics.unclean_elections == count
    assert desk.metrics.offline_partitions == 1 - count
    assert outline(desk.partitions[0]) == ((2, 6, [2], [20]) if count else (NO_BROKER, 6, [1], [10]))


def test_a_topic_that_comes_to_allow_unclean_elections_gets_one() -> None:
    desk = Desk([partition(1, ALL, [1])], 2, 3).active()
    desk.configured(unclean_leader_election_enable="true")
    assert desk.partitions[0].leader == 2
    assert desk.metrics.unclean_elections == 1


def test_an_unclean_election_is_counted_though_its_controller_has_ceased_by_then() -> None:
    desk = Desk([partition(1, ALL, [1])], 2, 3, unclean_leader_election_enable="true")
    desk.store.is_held = True
    desk.active()
    desk.controller.deactivate()
    desk.store.release()
    assert desk.metrics.unclean_elections == 1
    assert not desk.controller.is_active


def test_an_unclean_election_that_did_not_happen_is_not_counted() -> None:
    desk = Desk([partition(1, ALL, [1])], 2, 3, unclean_leader_election_enable="true")
    desk.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    desk.active()
    desk.store.fails_with = None
    desk.came(broker(1, 15, 10))
    assert outline(desk.partitions[0]) == (1, 6, [1], [15])
    assert desk.metrics.unclean_elections == 0


def test_a_change_of_the_brokers_configs_is_looked_at() -> None:
    desk = Desk([partition(1, ALL, [1])], 2, 3).active()
    desk.controller._config.set_dynamic({"unclean.leader.election.enable": "true"}, {})
    desk.store.announce(BrokerConfigured("", {}))
    desk.settle()
    assert desk.metrics.unclean_elections == 1


def test_a_topic_that_is_deleted_is_forgotten() -> None:
    desk = Desk([partition(1, ALL, [1])], 2, 3).active()
    assert desk.metrics.offline_partitions == 1
    desk.store.announce(TopicDeleted(TOPIC))
    desk.settle()
    assert desk.metrics.offline_partitions == 0
    desk.gone(2)


def test_partitions_that_the_store_has_not_written_are_not_touched() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.store.announce(PartitionsAdded(TOPIC, ((4, 1),)))
    desk.settle()
    assert desk.store.tries == 0


def test_leaderships_go_back_by_themselves_now_and_then() -> None:
    desk = Desk([partition(2, ALL), partition(2, (2, 1))], *WELL, leader_imbalance_check_interval_seconds=60).active()
    desk.wait(59_999)
    assert desk.store.tries == 0
    desk.wait(1)
    assert outline(desk.partitions[0]) == (1, 6, [1, 2, 3], [10, 20, 30])
    desk.gone(1)
    desk.came(broker(1, 15))
    desk.proposed(0, ALL)
    desk.settle()
    assert desk.partitions[0].leader == 2
    desk.wait(60_000)
    assert outline(desk.partitions[0]) == (1, 8, [1, 2, 3], [15, 20, 30])


def test_leaderships_stay_if_they_may_not_go_back_by_themselves() -> None:
    desk = Desk([partition(2, ALL)], *WELL, auto_leader_rebalance_enable="false").active()
    desk.wait(10_000_000)
    assert desk.store.tries == 0
    patient = Desk([partition(2, ALL)], *WELL, leader_imbalance_per_broker_percentage=100).active()
    patient.wait(300_000)
    assert patient.store.tries == 0


def test_no_timer_is_left_when_it_ceases() -> None:
    desk = Desk([partition(2, ALL)], *WELL).active()
    desk.controller.deactivate()
    assert desk.scheduler.due_in_ms() is None


def test_a_touched_partition_may_be_gone() -> None:
    desk = Desk([partition(1, ALL)], *WELL).active()
    desk.controller._touch(PartitionKey(TOPIC, 5))
    desk.controller.reconcile()
    desk.settle()
    assert desk.store.tries == 0
