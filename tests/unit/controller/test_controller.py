"""The driver: when it looks, what it commits, what it does when a commit is refused, and when it ceases."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_BROKER, PartitionKey
from headwater.controller.controller import BATCH_MAX, RETRY_MS
from headwater.metadata.image import BrokerConfigured, PartitionsAdded, ProducerIdsReserved, TopicDeleted
from unit.controller.controller_support import TOPIC, Harness, broker, outline, partition

ALL = (1, 2, 3)
WELL = (1, 2, 3)


def test_nothing_is_decided_before_it_is_the_controller() -> None:
    harness = Harness([partition(1, ALL)], 2, 3)
    harness.gone(3)
    harness.controller.reconcile()
    harness.settle()
    assert harness.store.tries == 0


def test_a_new_controller_looks_at_everything() -> None:
    harness = Harness([partition(1, ALL), partition(2, ALL)], 2, 3).active()
    assert [outline(state) for state in harness.partitions] == [(2, 6, [2, 3], [20, 30]), (2, 5, [2, 3], [20, 30])]
    assert harness.metrics.is_active
    assert len(harness.store.commits) == 1


def test_a_cluster_that_is_well_is_left_alone() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    assert harness.store.tries == 0


def test_a_broker_that_dies_and_one_that_comes_back() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.gone(1)
    assert outline(harness.partitions[0]) == (2, 6, [2, 3], [20, 30])
    harness.gone(2, 3)
    assert outline(harness.partitions[0]) == (NO_BROKER, 7, [2, 3], [20, 30])
    assert harness.metrics.offline_partitions == 1
    harness.came(broker(3, 35, 30))
    assert outline(harness.partitions[0]) == (3, 8, [3], [35])
    assert harness.metrics.offline_partitions == 0


def test_a_stopping_broker_is_relieved_and_returns_to_nothing_by_itself() -> None:
    harness = Harness([partition(1, ALL), partition(1, (1,))], *WELL).active()
    harness.came(broker(1, stopping=True))
    assert outline(harness.partitions[0]) == (2, 6, [2, 3], [20, 30])
    assert outline(harness.partitions[1]) == (1, 5, [1], [10])


def test_in_sync_replicas_that_a_leader_proposes_are_looked_at() -> None:
    harness = Harness([partition(2, ALL, [2])], broker(1, stopping=True), 2, 3).active()
    harness.proposed(0, [2, 3])
    harness.settle()
    assert harness.store.tries == 0
    harness.proposed(0, [2, 3, 1])
    harness.settle()
    assert outline(harness.partitions[0]) == (2, 5, [2, 3], [20, 30])


def test_a_lost_race_is_planned_again_from_the_newer_state() -> None:
    harness = Harness([partition(1, ALL, [1, 2])], *WELL).active()
    harness.store.is_held = True
    assert not harness.proposed(0, ALL)
    harness.settle()  # written, and not told yet
    harness.store.is_held = False
    harness.gone(2)
    assert (harness.store.tries, harness.store.commits) == (1, [])
    harness.store.release()
    harness.settle()
    assert outline(harness.partitions[0]) == (1, 5, [1, 3], [10, 30])
    assert harness.store.tries == 2


def test_after_a_refusal_it_rests_until_a_change_comes_or_a_while_has_passed() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    harness.gone(1)
    assert harness.store.tries == 1
    harness.store.announce(ProducerIdsReserved(1000))
    harness.wait(RETRY_MS - 1)
    assert harness.store.tries == 1
    harness.wait(1)
    assert harness.store.tries == 2
    harness.store.fails_with = None
    harness.wait(RETRY_MS)
    assert outline(harness.partitions[0]) == (2, 6, [2, 3], [20, 30])


def test_one_race_does_not_hold_up_all_others() -> None:
    harness = Harness([partition(1, ALL) for _ in range(20)], *WELL).active()
    harness.store.is_held = True
    harness.proposed(7, [1, 2])
    harness.settle()
    harness.store.is_held = False
    harness.gone(1)
    for _ in range(40):
        harness.wait(RETRY_MS)
    assert [index for index, state in enumerate(harness.partitions) if state.leader == 1] == [7]


def test_while_a_commit_is_under_way_changes_are_only_noted() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.is_slow = True
    harness.gone(3)
    harness.gone(2)
    assert harness.store.tries == 1
    harness.store.write_next()
    assert outline(harness.partitions[0]) == (1, 5, [1, 2], [10, 20])
    harness.settle()
    assert harness.store.tries == 2
    harness.store.write_next()
    assert outline(harness.partitions[0]) == (1, 5, [1], [10])


def test_many_partitions_are_committed_in_pieces_and_first_those_without_a_leader() -> None:
    states = [partition(1 if index < 10 else 3, ALL) for index in range(BATCH_MAX + 20)]
    harness = Harness(states, *WELL).active()
    harness.gone(3)
    assert [len(commit) for commit in harness.store.commits] == [BATCH_MAX, 20]
    assert {change.partition for change in harness.store.commits[1]} >= set(range(10))
    assert all(state.leader == 1 and state.in_sync_replicas == [1, 2] for state in harness.partitions)


def test_after_it_ceases_nothing_is_committed_and_a_late_answer_changes_nothing() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.announce()
    harness.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    harness.gone(1)
    harness.controller.deactivate()
    harness.controller.deactivate()
    harness.store.fails_with = None
    harness.wait(10 * RETRY_MS)
    harness.gone(2)
    assert harness.store.tries == 1
    assert not harness.metrics.is_active
    assert harness.metrics.offline_partitions == 0
    harness.active()
    assert outline(harness.partitions[0]) == (3, 6, [3], [30])


def test_a_term_that_begins_while_a_commit_of_the_last_is_under_way() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.is_slow = True
    harness.gone(3)
    harness.controller.deactivate()
    harness.active()
    assert harness.store.tries == 2
    harness.store.write_next()  # of the last term: its answer is not taken for that of this one
    harness.gone(2)
    assert harness.store.tries == 2
    harness.store.write_next()  # refused: the first was faster
    harness.store.is_slow = False
    harness.wait(RETRY_MS)
    assert outline(harness.partitions[0]) == (1, 5, [1], [10])


def test_it_ceases_when_the_store_says_that_another_one_decides() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.is_controller = False
    harness.gone(1)
    assert not harness.controller.is_active
    harness.wait(10 * RETRY_MS)
    assert harness.store.tries == 1


@pytest.mark.parametrize(
    ("topic", "broker_wide", "count"), [({}, False, 0), ({}, True, 1), ("true", False, 1), ("false", True, 0)]
)
def test_unclean_elections_are_as_the_topic_says_or_else_the_brokers(
    topic: object, broker_wide: bool, count: int
) -> None:
    own = {"unclean.leader.election.enable": topic} if topic else {}
    harness = Harness(
        [partition(1, ALL, [1])], 2, 3, topic=own, unclean_leader_election_enable=str(broker_wide).lower()
    )
    harness.active()
    assert harness.metrics.unclean_elections == count
    assert harness.metrics.offline_partitions == 1 - count
    assert outline(harness.partitions[0]) == ((2, 6, [2], [20]) if count else (NO_BROKER, 6, [1], [10]))


def test_a_topic_that_comes_to_allow_unclean_elections_gets_one() -> None:
    harness = Harness([partition(1, ALL, [1])], 2, 3).active()
    harness.configured(unclean_leader_election_enable="true")
    assert harness.partitions[0].leader == 2
    assert harness.metrics.unclean_elections == 1


def test_an_unclean_election_is_counted_though_its_controller_has_ceased_by_then() -> None:
    harness = Harness([partition(1, ALL, [1])], 2, 3, unclean_leader_election_enable="true")
    harness.store.is_held = True
    harness.active()
    harness.controller.deactivate()
    harness.store.release()
    assert harness.metrics.unclean_elections == 1
    assert not harness.controller.is_active


def test_an_unclean_election_that_did_not_happen_is_not_counted() -> None:
    harness = Harness([partition(1, ALL, [1])], 2, 3, unclean_leader_election_enable="true")
    harness.store.fails_with = ErrorCode.REQUEST_TIMED_OUT
    harness.active()
    harness.store.fails_with = None
    harness.came(broker(1, 15, 10))
    assert outline(harness.partitions[0]) == (1, 6, [1], [15])
    assert harness.metrics.unclean_elections == 0


def test_a_change_of_the_brokers_configs_is_looked_at() -> None:
    harness = Harness([partition(1, ALL, [1])], 2, 3).active()
    harness.controller._config.set_dynamic({"unclean.leader.election.enable": "true"}, {})
    harness.store.announce(BrokerConfigured("", {}))
    harness.settle()
    assert harness.metrics.unclean_elections == 1


def test_a_topic_that_is_deleted_is_forgotten() -> None:
    harness = Harness([partition(1, ALL, [1])], 2, 3).active()
    assert harness.metrics.offline_partitions == 1
    harness.store.announce(TopicDeleted(TOPIC))
    harness.settle()
    assert harness.metrics.offline_partitions == 0
    harness.gone(2)


def test_partitions_that_the_store_has_not_written_are_not_touched() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.store.announce(PartitionsAdded(TOPIC, ((4, 1),)))
    harness.settle()
    assert harness.store.tries == 0


def test_leaderships_go_back_by_themselves_now_and_then() -> None:
    harness = Harness(
        [partition(2, ALL), partition(2, (2, 1))], *WELL, leader_imbalance_check_interval_seconds=60
    ).active()
    harness.wait(59_999)
    assert harness.store.tries == 0
    harness.wait(1)
    assert outline(harness.partitions[0]) == (1, 6, [1, 2, 3], [10, 20, 30])
    harness.gone(1)
    harness.came(broker(1, 15))
    harness.proposed(0, ALL)
    harness.settle()
    assert harness.partitions[0].leader == 2
    harness.wait(60_000)
    assert outline(harness.partitions[0]) == (1, 8, [1, 2, 3], [15, 20, 30])


def test_leaderships_stay_if_they_may_not_go_back_by_themselves() -> None:
    harness = Harness([partition(2, ALL)], *WELL, auto_leader_rebalance_enable="false").active()
    harness.wait(10_000_000)
    assert harness.store.tries == 0
    patient = Harness([partition(2, ALL)], *WELL, leader_imbalance_per_broker_percentage=100).active()
    patient.wait(300_000)
    assert patient.store.tries == 0


def test_no_timer_is_left_when_it_ceases() -> None:
    harness = Harness([partition(2, ALL)], *WELL).active()
    harness.controller.deactivate()
    assert harness.scheduler.due_in_ms() is None


def test_a_touched_partition_may_be_gone() -> None:
    harness = Harness([partition(1, ALL)], *WELL).active()
    harness.controller._touch(PartitionKey(TOPIC, 5))
    harness.controller.reconcile()
    harness.settle()
    assert harness.store.tries == 0
