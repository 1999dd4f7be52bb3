"""`python -m headwater.sim [--world NAME] [--seed N] [--steps N] [--seconds N]`: one seed, or random ones for a while. `make sim`."""

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable

from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_storage import ClusterStorageWorld
from headwater.sim.coordination import CoordinatorWorld
from headwater.sim.stage import SimulationFailed, Stage
from headwater.sim.world import World

WORLDS: dict[str, Callable[[int], Stage]] = {
    "logs": World,
    "coordinators": CoordinatorWorld,
    "cluster": ClusterWorld,
    "cluster-coordinators": ClusterCoordinatorWorld,
    "cluster-storage": ClusterStorageWorld,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="headwater.sim", description="A broker and its clients, simulated.")
    parser.add_argument("--world", choices=WORLDS, default="logs", help="what the clients are there for")
    parser.add_argument("--seed", type=int, help="this world only")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=60, help="without a seed: how long to go on with random ones")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    until = time.monotonic() + options.seconds
    count = 0
    while count == 0 or (options.seed is None and time.monotonic() < until):
        seed = random.randrange(1 << 32) if options.seed is None else options.seed
        world = WORLDS[options.world](seed)
        try:
            world.run(options.steps)
        except SimulationFailed as failure:
            sys.stderr.write(f"{failure}\n")
            return 1
        count += 1
    sys.stdout.write(
        f"{count} worlds of {options.steps} steps, the last with seed {seed} and trace {world.trace_hash}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
