"""Logs among failures: full disks, no descriptors, kills, power losses and failed fsyncs between appends, truncations
and moves.

The worlds are the same ones in each run, many more in `make soak`. HEADWATER_LOG_WORLD=moves:17 runs one of them alone.
"""

import logging
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest

from compat.support.quick import lasting
from property.log_failures.world import Kind, LogWorld

KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("plain"),
        Kind("transactions", transactions=True),
        Kind("moves", transactions=True, moves=True),
        Kind("syncs", transactions=True, failed_syncs=True),
        Kind("everything", transactions=True, moves=True, failed_syncs=True),
    )
}
WORLDS: Final = lasting(40, 600)  # of each kind
AT_ONCE: Final = 10
STEPS: Final = 250

pytestmark = [pytest.mark.soak, pytest.mark.usefixtures("nothing_is_told")]


class Group(NamedTuple):
    kind: Kind
    seeds: range

    def __str__(self) -> str:
        return f"{self.kind.name} from {self.seeds.start}"


def groups() -> list[Group]:
    alone = os.environ.get("HEADWATER_LOG_WORLD")
    if alone is not None:
        name, _, seed = alone.partition(":")
        return [Group(KINDS[name], range(int(seed), int(seed) + 1))]
    return [
        Group(kind, range(first, first + AT_ONCE)) for kind in KINDS.values() for first in range(0, WORLDS, AT_ONCE)
    ]


@pytest.fixture
def nothing_is_told() -> Iterator[None]:
    """A log among failures has much to report, and formatting it would be most of the run."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("group", groups(), ids=str)
def test_a_log_keeps_its_promises_among_failures(group: Group) -> None:
    for seed in group.seeds:
        LogWorld(group.kind, seed).run(STEPS)
