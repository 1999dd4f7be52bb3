"""The tools' reader: its positions, fairness and failures, against a log that is a Python list."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.errors import BootstrapFailed, ConnectionFailed
from headwater.client.positions import AtTime, Beginning, End, Last, Window
from headwater.client.record_reader import RecordReader, Span, resolve
from headwater.client.session import Session
from headwater.client.types import READ_COMMITTED
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record
from headwater.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from unit.client.reactor.fakes import FakeWorld, topic_id

T = TypeVar("T")
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class OneBroker:
    """A broker, and the session with it. Each fetch gives one record of the first partition that has one."""

    def __init__(self, ends: dict[int, int]) -> None:
        self.starts = dict.fromkeys(ends, 0)
        self.ends = ends
        self.errors: list[int] = []  # given, one a fetch, before any records
        self.fetches: list[list[int]] = []
        self.world = FakeWorld()
        self.broker = self.world.broker(0)
        self.world.topic("t", len(ends))
        self.broker.on(ListOffsetsRequest, self._offsets)
        self.broker.on(FetchRequest, self._fetch)
        self.session = self.world.session()
        self.began = self.world.now

    def run(self, call: Callable[[Session], Coroutine[Any, Any, T]]) -> T:
        return self.world.run(call(self.session))

    @property
    def now(self) -> float:
        return self.world.now - self.began

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=self._offset(each.partition_index, each.timestamp),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _offset(self, partition: int, timestamp: int) -> int:
        special = {-1: self.ends[partition], -2: self.starts[partition]}
        if timestamp in special:
            return special[timestamp]
        return timestamp if timestamp < self.ends[partition] else -1  # a record's timestamp is its offset

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        assert topic.topic_id == topic_id("t")
        self.fetches.append([each.partition for each in topic.partitions])
        error = self.errors.pop(0) if self.errors else 0
        answered: list[PartitionData] = []
        given = False
        for each in topic.partitions:
            data = PartitionData(
                partition_index=each.partition, high_watermark=self.ends[each.partition], error_code=error
            )
            if not error and not self.starts[each.partition] <= each.fetch_offset <= self.ends[each.partition]:
                data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
                data.high_watermark = -1  # as a broker that refuses a fetch says
            elif not error and not given and each.fetch_offset < self.ends[each.partition]:
                record = Record(each.fetch_offset, each.fetch_offset, None, b"v")
                data.records = bytes(build_batch([record], base_offset=each.fetch_offset))
                given = True
            answered.append(data)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id("t"), partitions=answered)])


def _drain(reader: RecordReader) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while not reader.done:
        found += [(record.partition, record.offset) for record in reader.poll()]
    return found


def test_windows_become_offsets() -> None:
    broker = OneBroker({0: 10, 1: 3})
    broker.starts[0] = 2
    assert resolve(broker, [P0, P1], Window(Beginning())) == {P0: Span(2, None), P1: Span(0, None)}
    assert resolve(broker, [P0, P1], Window(Last(4), End())) == {P0: Span(6, 10), P1: Span(0, 3)}
    assert resolve(broker, [P0, P1], Window(AtTime(5), AtTime(8))) == {P0: Span(5, 8), P1: Span(3, 3)}


def test_reading_stops_at_each_partitions_stop() -> None:
    broker = OneBroker({0: 5, 1: 3})
    reader = RecordReader(broker, {P0: Span(3, 5), P1: Span(0, 2)})
    assert sorted(_drain(reader)) == [(0, 3), (0, 4), (1, 0), (1, 1)]
    assert reader.positions == {P0: 5, P1: 2}
    assert reader.high_watermarks == {P0: 5, P1: 3}


def test_no_partition_starves_behind_a_busy_one() -> None:
    broker = OneBroker({0: 100, 1: 100})
    reader = RecordReader(broker, {P0: Span(0, None), P1: Span(0, None)})
    partitions = [reader.poll()[0].partition for _ in range(4)]
    assert partitions == [0, 1, 0, 1]


def test_a_finished_partition_is_not_asked_about_again() -> None:
    broker = OneBroker({0: 1, 1: 3})
    _drain(RecordReader(broker, {P0: Span(0, 1), P1: Span(0, 3)}))
    assert broker.fetches[-1] == [1]


def test_retention_that_overtakes_the_reader_is_counted_and_skipped() -> None:
    broker = OneBroker({0: 10})
    reader = RecordReader(broker, {P0: Span(0, 10)})
    reader.poll()
    broker.starts[0] = 8
    assert _drain(reader) == [(0, 8), (0, 9)]
    assert reader.skipped == 7


def test_an_offset_past_the_end_is_an_error_that_names_the_range() -> None:
    reader = RecordReader(OneBroker({0: 10}), {P0: Span(50, None)})
    with pytest.raises(KafkaError, match="t-0 has no offset 50; it goes from 0 to 10"):
        reader.poll()


def test_a_leader_that_moves_is_waited_for() -> None:
    broker = OneBroker({0: 2})
    broker.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    reader = RecordReader(broker, {P0: Span(0, 2)})
    assert _drain(reader) == [(0, 0), (0, 1)]
    assert broker.now == pytest.approx(0.3, abs=0.05)


def test_an_error_that_cannot_get_better_is_raised_at_once() -> None:
    broker = OneBroker({0: 2})
    broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0"):
        RecordReader(broker, {P0: Span(0, 2)}).poll()
    assert broker.now < 0.05


def test_a_broker_that_stays_away_is_given_up_after_the_api_timeout() -> None:
    broker = OneBroker({0: 2})
    reader = RecordReader(broker, {P0: Span(0, 2)})
    reader.poll()
    broker.broker.stop()
    with pytest.raises((ConnectionFailed, BootstrapFailed)):
        _drain(reader)
    assert 55 < broker.now <= 62
    broker.broker.start()
    assert _drain(reader) == [(0, 1)]


def _transactional(offset: int, producer_id: int) -> bytes:
    records = [Record(offset, offset, None, b"gone")]
    return bytes(build_batch(records, base_offset=offset, producer_id=producer_id, transactional=True))


def _abort_marker(offset: int, producer_id: int) -> bytes:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    return bytes(
        build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)
    )


def test_records_of_aborted_transactions_stay_hidden_however_the_broker_sorts_its_list() -> None:
    """Apache's lists them by their markers: the tools showed aborted records as if they were committed."""
    broker = OneBroker({0: 5})
    data = PartitionData(
        partition_index=0,
        high_watermark=5,
        aborted_transactions=[
            AbortedTransaction(producer_id=8, first_offset=1),
            AbortedTransaction(producer_id=7, first_offset=0),
        ],
        records=_transactional(0, 7)
        + _transactional(1, 8)
        + _abort_marker(2, 8)
        + _abort_marker(3, 7)
        + bytes(build_batch([Record(4, 4, None, b"kept")], base_offset=4)),
    )
    topic = FetchableTopicResponse(topic_id=topic_id("t"), partitions=[data])
    broker.broker.on(FetchRequest, lambda _: FetchResponse(responses=[topic]))
    reader = RecordReader(broker, {P0: Span(0, 5)}, isolation_level=READ_COMMITTED)
    assert [record.value for record in reader.poll()] == [b"kept"]
