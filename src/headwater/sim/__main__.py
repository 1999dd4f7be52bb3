"""`python -m headwater.sim`, or `make sim`: simulated brokers, clusters and clients, each world from its seed.

One world again (`SEED=… STEPS=… [LESS=…]`), which tells its story if it fails; smaller first with `SHRINK=1`. Random
ones for a minute (`SECONDS=…`), or so many of them (`WORLDS=10000 [JOBS=2] [FIRST=seed]`), of one kind (`WORLD=…`) or
of all. A line says which seeds they were. Exits with 1 if a world has failed.
"""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Final

from headwater.sim.kinds import KINDS, new_world, quiet, story_of
from headwater.sim.less import NOTHING, Less
from headwater.sim.rounds import Failure, Round, run_round
from headwater.sim.shrinking import Shrinker, command
from headwater.sim.stage import SimulationFailed

_SEEDS: Final = 1 << 32
_TOLD_EVERY_S: Final = 30


def main() -> int:
    options = _parser().parse_args()
    if options.seed is not None:
        kind = options.world or "logs"
        return _shrink(kind, options) if options.shrink else _run_one(kind, options)
    kinds = [options.world] if options.world else list(KINDS)
    failures: list[Failure] = []
    for round_ in _rounds(options, kinds):
        failures += _run_many(round_, options)
    for failure in failures:
        sys.stderr.write(f"{failure}\n")
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headwater.sim", description="Brokers and their clients, simulated.")
    parser.add_argument("--world", choices=KINDS, help="of which kind; without a seed, all of them")
    parser.add_argument("--seed", type=int, help="this world only")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--less", type=Less.parse, default=NOTHING, help="without these faults and clients")
    parser.add_argument("--shrink", action="store_true", help="leave out what the failure does not need")
    parser.add_argument("--worlds", type=int, help="so many of each kind")
    parser.add_argument("--first", type=int, help="the first seed of those; a random one otherwise")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=60, help="without a number of worlds: how long to go on")
    return parser


def _rounds(options: argparse.Namespace, kinds: list[str]) -> Iterator[Round]:
    """The number of worlds that was asked for, or small rounds until the time is over."""
    if options.worlds is not None:
        for kind in kinds:
            first = random.randrange(_SEEDS) if options.first is None else options.first
            yield Round(kind, first, options.worlds, options.steps)
        return
    until = time.monotonic() + options.seconds
    while time.monotonic() < until:
        for kind in kinds:
            yield Round(kind, random.randrange(_SEEDS), 10 * options.jobs, options.steps)


def _run_many(round_: Round, options: argparse.Namespace) -> list[Failure]:
    begun = told = time.monotonic()
    failures: list[Failure] = []
    for count, failure in enumerate(run_round(round_, options.jobs), 1):
        if failure is not None:
            failures.append(failure)
            sys.stderr.write(f"{failure}\n")
        if time.monotonic() - told > _TOLD_EVERY_S:
            told = time.monotonic()
            sys.stdout.write(f"{round_.kind}: {count} of {round_.worlds}\n")
            sys.stdout.flush()
    per_second = round_.worlds / max(0.001, time.monotonic() - begun)
    sys.stdout.write(
        f"{round_}: {round_.worlds} worlds of {round_.steps} steps, {per_second:.1f} a second, "
        f"{len(failures) or 'none'} failed\n"
    )
    sys.stdout.flush()
    return failures


def _run_one(kind: str, options: argparse.Namespace) -> int:
    world = new_world(kind, options.seed, options.less)
    try:
        with quiet():
            world.run(options.steps)
    except SimulationFailed as failure:
        sys.stderr.write(f"{failure}\n\n{story_of(kind, options.seed, options.steps, options.less)}")
        return 1
    sys.stdout.write(f"1 world of {options.steps} steps, with seed {options.seed} and trace {world.trace_hash}\n")
    return 0


def _shrink(kind: str, options: argparse.Namespace) -> int:
    def told(text: str) -> None:
        sys.stdout.write(f"  {text}\n")
        sys.stdout.flush()

    with quiet():
        case = Shrinker(lambda seed, less: new_world(kind, seed, less), options.seed, told).shrink(options.steps)
    if case is None:
        sys.stdout.write("it does not fail\n")
        return 0
    again = command(f"make sim WORLD={kind}", options.seed, case)
    sys.stderr.write(f"\n{again}\n\n{story_of(kind, options.seed, case.steps, case.less)}")
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
