"""The exactly-once writer's protocol in a world of faults, and what that world says of broken variants of it.

Two ways through the choices: all runs that leave the ordinary course at most a few times (exhaustive), and many random
ones. A broken variant is the protocol's own source with one rule changed: each must be found out.
"""

import importlib.util
import inspect
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from headwater.spark import exactly_once
from unit.spark.exactly_once_world import Driver, Faults, Violation, World

CRASHES = Faults(crashes=2)
EVERYTHING = Faults(crashes=1, zombies=1, lost_attempts=1, timeouts=1, slow_offsets=1)
MOVING = replace(EVERYTHING, counts=(2, 3, 1))
FEWER = replace(EVERYTHING, counts=(3, 1))  # what the first driver leaves open is no task's of the second
WILD = replace(EVERYTHING, deterministic=False)
OLD = replace(FEWER, epoch_bump=False)  # brokers without KIP-890
SLEEPY = Faults(crashes=1, zombies=1, zombies_sleep=True)
FORGETFUL = replace(MOVING, zombies=2, forgets=1)
ABANDONED = replace(FEWER, zombies=2, abandons=3)  # each run that ends aborts what it has left open


class Deviations:
    """All runs with at most `most` choices other than the first: a run is known by the choices where it deviates."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.todo: list[dict[int, int]] = [{}]

    def runs(self) -> Iterator["Deviations.Run"]:
        while self.todo:
            run = Deviations.Run(self.todo.pop())
            yield run
            if len(run.plan) < self.most:
                since = max(run.plan, default=-1) + 1
                self.todo += [
                    {**run.plan, at: choice}
                    for at in range(since, len(run.sizes))
                    for choice in range(1, run.sizes[at])
                ]

    class Run:
        def __init__(self, plan: dict[int, int]) -> None:
            self.plan = plan
            self.sizes: list[int] = []

        def __call__(self, size: int) -> int:
            self.sizes.append(size)
            return self.plan.get(len(self.sizes) - 1, 0)


def at_random(seed: int) -> "Random":
    return Random(seed)


class Random:
    """Mostly goes on with what it was at, as real processes do; sometimes turns to anything."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.restless = self.random.choice((0.1, 0.3, 0.8))

    def __call__(self, size: int) -> int:
        return self.random.randrange(size) if self.random.random() < self.restless else 0


def outcomes(protocol: ModuleType, faults: Faults, seeds: range) -> set[str]:
    return {World(protocol, replace(faults), at_random(seed)).run() for seed in seeds}


@pytest.mark.parametrize(
    "faults",
    [
        CRASHES,
        replace(CRASHES, counts=(2, 3)),
        replace(CRASHES, counts=(3, 1, 2)),
        replace(CRASHES, deterministic=False),
        replace(CRASHES, abandons=2),
    ],
    ids=["plain", "more-tasks", "fewer-tasks", "other-rows", "abandoned"],
)
def test_crashes_alone_never_stop_it_whatever_the_plan(faults: Faults) -> None:
    for run in Deviations(2).runs():
        assert World(exactly_once, replace(faults), run, batches=1, items=3).run() == "done"


@pytest.mark.parametrize("faults", [EVERYTHING, MOVING, FEWER], ids=["everything", "moving", "fewer"])
def test_every_run_with_two_turns_of_fate(faults: Faults) -> None:
    for run in Deviations(2).runs():
        assert World(exactly_once, replace(faults), run, batches=1, items=3).run() == "done"


@pytest.mark.parametrize(
    "faults",
    [MOVING, FEWER, WILD, OLD, FORGETFUL, SLEEPY, ABANDONED],
    ids=["moving", "fewer", "wild", "old", "forgetful", "sleepy", "abandoned"],
)
def test_random_runs(faults: Faults) -> None:
    """Never a wrong result. Stuck, with a word of explanation, only where nobody could know what was written."""
    stuck = outcomes(exactly_once, faults, range(800)) - {"done"}
    assert stuck <= (
        {"NotTheSame"} if not faults.deterministic else {"NotTheSame", "Superseded"} if faults.forgets else set()
    )


