"""A transaction shard, and short ways to ask it."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import Ticket
from headwater.coordinator.transactions.effects import TransactionEffects, TransactionSettings
from headwater.coordinator.transactions.shard import TransactionShard
from headwater.coordinator.transactions.states import TransactionState
from headwater.coordinator.transactions.transaction import Transaction
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest

ID = "payments"
P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)


class Harness:
    """One shard and its clock. `effects` is what the last decision asked for; every answer is `(code, ...)`."""

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self.now_ms = 1_000_000
        self.next_producer_id = 5000
        self.log: list[Any] = []
        self.settings = settings or TransactionSettings()
        self.shard = TransactionShard(self.settings, coordinator_epoch=9)
        self.effects = TransactionEffects()

    def _done(self, effects: TransactionEffects) -> Any:
        self.effects = effects
        self.log += effects.records
        return effects.replies[0][1] if effects.replies else None

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[ID]

    def reload(self) -> None:
        """The coordinator dies, and another one reads what it wrote."""
        self.shard = TransactionShard(self.settings, coordinator_epoch=self.shard.coordinator_epoch + 1)
        for record in self.log:
            self.shard.replay(record, None)
        self._done(self.shard.loaded(self.now_ms))

    def init(
        self, expected: tuple[int, int] = (-1, -1), *, version: int = 5, timeout_ms: int = 60_000, **fields: Any
    ) -> tuple[ErrorCode, int, int]:
        request = InitProducerIdRequest(
            transactional_id=fields.pop("transactional_id", ID),
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
            **fields,
        )
        new_producer_id = -1
        if self.shard.needs_producer_id(request):
            self.next_producer_id += 1
            new_producer_id = self.next_producer_id
        answer = self._done(self.shard.init_producer_id(request, version, new_producer_id, Ticket(None), self.now_ms))
        return ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        version: int = 5,
        verify_only: bool = False,
        transactional_id: str = ID,
    ) -> list[ErrorCode]:
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=[index]) for name, index in partitions or (P0,)],
        )
        answer = self._done(self.shard.add_partitions(asked, version, Ticket(None), self.now_ms))
        assert answer.transactional_id == transactional_id
        return [
            ErrorCode(part.partition_error_code)
            for topic in answer.topic_results
            for part in topic.results_by_partition
        ]

    def add_offsets(self, producer: tuple[int, int], version: int = 4, transactional_id: str = ID) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id="g"
        )
        answer = self._done(self.shard.add_offsets(request, version, OFFSETS, Ticket(None), self.now_ms))
        return ErrorCode(answer.error_code)

    def end(
        self, producer: tuple[int, int], committed: bool, version: int = 5, transactional_id: str = ID
    ) -> tuple[ErrorCode, int, int]:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=committed
        )
        new_producer_id = -1
        if self.shard.needs_producer_id(request):
            self.next_producer_id += 1
            new_producer_id = self.next_producer_id
        answer = self._done(self.shard.end_txn(request, version, new_producer_id, Ticket(None), self.now_ms))
        return ErrorCode(answer.error_code), answer.producer_id, answer.producer_epoch

    def write_markers(self, *partitions: TopicPartition) -> None:
        transaction = self.transaction
        self._done(
            self.shard.markers_written(
                ID, transaction.attempt, partitions or tuple(transaction.awaiting_markers), self.now_ms
            )
        )

    def fire(self, kind: str, transactional_id: str = ID) -> None:
        self._done(self.shard.on_timer((kind, transactional_id), self.now_ms))

    def in_state(self, state: TransactionState, version: int = 5) -> tuple[int, int]:
        """Leads the transactional id there; the producer id and epoch that its client believes in."""
        _, producer_id, epoch = self.init()
        producer = (producer_id, epoch)
        if state is TransactionState.EMPTY:
            return producer
        assert self.add(producer, P0, P1, version=5 if version > 4 else 3) == [ErrorCode.NONE] * 2
        if state is TransactionState.ONGOING:
            return producer
        committed = state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
        code, next_id, next_epoch = self.end(producer, committed, version)
        assert code is ErrorCode.NONE
        if state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            self.write_markers()
        assert self.transaction.state is state
        return (next_id, next_epoch)

    def set_epoch(self, epoch: int) -> None:
        self.transaction.producer_epoch = epoch


@pytest.fixture(name="make_harness")
def make_desk_fixture() -> Callable[..., Harness]:
    return lambda **settings: Harness(TransactionSettings(**settings))


@pytest.fixture(name="harness")
def harness_fixture() -> Harness:
    return Harness()
