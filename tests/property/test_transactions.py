"""Transactions of several producers, with messages delayed, doubled and lost, and a coordinator that dies at any
moment.

The real shard, the real producer states of partitions, and in between a world of lists: requests and answers on their
way, the log of the coordinator with a commit point (what lies behind it is lost in a crash, and so are the answers that
wait for it), partitions as lists of batches. Clients speak transaction version 2, where a producer id and an epoch name
exactly one transaction.

Checked: I4 (only committed records are read), I5 (a transaction is all or nothing, and an end touches only the
transaction that it meant), I7 (no cycle of transactions that have read from each other), I11 (who has been replaced
writes nothing), and that a coordinator's memory is what its log says.
"""

import contextlib
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.effects import CoordinatorRecord, Producer, Ticket
from headwater.coordinator.records.transaction_records import read_transaction_record
from headwater.coordinator.transactions.effects import MarkersToWrite, TransactionEffects, TransactionSettings
from headwater.coordinator.transactions.shard import TransactionShard
from headwater.coordinator.transactions.states import PREPARED, TransactionState
from headwater.coordinator.transactions.transaction import Transaction
from headwater.log.producer_state import ProducerStates
from headwater.records.control import EndTransactionMarker
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest

IDS = ["a", "b"]
CLIENTS = 3  # the last one shares its transactional id with the first
PARTITIONS = 3
DURABLE = [name for name in Transaction.__slots__ if name not in ("attempt", "awaiting_markers", "last_producer_epoch")]


