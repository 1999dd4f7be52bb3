"""The round of clusters that every run of the tests makes: 2,000 small worlds, the same ones each time. `make sim` makes others.

`test_many_clusters_*.py` share them, so that several processes can.
"""

import logging
from typing import Final, NamedTuple

from headwater.sim.cluster import ClusterWorld
from headwater.sim.cluster_coordination import ClusterCoordinatorWorld
from headwater.sim.cluster_storage import ClusterStorageWorld

STEPS: Final = 1000
AT_ONCE: Final = 20
FILES: Final = 4


class Group(NamedTuple):
    kind: type[ClusterWorld]
    first: int

    def __str__(self) -> str:
        return f"{self.kind.__name__} from {self.first}"


GROUPS: Final = [
    *(Group(ClusterWorld, first) for first in range(0, 1000, AT_ONCE)),
    *(Group(ClusterStorageWorld, first) for first in range(0, 400, AT_ONCE)),
    *(Group(ClusterCoordinatorWorld, first) for first in range(0, 600, AT_ONCE)),
]


def share(number: int) -> list[Group]:
    """What falls to the file of this number, from 1 on."""
    return GROUPS[number - 1 :: FILES]


def run(group: Group) -> None:
    """Errors are still told: a world takes exceptions that were only written down for failures."""
    logging.disable(logging.WARNING)
    try:
        for seed in range(group.first, group.first + AT_ONCE):
            group.kind(seed).run(STEPS)
    finally:
        logging.disable(logging.NOTSET)
