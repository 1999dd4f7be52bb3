"""Batches against themselves, against damage, and against the readers and builders of kafka-python and aiokafka."""

import aiokafka.record.default_records as aio
import kafka.record.default_records as kp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.batch import ATTRIBUTES_AT, CRC_AT, MAGIC_AT, crc_of, read_header
from headwater.records.builder import build_batch
from headwater.records.compression import CODEC_IDS
from headwater.records.reader import Record, read_batches, read_records

LIMIT = 1 << 22
CODECS = list(CODEC_IDS.values())
MAYBE_BYTES = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=4).map(tuple)
TIMESTAMPS = st.integers(0, 1 << 45) | st.sampled_from([0, 1, 1_700_000_000_000])


@st.composite
def record_lists(draw, min_base=0, max_base=2**62):
    base = draw(st.integers(min_base, max_base))
    count = draw(st.integers(1, 12))
    gaps = draw(st.lists(st.integers(1, 300), min_size=count - 1, max_size=count - 1))
    offsets = [base]
    for gap in gaps:
        offsets.append(offsets[-1] + gap)
    return [Record(offset, draw(TIMESTAMPS), draw(MAYBE_BYTES), draw(MAYBE_BYTES), draw(HEADERS)) for offset in offsets]


def records_or_code(batch):
    try:
        return read_records(batch, LIMIT)
    except KafkaError as error:
        return error.code


@given(records=record_lists(), codec=st.sampled_from(CODECS), epoch=st.integers(-1, 2**31 - 1))
def test_what_went_in_comes_out(records, codec, epoch):
    batch = build_batch(records, base_offset=records[0].offset, codec=codec, partition_leader_epoch=epoch)
    assert read_records(memoryview(batch), LIMIT) == records
    ((at, header),) = read_batches(batch)
    assert (at, header.size_bytes, header.partition_leader_epoch) == (0, len(batch), epoch)
    assert header.last_offset == records[-1].offset
    assert header.max_timestamp == max(record.timestamp for record in records)


@given(base=st.integers(-(2**63), 2**63 - 1), other=st.integers(-(2**63), 2**63 - 1))
def test_any_two_timestamps_that_are_not_too_far_apart(base, other):
    records = [Record(0, base, None, None), Record(1, other, None, None)]
    if -(2**63) <= other - base < 2**63:
        assert read_records(build_batch(records), LIMIT) == records


@settings(max_examples=60)
@given(records=record_lists(max_base=1000), codec=st.sampled_from(CODECS), data=st.data())
def test_any_single_byte_of_damage_is_caught_or_harmless(records, codec, data):
    batch = build_batch(records, base_offset=records[0].offset, codec=codec)
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] ^= data.draw(st.integers(1, 255))
    found = records_or_code(batch)
    if isinstance(found, ErrorCode):
        in_magic = {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT} if at == MAGIC_AT else set()
        assert found in {ErrorCode.CORRUPT_MESSAGE} | in_magic
        return
    # Base offset and leader epoch stand outside the CRC, because the leader assigns them: nothing else gets through.
    assert at < ATTRIBUTES_AT
    assert [record[1:] for record in found] == [record[1:] for record in records]


@settings(max_examples=20)
@given(records=record_lists(), codec=st.sampled_from(CODECS))
def test_every_truncation_fails_cleanly(records, codec):
    batch = bytes(build_batch(records, base_offset=records[0].offset, codec=codec))
    for end in range(len(batch)):
        with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
            read_records(batch[:end], LIMIT)
        if end:
            with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
                list(read_batches(batch[:end]))


@given(payload=st.binary(max_size=300), codec=st.sampled_from(CODECS), count=st.integers(0, 40))
def test_any_payload_under_a_right_crc_gives_records_or_a_kafka_error(payload, codec, count):
    batch = build_batch([], codec=codec, last_offset_delta=100)
    batch[61:] = payload
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[57:61] = count.to_bytes(4, "big")
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    found = records_or_code(batch)
    if isinstance(found, ErrorCode):
        assert found in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
    else:
        assert len(found) == count


def contiguous(records):
    return [record._replace(offset=index) for index, record in enumerate(records)]


@settings(max_examples=60)
@given(records=record_lists(), codec=st.sampled_from(CODECS))
def test_kafka_python_and_aiokafka_read_what_we_build(records, codec):
    batch = bytes(build_batch(records, base_offset=records[0].offset, codec=codec))
    for library in (kp, aio):
        theirs = library.DefaultRecordBatch(bytearray(batch))
        assert theirs.validate_crc()
        assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == records


@settings(max_examples=60)
@given(records=record_lists().map(contiguous), codec=st.sampled_from(CODECS), producer=st.integers(-1, 2**40))
def test_we_read_what_kafka_python_and_aiokafka_build(records, codec, producer):
    for library in (kp, aio):
        builder = library.DefaultRecordBatchBuilder(
            magic=2,
            compression_type=codec,
            is_transactional=0,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            batch_size=1 << 20,
        )
        for offset, timestamp, key, value, headers in records:
            assert builder.append(offset, timestamp, key, value, list(headers)) is not None
        theirs = bytes(builder.build())
        assert read_records(theirs, LIMIT) == records
        header = read_header(theirs)
        assert (header.producer_id, header.last_offset_delta) == (producer, len(records) - 1)
        if header.codec == 0:  # compressed bytes depend on the library; these do not
            ours = build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=0)
            # The leader epoch is the broker's to fill in: the builders write different placeholders.
            assert ours[:12] + ours[16:] == theirs[:12] + theirs[16:]
