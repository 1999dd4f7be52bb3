"""Requests of the next transaction wait for the markers of the last, but not for ever."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.marker_wait import WAIT_MS, MarkerWaits, Patience
from headwater.broker.deferred import Deferred
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimScheduler

BUSY, DONE = int(ErrorCode.CONCURRENT_TRANSACTIONS), 0


class Coordinator:
    """Answers each question when the test says so."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        broker: Any = SimpleNamespace(clock=self.clock, scheduler=self.scheduler)
        self.waits = MarkerWaits(broker)
        self.patience = Patience(broker)
        self.asked: list[Deferred] = []

    def ask(self) -> Any:
        return self.waits.ask("shop", self._ask, int)

    def _ask(self) -> Deferred:
        self.asked.append(Deferred())
        return self.asked[-1]

    def pass_time(self, delay_ms: int) -> None:
        until = self.clock.monotonic_ms() + delay_ms
        while (due_in_ms := self.scheduler.due_in_ms()) is not None and self.clock.monotonic_ms() + due_in_ms <= until:
            self.clock.advance(due_in_ms)
            self.scheduler.run_due()
        self.clock.advance(until - self.clock.monotonic_ms())


@pytest.fixture(name="coordinator")
def coordinator_fixture() -> Coordinator:
    return Coordinator()


def test_what_is_decided_is_answered_at_once(coordinator: Coordinator) -> None:
    answer = coordinator.ask()
    coordinator.asked[0].complete(DONE)
    assert answer.response == DONE
    assert coordinator.waits._waiting == {}


def test_it_is_decided_again_when_the_markers_are_written(coordinator: Coordinator) -> None:
    answer = coordinator.ask()
    coordinator.asked[0].complete(BUSY)
    coordinator.pass_time(WAIT_MS // 2)
    assert not answer.done
    coordinator.waits.completed("another")
    coordinator.pass_time(1)
    assert len(coordinator.asked) == 1
    coordinator.waits.completed("shop")
    coordinator.pass_time(0)
    coordinator.asked[1].complete(DONE)
    assert answer.response == DONE
    assert coordinator.waits._waiting == {}


def test_markers_that_were_written_before_the_answer_came_are_not_waited_for(coordinator: Coordinator) -> None:
    """Answers leave when what was decided before them is committed, and the markers may be there first."""
    answer = coordinator.ask()
    coordinator.waits.completed("shop")
    coordinator.asked[0].complete(BUSY)
    coordinator.pass_time(0)
    coordinator.asked[1].complete(DONE)
    assert answer.response == DONE


def test_after_a_while_it_is_answered_whatever_the_answer(coordinator: Coordinator) -> None:
    answer = coordinator.ask()
    coordinator.asked[0].complete(BUSY)
    coordinator.pass_time(WAIT_MS)
    coordinator.asked[1].complete(BUSY)
    assert answer.response == BUSY
    assert coordinator.waits._waiting == {}


def test_a_connection_that_is_gone_waits_for_nothing(coordinator: Coordinator) -> None:
    answer = coordinator.ask()
    coordinator.asked[0].complete(BUSY)
    answer.cancel()
    coordinator.waits.completed("shop")
    coordinator.pass_time(WAIT_MS)
    assert len(coordinator.asked) == 1
    assert coordinator.waits._waiting == {}


def test_who_is_no_coordinator_says_so_at_once(coordinator: Coordinator) -> None:
    assert coordinator.waits.ask("shop", lambda: 16, int) == 16
    assert coordinator.waits._waiting == {}


def test_what_is_refused_without_a_write_waits_too(coordinator: Coordinator) -> None:
    """Nothing is to be committed before such an answer leaves."""
    answers = [BUSY, DONE]
    answer = coordinator.waits.ask("shop", lambda: answers.pop(0), int)
    assert not answer.done
    coordinator.waits.completed("shop")
    coordinator.pass_time(0)
    assert answer.response == DONE


def test_an_exception_ends_it(coordinator: Coordinator) -> None:
    answer = coordinator.ask()
    problem = ValueError("broken")
    coordinator.asked[0].complete(problem)
    assert answer.response is problem


def test_another_broker_is_asked_again_less_and_less_often_until_the_time_is_over(coordinator: Coordinator) -> None:
    asked_ms: list[int] = []

    def ask() -> None:
        asked_ms.append(coordinator.clock.monotonic_ms())
        coordinator.patience.asks_again(ask)

    began_ms = coordinator.clock.monotonic_ms()
    ask()
    coordinator.pass_time(1000)
    assert [each - began_ms for each in asked_ms] == [0, 2, 6, 14, 30, 62, WAIT_MS]
    assert not coordinator.patience.asks_again(ask)
