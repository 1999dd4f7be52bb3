"""The reader's positions, fairness and failures, against a log that is a Python list."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.cluster import Cluster
from headwater.client.errors import ConnectionFailed
from headwater.client.fetch import RecordReader, Span, resolve
from headwater.client.positions import AtTime, Beginning, End, Last, Window
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = b"0123456789abcdef"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class OneBroker:
    """A broker and the connection to it. Each fetch gives one record of the first partition that has one."""

    def __init__(self, ends: dict[int, int]) -> None:
        self.starts = dict.fromkeys(ends, 0)
        self.ends = ends
        self.down = False
        self.errors: list[int] = []  # given, one a fetch, before any records
        self.fetches: list[list[int]] = []
        self.now = 0.0
        self.is_open = True

    def cluster(self) -> Cluster:
        return Cluster(
            [Address("a", 1)],
            open_connection=self.open,  # type: ignore[arg-type]
            sleep=self.sleep,
            monotonic=lambda: self.now,
            chance=lambda: 0.5,
        )

    def open(self, address: Address, **_: Any) -> "OneBroker":
        if self.down:
            raise ConnectionFailed(address, "connection refused", refused=True)
        return self

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def close(self) -> None:
        pass

    def version_for(self, _request: Any) -> int:
        return 9

    def call(self, request: Any, _response_type: Any) -> Any:
        if isinstance(request, MetadataRequest):
            partitions = [MetadataResponsePartition(partition_index=each, leader_id=1) for each in self.ends]
            topic = MetadataResponseTopic(name="t", topic_id=ID, partitions=partitions)
            return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port=1)], topics=[topic])
        assert isinstance(request, ListOffsetsRequest)
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

    def start(self, request: FetchRequest, _response_type: Any) -> FetchRequest:
        if self.down:
            raise ConnectionFailed(Address("a", 1), "the connection broke")
        return request

    def finish(self, request: FetchRequest, *, timeout_ms: int) -> FetchResponse:
        (topic,) = request.topics
        assert topic.topic_id == ID
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
            elif not error and not given and each.fetch_offset < self.ends[each.partition]:
                record = Record(each.fetch_offset, each.fetch_offset, None, b"v")
                data.records = bytes(build_batch([record], base_offset=each.fetch_offset))
                given = True
            answered.append(data)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=ID, partitions=answered)])


def _drain(reader: RecordReader) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    while not reader.done:
        found += [(record.partition, record.offset) for record in reader.poll()]
    return found


def test_windows_become_offsets() -> None:
    broker = OneBroker({0: 10, 1: 3})
    broker.starts[0] = 2
    cluster = broker.cluster()
    assert resolve(cluster, [P0, P1], Window(Beginning())) == {P0: Span(2, None), P1: Span(0, None)}
    assert resolve(cluster, [P0, P1], Window(Last(4), End())) == {P0: Span(6, 10), P1: Span(0, 3)}
    assert resolve(cluster, [P0, P1], Window(AtTime(5), AtTime(8))) == {P0: Span(5, 8), P1: Span(3, 3)}


def test_reading_stops_at_each_partitions_stop() -> None:
    broker = OneBroker({0: 5, 1: 3})
    reader = RecordReader(broker.cluster(), {P0: Span(3, 5), P1: Span(0, 2)})
    assert sorted(_drain(reader)) == [(0, 3), (0, 4), (1, 0), (1, 1)]
    assert reader.positions == {P0: 5, P1: 2}
    assert reader.high_watermarks == {P0: 5, P1: 3}


def test_no_partition_starves_behind_a_busy_one() -> None:
    broker = OneBroker({0: 100, 1: 100})
    reader = RecordReader(broker.cluster(), {P0: Span(0, None), P1: Span(0, None)})
    partitions = [reader.poll()[0].partition for _ in range(4)]
    assert partitions == [0, 1, 0, 1]


def test_a_finished_partition_is_not_asked_about_again() -> None:
    broker = OneBroker({0: 1, 1: 3})
    _drain(RecordReader(broker.cluster(), {P0: Span(0, 1), P1: Span(0, 3)}))
    assert broker.fetches[-1] == [1]


def test_retention_that_overtakes_the_reader_is_counted_and_skipped() -> None:
    broker = OneBroker({0: 10})
    reader = RecordReader(broker.cluster(), {P0: Span(0, 10)})
    reader.poll()
    broker.starts[0] = 8
    assert _drain(reader) == [(0, 8), (0, 9)]
    assert reader.skipped == 7


def test_an_offset_past_the_end_is_an_error_that_names_the_range() -> None:
    reader = RecordReader(OneBroker({0: 10}).cluster(), {P0: Span(50, None)})
    with pytest.raises(KafkaError, match="t-0 has no offset 50; it goes from 0 to 10"):
        reader.poll()


def test_a_leader_that_moves_is_waited_for() -> None:
    broker = OneBroker({0: 2})
    broker.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    reader = RecordReader(broker.cluster(), {P0: Span(0, 2)})
    assert _drain(reader) == [(0, 0), (0, 1)]
    assert broker.now == pytest.approx(0.3)


def test_an_error_that_cannot_get_better_is_raised_at_once() -> None:
    broker = OneBroker({0: 2})
    broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED: t-0"):
        RecordReader(broker.cluster(), {P0: Span(0, 2)}).poll()
    assert broker.now == 0


def test_a_broker_that_stays_away_is_given_up_after_the_api_timeout() -> None:
    broker = OneBroker({0: 2})
    reader = RecordReader(broker.cluster(), {P0: Span(0, 2)})
    reader.poll()
    broker.down = True
    with pytest.raises(ConnectionFailed):
        _drain(reader)
    assert 55 < broker.now <= 60
    broker.down = False
    assert _drain(reader) == [(0, 1)]
