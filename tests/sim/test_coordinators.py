"""Many small worlds of groups and transactions, each from its seed:
coordinators keep their word whatever goes wrong.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from headwater.records.reader import read_batches
from headwater.sim.coordination import CoordinatorWorld
from headwater.sim.faults import NO_FAULTS, Faults, only

SEEDS = int(os.environ.get("HEADWATER_SIM_SEEDS", "60"))  # `make mutants` has more patience
SEEDS_AT_ONCE = 15
STEPS = 250


pytestmark = pytest.mark.usefixtures("nothing_is_told")


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_AT_ONCE))
def test_worlds_of_coordinators_with_every_fault(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        CoordinatorWorld(seed).run(STEPS)


@pytest.mark.parametrize(
    "faults",
    [
        Faults(interval_ms=0, cuts_per_mille=80, followed_percent=100),
        only(kill=1),
        only(clean_restart=1, clock_jump=1, stalled_followers=2, followed_percent=100),
        only(kill=1, disk_full=4, slow_disk=1, stalled_followers=1),
    ],
    ids=["cuts", "kills", "clean restarts and other clocks", "full disks and kills"],
)
def test_coordinators_with_one_kind_of_fault_very_often(faults: Faults) -> None:
    for seed in range(SEEDS // 10):
        CoordinatorWorld(seed, faults).run(STEPS)


def test_all_that_coordinators_do_happens_in_a_world_without_faults() -> None:
    """Worlds in which nothing is done find nothing."""
    world = CoordinatorWorld(1, NO_FAULTS)
    world.run(2500)
    ended = [transaction.is_committed for transaction in world.transactions.transactions]
    assert ended.count(True) > 10
    assert ended.count(False) > 3
    assert any(t.has_offsets and t.is_committed for t in world.transactions.transactions)
    assert world.groups.generation("classic") > 3


def test_a_transaction_has_one_marker_in_each_partition_if_nothing_goes_wrong() -> None:
    """Where something does, one more is no harm; but it is work for everybody who reads."""
    world = CoordinatorWorld(1, replace(NO_FAULTS, followed_percent=0))
    for _ in range(2000):
        world.step()
    assert world.node.broker is not None
    markers = 0
    for topic, index in world.outputs():
        log = world.node.broker.partition(topic.name, index).log
        offset, is_open = 0, set()
        while (piece := log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)) is not None:
            data = piece.read()
            piece.release()
            for _, header in read_batches(data):
                if header.is_control:
                    assert header.producer_id in is_open, f"a second marker at {header.base_offset}"
                    is_open.remove(header.producer_id)
                    markers += 1
                else:
                    is_open.add(header.producer_id)
                offset = header.last_offset + 1
    assert markers > 10


def test_the_same_seed_gives_the_same_trace_of_coordinators_in_another_process() -> None:
    """Nothing may depend on where objects lie in memory or how strings are hashed."""
    hashes = {
        subprocess.run(
            [sys.executable, "-m", "headwater.sim", "--world", "coordinators", "--seed", "12", "--steps", "600"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=240,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(hashes) == 1
