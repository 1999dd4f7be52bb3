"""Makes a failing world smaller: fewer steps, faults and clients, as long as the same invariant breaks.

What is left out of a world changes as little else as can be (`less.py`), but a world is a chaotic thing: so each
attempt is a world that is run, and what does not break the invariant any more is not taken. Faults go in halves,
quarters and so on, then one by one.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from headwater.sim.less import NOTHING, Less
from headwater.sim.stage import SimulationFailed, Stage

NewWorld = Callable[[int, Less], Stage]
Item = TypeVar("Item", int, str)

_STEPS_MIN: Final = 50


class Case(NamedTuple):
    """One world that fails, and how."""

    steps: int
    less: Less
    invariant: str
    what: str


def invariant_of(what: str) -> str:
    """`I10`, or the whole sentence without its numbers where there is none."""
    head = what.split(":", 1)[0]
    return (
        head if head[:1] == "I" and head[1:].isdecimal() else "".join(letter for letter in what if not letter.isdigit())
    )


class Shrinker:
    def __init__(self, new_world: NewWorld, seed: int, told: Callable[[str], None] = lambda _text: None) -> None:
        self._new_world = new_world
        self._seed = seed
        self._told = told

    def shrink(self, steps: int) -> Case | None:
        """None if the world does not fail."""
        case, faults, clients = self._run(steps, NOTHING)
        if case is None:
            return None
        case = self._fewer_steps(case)
        case = self._without(case, faults, lambda less, gone: Less(less.faults | gone, less.clients, less.cuts))
        if (attempt := self._same(case, case.steps, Less(case.less.faults, case.less.clients, True))) is not None:
            case = attempt
        case = self._without(case, clients, lambda less, gone: Less(less.faults, less.clients | gone, less.cuts))
        return self._fewer_steps(case)

    def _run(self, steps: int, less: Less) -> tuple[Case | None, list[int], list[str]]:
        """How it fails, if it does; which faults struck, and who was there."""
        world = self._new_world(self._seed, less)
        names = [client.name for client in world.clients]
        case = None
        try:
            world.run(steps)
        except SimulationFailed as failure:
            case = Case(steps, less, invariant_of(failure.what), failure.what)
        return case, world.faults_struck, names

    def _same(self, case: Case, steps: int, less: Less) -> Case | None:
        attempt, _, _ = self._run(steps, less)
        if attempt is None or attempt.invariant != case.invariant:
            return None
        self._told(f"{attempt.steps} steps, without {attempt.less or 'nothing'}: {attempt.what}")
        return attempt

    def _fewer_steps(self, case: Case) -> Case:
        """By thirds of what is left: a world that ends early often fails only when it is read back."""
        cut = case.steps // 2
        while cut >= _STEPS_MIN // 2:
            attempt = self._same(case, case.steps - cut, case.less) if case.steps - cut >= _STEPS_MIN else None
            case, cut = (case, cut // 2) if attempt is None else (attempt, min(cut, attempt.steps // 2))
        return case

    def _without(self, case: Case, items: Sequence[Item], leave_out: Callable[[Less, frozenset[Item]], Less]) -> Case:
        left = list(items)
        size = max(1, len(left) // 2)
        while left:
            kept: list[Item] = []
            for begin in range(0, len(left), size):
                part = left[begin : begin + size]
                attempt = self._same(case, case.steps, leave_out(case.less, frozenset(part)))
                if attempt is None:
                    kept += part
                else:
                    case = attempt
            if size == 1 and len(kept) == len(left):
                break
            left, size = kept, max(1, min(size, len(kept)) // 2)
        return case


def command(world_command: str, seed: int, case: Case) -> str:
    less = f" LESS={case.less}" if case.less != NOTHING else ""
    return f"{world_command} SEED={seed} STEPS={case.steps}{less}"
