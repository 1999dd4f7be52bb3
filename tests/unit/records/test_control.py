"""End-of-transaction markers, and control records that are none."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.batch import read_header
from headwater.records.control import (
    EndTransactionMarker,
    build_end_transaction_marker,
    control_type,
    read_end_transaction_marker,
)
from headwater.records.reader import Record, read_records


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_comes_back_as_it_was_built(committed):
    marker = EndTransactionMarker(committed, coordinator_epoch=3)
    batch = build_end_transaction_marker(marker, producer_id=9, producer_epoch=2, timestamp=77, base_offset=5)
    header = read_header(batch)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (True, True, 9, 2)
    (record,) = read_records(batch, 1000)
    assert (record.offset, record.timestamp) == (5, 77)
    assert read_end_transaction_marker(record) == marker


def test_the_bytes_are_kafkas():
    batch = build_end_transaction_marker(EndTransactionMarker(True, 1), producer_id=0, producer_epoch=0, timestamp=0)
    assert batch.endswith(b"\x08\x00\x00\x00\x01" + b"\x0c\x00\x00\x00\x00\x00\x01" + b"\x00")


def test_other_control_records_are_no_markers():
    leader_change = Record(0, 0, b"\x00\x00\x00\x02", b"\x00\x00")
    assert control_type(leader_change) == 2
    assert read_end_transaction_marker(leader_change) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 6),
        (b"\0\0\0", b"\0" * 6),
        (b"\xff\xff\0\1", b"\0" * 6),
        (b"\0\0\0\1", None),
        (b"\0\0\0\1", b"\0" * 5),
        (b"\0\0\0\1", b"\xff" * 6),
    ],
)
def test_damaged_markers_are_corrupt(key, value):
    with pytest.raises(KafkaError) as caught:
        read_end_transaction_marker(Record(0, 0, key, value))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_later_version_may_add_fields():
    record = Record(0, 0, b"\0\0\0\0", b"\0\1\0\0\0\7more")
    assert read_end_transaction_marker(record) == EndTransactionMarker(False, 7)
