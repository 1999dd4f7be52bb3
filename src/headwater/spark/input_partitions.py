"""The tasks of a batch: which stretch of which partition each of them reads. Pure, and the same for the same offsets.

By default one task per partition that has something to read. `minPartitions` cuts the longest stretches until there are
as many; `maxRecordsPerPartition` cuts whatever is longer.
"""

import heapq
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from headwater.base.ids import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition, `start` included, `end` not. `exact`: it is a loss if `start` is gone by then."""

    topic: str
    partition: int
    start: int
    end: int
    exact: bool = True

    @property
    def size(self) -> int:
        return self.end - self.start


def ranges(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """What lies between two offsets, in the order of partitions; partitions without anything to read are left out.

    A partition that only the end knows is read from its beginning, wherever that is: our own offsets never hold one,
    but a checkpoint that Spark's Kafka source wrote may.
    """
    found = []
    for each in sorted(end):
        begin = start.get(each)
        if end[each] > (begin or 0):
            found.append(OffsetRange(each.topic, each.partition, begin or 0, end[each], exact=begin is not None))
    return found


def split(whole: list[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    pieces = []
    counts = _piece_counts([each.size for each in whole], min_partitions)
    for each, count in zip(whole, counts, strict=True):
        if max_records is not None:
            count = max(count, -(-each.size // max_records))
        pieces += _cut(each, count)
    return pieces


def _piece_counts(sizes: list[int], min_partitions: int | None) -> list[int]:
    """How many pieces to cut each size into, so that there are `min_partitions`, or one per offset if those are fewer.

    One more cut at a time for the size whose pieces are longest: then no piece is longer than it must be.
    """
    counts = [1] * len(sizes)
    missing = min(min_partitions or 0, sum(sizes)) - len(sizes)
    longest: list[tuple[float, int]] = [(-size, index) for index, size in enumerate(sizes)]
    heapq.heapify(longest)
    for _ in range(missing):
        _, index = longest[0]
        counts[index] += 1
        heapq.heapreplace(longest, (-(sizes[index] / counts[index]), index))
    return counts


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """`count` pieces whose lengths differ by at most one."""
    borders = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [whole._replace(start=begin, end=end) for begin, end in pairwise(borders) if end > begin]
