"""What a decision of the transaction coordinator asks for beyond records, answers and timers: markers and producer
ids.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import Effects


class MarkersToWrite(NamedTuple):
    """End one transaction on these partitions, after everything that the shard wrote so far is committed.

    Whoever writes them reports through `TransactionShard.markers_written` which partitions have theirs on all in-sync
    replicas, in as many calls as it likes. A partition that exists no more counts as done. What is not reported is
    asked for again after a while, under the same attempt; a report about another attempt is about an earlier life and
    changes nothing.
    """

    transactional_id: str
    attempt: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int  # for the check of the epoch: from 2 on, a marker's epoch is later than its transaction's
    partitions: tuple[TopicPartition, ...]


@dataclass(slots=True)
class TransactionEffects(Effects):
    markers: list[MarkersToWrite] = field(default_factory=list)
    wants_producer_id: bool = False  # take one, and give it through `TransactionShard.give_producer_id`


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """From the broker's config; the names of the properties stand beside."""

    timeout_max_ms: int = 900_000  # transaction.max.timeout.ms
    expiration_ms: int = 604_800_000  # transactional.id.expiration.ms
    expiry_interval_ms: int = 3_600_000  # transaction.remove.expired.transaction.cleanup.interval.ms
    two_phase_commit: bool = False  # transaction.two.phase.commit.enable
    transaction_version: int = 2  # the finalized feature transaction.version
    marker_retry_ms: int = 200
