"""Worlds made smaller, and told of: which faults and clients a failure needs, and what happened to whom it concerns."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.sim.kinds import new_world, story_of
from headwater.sim.less import NOTHING, Less
from headwater.sim.rounds import Round, run_round
from headwater.sim.shrinking import Case, Shrinker, command, invariant_of
from headwater.sim.stage import SimulationFailed
from headwater.sim.story import Story
from headwater.sim.trace import Violation
from headwater.sim.world import World


@pytest.mark.parametrize(
    ("less", "text"),
    [
        (NOTHING, ""),
        (Less(frozenset({3, 5, 6, 7, 9})), "3,5-7,9"),
        (Less(frozenset(), frozenset({"reader", "plain"}), cuts=True), "plain,reader,cuts"),
        (Less(frozenset({12}), frozenset({"classic-0"})), "12,classic-0"),
    ],
)
def test_what_a_world_goes_without_is_written_and_read(less: Less, text: str) -> None:
    assert str(less) == text
    assert Less.parse(text) == less


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("I10: the replicas of a-0 differ", "I10"),
        ("reader got 17 bytes in a frame of 4", "reader got  bytes in a frame of "),
    ],
)
def test_the_same_invariant(what: str, expected: str) -> None:
    assert invariant_of(what) == expected


class Fragile:
    """A world that fails if certain faults and a certain client are there, and it goes on for long enough."""

    def __init__(self, needs: set[int], client: str, steps: int) -> None:
        self.needs, self.client, self.steps = needs, client, steps
        self.runs = 0

    def __call__(self, seed: int, less: Less) -> Any:
        self.runs += 1
        faults = [number for number in range(1, 41) if number not in less.faults]
        clients = [SimpleNamespace(name=name) for name in ("admin", "first", "reader") if name not in less.clients]

        def run(steps: int) -> None:
            if steps >= self.steps and self.needs <= set(faults) and any(each.name == self.client for each in clients):
                failure = SimulationFailed("I1: lost")
                failure.what = "I1: lost"
                raise failure

        return SimpleNamespace(clients=clients, faults_struck=faults, run=run)


@pytest.mark.parametrize("needs", [{7}, {3, 38}, {1, 2, 3}, set()], ids=str)
def test_only_what_the_failure_needs_is_left(needs: set[int]) -> None:
    world = Fragile(needs, "first", 700)
    case = Shrinker(world, 1).shrink(3000)
    assert case is not None
    assert set(range(1, 41)) - case.less.faults == needs
    assert case.less.clients == {"admin", "reader"}
    assert case.less.cuts
    assert 700 <= case.steps < 760
    assert world.runs < 150


def test_a_world_that_holds_is_not_made_smaller() -> None:
    assert Shrinker(Fragile({99}, "first", 700), 1).shrink(3000) is None


def test_another_failure_is_not_taken_for_the_same() -> None:
    def new(_seed: int, less: Less) -> Any:
        def run(_steps: int) -> None:
            failure = SimulationFailed()
            failure.what = "I2: another" if less.faults else "I1: lost"
            raise failure

        return SimpleNamespace(clients=[], faults_struck=[1, 2], run=run)

    case = Shrinker(new, 1).shrink(100)
    assert case is not None
    assert (case.invariant, case.less.faults) == ("I1", frozenset())


def test_the_command_that_shows_it_again() -> None:
    case = Case(450, Less(frozenset({1, 2})), "I1", "I1: lost")
    assert command("make sim WORLD=cluster", 7, case) == "make sim WORLD=cluster SEED=7 STEPS=450 LESS=1-2"


@pytest.mark.parametrize("kind", ["logs", "cluster"])
@pytest.mark.usefixtures("only_errors_are_told")
def test_a_fault_that_is_left_out_changes_no_other(kind: str) -> None:
    """Up to the first one that is left out, both worlds are the same;
    and those that come later have the same numbers.
    """
    whole, less = new_world(kind, 5), new_world(kind, 5, Less(frozenset({3})))
    for world in (whole, less):
        world.run(2500)
    assert whole.faults_struck[:2] == less.faults_struck[:2] == [1, 2]
    assert 3 in whole.faults_struck
    assert 3 not in less.faults_struck
    assert less.faults_struck[2] == 4


def test_a_client_that_is_left_out_is_not_there() -> None:
    assert [client.name for client in new_world("cluster", 5, Less(frozenset(), frozenset({"plain"}))).clients] == [
        "admin", "first", "second", "reader", "other"
    ]  # fmt: skip


class Breaking(World):
    """Something is wrong with a partition as soon as a reader has read it."""

    def check(self) -> None:
        for topic in self.catalog.topics.values():
            for history in topic.partitions:
                if len(history._values) > 2:
                    raise Violation(f"I2: {history.name} is wrong")


def test_a_failure_is_told_with_the_story_of_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("headwater.sim.kinds", fromlist=["KINDS"]).KINDS, "logs", Breaking)
    told = story_of("logs", 3, 2000)
    what, *lines = told.splitlines()
    name = what.split()[1]
    assert what == f"I2: {name} is wrong"
    assert f"The story of {name}:" in lines
    assert any(f"{name}: offsets 0 to" in line for line in lines)
    others = {line.split(":")[0].split()[-1] for line in lines if "are read" in line or "acknowledged" in line}
    assert others == {name}, "nothing of other partitions"


def stage(now_ms: int = 7, node: int | None = 2) -> Any:
    return SimpleNamespace(clock=SimpleNamespace(monotonic_ms=lambda: now_ms), running=node)


def test_a_story_has_what_concerns_its_subjects_the_lives_of_nodes_and_nothing_else() -> None:
    story = Story()
    story.begins(stage())
    logger = logging.getLogger("headwater.test-of-stories")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(story)
    try:
        logger.info("event=leads partition=a-0 epoch=3")
        logger.info("event=leads partition=a-01 epoch=3")
        logger.info("event=leads partition=b-0 epoch=3")
    finally:
        logger.removeHandler(story)
    story.note("fault: 2 killed")
    story.note("reader asks 2 FetchRequest v16 #6")
    story.note("3 records from 0 on are acknowledged", "a-0")
    story.note("3 records from 0 on are acknowledged", "b-0")
    assert story.subjects("I1: a-0 ends at 0") == ["a-0"]
    assert story.of(["a-0"]).splitlines() == [
        "       7 [2] event=leads partition=a-0 epoch=3",
        "       7 fault: 2 killed",
        "       7 a-0: 3 records from 0 on are acknowledged",
    ]


def test_what_is_said_again_and_again_is_told_once() -> None:
    story = Story()
    for now_ms in range(5):
        story.begins(stage(now_ms))
        story.note("it is so", "a-0")
    assert story.of(["a-0"]).splitlines() == [
        "       0 a-0: it is so",
        "       4 (the same 4 times more until here)",
    ]


def test_the_transactional_id_of_a_transaction_that_a_violation_names_is_a_subject() -> None:
    story = Story()
    story.begins(stage())
    story.note("transaction 12 begins", "alpha")
    assert story.subjects("I5: transaction 12 was committed, now reader says aborted") == ["alpha"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_round_of_worlds_tells_of_each(jobs: int) -> None:
    found = list(run_round(Round("logs", 100, 7, 60), jobs))
    assert found == [None] * 7


def test_a_world_that_fails_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("headwater.sim.kinds", fromlist=["KINDS"]).KINDS, "logs", Breaking)
    found = [failure for failure in run_round(Round("logs", 3, 3, 2000)) if failure is not None]
    assert [failure.seed for failure in found] == [3, 4, 5]
    assert "make sim WORLD=logs SEED=3 STEPS=2000" in str(found[0])