def test_with_a_deterministic_plan_it_gets_there_in_the_end() -> None:
    """A new driver always finishes what the others left."""
    assert outcomes(exactly_once, EVERYTHING, range(800, 2000)) == {"done"}


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "decided"])
def test_a_driver_that_wakes_up_late_does_not_hide_what_its_successor_has_decided(settled: bool) -> None:
    assert _wakes_up_late(exactly_once, settled=settled) == "done"


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "decided"])
def test_a_driver_that_wakes_up_late_is_fenced_and_that_is_needed(settled: bool) -> None:
    """Half of a batch would be there, and nobody could tell which rows belong to it."""
    broken = variant("    yield BeginDeciding()  #", "    #")
    assert _wakes_up_late(broken, settled=settled) == "Superseded"


def _wakes_up_late(protocol: ModuleType, *, settled: bool) -> str:
    """A driver stops before it writes of batch 0. Its successor settles that, decides batch 1, and dies between two
    commits.
    """
    world = World(protocol, replace(SLEEPY), lambda _: 0)
    world.new_driver()
    sleeper = world.drivers[0]
    _run_until(world, sleeper, lambda step: type(step).__name__ == "WriteDecision" and step.decision.settled is settled)
    world.replace(sleeper, zombie=True)
    successor = world.drivers[1]
    _run_until(world, successor, lambda step: successor.batch == 1 and type(step).__name__ == "CommitAll")
    sleeper.step()
    world.replace(successor, zombie=False)
    return world.go_on()


def _run_until(world: World, driver: Driver, reached: Callable[[Any], bool]) -> None:
    """The driver and its tasks alone, until it is about to do that."""
    while driver.commit is None or not reached(driver.pending):
        tasks = [attempt for attempt in world.attempts if attempt.alive and attempt.driver is driver]
        (tasks[0] if tasks else driver).step()
        assert driver.alive, driver.error


