"""Produce within transactions: whom the broker asks before a transaction begins on a partition, and what it makes of
the answer.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.deferred import Deferred
from headwater.records.batch import read_header
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

E = ErrorCode
Done = Callable[[dict[TopicPartition, ErrorCode]], None]


class FakeTransactions:
    """Notes what it is asked, and answers with `code`, or when `answer` is called if that is None."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.code: ErrorCode | None = E.NONE
        self._waiting: list[tuple[list[TopicPartition], Done]] = []

    def verify_or_add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Any, *, add: bool, done: Done
    ) -> None:
        self.asked.append((transactional_id, producer_id, epoch, list(partitions), add))
        self._waiting.append((list(partitions), done))
        if self.code is not None:
            self.answer(self.code)

    def answer(self, code: ErrorCode) -> None:
        partitions, done = self._waiting.pop(0)
        done(dict.fromkeys(partitions, code))


@pytest.fixture(name="lab")
def lab_with_a_topic(make_lab: Any) -> Any:
    lab = make_lab()
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    lab.coordinator = lab.broker.__dict__["transactions"] = FakeTransactions()
    return lab


def batch(lab: Any, sequence: int = 0, *, producer: int = 7, epoch: int = 0, transactional: bool = True) -> bytearray:
    return build_batch(
        [Record(0, lab.clock.now_ms(), b"k", b"v")],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def request(lab: Any, version: int, *batches: bytearray, transactional_id: str | None = "tx", acks: int = -1) -> Any:
    topic = TopicProduceData(
        name="t",
        topic_id=lab.broker.image.ids_by_name["t"],
        partition_data=[PartitionProduceData(index=at, records=records) for at, records in enumerate(batches)],
    )
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1000, topic_data=[topic])


def produce(lab: Any, *batches: bytearray, version: int = 12, **fields: Any) -> list[ErrorCode]:
    answer = lab.ask(request(lab, version, *batches, **fields), version)
    return [ErrorCode(part.error_code) for part in answer.responses[0].partition_responses]


def marker(lab: Any, partition: int = 0, *, epoch: int = 1, committed: bool = True, version: int = 2) -> Any:
    return lab.broker.partition("t", partition).append_marker(
        7, epoch, 0, committed, lab.clock.now_ms(), transaction_version=version
    )


@pytest.mark.parametrize("version", [3, 9, 11, 12, 13])
def test_the_first_batch_of_a_transaction_is_verified_or_adds_its_partition(lab: Any, version: int) -> None:
    assert produce(lab, batch(lab), batch(lab), version=version) == [E.NONE, E.NONE]
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert lab.coordinator.asked == [("tx", 7, 0, partitions, version >= 12)]
    assert produce(lab, batch(lab, 1), version=version) == [E.NONE]
    assert len(lab.coordinator.asked) == 1  # it has begun: nobody is asked again
    assert lab.broker.partition("t", 0).last_stable_offset == 0
    assert lab.broker.partition("t", 0).log.log_end_offset == 2


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (E.TRANSACTION_ABORTABLE, 10, E.INVALID_TXN_STATE),
        (E.TRANSACTION_ABORTABLE, 11, E.TRANSACTION_ABORTABLE),
        (E.PRODUCER_FENCED, 11, E.INVALID_PRODUCER_EPOCH),
        (E.PRODUCER_FENCED, 12, E.INVALID_PRODUCER_EPOCH),
        (E.INVALID_PRODUCER_ID_MAPPING, 12, E.INVALID_PRODUCER_ID_MAPPING),
        (E.CONCURRENT_TRANSACTIONS, 11, E.NOT_ENOUGH_REPLICAS),
        (E.NOT_COORDINATOR, 12, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_NOT_AVAILABLE, 3, E.NOT_ENOUGH_REPLICAS),
        (E.COORDINATOR_LOAD_IN_PROGRESS, 12, E.NOT_ENOUGH_REPLICAS),
    ],
)
def test_what_the_coordinator_says_is_told_in_words_of_the_version(
    lab: Any, code: ErrorCode, version: int, told: ErrorCode
) -> None:
    lab.coordinator.code = code
    assert produce(lab, batch(lab), version=version) == [told]
    assert lab.broker.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("version", [11, 12])