class Client:
    """A producer as clients implement it: one transaction at a time, one request about it at a time."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.producer: Producer | None = None
        self.sequences: dict[int, int] = {}
        self.ending: bool | None = None
        self.reads: set[Producer] = set()


class DataPartition:
    """A log of batches and markers: (producer, whether it is a marker and commits)."""

    def __init__(self) -> None:
        self.states = ProducerStates()
        self.entries: list[tuple[Producer, bool | None]] = []

    def append(self, producer: Producer, sequence: int, guard: int) -> None:
        known = self.states.producers.get(producer.producer_id)
        if known is not None:
            if known.find_duplicate(producer.producer_epoch, sequence, sequence) is not None:
                return
            known.check(producer.producer_epoch, sequence, transactional=True)
        self.states.check_verification(*producer, sequence, guard)
        at = len(self.entries)
        self.states.append(*producer, sequence, at, at, 0, True)
        self.entries.append((producer, None))

    def mark(self, marker: MarkersToWrite) -> None:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        known = self.states.producers.get(marker.producer_id)
        if known is not None:
            known.check_marker(marker.producer_epoch, marker.coordinator_epoch, marker.transaction_version)
        self.states.end_transaction(
            *producer, EndTransactionMarker(marker.committed, marker.coordinator_epoch), len(self.entries), 0
        )
        self.entries.append((producer, marker.committed))

    def visible(self) -> set[Producer]:
        """Whose records a read_committed consumer has got: below the last stable offset, ended by a commit marker."""
        unstable = self.states.first_unstable_offset(len(self.entries))
        stable = self.entries[: len(self.entries) if unstable is None else unstable]
        open_: dict[int, Producer] = {}
        visible = set()
        for producer, committed in self.entries:
            if committed is None:
                open_[producer.producer_id] = producer
            elif (ended := open_.pop(producer.producer_id, None)) is not None and committed:
                visible.add(ended)
        return visible & {producer for producer, _ in stable}


class Message(NamedTuple):
    client: int
    kind: str
    producer: Producer
    partition: int = 0
    sequence: int = 0
    committed: bool = False


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 1000
        self.next_producer_id = 100
        self.is_prompt = True
        self.settings = TransactionSettings(timeout_max_ms=10_000)
        self.epoch = 0
        self.shard = TransactionShard(self.settings, 0)
        self.log: list[CoordinatorRecord] = []
        self.committed_offset = 0
        self.waiting: list[tuple[int, Any]] = []  # what may happen when the log is committed so far
        self.clients = [Client(IDS[at % len(IDS)]) for at in range(CLIENTS)]
        self.network: list[Message] = []
        self.partitions = [DataPartition() for _ in range(PARTITIONS)]
        self.promised: dict[Producer, bool] = {}  # what a client was told about its transaction
        self.reads: dict[Producer, set[Producer]] = {}
        self.given: dict[str, Producer] = {}  # the last producer that an id was given to, as far as its client knows

    # The coordinator's runtime

    @rule(is_prompt=st.sampled_from([True, True, True, False]))
    def commits_promptly(self, is_prompt: bool) -> None:
        self.is_prompt = is_prompt

    def run_effects(self, effects: TransactionEffects) -> None:
        self.log += effects.records
        for ticket, response in effects.replies:
            self.waiting.append((len(self.log), lambda ticket=ticket, response=response: ticket.settle(response)))
        for marker in effects.markers:
            self.waiting.append((len(self.log), lambda marker=marker: self.markers.append(marker)))
        if self.is_prompt:
            self.commit()

    @property
    def markers(self) -> list[MarkersToWrite]:
        return self.shard.__dict__.setdefault("to_write", [])  # type: ignore[no-any-return]

    @rule()
    def commit(self) -> None:
        self.committed_offset = len(self.log)
        ready = [action for offset, action in self.waiting if offset <= self.committed_offset]
        self.waiting = [entry for entry in self.waiting if entry[0] > self.committed_offset]
        for action in ready:
            action()

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """What is not committed may survive or not; who waits for an answer gets none."""
        end = data.draw(st.integers(self.committed_offset, len(self.log)))
        while 0 < end < len(self.log) and self._is_pair(end):  # one batch is whole or gone
            end -= 1
        self.log = self.log[: max(end, self.committed_offset)]
        self.committed_offset = len(self.log)
        self.waiting = []
        self.epoch += 1
        self.shard = self.replayed()
        self.run_effects(self.shard.loaded(self.now_ms))

    def _is_pair(self, end: int) -> bool:
        states = [read_transaction_record(record) for record in self.log[end - 1 : end + 1]]
        values = [found.value for found in states if found is not None and found.value is not None]
        return (
            len(values) == 2
            and values[0].transaction_status == TransactionState.PREPARE_ABORT
            and not values[0].transaction_partitions
        )

    def replayed(self) -> TransactionShard:
        shard = TransactionShard(self.settings, self.epoch)
        for record in self.log:
            shard.replay(record, None)
        return shard

    @rule(data=st.data())
    def write_markers(self, data: st.DataObject) -> None:
        """One of the markers that are asked for; a report that gets lost is asked for again."""
        if not self.markers:
            return
        asked = self.markers.pop(data.draw(st.integers(0, len(self.markers) - 1)))
        count = data.draw(st.integers(0, len(asked.partitions)))
        written = asked.partitions[:count]
        for name in written:
            self.partitions[name.partition].mark(asked)
        if data.draw(st.booleans()):
            self.run_effects(self.shard.markers_written(asked.transactional_id, asked.attempt, written, self.now_ms))

    @rule(transactional_id=st.sampled_from(IDS))
    def ask_for_markers_again(self, transactional_id: str) -> None:
        if not any(marker.transactional_id == transactional_id for marker in self.markers):
            self.run_effects(self.shard.on_timer(("markers", transactional_id), self.now_ms))

    @rule(transactional_id=st.sampled_from(IDS), delay_ms=st.sampled_from([100, 11_000]))
    def time_out(self, transactional_id: str, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.run_effects(self.shard.on_timer(("timeout", transactional_id), self.now_ms))

    @rule(epoch=st.sampled_from([32764, 32765, 32766]), transactional_id=st.sampled_from(IDS))
    def epochs_run_out(self, epoch: int, transactional_id: str) -> None:
        """As if many transactions had passed. Only where nobody knows the present epoch."""
        found = self.shard.transactions.get(transactional_id)
        if found is None or found.state is not TransactionState.EMPTY or found.producer_epoch >= epoch:
            return
        found.initialize(found.producer_id, epoch, -1, found.timeout_ms, self.now_ms)
        self.run_effects(TransactionEffects(records=[found.record(2)]))
        for client in self.clients:
            if client.transactional_id == transactional_id:
                client.producer = None

    # Clients

    @rule(
        at=st.integers(0, CLIENTS - 1),
        action=st.sampled_from(["produce", "produce", "read", "commit", "commit", "abort", "init", "go on"]),
        partition=st.integers(0, PARTITIONS - 1),
    )
    def act(self, at: int, action: str, partition: int) -> None:
        client = self.clients[at]
        if client.producer is None or action in ("init", "go on"):
            self._init(at, action == "go on")
        elif action in ("commit", "abort"):
            self._end(at, action == "commit")
        elif action == "produce":
            self._produce(at, partition)
        else:
            self._read(at, partition)

    def _init(self, at: int, goes_on: bool) -> None:
        client = self.clients[at]
        expected = client.producer if goes_on else None
        request = InitProducerIdRequest(
            transactional_id=client.transactional_id,
            transaction_timeout_ms=10_000,
            producer_id=-1 if expected is None else expected.producer_id,
            producer_epoch=-1 if expected is None else expected.producer_epoch,
        )
        client.producer, client.ending = None, None  # until it knows better

        def answered(answer: Any) -> None:
            if answer.error_code == 0:
                self._adopt(client, Producer(answer.producer_id, answer.producer_epoch))

        new_id = self._take_id() if self.shard.needs_producer_id(request) else -1
        self.run_effects(self.shard.init_producer_id(request, 5, new_id, Ticket(answered), self.now_ms))

    def _take_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def _adopt(self, client: Client, producer: Producer) -> None:
        client.producer, client.sequences, client.ending, client.reads = producer, {}, None, set()
        self.given[client.transactional_id] = producer

    def _produce(self, at: int, partition: int) -> None:
        client = self.clients[at]
        if client.producer is None or client.ending is not None:
            return
        sequence = client.sequences.get(partition, 0)
        client.sequences[partition] = sequence + 1
        self.network.append(Message(at, "produce", client.producer, partition, sequence))

    def _read(self, at: int, partition: int) -> None:
        """What a transaction has read goes into what it writes."""
        client = self.clients[at]
        if client.producer is not None and client.ending is None:
            self.reads.setdefault(client.producer, set()).update(self.partitions[partition].visible())

    def _end(self, at: int, committed: bool) -> None:
        client = self.clients[at]
        if client.producer is None:
            return
        if client.ending is None:
            client.ending = committed
        self.network.append(Message(at, "end", client.producer, committed=client.ending))

    @rule(
        at=st.integers(0, CLIENTS - 1),
        reads=st.booleans(),
        committed=st.sampled_from([True, True, False]),
        partitions=st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=3, unique=True),
        is_finished=st.booleans(),
        keeps=st.booleans(),
    )
    def a_whole_transaction(
        self, at: int, reads: bool, committed: bool, partitions: list[int], is_finished: bool, keeps: bool
    ) -> None:
        """What happens most of the time; `keeps`: its messages are still about, and come once more."""
        if self.clients[at].producer is None:
            self._init(at, False)
            self.commit()
        if self.clients[at].producer is None or self.clients[at].ending is not None:
            return
        for partition in partitions:
            if reads:
                self._read(at, partition)
            self._produce(at, partition)
        sent = self.network[-len(partitions) :]
        self.deliver_all()
        self._end(at, committed)
        sent += self.network[-1:]
        self.deliver_all()
        if is_finished:
            self.commit()
            self.write_all_markers()
        if keeps:
            self.network += sent

    @rule()
    def write_all_markers(self) -> None:
        asked_for, self.markers[:] = self.markers[:], []
        for asked in asked_for:
            for name in asked.partitions:
                self.partitions[name.partition].mark(asked)
            self.run_effects(
                self.shard.markers_written(asked.transactional_id, asked.attempt, asked.partitions, self.now_ms)
            )

    @rule()
    def deliver_the_next(self) -> None:
        if self.network:
            self._deliver(self.network.pop(0))

    @rule()
    def deliver_all(self) -> None:
        while self.network:
            self._deliver(self.network.pop(0))

    @rule(data=st.data(), is_kept=st.booleans())
    def deliver(self, data: st.DataObject, is_kept: bool) -> None:
        """In any order; what is kept comes once more, however late."""
        if not self.network:
            return
        at = data.draw(st.integers(0, len(self.network) - 1))
        self._deliver(self.network[at] if is_kept else self.network.pop(at))

    def _deliver(self, message: Message) -> None:
        if message.kind == "produce":
            self._deliver_produce(message)
        else:
            self._deliver_end(message)

    def _deliver_produce(self, message: Message) -> None:
        partition = self.partitions[message.partition]
        transactional_id = self.clients[message.client].transactional_id
        try:
            if partition.states.has_open_transaction(*message.producer):
                partition.append(message.producer, message.sequence, -1)
                return
        except KafkaError:
            return
        guard = partition.states.begin_verification(*message.producer, message.sequence, True)
        asked = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=message.producer.producer_id,
            producer_epoch=message.producer.producer_epoch,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[message.partition])],
        )
        present = self.shard.transactions.get(transactional_id)
        is_current = present is not None and message.producer == (present.producer_id, present.producer_epoch)

        def answered(answer: Any) -> None:
            code = ErrorCode(answer.topic_results[0].results_by_partition[0].partition_error_code)
            assert code is not ErrorCode.NONE or is_current, "a producer that was replaced added a partition"
            if code is ErrorCode.NONE:
                with contextlib.suppress(KafkaError):
                    partition.append(message.producer, message.sequence, guard)

        self.run_effects(self.shard.add_partitions(asked, 4, Ticket(answered), self.now_ms))

    def _deliver_end(self, message: Message) -> None:
        client = self.clients[message.client]
        request = EndTxnRequest(
            transactional_id=client.transactional_id,
            producer_id=message.producer.producer_id,
            producer_epoch=message.producer.producer_epoch,
            committed=message.committed,
        )

        def answered(answer: Any) -> None:
            if answer.error_code == 0:
                assert self.promised.setdefault(message.producer, message.committed) is message.committed
                if client.producer == message.producer:
                    self._adopt(client, Producer(answer.producer_id, answer.producer_epoch))

        new_id = self._take_id() if self.shard.needs_producer_id(request) else -1
        effects = self.shard.end_txn(request, 5, new_id, Ticket(answered), self.now_ms)
        for record in effects.records:
            found = read_transaction_record(record)
            assert found is not None
            assert found.value is not None
            if TransactionState(found.value.transaction_status) in PREPARED:
                decided = (found.value.producer_id, found.value.producer_epoch - 1)
                assert decided == message.producer, "an end has touched a transaction that it did not mean"
        self.run_effects(effects)

    # What must hold

    def decisions(self, records: list[CoordinatorRecord]) -> dict[Producer, bool]:
        """By the log: which transactions are to commit (True) or abort."""
        decided: dict[Producer, bool] = {}
        for record in records:
            found = read_transaction_record(record)
            if found is None or found.value is None:
                continue
            state = TransactionState(found.value.transaction_status)
            if state in PREPARED:
                producer = Producer(found.value.producer_id, found.value.producer_epoch - 1)
                decided[producer] = state is TransactionState.PREPARE_COMMIT
        return decided

    @invariant()
    def only_committed_records_are_read(self) -> None:
        decided = self.decisions(self.log[: self.committed_offset])
        for partition in self.partitions:
            for producer in partition.visible():
                assert decided.get(producer) is True

    @invariant()
    def clients_were_told_the_truth(self) -> None:
        decided = self.decisions(self.log[: self.committed_offset])
        for producer, committed in self.promised.items():
            assert decided.get(producer) is committed

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        replayed = self.replayed().transactions
        assert replayed.keys() == self.shard.transactions.keys()
        for transactional_id, transaction in self.shard.transactions.items():
            for name in DURABLE:
                assert getattr(transaction, name) == getattr(replayed[transactional_id], name), name

    def teardown(self) -> None:
        """Everything that was decided ends; then every transaction is all or nothing,
        and nobody has read in a circle.
        """
        for _ in range(8):
            self.commit()
            self.now_ms += 20_000
            for transactional_id, found in list(self.shard.transactions.items()):
                if found.state is TransactionState.ONGOING:
                    self.shard.give_producer_id(self._take_id())
                    self.run_effects(self.shard.on_timer(("timeout", transactional_id), self.now_ms))
                elif found.state in PREPARED and not self.markers:
                    self.run_effects(self.shard.on_timer(("markers", transactional_id), self.now_ms))
            self.commit()
            self.write_all_markers()
        self.commit()
        decided = self.decisions(self.log)
        for partition in self.partitions:
            assert partition.states.first_unstable_offset(len(partition.entries)) is None, "a transaction hangs"
            writers = {producer for producer, committed in partition.entries if committed is None}
            assert partition.visible() == {producer for producer in writers if decided.get(producer)}
        graph = {reader: read - {reader} for reader, read in self.reads.items() if decided.get(reader)}
        TopologicalSorter(graph).prepare()  # raises on a cycle
        for transaction in self.shard.transactions.values():
            assert transaction.state not in PREPARED


Transactions.TestCase.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
TestTransactions = Transactions.TestCase
