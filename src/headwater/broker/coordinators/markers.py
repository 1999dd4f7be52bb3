"""Writes transaction markers to partitions, and tells when they are on all in-sync replicas.

A marker in a partition of `__consumer_offsets` also settles the offsets that were committed within the transaction.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.base.names import CONSUMER_OFFSETS
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.coordinator.effects import Producer
from headwater.replication.partition import Partition

Results = dict[TopicPartition, ErrorCode]

# A partition that is not here (any more) has nothing to end.
NOTHING_TO_END: Final = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_PATIENCE_MS: Final = 5000  # one partition that is stuck shall not hold up the others of its request


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0


def write_markers(
    broker: CoordinatorHost, marker: Marker, partitions: Iterable[TopicPartition], done: Callable[[Results], None]
) -> None:
    """Appends the marker everywhere; `done` gets each partition's outcome once nothing is left to wait for."""
    results: Results = {}
    awaited: dict[TopicPartition, tuple[Partition, int]] = {}
    for name in partitions:
        try:
            partition = broker.partition(name.topic, name.partition)
            offset = write_marker(broker, partition, marker, broker.now_ms())
        except KafkaError as problem:
            results[name] = problem.code
            continue
        if partition.is_committed(offset):
            results[name] = ErrorCode.NONE
        else:
            awaited[name] = (partition, offset)
    if awaited:
        MarkerWait(broker, results, awaited, done)
    else:
        done(results)


def write_marker(broker: CoordinatorHost, partition: Partition, marker: Marker, now_ms: int) -> int:
    """Appends the marker to one partition; its offset. Raises KafkaError."""
    producer_id, producer_epoch, coordinator_epoch, committed, transaction_version = marker
    quick = broker.quick_writes
    offset = -1
    if committed and quick is not None:
        offset = quick.commit_transaction(
            partition, producer_id, producer_epoch, coordinator_epoch, transaction_version, now_ms
        )
    if offset < 0:
        offset = partition.append_marker(
            producer_id,
            producer_epoch,
            coordinator_epoch,
            committed,
            now_ms,
            transaction_version=transaction_version,
            append_quickly=None if quick is None else quick.append_marker,
        ).last_offset
    if partition.topic == CONSUMER_OFFSETS:
        producer = Producer(producer_id, producer_epoch)
        broker.groups.transaction_ended(partition.index, producer, committed=committed, offset=offset)
    return offset


class MarkerWait:
    """Markers that are appended and not yet on all in-sync replicas."""

    def __init__(
        self,
        broker: CoordinatorHost,
        results: Results,
        awaited: dict[TopicPartition, tuple[Partition, int]],
        done: Callable[[Results], None],
    ) -> None:
        self._broker = broker
        self._results = results
        self._awaited = awaited
        self._done = done
        self._is_woken = False
        for partition, _ in awaited.values():
            partition.waiters[self] = None
        self._timer = broker.scheduler.call_later(_PATIENCE_MS, self._wake)

    def on_progress(self, appended_bytes: int) -> None:  # noqa: ARG002
        if not self._is_woken and all(p.is_over or p.is_committed(offset) for p, offset in self._awaited.values()):
            self._wake()

    def _wake(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._broker.wake(self)

    def answer(self) -> None:
        self._timer.cancel()
        for name, (partition, offset) in self._awaited.items():
            partition.waiters.pop(self, None)
            self._results[name] = ErrorCode.NONE if partition.is_committed(offset) else self._why_not(partition)
        self._done(self._results)

    def _why_not(self, partition: Partition) -> ErrorCode:
        if not partition.is_over:
            return ErrorCode.REQUEST_TIMED_OUT  # whoever asked does so again
        if partition.log.failed is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition.topic_id in self._broker.image.topics:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER  # somebody else leads now, and may not have it
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
