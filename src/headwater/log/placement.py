"""Which log directory a new log goes to: one with the most room, and among those with about as much, the one with the
fewest logs.

"About as much" is nine tenths of the most: a new log is empty, so the room that is left tells nothing about logs made a
moment ago, and a topic of many partitions would go to one disk as a whole. Pure.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

_AS_MUCH: Final = 10  # tenths: nine of them count as much as all


class Candidate(NamedTuple):
    path: str
    free_bytes: int
    log_count: int


def choose(candidates: Sequence[Candidate]) -> str:
    """The path of the directory; the first of several that are equal."""
    assert candidates, "a broker without a log directory makes no logs"
    most = max(each.free_bytes for each in candidates)
    roomy = [each for each in candidates if each.free_bytes * _AS_MUCH >= most * (_AS_MUCH - 1)]
    return min(roomy, key=lambda each: each.log_count).path
