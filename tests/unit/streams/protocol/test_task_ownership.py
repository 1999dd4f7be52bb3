"""The protocol of tasks in a world of faults, and what that world says of broken variants of it.

All runs that leave the ordinary course at most a few times, and many random ones. A broken variant is the protocol's
own source with one rule changed, or a shell that does a step wrongly: each must be found out.
"""

import importlib.util
import inspect
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType

import pytest

from headwater.streams.protocol import task_ownership
from unit.streams.protocol.ownership_world import Faults, Violation, World

CRASHES = Faults(crashes=2, lost_answers=1)
ZOMBIES = Faults(zombies=2, lost_answers=1, crashes=1)
MOVING = Faults(moves=2, slow_markers=1, crashes=1, lost_answers=1)
TIMEOUTS = Faults(timeouts=1, zombies=1, lost_answers=1)
LOST_DISKS = Faults(zombies=1, crashes=1, lost_disks=1, slow_markers=1)
LOST_SLOTS = Faults(lost_slots=2, lost_answers=1, slow_markers=1)
EVERYTHING = Faults(crashes=1, zombies=2, timeouts=1, lost_answers=1, slow_markers=1, moves=1, lost_disks=1)


class Plan:
    """Chooses the first option but where the plan says otherwise; notes how many there were."""

    def __init__(self, plan: dict[int, int]) -> None:
        self.plan = plan
        self.sizes: list[int] = []

    def __call__(self, size: int) -> int:
        self.sizes.append(size)
        return self.plan.get(len(self.sizes) - 1, 0)


def deviations(most: int) -> Iterator[Plan]:
    """All runs with at most `most` choices other than the first."""
    todo: list[dict[int, int]] = [{}]
    while todo:
        run = Plan(todo.pop())
        yield run
        if len(run.plan) < most:
            since = max(run.plan, default=-1) + 1
            todo += [
                {**run.plan, at: choice} for at in range(since, len(run.sizes)) for choice in range(1, run.sizes[at])
            ]


class Random:
    """Mostly goes on with what it was at, as real processes do; sometimes turns to anything."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.restless = self.random.choice((0.05, 0.2, 0.6))

    def __call__(self, size: int) -> int:
        return self.random.randrange(size) if self.random.random() < self.restless else 0


@pytest.mark.parametrize(
    "faults",
    [CRASHES, ZOMBIES, MOVING, TIMEOUTS, LOST_DISKS, LOST_SLOTS],
    ids=["crashes", "zombies", "moving", "timeouts", "lost-disks", "lost-slots"],
)
def test_every_run_with_two_turns_of_fate(faults: Faults) -> None:
    for run in deviations(2):
        World(task_ownership, replace(faults), run).run()


@pytest.mark.parametrize("faults", [ZOMBIES, MOVING, TIMEOUTS, LOST_DISKS, LOST_SLOTS, EVERYTHING], ids=str)
def test_random_runs(faults: Faults) -> None:
    for seed in range(600):
        World(task_ownership, replace(faults), Random(seed), records=3).run()


@pytest.mark.parametrize(("faults", "seed"), [(EVERYTHING, 641), (EVERYTHING, 705), (ZOMBIES, 1093)], ids=str)
def test_a_zombie_that_takes_its_producer_id_again_commits_nothing(faults: Faults, seed: int) -> None:
    """Rare: it asks whether it is the member, is replaced, and only then takes the id. Its commit says who it is, and
    is refused.
    """
    World(task_ownership, replace(faults), Random(seed), records=3).run()


def _variant(old: str, new: str) -> ModuleType:
    source = inspect.getsource(task_ownership)
    assert source.count(old) == 1, old
    spec = importlib.util.spec_from_loader("broken_task_ownership", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["broken_task_ownership"] = module  # dataclasses look there for the types of their fields
    exec(source.replace(old, new), module.__dict__)
    return module


_END = "    committed: bool = yield EndTransaction(producer)\n"
VARIANTS = {  # what stands in the source, and what a broken one has instead; None: the shell does it wrongly
    "store before EndTxn": (_END, "    for task in tasks:\n        yield SaveState(task)\n" + _END),
    "no require_stable": ("yield ReadOffsets(task)", "yield ReadOffsets(task, stable=False)"),
    "no group metadata": ("yield SendOffsets(producer, member)", "yield SendOffsets(producer, None)"),
    "only to the last stable offset": ("yield ReadEnds(task)", 'yield ReadEnds(task, "read_committed")'),
    "the outcome is believed": (
        "        if committed:\n            yield Save",
        "        if True:\n            yield Save",
    ),
    "a lost slot is not fenced": (
        "    yield StillMember(member)\n    taken: SlotProducer = yield TakeProducerId(transactional_id)\n",
        "    yield StillMember(member)\n    taken = SlotProducer(transactional_id, 1, 1)\n",
    ),
    "a slot takes its id by itself": None,
    "no owner check": None,
    "replay from position + 1": None,
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_variant_is_found_out(name: str) -> None:
    change = VARIANTS[name]
    protocol = task_ownership if change is None else _variant(*change)

    def is_found(faults: Faults, seed: int) -> bool:
        try:
            World(protocol, replace(faults), Random(seed), records=3, broken=name).run()
        except Violation:
            return True
        return False

    assert any(
        is_found(faults, seed) for seed in range(1500) for faults in (LOST_SLOTS, ZOMBIES, MOVING, LOST_DISKS, TIMEOUTS)
    )
