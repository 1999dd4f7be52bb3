"""The features of this cluster: what a broker of this version can do, and the level that holds.

A feature stands here only when all of it works: clients switch over as soon as they see it finalized. The levels are
those of the code, so nobody can raise or lower them by hand.
"""

from typing import Final, NamedTuple


class Feature(NamedTuple):
    lowest: int
    highest: int
    finalized: int


FEATURES: Final[dict[str, Feature]] = {
    "group.version": Feature(0, 1, 1),  # KIP-848: the coordinator assigns
    "transaction.version": Feature(0, 2, 2),  # KIP-890: an epoch per transaction, partitions added by writing to them
}
EPOCH: Final = 0  # grows when a level changes, which none can
