"""Many small worlds, each from its seed: whatever goes wrong in them, no client is told anything that does not hold."""

import os
import subprocess
import sys

import pytest

from headwater.sim.faults import NO_FAULTS, Faults, only
from headwater.sim.world import SimulationFailed, World

SEEDS_AT_ONCE = 20
STEPS = 350


pytestmark = pytest.mark.usefixtures("nothing_is_told")


@pytest.mark.parametrize("first", range(0, 300, SEEDS_AT_ONCE))
def test_worlds_with_every_fault(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        World(seed).run(STEPS)


def test_a_long_world() -> None:
    World(4711).run(5000)


def test_a_world_without_faults() -> None:
    World(1, NO_FAULTS).run(1000)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(interval_ms=0, cuts_per_mille=100),
        only(kill=1),
        only(power_loss=1),
        only(clean_restart=1),
        only(kill=1, power_loss=1, failed_sync=1),
        only(clean_restart=1, slow_disk=4, stalled_followers=4),
    ],
    ids=["cuts", "kills", "power losses", "clean restarts", "failed syncs", "restarts of a slow disk"],
)
def test_one_kind_of_fault_very_often(faults: Faults) -> None:
    for seed in range(6):
        World(seed, faults).run(STEPS)


def test_the_same_seed_gives_the_same_trace() -> None:
    first, again, other = World(7), World(7), World(8)
    for world in (first, again, other):
        world.run(STEPS)
    assert first.trace_hash == again.trace_hash != other.trace_hash


def test_the_same_seed_gives_the_same_trace_in_another_process() -> None:
    """Nothing may depend on where objects lie in memory or how strings are hashed."""
    hashes = {
        subprocess.run(
            [sys.executable, "-m", "headwater.sim", "--seed", "12", "--steps", "1500"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(hashes) == 1


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(3)
    monkeypatch.setattr(world, "check", _broken)
    with pytest.raises(SimulationFailed, match=r"ValueError: broken\n\n  make sim SEED=3 STEPS=10\n"):
        world.run(10)


def _broken() -> None:
    raise ValueError("broken")