def test_a_refusal_holds_for_both_entries_of_a_partition_that_is_named_twice(lab: Any, version: int) -> None:
    """The first entry kept its guard, and so began the transaction that the coordinator had refused."""
    lab.coordinator.code = E.INVALID_PRODUCER_ID_MAPPING
    twice = request(lab, version, batch(lab))
    (topic,) = twice.topic_data
    topic.partition_data.append(PartitionProduceData(index=0, records=bytes(batch(lab, sequence=1))))
    (answer,) = lab.ask(twice, version).responses
    assert [part.error_code for part in answer.partition_responses] == [E.INVALID_PRODUCER_ID_MAPPING] * 2
    assert lab.broker.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("version", [11, 12])
def test_both_entries_of_a_partition_that_is_named_twice_are_appended(lab: Any, version: int) -> None:
    twice = request(lab, version, batch(lab))
    (topic,) = twice.topic_data
    topic.partition_data.append(PartitionProduceData(index=0, records=bytes(batch(lab, sequence=1))))
    (answer,) = lab.ask(twice, version).responses
    assert [(part.error_code, part.base_offset) for part in answer.partition_responses] == [(0, 0), (0, 1)]


def test_bytes_that_wait_are_copied_and_the_connection_begins_nothing_else(lab: Any) -> None:
    lab.coordinator.code = None
    waiting = lab.begin(request(lab, 12, batch(lab)), 12)
    assert isinstance(waiting, Deferred)
    assert waiting.holds_order
    lab.frame[:] = bytes(len(lab.frame))  # the buffer is used for something else
    lab.coordinator.answer(E.NONE)
    assert waiting.done
    (answer,) = waiting.response.responses[0].partition_responses
    assert (answer.error_code, answer.base_offset) == (0, 0)


def test_who_goes_away_while_it_waits_writes_nothing(lab: Any) -> None:
    lab.coordinator.code = None
    waiting = lab.begin(request(lab, 12, batch(lab)), 12)
    waiting.cancel()
    lab.coordinator.answer(E.NONE)
    assert lab.broker.partition("t", 0).log.log_end_offset == 0


def test_a_marker_in_between_makes_the_verification_void(lab: Any) -> None:
    lab.coordinator.code = None
    waiting = lab.begin(request(lab, 11, batch(lab)), 11)
    marker(lab, epoch=0, committed=False, version=0)
    lab.coordinator.answer(E.NONE)
    assert waiting.response.responses[0].partition_responses[0].error_code == E.INVALID_TXN_STATE
    assert lab.broker.partition("t", 0).last_stable_offset == 1  # the marker alone


def test_while_the_last_transaction_ends_the_broker_asks_again_for_a_moment(lab: Any) -> None:
    lab.coordinator.code = None
    waiting = lab.begin(request(lab, 12, batch(lab)), 12)
    lab.coordinator.answer(E.CONCURRENT_TRANSACTIONS)
    assert not waiting.done
    lab.clock.advance(20)
    lab.settle()
    assert len(lab.coordinator.asked) == 2
    lab.coordinator.answer(E.NONE)
    assert waiting.response.responses[0].partition_responses[0].error_code == 0

    marker(lab)
    waiting = lab.begin(request(lab, 12, batch(lab, epoch=1)), 12)
    lab.clock.advance(100)
    lab.coordinator.answer(E.CONCURRENT_TRANSACTIONS)
    assert waiting.response.responses[0].partition_responses[0].error_code == E.CONCURRENT_TRANSACTIONS


