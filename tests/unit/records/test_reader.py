"""What the reader refuses, one case each; what it gives back is in tests/property/test_records.py."""

import struct

import crc32c
import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC_AT,
    crc_of,
    read_header,
)
from headwater.records.builder import build_batch
from headwater.records.compression import compress
from headwater.records.reader import RECORD_BYTES, Record, check_crc, read_batches, read_records

LIMIT = 1 << 20
RECORDS = [Record(7, 1000, b"key", b"value", (("a", b"1"),)), Record(8, 900, None, None)]
BATCH = bytes(build_batch(RECORDS, base_offset=7))
RECORD_COUNT_AT = 57


def with_payload(payload: bytes, count: int = 1, last_offset_delta: int = 0, attributes: int = 0) -> bytes:
    """A batch with a right CRC around any payload."""
    tail = struct.pack(">hiqqqhii", attributes, last_offset_delta, 1000, 1000, -1, -1, -1, count) + payload
    return struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail


def patched(at: int, field: bytes) -> bytes:
    batch = bytearray(BATCH)
    batch[at : at + len(field)] = field
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")
    return bytes(batch)


def code_of(batch: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        read_records(batch, LIMIT)
    return caught.value.code


def test_records_of_a_batch():
    assert read_records(BATCH, LIMIT) == RECORDS


def test_headers_of_batches_in_a_row():
    positions = [(at, header.base_offset) for at, header in read_batches(BATCH + BATCH)]
    assert positions == [(0, 7), (len(BATCH), 7)]


def test_a_fetch_response_may_end_in_the_middle_of_a_batch():
    for end in range(len(BATCH)):
        assert len(list(read_batches(BATCH + BATCH[:end], partial_tail=True))) == 1
    with pytest.raises(KafkaError, match="cut off"):
        list(read_batches(BATCH + BATCH[:30]))


@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_of_before_2017_are_named(magic):
    message = struct.pack(">qiIbb", 0, 14, 0, magic, 0) + struct.pack(">ii", -1, -1)
    for read in (lambda: list(read_batches(message)), lambda: read_records(message, LIMIT)):
        with pytest.raises(KafkaError) as caught:
            read()
        assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_a_magic_that_never_was_is_corrupt():
    assert code_of(patched(MAGIC_AT, b"\x03")) == ErrorCode.CORRUPT_MESSAGE
    assert code_of(patched(MAGIC_AT, b"\xff")) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("at", "field"),
    [
        (0, b"\xff" * 8),  # base offset -1
        (8, struct.pack(">i", HEADER_BYTES - LENGTH_PREFIX_BYTES - 1)),
        (8, struct.pack(">i", -1)),
        (23, struct.pack(">i", -1)),  # last offset delta
        (23, struct.pack(">i", 0)),  # less than the last record's
        (RECORD_COUNT_AT, struct.pack(">i", -1)),
        (RECORD_COUNT_AT, struct.pack(">i", 1)),
        (RECORD_COUNT_AT, struct.pack(">i", 3)),
        (RECORD_COUNT_AT, struct.pack(">i", 2**31 - 1)),
    ],
)
def test_header_fields_that_cannot_be_are_corrupt(at, field):
    assert code_of(patched(at, field)) == ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_crc_says_where():
    batch = bytearray(BATCH)
    batch[-1] ^= 1
    with pytest.raises(KafkaError, match="offset 7"):
        check_crc(batch, read_header(batch))
    assert code_of(bytes(batch)) == ErrorCode.CORRUPT_MESSAGE


def test_a_codec_that_never_was():
    assert code_of(patched(ATTRIBUTES_AT, b"\x00\x06")) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


GOOD = b"\x00\x00\x00\x01\x01\x00"  # attributes, two deltas of 0, no key, no value, no headers


@pytest.mark.parametrize(
    "payload",
    [
        b"\x0c" + GOOD + b"\x00",  # a byte after the record
        b"\x0e" + GOOD + b"\x00",  # a byte inside, after the headers
        b"\x0a" + GOOD,  # a length too small
        b"\x0b" + GOOD,  # a negative length
        b"\xff" * 10 + b"\x01" + GOOD,  # a length of eleven bytes
        b"\x0c\x00\x00\x00\x03\x01\x00",  # key length -2
        b"\x0c\x00\x00\x00\x50\x01\x00",  # a key past the end
        b"\x0c\x00\x00\x00\x01\x50\x00",  # a value past the end
        b"\x0c\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x0c\x00\x00\x00\x01\x01\x7e",  # 63 headers in no bytes
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x01",  # a header whose key is null
        b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01",  # a header whose key is no UTF-8
        b"\x0c\x00\x00\x01\x01\x01\x00",  # offset delta -1
        b"\x0c\x00\x00\x02\x01\x01\x00",  # offset delta past the batch's last
        b"\x1e\x00" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x00\x01\x01\x00",  # a timestamp past int64
    ],
)
def test_records_that_cannot_be_are_corrupt(payload):
    assert code_of(with_payload(payload)) == ErrorCode.CORRUPT_MESSAGE


def test_the_cases_above_differ_from_a_good_record_in_one_thing():
    assert read_records(with_payload(b"\x0c" + GOOD), LIMIT) == [Record(0, 1000, None, None)]


def test_log_append_time_is_the_time_of_every_record():
    batch = build_batch(RECORDS, base_offset=7, log_append_time_ms=5000)
    assert [record.timestamp for record in read_records(batch, LIMIT)] == [5000, 5000]
    assert read_header(batch).is_log_append_time


def test_a_batch_emptied_by_compaction_is_fine():
    batch = build_batch([], base_offset=40, last_offset_delta=9)
    assert read_records(batch, LIMIT) == []
    assert read_header(batch).last_offset == 49


def tiny(count: int, codec: int) -> bytes:
    """As many records without anything in them, all with the same offset: some bytes of zstd hold a million of them."""
    return with_payload(bytes(compress(codec, b"\x0c\x00\x00\x00\x01\x01\x00" * count)), count, count - 1, codec)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_bomb_of_many_tiny_records_is_too_large(codec):
    """13 KB were 16 million records, and two gigabytes as objects."""
    fits = LIMIT // RECORD_BYTES
    assert len(read_records(tiny(fits, codec), LIMIT)) == fits
    assert code_of(tiny(fits + 1, codec)) == ErrorCode.MESSAGE_TOO_LARGE
