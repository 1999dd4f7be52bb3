"""Compiled ways to write what the broker itself writes. The server brings them, if there are any; without them Python serves.

Each gives the offset of the last record, or -1: it cannot be done this way (the partition has other replicas, the segment is full), nothing was
changed, and the general way decides.
"""

from collections.abc import Callable
from typing import NamedTuple

from headwater.coordinator.effects import CoordinatorRecord
from headwater.replication.partition import AppendMarker, Partition


class QuickWrites(NamedTuple):
    append_records: Callable[[Partition, list[CoordinatorRecord], int], int]
    append_marker: AppendMarker
