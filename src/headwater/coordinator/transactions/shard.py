"""TransactionShard: one partition of `__transaction_state`, and the transactional ids that belong to it.

A transaction is decided by one record (PrepareCommit, PrepareAbort). Once that is committed its markers are written to
every partition it touched, again and again until all have theirs; then a second record says that it is complete. A
coordinator that dies between the two is followed by one that reads the first record and writes the markers (`loaded`).

Every request method takes a ticket and `now_ms`, never raises for a peer's mistake, and replies with a whole response
message, or, where one request names many transactional ids, with the part about one of them. The shard owns its
transactions and the spare producer id; see `coordinator.effects` for who does the rest.
"""

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import CoordinatorRecord, Producer, Ticket, TimerKey
from headwater.coordinator.records.transaction_records import (
    packed_partitions,
    read_transaction_record,
    transaction_record,
)
from headwater.coordinator.transactions.decisions import (
    GO,
    check_producer,
    decide_end,
    decide_initialization,
    for_version,
)
from headwater.coordinator.transactions.effects import MarkersToWrite, TransactionEffects, TransactionSettings
from headwater.coordinator.transactions.listing import describe_transaction, is_listed, partition_results
from headwater.coordinator.transactions.states import AT_REST, PREPARED, TransactionState
from headwater.coordinator.transactions.transaction import EPOCH_BUMP_VERSION, NEVER_MS, NONE, Transaction
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.list_transactions import ListTransactionsRequest
from headwater.wire.messages.list_transactions import TransactionState as ListedTransaction

_EXPIRED_AT_ONCE_MAX: Final = 1000  # tombstones in one batch
_ASK_AGAIN_MS: Final = 100
_PARTITIONS_ALWAYS_FIT: Final = 10
_REST_OF_A_RECORD_BYTES: Final = (
    256  # at the most: batch header, record, all fields of a transaction but its partitions
)

TIMEOUT: Final = "timeout"
_MARKERS: Final = "markers"
_EXPIRY: Final = ("expiry", "")


