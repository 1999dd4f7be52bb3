"""What may go wrong in a cluster, beyond what may go wrong with each machine. `cluster_injector.py` makes it happen."""

import random
from dataclasses import dataclass, replace
from typing import Final

from headwater.sim.faults import Faults


@dataclass(frozen=True, slots=True)
class ClusterFaults(Faults):
    """The weights say how often each comes up, against the others; 0 is never."""

    interval_ms: int = 600
    cuts_per_mille: int = 4
    disk_full: int = 1
    stalled_followers: int = 0
    pause: int = 4  # a process stands still, often for longer than its session lasts
    partition: int = 4  # some brokers do not reach the others
    cut_from_zookeeper: int = 3  # one broker
    cut_from_followers: int = 3  # one broker is cut from all others, and from nobody else
    session_lost: int = 2
    zookeeper_away: int = 1
    directory: int = 1  # one of a broker's log directories fails, and some time later its disk is mended
    slow_zookeeper: int = 1
    wide_gap: int = 2  # where a topic has them: a leader goes on more than 2^31 offsets further


NO_FAULTS = replace(ClusterFaults(), interval_ms=0, cuts_per_mille=0)


KINDS: Final = (
    "kill",
    "power_loss",
    "clean_restart",
    "clock_jump",
    "slow_disk",
    "disk_full",
    "pause",
    "partition",
    "cut_from_zookeeper",
    "cut_from_followers",
    "session_lost",
    "zookeeper_away",
    "failed_sync",
    "wide_gap",
    "directory",
    "slow_zookeeper",
)


def only(interval_ms: int, cuts_per_mille: int = 0, **weights: int) -> ClusterFaults:
    """These and no others."""
    none = dict.fromkeys(KINDS, 0)
    return replace(ClusterFaults(), interval_ms=interval_ms, cuts_per_mille=cuts_per_mille, **{**none, **weights})


def of_seed(seed: int) -> ClusterFaults:
    """Every other world has all of them."""
    return drawn(seed) if seed % 2 else ClusterFaults()


def drawn(seed: int) -> ClusterFaults:
    """Some of them: what one kind of fault brings about, others would hide."""
    chance = random.Random(f"the faults of {seed}")
    kinds = chance.sample(KINDS, chance.randint(1, 6))
    weights = {kind: chance.choice((1, 2, 4)) for kind in kinds}
    return only(chance.choice((150, 250, 400, 600)), chance.choice((0, 4, 4, 30)), **weights)
