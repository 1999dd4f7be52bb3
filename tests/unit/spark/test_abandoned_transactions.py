"""What the sink of a failed batch, or of a query that has ended, aborts, and what it leaves alone."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from headwater.spark.abandoned_transactions import AbandonedTransactions
from headwater.spark.exactly_once import (
    Decision,
    Digest,
    Done,
    End,
    Entry,
    FindOpen,
    Open,
    Producer,
    ReadDecision,
    RunsAgain,
    Steps,
    Superseded,
    abandon_steps,
    abort_steps,
)
from headwater.spark.writer.options import SinkOptions

DIGEST = Digest(1, 2)
FIRST, SECOND, THIRD = (Producer(f"p-q-{task}", 7, task) for task in range(3))
OPTIONS = SinkOptions("localhost:1", "out", "exactly-once", "headwater")


def aborted(
    steps: Steps, decision: Decision | None, found: tuple[Producer, ...] = (), *, runs_again_after: int = 99
) -> list[Producer]:
    ended: list[Producer] = []
    answer: Any = None
    try:
        while True:
            step = steps.send(answer)
            runs_again = len(ended) >= runs_again_after
            answer = {FindOpen: found, ReadDecision: decision, End: True, RunsAgain: runs_again}[type(step)]
            assert step == FindOpen("run") or not isinstance(step, FindOpen)
            if isinstance(step, End):
                assert not step.commit
                ended.append(step.producer)
    except StopIteration:
        return ended


def decided(*producers: Producer, settled: bool = False) -> Decision:
    return Decision(3, {at: Entry(each, DIGEST) for at, each in enumerate(producers)}, 0, producers[0], settled)


def test_a_failed_batch_aborts_what_its_tasks_have_reported() -> None:
    """It was left to its time-out of 15 minutes, and readers of committed records stood still."""
    assert aborted(abort_steps([Open(0, FIRST, DIGEST), Done(1), Open(2, THIRD, DIGEST)]), None) == [FIRST, THIRD]
    assert aborted(abort_steps([Done(0)]), None) == []


def test_a_query_that_has_ended_aborts_whatever_is_open_of_it() -> None:
    assert aborted(abandon_steps("run"), None, (FIRST, SECOND)) == [FIRST, SECOND]
    assert aborted(abandon_steps("run"), None, ()) == []


def test_a_query_that_is_started_again_meanwhile_is_left_alone_from_then_on() -> None:
    assert aborted(abandon_steps("run"), None, (FIRST, SECOND, THIRD), runs_again_after=1) == [FIRST]


@pytest.mark.parametrize(
    "steps", [lambda: abandon_steps("run"), lambda: abort_steps([Open(0, FIRST, DIGEST), Open(2, THIRD, DIGEST)])]
)
def test_what_is_decided_stays_open_for_whoever_finds_the_decision(steps: Any) -> None:
    """Aborted, it would have to be written again, by the very same rows."""
    assert aborted(steps(), decided(FIRST, SECOND), (FIRST, THIRD)) == [THIRD]
    assert aborted(steps(), decided(FIRST, SECOND, settled=True), (FIRST, THIRD)) == [FIRST, THIRD]


class Ended:
    def __init__(self, options: SinkOptions | None = OPTIONS, *, is_active: bool = False) -> None:
        self.aborted: list[tuple[str, str]] = []
        self.abandoned = AbandonedTransactions(
            lambda query: (lambda: options) if query == "q" else None,
            lambda _query: is_active,
            lambda _options, query, run, _runs_again: self.aborted.append((query, run)),
            looks_after_s=(0.0, 0.0),
        )

    def run(self, query: str, problem: str = "") -> list[tuple[str, str]]:
        self.abandoned.query_started(query, "run")
        self.abandoned.query_terminated(query, "run", problem)
        self.abandoned.wait(60)
        return self.aborted


def test_a_query_that_has_ended_is_looked_after_twice() -> None:
    assert Ended().run("q") == [("q", "run")] * 2
    assert Ended().run("q", "a task has failed") == [("q", "run")] * 2


def test_a_look_that_fails_does_not_take_the_later_look_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Readers of committed records stood still for 15 minutes, as nobody looked once the killed tasks were gone."""
    looks: list[str] = []

    def look(_options: SinkOptions, _query: str, run: str, _runs_again: Callable[[], bool]) -> None:
        looks.append(run)
        if len(looks) == 1:
            raise OSError("no broker")

    abandoned = AbandonedTransactions(lambda _query: lambda: OPTIONS, lambda _query: False, look, (0.0, 0.0))
    abandoned.query_started("q", "run")
    abandoned.query_terminated("q", "run", "")
    abandoned.wait(60)
    assert looks == ["run"] * 2
    said = capsys.readouterr().err
    assert "no broker" in said
    assert "looked for again" in said
    assert "time-out" not in said


def test_a_process_that_ends_looks_once_more_and_does_not_wait_for_the_later_look() -> None:
    """Every driver stayed for five seconds when it had nothing left to do."""
    for looks_before in (0, 1):
        looked = threading.Semaphore(0)
        looks: list[str] = []

        def look(_options: SinkOptions, _query: str, run: str, _runs_again: Callable[[], bool]) -> None:
            looks.append(run)  # noqa: B023
            looked.release()  # noqa: B023

        abandoned = AbandonedTransactions(
            lambda _query: lambda: OPTIONS, lambda _query: False, look, [*[0.0] * looks_before, 3600.0, 3600.0]
        )
        abandoned.query_started("q", "run")
        abandoned.query_terminated("q", "run", "")
        for _ in range(looks_before):
            assert looked.acquire(timeout=60)
        abandoned.leave(60)
        assert looks == ["run"] * (looks_before + 1)


@pytest.mark.parametrize("problem", [str(Superseded("it is at batch 5")), "KafkaError: PRODUCER_FENCED: replaced"])
def test_who_was_replaced_leaves_the_transactions_of_its_successor_alone(problem: str) -> None:
    assert Ended().run("q", problem) == []


def test_a_query_that_runs_again_takes_care_of_itself() -> None:
    assert Ended(is_active=True).run("q") == []


def test_other_sinks_and_those_without_transactions_are_passed_over() -> None:
    assert Ended().run("another") == []
    assert Ended(None).run("q") == []
    assert Ended(SinkOptions("localhost:1", "out", "at-least-once", "headwater")).run("q") == []


def test_what_goes_wrong_is_said_and_nothing_more(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: object) -> Any:
        raise OSError("no broker")

    for find, abandon in ((fails, fails), (lambda _query: lambda: OPTIONS, fails)):
        abandoned = AbandonedTransactions(find, lambda _query: False, abandon, (0.0,))
        abandoned.query_started("q", "run")
        abandoned.query_terminated("q", "run", "")
        abandoned.wait(60)
        assert "no broker" in capsys.readouterr().err