def test_the_next_transaction_waits_for_the_marker_of_the_last(lab: Any) -> None:
    """Its coordinator would say yes as soon as it has all markers, and that of this partition would make its answer
    void.
    """
    assert produce(lab, batch(lab)) == [E.NONE]
    waiting = lab.begin(request(lab, 12, batch(lab, epoch=1)), 12)
    assert len(lab.coordinator.asked) == 1
    marker(lab)
    lab.clock.advance(20)
    lab.settle()
    assert len(lab.coordinator.asked) == 2
    assert waiting.response.responses[0].partition_responses[0].error_code == 0

    waiting = lab.begin(request(lab, 12, batch(lab, epoch=2)), 12)
    for _ in range(6):  # its marker does not come
        lab.clock.advance(20)
        lab.settle()
    assert waiting.response.responses[0].partition_responses[0].error_code == E.CONCURRENT_TRANSACTIONS
    assert len(lab.coordinator.asked) == 2


def test_a_marker_before_the_broker_asks_again_does_no_harm(lab: Any) -> None:
    """Of a transaction that has no batch on the partition: the marker alone, which nobody here waits for."""
    lab.coordinator.code = None
    waiting = lab.begin(request(lab, 12, batch(lab, epoch=1)), 12)
    lab.coordinator.answer(E.CONCURRENT_TRANSACTIONS)
    marker(lab)
    lab.clock.advance(20)
    lab.settle()
    lab.coordinator.answer(E.NONE)
    assert waiting.response.responses[0].partition_responses[0].error_code == 0


def test_a_transactional_batch_needs_a_transactional_id(lab: Any) -> None:
    assert produce(lab, batch(lab), transactional_id=None) == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    assert produce(lab, batch(lab)) == [E.NONE]
    assert produce(lab, batch(lab, 1), transactional_id=None) == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]


def test_one_request_has_one_producer(lab: Any) -> None:
    told = produce(lab, batch(lab), batch(lab, producer=8))
    assert told == [E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_PRODUCER_ID_MAPPING]
    assert not lab.coordinator.asked


def test_other_batches_of_a_transactional_producer_are_nobodys_business(lab: Any) -> None:
    assert produce(lab, batch(lab, transactional=False)) == [E.NONE]
    assert not lab.coordinator.asked


def test_a_producer_without_answers_has_no_transactions(lab: Any) -> None:
    with pytest.raises(KafkaError):
        lab.begin(request(lab, 12, batch(lab), acks=0), 12)


def test_a_partition_that_is_not_there_is_told_so_and_the_others_go_on(lab: Any) -> None:
    told = produce(lab, batch(lab), batch(lab), batch(lab))
    assert told == [E.NONE, E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION]


# A transaction on its partition


def test_zombies_are_fenced_by_the_marker(lab: Any) -> None:
    produce(lab, batch(lab))
    marker(lab, committed=False)
    assert produce(lab, batch(lab, 1)) == [E.INVALID_PRODUCER_EPOCH]
    assert produce(lab, batch(lab, epoch=1)) == [E.NONE]
    partition = lab.broker.partition("t", 0)
    with pytest.raises(KafkaError) as caught:
        partition.needs_verification(read_header(batch(lab)))
    assert caught.value.code is E.INVALID_PRODUCER_EPOCH


def test_a_repeated_batch_is_known_within_its_transaction(lab: Any) -> None:
    produce(lab, batch(lab))
    assert produce(lab, batch(lab)) == [E.NONE]
    assert lab.broker.partition("t", 0).log.log_end_offset == 1


def test_a_producer_of_version_2_that_nobody_knows_begins_at_sequence_0(lab: Any) -> None:
    assert produce(lab, batch(lab, 3)) == [E.OUT_OF_ORDER_SEQUENCE_NUMBER]
    assert produce(lab, batch(lab, 3), version=11) == [E.NONE]


