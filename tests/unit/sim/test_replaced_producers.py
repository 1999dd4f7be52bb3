"""What the simulated producer holds against brokers that acknowledge the batch of a producer
that was replaced (I11).
"""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask
from headwater.sim.cluster_clients.coordinating import ClusterTransactionalProducer
from headwater.sim.trace import Violation
from headwater.sim.transaction_history import Producer, TransactionHistory
from headwater.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

ID = "alpha"
OLD, NEW = Producer(7, 0), Producer(7, 1)
DONE = int(ErrorCode.NONE)
NO_ANSWER = None


class ProduceByHand:
    """One batch for each of some partitions, sent until all are acknowledged; the test is the leader of them all."""

    def __init__(self, *, may_be_stale: bool = True, partitions: int = 1) -> None:
        self.transactions = TransactionHistory(lambda *_: None)
        self.transactions.initialized(ID, OLD)
        world: Any = SimpleNamespace(
            seed=1,
            transactions=self.transactions,
            clock=SimpleNamespace(now_ms=lambda: 0, monotonic_ms=lambda: 0),
            clock_jumps=0,
            skews_ms={},
            is_finishing=True,  # nobody crashes
            may_be_stale=may_be_stale,
        )
        producer = ClusterTransactionalProducer(world, "alpha-1", ID)
        producer._producer = OLD
        self.acknowledged: list[list[bytes]] = []
        history = SimpleNamespace(acknowledged=lambda _, sent: self.acknowledged.append(sent))
        topic: Any = SimpleNamespace(name="out", topic_id=bytes(16), partitions=[history] * partitions)
        self._steps = producer._produce(topic, {index: [b"%d" % index] for index in range(partitions)})
        self._step = next(self._steps)

    def replace(self) -> None:
        self.transactions.initialized(ID, NEW)

    def answer(self, *codes: int | None) -> None:
        """To the attempt that is on its way, by partition; the next one is on its way then, if there is one."""
        response = None
        if codes != (NO_ANSWER,):
            (ask,) = self._asked()
            indexes = [part.index for part in ask.request.topic_data[0].partition_data]
            parts = [
                PartitionProduceResponse(index=index, error_code=code, base_offset=0)
                for index, code in zip(indexes, codes, strict=True)
            ]
            response = ProduceResponse(responses=[TopicProduceResponse(name="out", partition_responses=parts)])
        try:
            self._step = self._steps.send([response])
            while isinstance(self._step, int):
                self._step = self._steps.send([])
        except StopIteration:
            self._step = []

    def _asked(self) -> list[Ask]:
        assert isinstance(self._step, list)
        return self._step


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_i11_the_retry_of_a_replaced_producer_that_is_newly_appended(code: int) -> None:
    produce = ProduceByHand()
    produce.answer(code)
    produce.answer(code)  # this attempt was on its way before the other producer came
    produce.replace()
    produce.answer(code)
    with pytest.raises(Violation, match="I11: alpha-1 was replaced"):
        produce.answer(DONE)


@pytest.mark.parametrize(
    "code",
    [
        NO_ANSWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ],
)
def test_a_leader_that_was_one_may_acknowledge_again_what_it_has_from_before(code: int | None) -> None:
    produce = ProduceByHand()
    produce.answer(code)
    produce.replace()
    produce.answer(ErrorCode.NOT_ENOUGH_REPLICAS)  # says nothing of the attempt before it
    produce.answer(NO_ANSWER)
    produce.answer(DONE)
    assert produce.acknowledged == [[b"0"]]


def test_i11_an_attempt_that_was_sent_after_the_other_producer_came_excuses_nothing() -> None:
    produce = ProduceByHand()
    produce.replace()
    produce.answer(ErrorCode.NOT_ENOUGH_REPLICAS)  # sent before
    produce.answer(NO_ANSWER)  # sent behind it: whoever appends it then is wrong
    with pytest.raises(Violation, match="I11"):
        produce.answer(DONE)


def test_i11_each_partition_is_judged_by_its_own_attempts() -> None:
    produce = ProduceByHand(partitions=2)
    produce.answer(ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS)
    produce.replace()
    produce.answer(ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS)
    produce.answer(DONE, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert produce.acknowledged == [[b"0"]]
    with pytest.raises(Violation, match="I11"):
        produce.answer(DONE)


def test_i11_nothing_is_excused_where_no_leader_can_be_out_of_date() -> None:
    produce = ProduceByHand(may_be_stale=False)
    produce.answer(NO_ANSWER)
    produce.replace()
    produce.answer(NO_ANSWER)
    with pytest.raises(Violation, match="I11"):
        produce.answer(DONE)
