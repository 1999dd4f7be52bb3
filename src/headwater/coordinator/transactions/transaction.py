"""One transactional id: who may write under it, and how far its transaction is.

Each change of state is one method, which changes the object at once; `record()` is what the log gets to hear. All
fields but the last epoch and what lies below `attempt` come back from the log.

A producer id has epochs from 0 to 32766 for clients. 32767 is never given to one: it is there so that the last of them
can still be fenced. Who has used them up gets a new producer id.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records.transaction_records import (
    TransactionLogValue,
    from_schema,
    packed_partitions,
    packed_value,
    to_schema,
    transaction_key,
    transaction_record,
)
from headwater.coordinator.transactions.states import MAY_FOLLOW, TransactionState

NONE: Final = -1
EPOCH_MAX: Final = (1 << 15) - 1
EPOCH_MAX_OF_CLIENTS: Final = EPOCH_MAX - 1
NEVER_MS: Final = (1 << 31) - 1  # the timeout of a two-phase commit
EPOCH_BUMP_VERSION: Final = 2  # the transaction version from which on every end of a transaction bumps the epoch

_NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()
_PACKED_NO_PARTITIONS: Final = packed_partitions(_NO_PARTITIONS)


class Transaction:
    __slots__ = (
        "attempt",
        "awaiting_markers",
        "client_transaction_version",
        "key",
        "last_producer_epoch",
        "last_update_ms",
        "next_producer_id",
        "packed_partitions",
        "partitions",
        "previous_producer_id",
        "producer_epoch",
        "producer_id",
        "start_ms",
        "state",
        "timeout_ms",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> None:
        self.transactional_id = transactional_id
        self.key = transaction_key(transactional_id)  # of its records
        self.producer_id = producer_id
        self.previous_producer_id = NONE
        self.next_producer_id = NONE  # replaces the producer id when the transaction is complete
        self.producer_epoch = NONE
        self.last_producer_epoch = (
            NONE  # what a producer knew before it asked for the current epoch: to tell its retries
        )
        self.timeout_ms = timeout_ms
        self.state = TransactionState.EMPTY
        self.partitions = _NO_PARTITIONS
        self.packed_partitions = _PACKED_NO_PARTITIONS
        self.start_ms = NONE
        self.last_update_ms = now_ms
        self.client_transaction_version = 0
        self.attempt = 0  # which of the coordinator's ends of a transaction the awaited markers belong to
        self.awaiting_markers: set[TopicPartition] = set()

    @classmethod
    def from_record(cls, transactional_id: str, value: TransactionLogValue) -> "Transaction":
        self = cls(
            transactional_id,
            value.producer_id,
            value.transaction_timeout_ms,
            value.transaction_last_update_timestamp_ms,
        )
        self.previous_producer_id = value.previous_producer_id
        self.next_producer_id = value.next_producer_id
        self.producer_epoch = value.producer_epoch
        self.state = TransactionState(value.transaction_status)
        if self.state is not TransactionState.EMPTY:
            self.partitions = from_schema(value.transaction_partitions)
            self.packed_partitions = packed_partitions(self.partitions)
        self.start_ms = value.transaction_start_timestamp_ms
        self.client_transaction_version = value.client_transaction_version
        return self

    def record(self, transaction_version: int) -> CoordinatorRecord:
        is_empty = self.state is TransactionState.EMPTY
        if transaction_version >= 1:
            value = packed_value(
                self.producer_id,
                self.previous_producer_id,
                self.next_producer_id,
                self.producer_epoch,
                self.timeout_ms,
                self.state,
                None if is_empty else self.packed_partitions,
                self.last_update_ms,
                self.start_ms,
                self.client_transaction_version,
            )
            return CoordinatorRecord(self.key, value)
        general = TransactionLogValue(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=int(self.state),
            transaction_partitions=None if is_empty else to_schema(self.partitions),
            transaction_last_update_timestamp_ms=self.last_update_ms,
            transaction_start_timestamp_ms=self.start_ms,
        )
        return transaction_record(self.transactional_id, general, 0)

    @property
    def is_exhausted(self) -> bool:
        return self.producer_epoch >= EPOCH_MAX_OF_CLIENTS

    @property
    def is_timed_out_at(self) -> int | None:
        """From when on (in ms) the open transaction is too old; None if there is none or it has all the time it
        likes.
        """
        if self.state is not TransactionState.ONGOING or self.timeout_ms == NEVER_MS:
            return None
        return self.start_ms + self.timeout_ms + 1

    # Changes of state

    def initialize(self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int) -> None:
        self._move(TransactionState.EMPTY, now_ms, producer_id)
        self.producer_epoch = epoch
        self.last_producer_epoch = last_epoch
        self.timeout_ms = timeout_ms
        self.partitions = _NO_PARTITIONS
        self.packed_partitions = _PACKED_NO_PARTITIONS
        self.start_ms = NONE

    def add_partitions(
        self, partitions: AbstractSet[TopicPartition], client_transaction_version: int, now_ms: int
    ) -> None:
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms
        self._move(TransactionState.ONGOING, now_ms)
        self.partitions = self.partitions | partitions if self.partitions else frozenset(partitions)
        self.packed_partitions = packed_partitions(self.partitions)
        self.client_transaction_version = client_transaction_version

    def prepare(self, committed: bool, transaction_version: int, next_producer_id: int, now_ms: int) -> None:
        """Decides the transaction. From version 2 on, the markers and the producer's next transaction have a new
        epoch.
        """
        if self.state is not TransactionState.ONGOING:
            self.start_ms = now_ms  # a transaction to which nothing was added
        self._move(TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT, now_ms)
        if transaction_version >= EPOCH_BUMP_VERSION:
            assert self.producer_epoch < EPOCH_MAX
            self.last_producer_epoch = self.producer_epoch
            self.producer_epoch += 1
        self.next_producer_id = next_producer_id
        self.client_transaction_version = transaction_version

    def fence_with_old_version(self) -> None:
        """Before version 2: the epoch that shuts out the producer is that of the markers too."""
        assert self.state is TransactionState.ONGOING
        assert self.producer_epoch < EPOCH_MAX
        self.producer_epoch += 1
        self.last_producer_epoch = NONE

    def after_markers(self) -> tuple[int, int]:
        """The producer id and epoch for the next transaction, told before this one is complete."""
        if self.client_transaction_version >= EPOCH_BUMP_VERSION and self.next_producer_id != NONE:
            return self.next_producer_id, 0
        return self.producer_id, self.producer_epoch

    def complete(self, now_ms: int) -> None:
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        producer_id, epoch = self.after_markers()
        self._move(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT, now_ms, producer_id
        )
        self.producer_epoch = epoch
        self.next_producer_id = NONE
        self.partitions = _NO_PARTITIONS
        self.packed_partitions = _PACKED_NO_PARTITIONS
        self.awaiting_markers = set()

    def _move(self, state: TransactionState, now_ms: int, producer_id: int | None = None) -> None:
        assert self.state in MAY_FOLLOW[state], f"{self.transactional_id}: {self.state.label} to {state.label}"
        self.previous_producer_id = self.producer_id
        if producer_id is not None:
            self.producer_id = producer_id
        self.state = state
        self.last_update_ms = now_ms
