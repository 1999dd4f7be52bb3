"""Bad batches in a fetched stretch: what comes before them is given, they are named, and there is a way past them."""

import pickle

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.batch import CRC_AT, crc_of, read_header
from headwater.records.builder import build_batch
from headwater.records.columns import layout_of
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record
from headwater.records.record import CorruptBatch
from headwater.records.visible import VisibleBatches, visible_records

LIMIT = 1 << 20
LAYOUT = layout_of(Record, timestamp="timestamp")


def batch(first: int, count: int, **options) -> bytes:
    records = [Record(first + at, 1000, None, b"%d" % at) for at in range(count)]
    return bytes(build_batch(records, base_offset=first, **options))


def damaged(data: bytes, at: int = -1) -> bytes:
    broken = bytearray(data)
    broken[at] ^= 0xFF
    return bytes(broken)


def take(batches: VisibleBatches, max_records: int | None = None):
    seen = visible_records(batches, LAYOUT, lambda header: Record(0, 0, None, None), max_records)
    return [record.offset for record in seen.records], seen.next_offset


def test_what_comes_before_a_bad_batch_is_given_first():
    batches = VisibleBatches(batch(0, 3) + damaged(batch(3, 4)) + batch(7, 2), 0, None, LIMIT)
    assert take(batches) == ([0, 1, 2], 3)
    for _ in range(2):  # it does not go away by itself
        with pytest.raises(CorruptBatch, match="CRC") as caught:
            take(batches)
        assert (caught.value.base_offset, caught.value.last_offset, caught.value.next_offset) == (3, 6, 7)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert batches.next_offset == 3
    batches.skip()
    assert take(batches) == ([7, 8], 9)


def test_a_reader_that_goes_on_behind_it_sees_the_rest():
    stretch = damaged(batch(3, 4)) + batch(7, 2)
    assert take(VisibleBatches(stretch, 7, None, LIMIT)) == ([7, 8], 9)


def test_a_record_that_is_damaged_under_a_right_crc():
    bad = bytearray(batch(3, 2))
    bad[61] = 0x55  # the length of the first record
    bad[CRC_AT : CRC_AT + 4] = crc_of(bad).to_bytes(4, "big")
    batches = VisibleBatches(bytes(bad) + batch(5, 1), 4, None, LIMIT)
    with pytest.raises(CorruptBatch) as caught:
        take(batches)
    assert (caught.value.base_offset, caught.value.last_offset) == (3, 4)
    assert batches.next_offset == 4
    batches.skip()
    assert take(batches) == ([5], 6)


def test_a_last_offset_that_is_damaged_itself_does_not_skip_the_batches_behind():
    bad = damaged(batch(3, 4), 24)
    assert read_header(bad).last_offset > 1_000_000
    batches = VisibleBatches(bad + batch(7, 2), 0, None, LIMIT)
    with pytest.raises(CorruptBatch) as caught:
        take(batches)
    assert caught.value.next_offset == 7


def test_a_header_that_makes_no_sense_names_the_position():
    with pytest.raises(CorruptBatch) as caught:
        take(VisibleBatches(damaged(batch(3, 4), 16), 5, None, LIMIT))
    assert (caught.value.base_offset, caught.value.last_offset) == (5, 5)


def test_old_message_sets_are_another_matter():
    old = bytearray(batch(3, 4))
    old[16] = 1
    with pytest.raises(KafkaError) as caught:
        take(VisibleBatches(bytes(old), 3, None, LIMIT))
    assert caught.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_past_the_limit_is_named_too(codec):
    stretch = bytes(build_batch([Record(9, 0, None, bytes(5000))], base_offset=9, codec=codec))
    with pytest.raises(CorruptBatch) as caught:
        take(VisibleBatches(stretch, 9, None, 4000))
    assert (caught.value.code, caught.value.next_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 10)
    assert take(VisibleBatches(stretch, 9, None, 6000)) == ([9], 10)


def test_batches_are_taken_until_there_are_enough_records():
    batches = VisibleBatches(b"".join(batch(3 * at, 3) for at in range(4)), 1, None, LIMIT, stop=8)
    assert take(batches, max_records=3) == ([1, 2, 3, 4, 5], 6)
    assert take(batches, max_records=3) == ([6, 7], 8)
    assert take(batches) == ([], 8)


def test_a_batch_put_back_comes_again():
    batches = VisibleBatches(batch(0, 3) + batch(3, 3), 1, None, LIMIT)
    header, _ = batches.next()
    assert batches.next_offset == 3
    batches.put_back(header)
    assert batches.next_offset == 1
    assert take(batches) == ([1, 2, 3, 4, 5], 6)


def test_a_transaction_goes_on_being_aborted_from_one_take_to_the_next():
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    aborted = {"producer_id": 7, "producer_epoch": 0, "transactional": True}
    stretch = (
        batch(0, 1)
        + batch(1, 2, **aborted)
        + batch(3, 1)
        + batch(4, 1, **aborted)
        + bytes(build_end_transaction_marker(marker, producer_id=7, producer_epoch=0, timestamp=1, base_offset=5))
        + batch(6, 1, **aborted)
    )
    batches = VisibleBatches(stretch, 0, [(7, 1)], LIMIT)
    assert take(batches, max_records=1) == ([0], 1)
    assert take(batches, max_records=1) == ([3], 4)
    assert take(batches, max_records=1) == ([6], 7)
    assert take(VisibleBatches(stretch, 0, None, LIMIT)) == ([0, 1, 2, 3, 4, 6], 7)


def test_a_bad_marker_is_an_error_like_any_other():
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    bad = damaged(build_end_transaction_marker(marker, producer_id=7, producer_epoch=0, timestamp=1, base_offset=5))
    with pytest.raises(CorruptBatch) as caught:
        take(VisibleBatches(bad, 5, [(7, 1)], LIMIT))
    assert (caught.value.base_offset, caught.value.last_offset) == (5, 5)


def test_a_corrupt_batch_survives_pickling():
    error = pickle.loads(pickle.dumps(CorruptBatch(ErrorCode.CORRUPT_MESSAGE, "why", 3, 6)))
    assert (error.code, error.message, error.base_offset, error.next_offset) == (ErrorCode.CORRUPT_MESSAGE, "why", 3, 7)
