"""The tools' writer: sequence numbers, retries, refusals and acks=0, against a broker that keeps what it got."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.partitioner import RoundRobin
from headwater.client.record_writer import ACKS_NONE, RecordWriter
from headwater.client.session import Session
from headwater.client.types import OutgoingRecord
from headwater.records.batch import read_header
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from unit.client.reactor.fakes import CLOSE, FakeWorld, topic_id

T = TypeVar("T")


class OneBroker:
    """`answers` are given in turn: an error code, 0, or CLOSE after the batch was kept; then 0 for ever. `refused` has
    the error codes of partitions.
    """

    def __init__(self) -> None:
        self.world = FakeWorld()
        self.broker = self.world.broker(0)
        self.world.topic("t", 2)
        self.session = self.world.session()
        self.answers: list[Any] = []
        self.refused: dict[int, int] = {}
        self.batches: list[tuple[int, bytes]] = []
        self.broker.on(ProduceRequest, self._produce)
        self.broker.on(
            InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=1, error_code=0)
        )

    def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        return self.world.run(call(self.session))

    def writer(self, **options: Any) -> RecordWriter:
        topic = self.world.run(self.session.topic("t"))
        return RecordWriter(self, topic, RoundRobin(), now_ms=lambda: 1000, **options)

    def _produce(self, request: ProduceRequest) -> Any:
        (topic,) = request.topic_data
        offset = len(self.batches)
        self.batches += [(each.index, bytes(each.records or b"")) for each in topic.partition_data]
        if request.acks == ACKS_NONE:
            return None
        answer = self.answers.pop(0) if self.answers else 0
        if answer is CLOSE:
            return CLOSE
        partitions = [
            PartitionProduceResponse(
                index=each.index, error_code=self.refused.get(each.index, answer), base_offset=offset
            )
            for each in topic.partition_data
        ]
        return ProduceResponse(
            responses=[TopicProduceResponse(name="t", topic_id=topic_id("t"), partition_responses=partitions)]
        )


def sequences(world: OneBroker) -> list[tuple[int, int, int]]:
    headers = [read_header(batch) for _, batch in world.batches]
    return [(each.producer_id, each.producer_epoch, each.base_sequence) for each in headers]


def record(value: bytes) -> OutgoingRecord:
    return OutgoingRecord(value, partition=0)


def test_a_retry_has_the_sequence_number_of_the_first_attempt() -> None:
    world = OneBroker()
    writer = world.writer()
    world.answers = [CLOSE, int(ErrorCode.NOT_LEADER_OR_FOLLOWER), 0]
    (first,) = writer.write([record(b"a")])
    (second,) = writer.write([record(b"b")])
    assert sequences(world) == [(7, 1, 0), (7, 1, 0), (7, 1, 0), (7, 1, 1)]
    assert (first.partition, first.offset, first.timestamp_ms, second.offset) == (0, 2, 1000, 3)


def test_a_batch_beside_one_that_was_refused_counts_as_written() -> None:
    """Its sequence number was used again: a broker takes the next batch for a duplicate, and writes nothing."""
    world = OneBroker()
    writer = world.writer()
    world.refused = {1: int(ErrorCode.MESSAGE_TOO_LARGE)}
    with pytest.raises(KafkaError, match="t-1"):
        writer.write([record(b"a"), OutgoingRecord(b"refused", partition=1)])
    world.refused.clear()
    writer.write([record(b"b"), OutgoingRecord(b"c", partition=1)])
    found = [(index, read_header(batch).base_sequence) for index, batch in world.batches]
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 0)]


def test_a_duplicate_that_the_broker_has_forgotten_the_offset_of_is_no_failure() -> None:
    world = OneBroker()
    world.answers = [int(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)]
    assert world.writer().write([record(b"a")])[0].offset == -1


def test_a_refusal_is_raised_with_its_partition() -> None:
    world = OneBroker()
    world.answers = [int(ErrorCode.MESSAGE_TOO_LARGE)]
    with pytest.raises(KafkaError, match="t-0") as refused:
        world.writer().write([record(b"a")])
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_broker_without_idempotence_gets_plain_batches() -> None:
    world = OneBroker()
    del world.broker.versions[InitProducerIdRequest.KEY]
    world.writer().write([record(b"a")])
    assert sequences(world) == [(-1, -1, -1)]


def test_without_acks_a_flush_waits_until_the_broker_has_read_everything() -> None:
    world = OneBroker()
    writer = world.writer(acks=ACKS_NONE)
    assert writer.write([record(b"a")])[0].offset == -1
    asked = len(world.broker.received(MetadataRequest))
    writer.flush()
    assert len(world.batches) == 1
    assert len(world.broker.received(MetadataRequest)) == asked + 1
    writer.flush()
    assert len(world.broker.received(MetadataRequest)) == asked + 1
