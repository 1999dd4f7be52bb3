"""A compaction as the loop and its worker process speak of it: the job, and what comes back.

Apart from the work itself (`cleaning`), which only a worker needs to load: a broker starts without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from headwater.base.ports import Disk
from headwater.log import names
from headwater.log.compaction.decisions import SegmentFacts
from headwater.log.transaction_index import AbortedTransaction

SUFFIXES: Final = (names.OFFSET_INDEX, names.TIME_INDEX, names.TRANSACTION_INDEX, names.LOG)  # the log last

ProducerEnds = Mapping[int, tuple[int, int]]  # by id: the last offset of its last data batch (-1: none), its epoch
Pace = Callable[[int], None]  # told of bytes read and written, takes its time


def no_pace(size_bytes: int) -> None:
    """As fast as it goes."""


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """All that a worker process needs to know. The segments are those that may be cleaned, from the log's first on."""

    directory: str
    segments: tuple[SegmentFacts, ...]
    first_dirty_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: ProducerEnds
    epoch_starts: frozenset[int]  # of leader epochs but for the log's first
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    pace: Pace = no_pace


class CleanedSegment(NamedTuple):
    """A `.cleaned` file, and the base offsets of the segments that it replaces."""

    base_offset: int
    size_bytes: int
    replaces: tuple[int, ...]


@dataclass(slots=True)
class Cleaned:
    """Comes back from the worker process."""

    end_offset: int  # everything below is clean now
    segments: list[CleanedSegment]
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    key_count: int = 0


def remove_cleaned(disk: Disk, directory: str, base_offsets: list[int]) -> None:
    for base_offset in base_offsets:
        for suffix in SUFFIXES:
            disk.remove(f"{directory}/{names.segment_name(base_offset)}{suffix}{names.CLEANED}")