class TransactionShard:
    def __init__(
        self, settings: TransactionSettings, coordinator_epoch: int, batch_bytes_max: Callable[[], int] | None = None
    ) -> None:
        self.settings = settings
        self._batch_bytes_max = batch_bytes_max  # of what is written at once: the topic's config may change
        self.coordinator_epoch = (
            coordinator_epoch  # the leader epoch of the partition: later coordinators have later ones
        )
        self.transactions: dict[str, Transaction] = {}
        self._attempt = 0
        self._spare_producer_id = NONE  # for a transaction that times out in the last epoch of its producer id

    # Producer ids

    def needs_producer_id(self, request: InitProducerIdRequest | EndTxnRequest) -> bool:
        """Whether a new id must be taken before the request is decided. What is not used in the end is lost; there are
        enough.
        """
        transaction = self.transactions.get(request.transactional_id or "")
        if isinstance(request, EndTxnRequest):
            return transaction is not None and transaction.is_exhausted and transaction.state not in PREPARED
        return transaction is None or (transaction.is_exhausted and transaction.state not in PREPARED)

    def give_producer_id(self, producer_id: int) -> None:
        self._spare_producer_id = producer_id

    def init_producer_id(
        self, request: InitProducerIdRequest, version: int, new_producer_id: int, ticket: Ticket, now_ms: int
    ) -> TransactionEffects:
        def refused(code: ErrorCode) -> TransactionEffects:
            return _reply(ticket, init_producer_id_error(code, version))

        transactional_id = request.transactional_id
        if not transactional_id or (request.producer_id == NONE) != (request.producer_epoch == NONE):
            return refused(ErrorCode.INVALID_REQUEST)
        if request.enable2_pc and not self.settings.two_phase_commit:
            return refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if request.keep_prepared_txn:
            return refused(ErrorCode.UNSUPPORTED_VERSION)
        timeout_ms = NEVER_MS if request.enable2_pc else request.transaction_timeout_ms
        if not request.enable2_pc and not 0 < timeout_ms <= self.settings.timeout_max_ms:
            return refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        transaction = self.transactions.get(transactional_id)
        outcome = decide_initialization(transaction, request.producer_id, request.producer_epoch)
        if outcome.is_new_id and new_producer_id == NONE:
            return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # needed only now: the producer tries again
        if outcome.is_fencing:
            assert transaction is not None
            effects = self._abort(transaction, new_producer_id, now_ms)
            if effects is None:
                return refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            effects.replies.append((ticket, init_producer_id_error(ErrorCode.CONCURRENT_TRANSACTIONS, version)))
            return effects
        if outcome.code is not None:
            return refused(outcome.code)
        if transaction is None:
            transaction = Transaction(transactional_id, new_producer_id, timeout_ms, now_ms)
            self.transactions[transactional_id] = transaction
        producer_id = new_producer_id if outcome.is_new_id else transaction.producer_id
        transaction.initialize(producer_id, outcome.epoch, outcome.last_epoch, timeout_ms, now_ms)
        response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=outcome.epoch)
        return self._written(transaction, ticket, response)

    # What belongs to a transaction

    def add_partitions(
        self, transaction: AddPartitionsToTxnTransaction, version: int, ticket: Ticket, now_ms: int
    ) -> TransactionEffects:
        """Replies AddPartitionsToTxnResult. Requests up to v3 have their one transaction put into the struct of v4."""
        if transaction.verify_only:
            return self.verify_partitions(transaction, ticket)
        wanted = _partitions_of(transaction)
        code, effects = self.add(
            transaction.transactional_id,
            Producer(transaction.producer_id, transaction.producer_epoch),
            wanted,
            EPOCH_BUMP_VERSION if version > 3 else 0,
            now_ms,
        )
        code = for_version(code, version, 2)
        effects.replies.append((ticket, partition_results(transaction, lambda _: code)))
        return effects

    def verify_partitions(self, transaction: AddPartitionsToTxnTransaction, ticket: Ticket) -> TransactionEffects:
        """Replies AddPartitionsToTxnResult: whether the partitions belong to the transaction that is open now."""
        codes = self._verify(
            transaction.transactional_id,
            Producer(transaction.producer_id, transaction.producer_epoch),
            _partitions_of(transaction),
        )
        return _reply(ticket, partition_results(transaction, codes.__getitem__))

    def verify_or_add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Collection[TopicPartition],
        ticket: Ticket,
        now_ms: int,
        *,
        add: bool,
    ) -> TransactionEffects:
        """What a broker asks before a transactional append. Replies each partition's code."""
        if not add:
            return _reply(ticket, self._verify(transactional_id, producer, partitions))
        code, effects = self.add(transactional_id, producer, set(partitions), EPOCH_BUMP_VERSION, now_ms)
        effects.replies.append((ticket, dict.fromkeys(partitions, code)))
        return effects

    def _verify(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if not transactional_id:
            return dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST)
        found = self.transactions.get(transactional_id)
        code = check_producer(found, *producer)
        if code is not None:
            return dict.fromkeys(partitions, code)
        assert found is not None
        known = found.partitions
        return {each: ErrorCode.NONE if each in known else ErrorCode.TRANSACTION_ABORTABLE for each in partitions}

    def has_partition(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partition: TopicPartition
    ) -> bool:
        """Whether the partition belongs to the transaction that this producer has open."""
        found = self.transactions.get(transactional_id)
        return (
            check_producer(found, producer_id, producer_epoch) is GO
            and found is not None
            and partition in found.partitions
        )

    def add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        version: int,
        offsets_partition: TopicPartition,
        ticket: Ticket,
        now_ms: int,
    ) -> TransactionEffects:
        """`offsets_partition`: where the group's offsets stand."""
        producer = Producer(request.producer_id, request.producer_epoch)
        code, effects = self.add(request.transactional_id, producer, {offsets_partition}, 0, now_ms)
        effects.replies.append((ticket, AddOffsetsToTxnResponse(error_code=int(for_version(code, version, 2)))))
        return effects

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        wanted: AbstractSet[TopicPartition],
        client_transaction_version: int,
        now_ms: int,
    ) -> tuple[ErrorCode, TransactionEffects]:
        """The code to answer; nothing was changed if it is not NONE. Without records, all of them were in it before."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST, TransactionEffects()
        transaction = self.transactions.get(transactional_id)
        code = check_producer(transaction, *producer)
        if code is not None:
            return code, TransactionEffects()
        assert transaction is not None
        if transaction.state is TransactionState.ONGOING and wanted <= transaction.partitions:
            return ErrorCode.NONE, TransactionEffects()
        if not self.has_room(transaction, wanted):
            return ErrorCode.UNKNOWN_SERVER_ERROR, TransactionEffects()
        is_new = transaction.state is not TransactionState.ONGOING
        transaction.add_partitions(wanted, client_transaction_version, now_ms)
        effects = self._written(transaction)
        if is_new:
            self._set_timeout(effects, transaction, now_ms)
        return ErrorCode.NONE, effects

    def has_room(self, transaction: Transaction, wanted: AbstractSet[TopicPartition]) -> bool:
        """Whether the log takes the transaction's records with these partitions too. Asked before anything is
        changed.
        """
        count = len(transaction.partitions) + len(wanted)
        if self._batch_bytes_max is None or count <= _PARTITIONS_ALWAYS_FIT:
            return True
        partitions = packed_partitions(transaction.partitions | wanted)
        return len(partitions) + len(transaction.key) + _REST_OF_A_RECORD_BYTES <= self._batch_bytes_max()

    # The end of a transaction

    def end_txn(
        self, request: EndTxnRequest, version: int, new_producer_id: int, ticket: Ticket, now_ms: int
    ) -> TransactionEffects:
        if not request.transactional_id:
            return _reply(ticket, end_txn_error(ErrorCode.INVALID_REQUEST, version))
        transaction_version = EPOCH_BUMP_VERSION if version > 4 else 0
        transaction = self.transactions.get(request.transactional_id)
        code = decide_end(
            transaction, request.producer_id, request.producer_epoch, request.committed, transaction_version
        )
        if code is ErrorCode.NONE:
            assert transaction is not None
            effects = _reply(ticket, _ended(transaction))
            effects.is_recalled = True
            return effects
        if code is not None:
            return _reply(ticket, end_txn_error(code, version))
        assert transaction is not None
        next_producer_id = NONE
        if transaction_version >= EPOCH_BUMP_VERSION and transaction.is_exhausted:
            next_producer_id = new_producer_id
            if next_producer_id == NONE:
                return _reply(ticket, end_txn_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, version))
        effects = self._prepare(transaction, request.committed, transaction_version, next_producer_id, now_ms)
        effects.replies.append((ticket, _ended(transaction)))
        return effects

    def _abort(self, transaction: Transaction, new_producer_id: int, now_ms: int) -> TransactionEffects | None:
        """Takes the open transaction from its producer, who is fenced by it. None: a producer id is needed for that."""
        version = self.settings.transaction_version
        next_producer_id = NONE
        if version < EPOCH_BUMP_VERSION:
            transaction.fence_with_old_version()
        elif transaction.is_exhausted:
            next_producer_id = new_producer_id
            if next_producer_id == NONE:
                next_producer_id, self._spare_producer_id = self._spare_producer_id, NONE
            if next_producer_id == NONE:
                return None
        return self._prepare(
            transaction, False, version if version >= EPOCH_BUMP_VERSION else 0, next_producer_id, now_ms
        )

    def _prepare(
        self, transaction: Transaction, committed: bool, version: int, next_producer_id: int, now_ms: int
    ) -> TransactionEffects:
        transaction.prepare(committed, version, next_producer_id, now_ms)
        effects = self._written(transaction)
        effects.timers[TIMEOUT, transaction.transactional_id] = None
        if transaction.partitions:
            self.send_markers(effects, transaction, transaction.partitions)
        else:  # nobody to tell: both records in one batch
            transaction.complete(now_ms)
            effects.records.append(transaction.record(self.settings.transaction_version))
        return effects

    def send_markers(
        self, effects: TransactionEffects, transaction: Transaction, partitions: Collection[TopicPartition]
    ) -> None:
        """Begins an attempt to end a decided transaction on those of its partitions that have no marker yet."""
        self._attempt += 1
        transaction.attempt = self._attempt
        transaction.awaiting_markers = set(partitions)
        self._ask_for_markers(effects, transaction)

    def _ask_for_markers(self, effects: TransactionEffects, transaction: Transaction) -> None:
        effects.markers.append(
            MarkersToWrite(
                transaction.transactional_id,
                transaction.attempt,
                transaction.producer_id,
                transaction.producer_epoch,
                self.coordinator_epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
                transaction.client_transaction_version,
                tuple(sorted(transaction.awaiting_markers)),
            )
        )
        effects.timers[_MARKERS, transaction.transactional_id] = self.settings.marker_retry_ms

    def markers_written(
        self, transactional_id: str, attempt: int, partitions: Collection[TopicPartition], now_ms: int
    ) -> TransactionEffects:
        """These partitions have their marker, on all in-sync replicas. With the last of them the transaction is
        complete.
        """
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.attempt != attempt or transaction.state not in PREPARED:
            return TransactionEffects()
        transaction.awaiting_markers.difference_update(partitions)
        if transaction.awaiting_markers:
            return TransactionEffects()
        transaction.complete(now_ms)
        effects = self._written(transaction)
        effects.timers[_MARKERS, transactional_id] = None
        return effects

    # Looking at transactions

    def describe(self, transactional_id: str, ticket: Ticket) -> TransactionEffects:
        """Replies the TransactionState of DescribeTransactions."""
        return _reply(ticket, describe_transaction(transactional_id, self.transactions.get(transactional_id)))

    def list(
        self, request: ListTransactionsRequest, now_ms: int, matches: Callable[[str], object] | None = None
    ) -> list[ListedTransaction]:
        """At once: a list promises nothing. `matches` is the request's pattern over transactional ids, compiled."""
        return [
            ListedTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.label,
            )
            for transaction in self.transactions.values()
            if is_listed(transaction, request, now_ms, matches)
        ]

    # Timers

    def on_timer(self, key: TimerKey, now_ms: int) -> TransactionEffects:
        if key == _EXPIRY:
            return self._expire(now_ms)
        assert isinstance(key, tuple)
        kind, transactional_id = key
        effects = TransactionEffects()
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            return effects
        if kind == _MARKERS:
            if transaction.state in PREPARED:
                self._ask_for_markers(effects, transaction)
            return effects
        assert kind == TIMEOUT
        if transaction.is_timed_out_at is None:
            return effects
        # Whether it is time is not asked of the clock, which may have been set back: the timer has run its full time.
        aborted = self._abort(transaction, NONE, now_ms)
        if aborted is None:
            effects.wants_producer_id = True
            effects.timers[key] = _ASK_AGAIN_MS
            return effects
        return aborted

    def _set_timeout(self, effects: TransactionEffects, transaction: Transaction, now_ms: int) -> None:
        due_ms = transaction.is_timed_out_at
        if due_ms is not None:
            # A clock that was set back since the transaction began must not make it last longer.
            delay_ms = min(max(0, due_ms - now_ms), transaction.timeout_ms + 1)
            effects.timers[TIMEOUT, transaction.transactional_id] = delay_ms

    def _expire(self, now_ms: int) -> TransactionEffects:
        """Forgets ids that nobody has used for long, with a tombstone."""
        before_ms = now_ms - self.settings.expiration_ms
        expired = [
            transaction.transactional_id
            for transaction in self.transactions.values()
            if transaction.state in AT_REST and transaction.last_update_ms <= before_ms
        ]
        effects = TransactionEffects()
        for transactional_id in expired[:_EXPIRED_AT_ONCE_MAX]:
            del self.transactions[transactional_id]
            effects.records.append(transaction_record(transactional_id, None))
        is_more = len(expired) > _EXPIRED_AT_ONCE_MAX
        effects.timers[_EXPIRY] = 0 if is_more else self.settings.expiry_interval_ms
        return effects

    # An earlier life

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        assert producer is None, "the state of transactions is itself not written in transactions"
        found = read_transaction_record(record)
        if found is None:
            return
        if found.value is None:
            self.transactions.pop(found.transactional_id, None)
        else:
            self.transactions[found.transactional_id] = Transaction.from_record(found.transactional_id, found.value)

    def replay_marker(self, producer: Producer, committed: bool) -> None:  # noqa: ARG002
        raise AssertionError("the state of transactions is itself not written in transactions")

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        return iter(())  # few transactions are open: `loaded` sets theirs

    def loaded(self, now_ms: int) -> TransactionEffects:
        """Takes up what the coordinator before left: markers of decided transactions, timeouts of open ones."""
        effects = TransactionEffects()
        for transaction in self.transactions.values():
            if transaction.state not in PREPARED:
                self._set_timeout(effects, transaction, now_ms)
            elif transaction.partitions:
                self.send_markers(effects, transaction, transaction.partitions)
            else:
                transaction.complete(now_ms)
                effects.records.append(transaction.record(self.settings.transaction_version))
        effects.timers[_EXPIRY] = self.settings.expiry_interval_ms
        return effects

    def _written(
        self, transaction: Transaction, ticket: Ticket | None = None, response: object = None
    ) -> TransactionEffects:
        effects = TransactionEffects(records=[transaction.record(self.settings.transaction_version)])
        if ticket is not None:
            effects.replies.append((ticket, response))
        return effects


def _reply(ticket: Ticket, response: object) -> TransactionEffects:
    return TransactionEffects(replies=[(ticket, response)])


def _partitions_of(transaction: AddPartitionsToTxnTransaction) -> set[TopicPartition]:
    return {TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions}


def _ended(transaction: Transaction) -> EndTxnResponse:
    producer_id, epoch = transaction.after_markers()
    return EndTxnResponse(error_code=0, producer_id=producer_id, producer_epoch=epoch)


def init_producer_id_error(code: ErrorCode, version: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=int(for_version(code, version, 4)), producer_id=NONE, producer_epoch=NONE)


def end_txn_error(code: ErrorCode, version: int) -> EndTxnResponse:
    return EndTxnResponse(error_code=int(for_version(code, version, 2)))
