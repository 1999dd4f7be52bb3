"""A batch is refused as a whole; the answer names the records that are why (KIP-467), so that the others can be told
apart.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.log import validation
from headwater.records.batch import CRC_AT, MAX_TIMESTAMP_AT, crc_of
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

CODECS = {"none": 0, "gzip": 1, "zstd": 4}


def make_topic(lab: Any, **config: str) -> None:
    configs = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in config.items()]
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000))


def produce(lab: Any, records: list[Record], version: int, codec: int = 0) -> PartitionProduceResponse:
    return produce_batch(lab, bytes(build_batch(records, codec=codec)), version)


def produce_batch(lab: Any, batch: bytes, version: int) -> PartitionProduceResponse:
    data = PartitionProduceData(index=0, records=batch)
    topic_id = lab.broker.image.topic("t").topic_id
    topic = TopicProduceData(name="t", topic_id=topic_id, partition_data=[data])
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=1000, topic_data=[topic])
    (part,) = lab.ask(request, version).responses[0].partition_responses
    assert isinstance(part, PartitionProduceResponse)
    return part


def some_without_a_key(lab: Any) -> list[Record]:
    return [Record(n, lab.clock.now_ms(), None if n % 10 == 3 else b"k", b"v") for n in range(100)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", [8, 9, 13])
def test_records_without_a_key_on_a_compacted_topic_are_named_one_by_one(lab: Any, version: int, codec: str) -> None:
    make_topic(lab, cleanup_policy="compact")
    part = produce(lab, some_without_a_key(lab), version, CODECS[codec])
    assert (part.error_code, part.base_offset) == (ErrorCode.INVALID_RECORD, -1)
    assert [each.batch_index for each in part.record_errors] == list(range(3, 100, 10))
    assert {each.batch_index_error_message for each in part.record_errors} == {
        "a record without a key on a compacted topic"
    }
    assert "10 of the batch" in (part.error_message or "")
    assert lab.broker.partition("t", 0).log.log_end_offset == 0


def test_versions_that_cannot_name_records_are_told_the_code(lab: Any) -> None:
    make_topic(lab, cleanup_policy="compact")
    part = produce(lab, some_without_a_key(lab), 7)
    assert (part.error_code, part.record_errors) == (ErrorCode.INVALID_RECORD, [])


def test_records_with_a_time_out_of_range_are_named(lab: Any) -> None:
    make_topic(lab, message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    now_ms = lab.clock.now_ms()
    records = [Record(n, now_ms - 5000 * (n == 2) + 5000 * (n == 4), b"k", b"v") for n in range(6)]
    part = produce(lab, records, 13)
    assert part.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [each.batch_index for each in part.record_errors] == [2, 4]


def test_an_answer_names_so_many_and_no_more(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "RECORD_ERRORS_MAX", 4)
    make_topic(lab, cleanup_policy="compact")
    part = produce(lab, some_without_a_key(lab), 13)
    assert [each.batch_index for each in part.record_errors] == [3, 13, 23, 33]
    assert "(4 or more of the batch" in (part.error_message or "")


class Opened:
    """Every batch that is opened, and how large it may become."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.limits: list[int] = []
        self._read = validation.read_records
        monkeypatch.setattr(validation, "read_records", self.read)

    def read(self, batch: memoryview, limit_bytes: int) -> list[Record]:
        self.limits.append(limit_bytes)
        return self._read(batch, limit_bytes)


def late(lab: Any, count: int, value: bytes = b"") -> list[Record]:
    now_ms = lab.clock.now_ms()
    return [Record(n, now_ms - 5000, b"k", value) for n in range(count)]


@pytest.fixture
def punctual(lab: Any) -> Any:
    make_topic(lab, message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    return lab


def test_a_batch_of_many_records_is_refused_by_its_header_alone(punctual: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """900,000 records in 700 KB of zstd were opened, twice, to name them: the broker stood still for seconds."""
    monkeypatch.setattr(validation, "RECORD_ERRORS_MAX", 9)
    opened = Opened(monkeypatch)
    part = produce(punctual, late(punctual, 10), 13, CODECS["zstd"])
    assert (part.error_code, part.record_errors) == (ErrorCode.INVALID_TIMESTAMP, [])
    assert "is outside [" in (part.error_message or "")
    assert opened.limits == []
    assert len(produce(punctual, late(punctual, 9), 13).record_errors) == 9
    assert opened.limits


def test_a_batch_that_grows_when_it_is_opened_is_refused_without_names(
    punctual: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(monkeypatch)
    part = produce(punctual, late(punctual, 5, bytes(1 << 20)), 13, CODECS["zstd"])
    assert (part.error_code, part.record_errors) == (ErrorCode.INVALID_TIMESTAMP, [])
    assert set(opened.limits) == {validation.NAMED_BATCH_BYTES_MAX}


def test_a_header_with_a_time_that_no_record_has_names_none(punctual: Any) -> None:
    now_ms = punctual.clock.now_ms()
    batch = build_batch([Record(0, now_ms, b"k", b"v")])
    batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = (now_ms + 5000).to_bytes(8, "big")
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    part = produce_batch(punctual, bytes(batch), 13)
    assert (part.error_code, part.record_errors) == (ErrorCode.INVALID_TIMESTAMP, [])
    assert "of the batch" not in (part.error_message or "")
