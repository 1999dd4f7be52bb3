"""What the simulated producer does with its sequence numbers when a transaction is given up while a batch of it may
have been written.

Seed 2272024041 of coordinators: a partition had timed out and another one refused. The producer aborted, kept its epoch
as clients of transaction version 1 do, and sent the next transaction under the sequence number of the batch that had
timed out: the broker took it for that one. Java's producer asks for a new epoch then, and so does this one.
"""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask
from headwater.sim.clients.transactional import TransactionalProducer
from headwater.sim.transaction_history import Producer, TransactionHistory
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ID: Final = "alpha"
OURS: Final = Producer(7, 3)
NO_ANSWER: Final = None
REFUSED: Final = int(ErrorCode.INVALID_TXN_STATE)
Codes = dict[int, int] | None


class OneTransaction:
    """Over two partitions; the test is the coordinator, and the leader of both."""

    def __init__(self, *, bumps: bool) -> None:
        transactions = TransactionHistory(lambda *_: None)
        transactions.initialized(ID, OURS)
        partition = SimpleNamespace(acknowledged=lambda *_: None, sent=lambda _: None)
        topic: Any = SimpleNamespace(name="out", topic_id=bytes(16), partitions=[partition] * 2)
        world: Any = SimpleNamespace(
            seed=1,
            transactions=transactions,
            clock=SimpleNamespace(now_ms=lambda: 0, monotonic_ms=lambda: 0),
            clock_jumps=0,
            skews_ms={},
            is_finishing=True,  # nobody crashes
            may_be_stale=False,
            outputs=lambda: [(topic, 0), (topic, 1)],
        )
        self.producer = TransactionalProducer(world, "alpha-1", ID)
        self.producer._producer = OURS
        self.producer._bumps = bumps
        self.producer._sequences = {0: 5, 1: 6}

    def run(self, monkeypatch: pytest.MonkeyPatch, *answers: Codes) -> list[Any]:
        """What is asked for, by the classes of the requests. `answers`: to what it produces."""
        producer, left, asked = self.producer, list(answers), []
        monkeypatch.setattr(producer, "_read", lambda _: iter(()))
        monkeypatch.setattr(producer.random, "random", lambda: 0.99)  # no hurry, no offsets
        monkeypatch.setattr(producer.random, "randint", lambda _, high: high)  # both partitions
        steps = producer._transact()
        reply: list[Any] = []
        try:
            while True:
                step: Any = steps.send(reply or None)
                reply = []
                if isinstance(step, list):
                    ask: Ask = step[0]
                    asked.append(type(ask.request))
                    reply = [self._answer(ask, left)]
        except StopIteration:
            return asked

    def _answer(self, ask: Ask, left: list[Codes]) -> Any:
        if isinstance(ask.request, AddPartitionsToTxnRequest):
            result = AddPartitionsToTxnTopicResult(
                name="out", results_by_partition=[AddPartitionsToTxnPartitionResult()]
            )
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[result])
        if isinstance(ask.request, EndTxnRequest):
            return EndTxnResponse(producer_id=OURS.producer_id, producer_epoch=OURS.epoch + 1)
        codes = left.pop(0)
        if codes is NO_ANSWER:
            return None
        parts = [PartitionProduceResponse(index=index, error_code=code) for index, code in codes.items()]
        return ProduceResponse(responses=[TopicProduceResponse(name="out", partition_responses=parts)])


@pytest.mark.parametrize(
    "answers",
    [
        ({0: ErrorCode.REQUEST_TIMED_OUT, 1: REFUSED},),
        ({0: REFUSED, 1: ErrorCode.REQUEST_TIMED_OUT},),
        ({0: REFUSED, 1: ErrorCode.NOT_LEADER_OR_FOLLOWER},),
        ({0: ErrorCode.KAFKA_STORAGE_ERROR, 1: ErrorCode.NOT_ENOUGH_REPLICAS}, {0: REFUSED, 1: REFUSED}),
        (NO_ANSWER, {0: REFUSED, 1: REFUSED}),
    ],
)
def test_it_takes_a_new_epoch_when_a_batch_may_have_been_written(
    answers: tuple[Codes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    transaction = OneTransaction(bumps=False)
    asked = transaction.run(monkeypatch, *answers)
    assert asked == [AddPartitionsToTxnRequest, *[ProduceRequest] * len(answers), EndTxnRequest]
    assert transaction.producer._producer is None  # InitProducerId comes next


def test_it_goes_on_in_its_epoch_when_it_is_known_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = OneTransaction(bumps=False)
    transaction.run(monkeypatch, {0: int(ErrorCode.NONE), 1: REFUSED})
    assert transaction.producer._producer == OURS
    assert transaction.producer._sequences == {0: 7, 1: 6}


def test_the_end_of_a_transaction_of_version_two_brings_a_new_epoch_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = OneTransaction(bumps=True)
    transaction.run(monkeypatch, {0: ErrorCode.REQUEST_TIMED_OUT, 1: REFUSED})
    assert transaction.producer._producer == Producer(OURS.producer_id, OURS.epoch + 1)
    assert transaction.producer._sequences == {}