# (what is left out, the line as it is, the line as it would be, the faults that show it: by a wrong result, or because
# the query does not get to its end, where the true protocol always does)
BROKEN = [
    (
        "a task writes without looking for a decision",
        "    decision: Decision | None = yield ReadDecision()\n    expected",
        "    decision: Decision | None = None\n    expected",
        replace(CRASHES, deterministic=False),
    ),
    (
        "progress is not asked for",
        "    if progress is not None and progress.batch >= batch:\n        return Done(task)",
        "",
        replace(EVERYTHING, zombies=2),
    ),
    (
        "progress is asked for before zombies are fenced",
        "    producer: Producer = yield Begin(task)\n    progress: Progress | None = yield ReadProgress(task)\n",
        "    progress: Progress | None = yield ReadProgress(task)\n    producer: Producer = yield Begin(task)\n",
        replace(EVERYTHING, zombies=2),
    ),
    (
        "offsets on their way are not waited for",
        "    stable: bool = True",
        "    stable: bool = False",
        replace(EVERYTHING, zombies=2),
    ),
    (
        "the decision is written when all is committed",
        "    yield WriteDecision(decision)\n    return decision\n\n\ndef _amend",
        "    for entry in opened.values():\n        yield End(entry.producer, commit=True)\n"
        "    yield WriteDecision(decision)\n    return decision\n\n\ndef _amend",
        CRASHES,
    ),
    (
        "the first task's transaction is not committed first",
        "    if not (yield from _point_is_committed(decision)):\n        raise TransactionsLost\n"
        "    lost = yield from _commit_others(decision)\n",
        "    lost = yield from _commit_others(decision)\n"
        "    if not (yield from _point_is_committed(decision)):\n        raise TransactionsLost\n",
        replace(MOVING, deterministic=False, zombies=2),
    ),
    (
        "a decision counts when it is written",
        "    if decision.settled or (yield End(decision.point, commit=True)):\n        return True\n    progress",
        "    if True:\n        return True\n    progress",
        replace(CRASHES, timeouts=2, counts=(1,), deterministic=False),
    ),
    (
        "rows that are written again are not compared",
        "        if entry.digest != decision.entries[task].digest:\n            raise NotTheSame(decision.batch, task)",
        "        pass",
        replace(WILD, zombies=2, timeouts=2),
    ),
    (
        "nor by the task itself",
        "    if expected is not None and digest != expected:",
        "    if False and expected is not None and digest != expected:",
        None,  # the driver compares again: alone, this one changes nothing
    ),
    (
        "tasks that the decision does not know are committed with it",
        "            yield End(entry.producer, commit=False)\n    for",
        "            yield End(entry.producer, commit=True)\n    for",
        replace(MOVING, zombies=2),
    ),
    (
        "tasks that were committed by others do not stop the driver",
        "        if len(opened) < len(reports):",
        "        if False:",
        FORGETFUL,
    ),
    (
        "a transaction that is refused counts as committed",
        "        if not committed:\n            progress = yield",
        "        if False:\n            progress = yield",
        replace(EVERYTHING, timeouts=2),
    ),
    (
        "the first task's progress is not compared by producer",
        "    return progress == Progress(batch, producer.producer_id, producer.epoch)",
        "    return progress.batch >= batch",
        replace(MOVING, zombies=2, deterministic=False),
    ),
    (
        "a task commits by itself",
        "    return Open(task, producer, digest)",
        "    yield End(producer, commit=True)\n    return Done(task)",
        replace(MOVING, crashes=2),
    ),
    (
        "nobody aborts what runs with more tasks have left open",
        "    yield from _abort_abandoned(decision)\n",
        "",
        replace(CRASHES, counts=(4, 2)),
    ),
    (
        "it is aborted only when the batch is settled",
        "    yield from _abort_abandoned(decision)\n    yield WriteDecision(replace(decision, settled=True))\n",
        "    yield WriteDecision(replace(decision, settled=True))\n    yield from _abort_abandoned(decision)\n",
        replace(CRASHES, counts=(4, 2)),
    ),
    (
        "it is looked for before all of the batch is committed",
        "    lost = yield from _commit_others(decision)\n    if lost:\n        raise LostAfterDecision(batch, lost)\n"
        "    yield from _abort_abandoned(decision)\n",
        "    yield from _abort_abandoned(decision)\n    lost = yield from _commit_others(decision)\n    if lost:\n"
        "        raise LostAfterDecision(batch, lost)\n",
        FEWER,
    ),
    (
        "it is aborted without asking whether there is a later batch by now",
        "    if last is None or (last.batch, last.settled) < (decision.batch, True):",
        "    if True:",
        replace(FEWER, zombies=2, zombies_sleep=True),
    ),
    (
        "the end of a run aborts whatever is open of the query",
        "    found: tuple[Producer, ...] = yield FindOpen(run)\n",
        "    found: tuple[Producer, ...] = yield FindOpen()\n",
        ABANDONED,
    ),
    (
        "drivers are fenced only after the look",
        "    yield BeginDeciding()  # before the look: what others write after it is refused, what they wrote before it is seen\n"
        "    found: Decision | None = yield ReadDecision()\n",
        "    found: Decision | None = yield ReadDecision()\n    yield BeginDeciding()\n",
        replace(SLEEPY, zombies=2, crashes=2),
    ),
    (
        "a run that came too late puts its dead transactions in the place of committed ones",
        "        if not (yield AllOpen(tuple(entry.producer for entry in again.values()))):\n            raise TransactionsLost  #",
        "        #",
        replace(EVERYTHING, zombies=2, timeouts=2, zombies_sleep=True),
    ),
]


def variant(old: str, new: str) -> ModuleType:
    source = inspect.getsource(exactly_once)
    assert source.count(old) == 1, f"the protocol has changed: {source.count(old)} times {old!r}"
    spec = importlib.util.spec_from_loader("broken", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__name__"] = exactly_once.__name__  # dataclasses look their module up
    exec(compile(source.replace(old, new), "broken", "exec"), module.__dict__)
    return module


@pytest.mark.parametrize(("what", "old", "new", "faults"), BROKEN, ids=[each[0].replace(" ", "-") for each in BROKEN])
def test_broken_variants_are_found_out(what: str, old: str, new: str, faults: Faults | None) -> None:
    broken = variant(old, new)
    if faults is None:
        outcomes(broken, WILD, range(300))
        return

    @cache
    def may_end_stuck() -> bool:
        return outcomes(exactly_once, faults, range(300)) != {"done"}

    for seed in range(4000):
        try:
            if World(broken, replace(faults), at_random(seed), items=3).run() != "done" and not may_end_stuck():
                return
        except Violation:
            return
    pytest.fail(f"nobody noticed that {what}")
