"""The round of clusters that every run of the tests makes: 800 small worlds, the same ones each time, and others with
the next version. `make sim` makes random ones.

`test_many_clusters_*.py` share them, so that several processes can.
"""

import gc
from typing import Final, NamedTuple
from zlib import crc32

from headwater import __version__
from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_storage import ClusterStorageWorld

AT_ONCE: Final = 10
FILES: Final = 4
FIRST: Final = crc32(__version__.encode())


class Group(NamedTuple):
    kind: type[ClusterWorld]
    first: int
    steps: int

    def __str__(self) -> str:
        return f"{self.kind.__name__} from {self.first}"


def _groups(kind: type[ClusterWorld], count: int, steps: int) -> list[Group]:
    return [Group(kind, FIRST + first, steps) for first in range(0, count, AT_ONCE)]


GROUPS: Final = [
    *_groups(ClusterWorld, 400, 1000),
    *_groups(ClusterStorageWorld, 200, 1000),
    *_groups(ClusterCoordinatorWorld, 200, 1500),  # their first transactions come late
]


def share(number: int) -> list[Group]:
    """What falls to the file of this number, from 1 on."""
    return GROUPS[number - 1 :: FILES]


def run(group: Group) -> None:
    """Garbage waits until all are done: ten small worlds are not much, and collecting takes a tenth of their time."""
    gc.disable()
    try:
        for seed in range(group.first, group.first + AT_ONCE):
            group.kind(seed).run(group.steps)
    finally:
        gc.enable()
