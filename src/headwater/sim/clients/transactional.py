"""Transactional producers, by the rules of both transaction versions, and somebody who sends held-back EndTxn requests
again.

A producer reads what others have committed, writes to some partitions, commits an offset of a group of its own, and
ends the transaction. Several have the same transactional id and do not know of each other: who begins last has replaced
the others. A producer asks to commit only when all that it wrote was acknowledged, and never asks for two different
ends.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.committed import CommittedClient
from headwater.sim.clients.coordinated import MAY_PASS, TRANSACTION, CoordinatedClient
from headwater.sim.trace import Violation
from headwater.sim.transaction_history import Producer, Transaction, number_of
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

if TYPE_CHECKING:
    from headwater.sim.coordinated import CoordinatedStage

_FENCED: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
_ABORTABLE: Final = (ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE)
_AGAIN: Final = MAY_PASS | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.INVALID_TIMESTAMP,  # the clocks are apart; every attempt has a new timestamp
    ErrorCode.OPERATION_NOT_ATTEMPTED,  # something is wrong with another partition of the request
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # a coordinator may not have heard of it yet
}
# What a leader tells when it appended the batch and cannot say what becomes of it; other errors come before the append.
_MAY_BE_APPENDED: Final = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
_ADDS_FROM: Final = {"produce": 12, "offsets": 5, "end": 5}  # the first versions of transaction version 2
_LAST_OF_ONE: Final = 3  # of AddPartitionsToTxn: later versions are for brokers


class Stopped(Exception):
    """The transaction cannot go on. `may_abort`: its producer is still the one."""

    def __init__(self, *, may_abort: bool) -> None:
        self.may_abort = may_abort


class TransactionalProducer(CommittedClient):
    def __init__(self, world: "CoordinatedStage", name: str, transactional_id: str) -> None:
        super().__init__(world, name)
        self._id = transactional_id
        self._producer: Producer | None = None
        self._bumps = False  # transaction version 2
        self._attempt = 0
        self._timeout_ms = 0
        self._clock_jumps = 0
        self._began_ms: int | None = None  # the transaction, as far as the coordinator can know
        self._sequences: dict[int, int] = {}
        self._is_unresolved = False  # a batch may have been appended, and nobody has said so
        self._position = 0

    def script(self) -> Script:
        yield from self.topics_made()
        yield from self.find(self._id, TRANSACTION)
        while not self.is_stopping:
            if self._producer is None:
                yield from self._init()
            else:
                yield from self._transact()
            yield self.random.choice((0, 5, 50, 300))

    def _init(self) -> Steps:
        timeout_ms = self.random.choice((700, 2500))
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=timeout_ms)
        attempts = self.world.transactions.attempts(self._id)
        attempt = attempts.begin()
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return
        attempts.answered(attempt, has_it=answer.error_code == 0)
        if answer.error_code:
            if not self.may_try_again(answer.error_code):
                self.must_pass(answer.error_code)
            return
        self._producer = Producer(answer.producer_id, answer.producer_epoch)
        self.world.transactions.initialized(self._id, self._producer)
        self._attempt, self._timeout_ms, self._began_ms = attempt, timeout_ms, None
        self._bumps = self.random.random() < 0.6
        self._sequences, self._is_unresolved = {}, False

    def _transact(self) -> Steps:
        history = self.world.transactions
        transaction = history.begin(self._id)
        try:
            if self._bumps and self.random.random() < 0.4:
                yield from self._hurry(transaction)
            else:
                yield from self._read(transaction)
                for _ in range(self.random.randint(1, 2)):
                    yield from self._write(transaction)
                if self.random.random() < 0.5:
                    yield from self._send_offsets(transaction)
                yield self.random.choice((0, 0, 20, 1000))
                transaction.commit_asked = self.random.random() < 0.75
            yield from self._end(transaction)
        except Stopped as stopped:
            if stopped.may_abort and not transaction.commit_asked:
                try:
                    yield from self._end(transaction)
                except Stopped:
                    self._producer = None
                if self._is_unresolved and not self._bumps:
                    # A batch with the next sequence number would be taken for that one: it needs a new epoch.
                    self._producer = None
            else:
                self._producer = None
                yield self.random.choice((10, 500, 2000))

    def _hurry(self, transaction: Transaction) -> Steps:
        """Goes on while the markers of its last transaction are being written: with offsets, or by taking it all back
        at once.
        """
        if self.random.random() < 0.7:
            yield from self._send_offsets(transaction)
            if self.random.random() < 0.5:
                yield from self._write(transaction)
            transaction.commit_asked = self.random.random() < 0.75

    # The parts of a transaction

    def _read(self, transaction: Transaction) -> Steps:
        """What it goes by: something that others have committed, and the offset that was committed last."""
        history = self.world.transactions
        topic, index = self.world.outputs()[0]
        part = yield from self.read_committed(topic, index, self._position)
        if part is not None:
            self._position = part.position
            for _, value in part.values:
                history.read(transaction, number_of(value))
        least = history.least_offset(self._id)
        offset = yield from self.committed(self._id, *self.world.inputs()[0])
        if offset is not None:
            number = history.fetched(self._id, offset, -1 if self.world.may_be_stale else least, self.name)
            if number is not None:
                history.read(transaction, number)

    def _write(self, transaction: Transaction) -> Steps:
        outputs = self.random.sample(self.world.outputs(), self.random.randint(1, 2))
        topic = outputs[0][0]
        indexes = [index for _, index in outputs]
        producer = self._current()
        if not self._bumps:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic.name, partitions=indexes)],
            )
            ask = Ask(request, self.random.randint(0, _LAST_OF_ONE))
            yield from self._must(
                lambda: ask,
                lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
            )
        values: dict[int, list[bytes]] = {}
        for index in indexes:
            values[index] = [transaction.value(f"{index}") for _ in range(self.random.randint(1, 2))]
            for value in values[index]:
                topic.partitions[index].sent(value)
        yield from self._produce(topic, values)

    def _produce(self, topic: Topic, values: dict[int, list[bytes]]) -> Steps:
        first = _ADDS_FROM["produce"]
        # Partitions that may have the batch from before the producer was replaced: a leader that was one, and does not
        # know it yet, may acknowledge it again. A later refusal proves nothing of an earlier attempt.
        from_before: set[int] = set()
        while values:
            version = self.random.randint(first, 13) if self._bumps else self.random.randint(3, first - 1)
            parts = [PartitionProduceData(index=index, records=self._batch(index, values[index])) for index in values]
            data = TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=parts)
            request = ProduceRequest(
                transactional_id=self._id,
                acks=-1,
                timeout_ms=self.random.choice((50, 1000)),
                topic_data=[data],
            )
            replaced = self._is_replaced()
            self._begins()
            (answer,) = yield [Ask(request, version)]
            self._may_crash()
            if answer is None:
                self._is_unresolved = True
                if not replaced:
                    from_before.update(values)
                continue
            parts_told = answer.responses[0].partition_responses
            self._is_unresolved |= any(part.error_code in _MAY_BE_APPENDED for part in parts_told)
            # What was done first: an error elsewhere may end the transaction, and the sequence numbers go on.
            for part in sorted(parts_told, key=lambda part: part.error_code != 0):
                is_known = self.world.may_be_stale and part.index in from_before
                if self._judge(part.error_code, replaced and not is_known):
                    sent = values.pop(part.index)
                    topic.partitions[part.index].acknowledged(part.base_offset, sent)
                    self._sequences[part.index] = self._sequences.get(part.index, 0) + len(sent)
                elif part.error_code in _MAY_BE_APPENDED and not replaced:
                    from_before.add(part.index)
            if values:
                yield self.random.choice((1, 20, 100))
        self._is_unresolved = False

    def _batch(self, index: int, values: list[bytes]) -> bytearray:
        producer = self._current()
        now_ms = self.world.clock.now_ms()
        return build_batch(
            [Record(at, now_ms, None, value) for at, value in enumerate(values)],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=self._sequences.get(index, 0),
            transactional=True,
        )

    def _send_offsets(self, transaction: Transaction) -> Steps:
        producer = self._current()
        first = _ADDS_FROM["offsets"]
        if not self._bumps:
            added = AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                group_id=self._id,
            )
            ask = Ask(added, self.version(added.KEY))
            yield from self._must(lambda: ask, lambda answer: answer.error_code)
        topic, index = self.world.inputs()[0]
        part = TxnOffsetCommitRequestPartition(
            partition_index=index, committed_offset=transaction.offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=[part])],
        )
        version = self.version(request.KEY, first) if self._bumps else self.random.randint(0, first - 1)
        transaction.has_offsets = True
        yield from self._must(lambda: Ask(request, version), lambda answer: answer.topics[0].partitions[0].error_code)
        self.world.must_be_replicated(transaction.offset)
        if self.random.random() < 0.3:  # not stable, unless the transaction was taken from this producer
            offset = yield from self.committed(self._id, topic, index)
            transaction.was_passed_by = offset is not None and not self.world.may_be_stale

    def _end(self, transaction: Transaction) -> Steps:
        producer = self._current()
        first = _ADDS_FROM["end"]
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=transaction.commit_asked,
        )
        ask = Ask(request, self.version(request.KEY, first) if self._bumps else self.random.randint(0, first - 1))
        if self._bumps and self.random.random() < 0.5:  # version 1 cannot tell a late EndTxn from the next one
            self.world.transactions.held_back.append((ask, transaction))
        try:
            answer = yield from self._must(lambda: ask, lambda answer: answer.error_code)
        except Stopped as stopped:
            if stopped.may_abort:  # the transaction has another end, or never began
                if transaction.commit_asked:
                    self.world.transactions.ended(transaction, committed=False, by=self.name)
                self._producer = None
                return
            raise
        self.world.transactions.ended(transaction, committed=transaction.commit_asked, by=self.name)
        self._began_ms = None
        if self._bumps:
            bumped = Producer(answer.producer_id, answer.producer_epoch)
            if bumped <= producer:
                raise Violation(f"I11: {self.name} has {producer}, and {bumped} after the end of a transaction")
            self._producer = bumped
            self._sequences, self._is_unresolved = {}, False

    # Answers

    def _current(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _is_replaced(self) -> bool:
        return self.world.transactions.is_replaced(self._id, self._current())

    def _must(self, ask: Callable[[], Ask], code_of: Callable[[Any], int]) -> Steps:
        """The answer without an error; tries as often as it takes."""
        while True:
            replaced = self._is_replaced()
            self._begins()
            (answer,) = yield [ask()]
            self._may_crash()
            if answer is not None and self._judge(code_of(answer), replaced):
                return answer
            yield self.random.choice((1, 20, 100))

    def _may_crash(self) -> None:
        if not self.world.is_finishing and self.random.randrange(1000) < 15:
            self.world.note(f"{self.name} crashes")
            raise Stopped(may_abort=False)

    def _begins(self) -> None:
        if self._began_ms is None:
            self._began_ms = self.world.clock.monotonic_ms()
            self._clock_jumps = self.world.clock_jumps

    def _may_be_fenced(self) -> bool:
        """By somebody who wants the transactional id, or because its transaction has been open for too long by a
        coordinator's clock.
        """
        began_ms = self._began_ms
        is_old = began_ms is not None and self.world.clock.monotonic_ms() - began_ms >= self._timeout_ms
        is_old = is_old or bool(self.world.skews_ms) or self.world.clock_jumps != self._clock_jumps
        return is_old or self._is_replaced() or not self.world.transactions.attempts(self._id).is_last(self._attempt)

    def _judge(self, code: int, replaced: bool) -> bool:
        """Whether it is done; False: again."""
        if code == 0:
            if replaced:
                raise Violation(
                    f"I11: {self.name} was replaced as {self._id}, and gets things done with {self._producer}"
                )
            return True
        if code in _FENCED:
            if not self._may_be_fenced():
                raise Violation(f"I11: {self.name} is told that {self._id} has another producer, and nobody wanted one")
            raise Stopped(may_abort=False)
        if code in _ABORTABLE:
            raise Stopped(may_abort=True)
        if not self.may_try_again(code):
            raise Violation(f"{self.name} got {ErrorCode(code).name}")
        return False

    def may_try_again(self, code: int) -> bool:
        return code in _AGAIN


class Replayer(CoordinatedClient):
    """Requests that were held up on their way arrive at last, some of them for the second time."""

    def script(self) -> Script:
        history = self.world.transactions
        while not self.is_stopping:
            yield self.random.randint(20, 500)
            if not history.held_back:
                continue
            ask, transaction = self.random.choice(history.held_back[-4:])
            (answer,) = yield [ask]
            if answer is not None and answer.error_code == 0:
                history.ended(transaction, committed=ask.request.committed, by="an EndTxn that came again")