def test_the_first_batch_is_the_lowest_that_was_seen(lab: Any) -> None:
    lab.coordinator.code = None
    later = lab.begin(request(lab, 11, batch(lab, 5)), 11)
    first = lab.begin(request(lab, 11, batch(lab, 4)), 11)
    lab.coordinator.answer(E.NONE)
    lab.coordinator.answer(E.NONE)
    codes = [waiting.response.responses[0].partition_responses[0].error_code for waiting in (later, first)]
    assert codes == [E.OUT_OF_ORDER_SEQUENCE_NUMBER, 0]


@pytest.mark.parametrize("committed", [True, False])
def test_consumers_see_a_transaction_when_its_marker_is_there(lab: Any, committed: bool) -> None:
    produce(lab, batch(lab))
    produce(lab, batch(lab, 1))

    def fetch() -> Any:
        part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = FetchTopic(topic="t", partitions=[part])
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=[topic])
        answer = lab.begin(asked, 12)
        (found,) = answer.responses[0].partitions
        size = len(found.records)
        if size:
            found.records.release()
        aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions]
        return size > 0, found.last_stable_offset, aborted

    assert fetch() == (False, 0, [])
    marker(lab, committed=committed)
    assert fetch() == (True, 3, [] if committed else [(7, 0)])


def test_readers_are_sent_to_no_place_before_the_log_though_a_transaction_began_there(lab: Any) -> None:
    produce(lab, batch(lab))
    produce(lab, batch(lab, 1))

    def latest() -> int:
        topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        answer = lab.ask(ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic]), 5)
        return int(answer.topics[0].partitions[0].offset)

    assert latest() == 0
    lab.broker.partition("t", 0).log.delete_records_before(1)
    assert latest() == 1
    marker(lab)
    assert latest() == 3


def test_a_fetch_tells_only_the_aborted_transactions_among_its_records(lab: Any) -> None:
    for epoch in range(20):
        assert produce(lab, batch(lab, epoch=epoch)) == [E.NONE]
        marker(lab, epoch=epoch + 1, committed=False)

    def fetch(offset: int, max_bytes: int) -> list[int]:
        part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        topic = FetchTopic(topic="t", partitions=[part])
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, isolation_level=1, topics=[topic])
        (found,) = lab.begin(asked, 12).responses[0].partitions
        if found.records:
            found.records.release()
        return [entry.first_offset for entry in found.aborted_transactions]

    assert fetch(0, 1 << 20) == list(range(0, 40, 2))
    assert fetch(0, 1) == [0]
    assert fetch(7, 1) == [6]
    assert fetch(8, 1) == [8]
    assert fetch(40, 1) == []


@pytest.mark.parametrize("version", [0, 2])
def test_markers_of_old_coordinators_and_old_epochs_are_refused(lab: Any, version: int) -> None:
    partition = lab.broker.partition("t", 0)
    produce(lab, batch(lab, epoch=4))
    now_ms = lab.clock.now_ms()
    for epoch in (3, 4) if version == 2 else (3,):
        with pytest.raises(KafkaError) as caught:
            partition.append_marker(7, epoch, 5, True, now_ms, transaction_version=version)
        assert caught.value.code is E.INVALID_PRODUCER_EPOCH
    partition.append_marker(7, 5, 5, True, now_ms, transaction_version=version)
    partition.append_marker(7, 5, 5, True, now_ms, transaction_version=version)  # repeated: nothing is open
    with pytest.raises(KafkaError) as caught:
        partition.append_marker(7, 5, 4, True, now_ms, transaction_version=version)
    assert caught.value.code is E.TRANSACTION_COORDINATOR_FENCED


def test_who_produces_is_told(lab: Any) -> None:
    produce(lab, batch(lab))
    (producer,) = lab.broker.partition("t", 0).active_producers
    assert (producer.producer_id, producer.epoch, producer.transaction_first_offset) == (7, 0, 0)
    marker(lab)
    (producer,) = lab.broker.partition("t", 0).active_producers
    assert (producer.epoch, producer.coordinator_epoch, producer.transaction_first_offset) == (1, 0, -1)
