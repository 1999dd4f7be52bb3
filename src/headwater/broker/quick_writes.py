"""Compiled ways to write what the broker itself writes. The server brings them, if there are any; without them Python
serves.

Each gives the offset of the last record, or -1: it cannot be done this way (the partition has other replicas, the
segment is full), nothing was changed, and the general way decides.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from headwater.coordinator.effects import CoordinatorRecord
from headwater.replication.partition import AppendMarker, Partition

if TYPE_CHECKING:
    from headwater.coordinator.transactions.transaction import Transaction


CommitTransaction = Callable[[Partition, int, int, int, int, int], int]
"""Partition, producer id and epoch, coordinator epoch, transaction version, now:
the marker, and all that the log notes with it.
"""


class QuickWrites(NamedTuple):
    append_records: Callable[[Partition, list[CoordinatorRecord], int], int]
    append_marker: AppendMarker
    commit_transaction: CommitTransaction
    append_transaction: "Callable[[Partition, Transaction, int], int]"  # its state, as the record of version 1
