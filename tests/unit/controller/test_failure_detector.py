"""When a broker that refuses connections is taken for gone, what that does to its partitions,
and what proves it wrong.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.ids import NO_BROKER, BrokerId
from headwater.base.peers import Lane
from headwater.controller.failure_detector import MISTAKES_MAX, ROUND_MS, FailureDetector
from headwater.metadata.image import BrokerRegistered, ClusterImage, PartitionState
from headwater.wire.messages.api_versions import ApiVersionsResponse
from unit.broker.fake_peers import Asked, FakePeers
from unit.controller.controller_support import Harness, broker, outline, partition

ALL = (1, 2, 3)
ME = 3


class Watch:
    """Broker 3 is the controller. The others answer, refuse or keep silent as the test says."""

    def __init__(self, partitions: list[PartitionState], *some: Any, **options: Any) -> None:
        self.peers = FakePeers()
        self.has_logs = True
        self.confirming: list[Callable[[], None]] = []
        self.harness = Harness(partitions, *(some or ALL), failure_detector=self._failure_detector, **options).active()

    def _failure_detector(self, image: ClusterImage) -> FailureDetector:
        return FailureDetector(
            image,
            ME,
            self.peers,
            self.confirming.append,
            lambda: self.harness.clock.monotonic_ms(),
            lambda: self.has_logs,
        )

    @property
    def asked(self) -> list[int]:
        return [asked.broker for asked in self.peers.asked]

    def take(self, broker_id: int) -> list[Asked]:
        """All that was asked of it and waits."""
        found = [asked for asked in self.peers.asked if asked.broker == broker_id]
        assert found, f"nothing was asked of {broker_id}"
        self.peers.asked = [asked for asked in self.peers.asked if asked.broker != broker_id]
        return found

    def answer(self, *broker_ids: int, code: int = 0) -> "Watch":
        for broker_id in broker_ids:
            for asked in self.take(broker_id):
                asked.answer(ApiVersionsResponse(error_code=code, api_keys=[]))
        self.harness.settle()
        return self

    def refuse(self, *broker_ids: int, is_refused: bool = True) -> "Watch":
        """One attempt to connect, told to all who wait."""
        for broker_id in broker_ids:
            for asked in self.take(broker_id):
                asked.fail(is_refused=is_refused)
        self.harness.settle()
        return self

    def lose(self, *broker_ids: int) -> "Watch":
        for broker_id in broker_ids:
            self.peers.on_lost(BrokerId(broker_id))
        return self

    def confirm(self) -> "Watch":
        self.confirming.pop(0)()
        self.harness.settle()
        return self

    def outline(self, index: int = 0) -> tuple[int, int, list[int], list[int]]:
        return outline(self.harness.partitions[index])


def suspected(*partitions: PartitionState, **options: Any) -> Watch:
    """Broker 1 has answered, refuses since, and the other one is there."""
    watch = Watch(list(partitions) or [partition(1, ALL)], **options).answer(1, 2).lose(1).refuse(1).refuse(1)
    return watch.answer(2).confirm()


WELL = (1, 5, [1, 2, 3], [10, 20, 30])
RELIEVED = (2, 6, [2, 3], [20, 30])


def test_all_others_are_asked_when_the_term_begins_and_whoever_comes_later() -> None:
    watch = Watch([partition(1, ALL)])
    assert watch.asked == [1, 2]
    assert {asked.lane for asked in watch.peers.asked} == {Lane.WATCH}
    watch.answer(1, 2)
    watch.harness.came(4)
    assert watch.asked == [4]


def test_a_connection_that_ends_is_made_again_at_once() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1)
    assert watch.asked == [1]
    watch.lose(1)
    assert watch.asked == [1], "it is being asked"
    watch.answer(1)
    assert watch.asked == []
    assert watch.outline() == WELL


def test_two_refusals_and_the_answers_of_all_others_relieve_a_broker() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1).refuse(1)
    assert watch.asked == [1]
    watch.refuse(1)
    assert watch.asked == [2, 1]
    assert not watch.confirming, "the other one has not answered since"
    watch.answer(2)
    assert watch.outline() == WELL, "ZooKeeper has not said yet that the other one is who it was"
    watch.confirm()
    assert watch.outline() == RELIEVED
    assert watch.harness.metrics.offline_partitions == 0


def test_a_follower_that_is_suspected_is_in_sync_no_more() -> None:
    watch = suspected(partition(2, ALL))
    assert watch.outline() == (2, 5, [2, 3], [20, 30])


def test_a_refusal_between_two_answers_is_nothing() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2)
    for _ in range(5):
        watch.lose(1).refuse(1).answer(1)
    assert watch.asked == []
    assert not watch.confirming


def test_silence_is_no_refusal_however_long_it_lasts() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1)
    for _ in range(5):
        watch.refuse(1).refuse(1, is_refused=False)
    assert watch.asked == [1]
    assert not watch.confirming


def test_one_attempt_to_connect_that_several_requests_waited_for_is_one_refusal() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1)
    watch.lose(2).refuse(2).refuse(2)  # so that 1 is asked once more
    assert watch.asked.count(1) == 2
    watch.refuse(1)
    assert not watch.confirming, "were both doubted, nobody would have to answer"


def test_who_has_never_answered_this_controller_is_never_suspected() -> None:
    """A firewall that refuses from the beginning, or a new controller: the session decides."""
    watch = Watch([partition(1, ALL)]).answer(2)
    for _ in range(5):
        watch.refuse(1)
    assert watch.asked == [1]
    assert not watch.confirming


def test_an_error_is_no_answer() -> None:
    watch = Watch([partition(1, ALL)]).answer(2).answer(1, code=35)
    assert watch.asked == [], "it would say the same again, as often as it is asked"
    watch.lose(1).refuse(1).refuse(1)
    assert not watch.confirming


def test_while_another_broker_keeps_silent_nothing_is_decided() -> None:
    """It may have lost its power, and what it had: alone in sync, it would be believed when it is back."""
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1).refuse(1).refuse(1)
    watch.refuse(2, is_refused=False)
    assert not watch.confirming
    watch.answer(2).confirm()
    assert watch.outline() == RELIEVED


def test_an_answer_from_before_the_doubt_does_not_count() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1, 2).refuse(1)
    (early,) = watch.take(2)
    watch.refuse(1)
    early.answer(ApiVersionsResponse(api_keys=[]))
    assert not watch.confirming
    watch.answer(2)
    assert len(watch.confirming) == 1


def test_who_answered_long_ago_is_asked_again_when_the_last_one_has_answered_or_is_gone() -> None:
    """It may have lost its power since, while a third was waited for."""
    watch = Watch([partition(1, ALL)], 1, 2, 3, 4).answer(1, 2, 4).lose(1).refuse(1).refuse(1).answer(2)
    watch.harness.wait(ROUND_MS + 1)
    watch.harness.gone(4)
    assert not watch.confirming
    assert watch.asked.count(2) == 1
    watch.answer(2).confirm()
    assert watch.outline() == RELIEVED


def test_what_zookeeper_took_too_long_to_confirm_is_asked_again() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1).refuse(1).refuse(1).answer(2)
    watch.harness.wait(ROUND_MS + 1)
    watch.confirm()
    assert watch.outline() == WELL
    watch.answer(2).confirm()
    assert watch.outline() == RELIEVED


def test_where_nobody_has_to_answer_no_answer_is_too_old() -> None:
    watch = Watch([partition(1, (1, 3))], 1, 3).answer(1).lose(1).refuse(1).refuse(1)
    watch.harness.wait(ROUND_MS + 1)
    watch.confirm().confirm()
    assert watch.outline() == (3, 6, [3], [30])


def test_another_broker_that_turns_out_to_be_in_a_new_life_has_to_answer_in_that() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1).refuse(1).refuse(1).answer(2)
    watch.harness.came(broker(2, 25))
    watch.confirm()
    assert watch.outline()[0] == 1, "it is in sync no more, and the suspect has everything"
    watch.answer(2).confirm()
    assert watch.outline() == (3, 6, [3], [30])


def test_stopping_brokers_need_not_answer_and_relieve_nobody() -> None:
    watch = Watch([partition(1, (1, 2))], 1, broker(2, stopping=True), 3).answer(1, 2)
    assert watch.outline() == (1, 5, [1], [10])
    watch.harness.proposed(0, [1, 2])
    watch.lose(1).refuse(1).refuse(1).confirm()
    assert watch.outline()[0] == 1


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_the_only_one_in_sync_stays_the_leader_however_suspect_it_is(unclean: str) -> None:
    watch = suspected(partition(1, ALL, [1]), topic={"unclean.leader.election.enable": unclean})
    assert watch.outline() == (1, 5, [1], [10])
    watch.harness.gone(1)
    assert watch.outline()[0] == (2 if unclean == "true" else NO_BROKER)


def test_all_others_may_be_refused_at_once() -> None:
    watch = Watch([partition(1, ALL), partition(2, (2, 1))]).answer(1, 2).lose(1, 2)
    watch.refuse(1, 2).refuse(1, 2)
    watch.refuse(2)
    while watch.confirming:
        watch.confirm()
    assert watch.outline(0) == (3, 6, [3], [30])
    assert watch.outline(1) == (2, 5, [2, 1], [20, 10])


def test_a_suspect_that_answers_is_a_member_as_before() -> None:
    watch = suspected().answer(1)
    watch.harness.proposed(0, ALL)
    watch.harness.settle()
    assert watch.outline() == (2, 6, [1, 2, 3], [10, 20, 30])
    watch.lose(1).refuse(1).refuse(1).answer(2).confirm()
    assert watch.outline() == (2, 6, [2, 3], [20, 30]), "and may be suspected again"


def test_a_suspect_that_a_leader_takes_in_again_lives_although_it_refuses_us() -> None:
    watch = suspected()
    watch.harness.proposed(0, ALL)
    watch.harness.settle()
    assert sorted(watch.outline()[2]) == [1, 2, 3]
    tries = watch.harness.store.tries
    for _ in range(5):
        watch.refuse(1)
    assert watch.asked == [1], "it has not answered since, and nobody else need"
    assert watch.harness.store.tries == tries


def test_it_is_acquitted_once_by_many_leaders_and_what_they_told_proves_nothing_later() -> None:
    watch = suspected(partition(1, ALL), partition(2, ALL), partition(3, ALL))
    watch.harness.store.is_held = True
    for index, in_sync in ((0, ALL), (1, ALL), (2, (2, 3))):
        watch.harness.proposed(index, in_sync)
    watch.harness.settle()
    told = [change for changes, _ in watch.harness.store._untold for change in changes]
    watch.harness.store._untold.clear()
    watch.harness.store.is_held = False
    watch.harness.store.announce(*told)
    watch.answer(1).lose(1).refuse(1).refuse(1).answer(2).confirm()
    watch.harness.proposed(2, ALL)
    watch.harness.settle()
    assert watch.outline(2)[2] == [2, 3], "it was out before it was suspected again"


def test_what_was_proposed_before_the_suspicion_proves_nothing() -> None:
    watch = suspected(partition(2, ALL, [2, 3]))
    watch.harness.proposed(0, ALL)
    watch.harness.settle()
    assert watch.outline() == (2, 5, [2, 3], [20, 30])


def test_after_a_few_mistakes_nobody_suspects_it_in_this_life() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2)
    for _ in range(MISTAKES_MAX):
        watch.lose(1).refuse(1).refuse(1).answer(2).confirm().answer(1)
    watch.lose(1).refuse(1).refuse(1).refuse(1)
    assert watch.asked == [1]
    watch.harness.came(broker(1, 15))
    watch.answer(1).lose(1).refuse(1).refuse(1)
    assert watch.asked == [2, 1]


def test_a_new_life_begins_without_suspicion() -> None:
    watch = suspected()
    watch.harness.came(broker(1, 15))
    watch.harness.proposed(0, ALL)
    watch.harness.settle()
    assert sorted(watch.outline()[2]) == [1, 2, 3]


def test_a_suspect_that_says_that_it_stops_is_not_in_a_new_life() -> None:
    watch = suspected()
    asked = len(watch.asked)
    watch.harness.store.announce(BrokerRegistered(broker(1, stopping=True)))
    assert len(watch.asked) == asked


def test_the_end_of_its_session_ends_the_suspicion() -> None:
    watch = suspected(partition(1, ALL), partition(1, (1,)))
    watch.harness.gone(1)
    assert watch.outline(1) == (NO_BROKER, 6, [1], [10])
    watch.refuse(1)
    assert watch.asked == []


def test_leaders_do_not_go_back_to_a_suspect() -> None:
    watch = suspected(partition(2, (1, 2), [1, 2]), leader_imbalance_check_interval_seconds=1)
    assert watch.outline() == (2, 5, [2], [20])
    watch.harness.wait(1000)
    assert watch.outline() == (2, 5, [2], [20])


def test_the_next_term_begins_without_suspicion_and_late_answers_are_nobodys() -> None:
    watch = Watch([partition(1, ALL)]).answer(1, 2).lose(1).refuse(1).refuse(1).answer(2)
    watch.harness.controller.deactivate()
    watch.confirm()
    watch.refuse(1)
    watch.lose(1, 2)
    assert watch.asked == []
    watch.harness.controller.activate()
    watch.harness.settle()
    assert watch.asked == [1, 2]
    assert watch.outline() == WELL


def test_without_peers_nobody_is_watched() -> None:
    harness = Harness([partition(1, ALL)], *ALL).active()
    harness.came(4)
    assert outline(harness.partitions[0]) == WELL


# What the controller knows of itself


def test_without_a_log_directory_the_controller_elects_everybody_but_itself() -> None:
    watch = Watch([partition(1, ALL), partition(1, (3, 1)), partition(ME, (3, 2))])
    watch.has_logs = False
    watch.harness.gone(1)
    assert watch.outline(0) == (2, 6, [2], [20])
    assert watch.outline(1) == (NO_BROKER, 6, [3, 1], [30, 10])
    assert watch.outline(2) == (2, 6, [2], [20])


def test_without_a_log_directory_the_controller_is_not_elected_uncleanly() -> None:
    watch = Watch([partition(1, (1, 3), [1])], unclean_leader_election_enable="true")
    watch.has_logs = False
    watch.harness.gone(1)
    assert watch.outline() == (NO_BROKER, 6, [1], [10])


def test_a_suspect_leads_on_where_only_a_controller_without_logs_could_take_over() -> None:
    watch = Watch([partition(1, (1, 3))])
    watch.has_logs = False
    watch.answer(1, 2).lose(1).refuse(1).refuse(1).answer(2).confirm()
    assert watch.outline() == (1, 5, [1], [10])
