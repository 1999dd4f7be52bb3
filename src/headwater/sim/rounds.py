"""Many worlds, in several processes: seeds that follow on each other, from any first one.

A world that fails does not stop the others. Each process takes a few at a time and collects garbage between two worlds
only, which takes a seventh of their time otherwise.
"""

import gc
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Final, NamedTuple

from headwater.sim.kinds import new_world, quiet
from headwater.sim.stage import SimulationFailed

_AT_ONCE: Final = 5
_WORLDS_PER_PROCESS: Final = 100  # of those portions


class Failure(NamedTuple):
    kind: str
    seed: int
    steps: int
    what: str

    def __str__(self) -> str:
        return f"make sim WORLD={self.kind} SEED={self.seed} STEPS={self.steps}\n    {self.what}"


class Round(NamedTuple):
    kind: str
    first: int
    worlds: int
    steps: int

    def __str__(self) -> str:
        return f"{self.kind} {self.first} to {self.first + self.worlds - 1}"


def run_round(round_: Round, jobs: int = 1) -> Iterator[Failure | None]:
    """For each of its worlds in some order: how it failed, or None."""
    portions = [
        round_._replace(first=first, worlds=min(_AT_ONCE, round_.first + round_.worlds - first))
        for first in range(round_.first, round_.first + round_.worlds, _AT_ONCE)
    ]
    if jobs == 1:
        for portion in portions:
            yield from _run_portion(portion)
        return
    with get_context("forkserver").Pool(jobs, maxtasksperchild=_WORLDS_PER_PROCESS) as pool:
        for found in pool.imap_unordered(_run_portion, portions):
            yield from found


def _run_portion(portion: Round) -> list[Failure | None]:
    found: list[Failure | None] = []
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with quiet():
            for seed in range(portion.first, portion.first + portion.worlds):
                found.append(_run_one(portion.kind, seed, portion.steps))
                gc.collect(1)
    finally:
        if was_enabled:
            gc.enable()
    return found


def _run_one(kind: str, seed: int, steps: int) -> Failure | None:
    try:
        new_world(kind, seed).run(steps)
    except SimulationFailed as failure:
        return Failure(kind, seed, steps, failure.what.split("\n")[0])
    return None
