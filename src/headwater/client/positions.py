"""Where reading starts and where it stops: what a person means, and the offsets it comes to in each partition.

Pure: the offsets of the log (earliest, latest, by time) come in.
"""

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Beginning:
    pass


@dataclass(frozen=True, slots=True)
class End:
    pass


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class Last:
    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    timestamp_ms: int


Start = Beginning | End | AtOffset | Last | AtTime
Stop = AtOffset | AtTime | End  # End: what is there when the command starts


class Window(NamedTuple):
    start: Start
    stop: Stop | None = None  # None: go on for ever


class PartitionOffsets(NamedTuple):
    """What a leader said about its log. `at_start` and `at_stop` answer the times of the window; -1: nothing so
    young.
    """

    earliest: int
    latest: int
    at_start: int = -1
    at_stop: int = -1


def start_offset(start: Start, offsets: PartitionOffsets) -> int:
    """Where to fetch from, inside the log: an offset that is gone already means the oldest that is left."""
    if isinstance(start, Beginning):
        return offsets.earliest
    if isinstance(start, End):
        return offsets.latest
    if isinstance(start, Last):
        return max(offsets.earliest, offsets.latest - start.count)
    if isinstance(start, AtTime):
        return offsets.latest if offsets.at_start < 0 else max(offsets.earliest, offsets.at_start)
    return max(offsets.earliest, start.offset)


def stop_offset(stop: Stop | None, offsets: PartitionOffsets) -> int | None:
    """The first offset that is not wanted any more; None: go on for ever."""
    if stop is None:
        return None
    if isinstance(stop, End):
        return offsets.latest
    if isinstance(stop, AtTime):
        return offsets.latest if offsets.at_stop < 0 else offsets.at_stop
    return stop.offset
