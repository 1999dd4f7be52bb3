"""A completed fetch: records and columns of it, where the reader goes on, and offsets that hold nothing."""

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.records.builder import build_batch
from headwater.records.codec import ColumnBuilder
from headwater.records.record import Record

P0 = TopicPartition("orders", 0)


def batch(base: int, offsets: list[int], last: int | None = None, **more: int) -> bytes:
    records = [Record(offset, 0, None, b"%d" % offset) for offset in offsets]
    delta = None if last is None else last - base
    return bytes(build_batch(records, base_offset=base, last_offset_delta=delta, **more))


def all_of(fetch: CompletedFetch, limit: int = 100) -> list[int]:
    taken: list[int] = []
    while records := fetch.peek(limit):
        taken += [record.offset for record in records]
        fetch.advance(len(records))
    return taken


def test_the_position_is_past_the_last_record_and_at_the_end_of_a_batch_past_its_holes() -> None:
    data = batch(0, [0, 2], 5, partition_leader_epoch=3) + batch(6, [7], 9, partition_leader_epoch=4)
    fetch = CompletedFetch(P0, data, 0, None)
    assert (fetch.end_offset, fetch.end_epoch) == (10, 4)
    assert [record.offset for record in fetch.peek(1)] == [0]
    fetch.advance(1)
    assert (fetch.position, fetch.epoch) == (1, 3)
    assert [record.offset for record in fetch.peek(5)] == [2]
    fetch.advance(1)
    assert fetch.position == 6
    assert all_of(fetch) == [7]
    assert (fetch.position, fetch.epoch) == (10, 4)


def test_records_before_the_position_are_left_out() -> None:
    assert all_of(CompletedFetch(P0, batch(0, [0, 1, 2, 3]), 2, None)) == [2, 3]


def test_peek_gives_the_same_until_they_are_taken() -> None:
    fetch = CompletedFetch(P0, batch(0, [0, 1, 2]), 0, None)
    assert fetch.peek(2) == fetch.peek(2)
    fetch.advance(0)
    assert [record.offset for record in fetch.peek(9)] == [0, 1, 2]


def test_a_batch_that_is_cut_off_comes_with_the_next_fetch() -> None:
    data = batch(0, [0]) + batch(1, [1])
    fetch = CompletedFetch(P0, data[:-3], 0, None)
    assert fetch.end_offset == 1
    assert all_of(fetch) == [0]
    assert fetch.position == 1


def test_an_empty_fetch_moves_nothing() -> None:
    fetch = CompletedFetch(P0, b"", 5, None)
    assert (fetch.end_offset, fetch.end_epoch, all_of(fetch), fetch.position) == (5, -1, [], 5)


@pytest.mark.parametrize(("stop", "expected"), [(3, [0, 1, 2]), (5, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 8]), (1, [0])])
def test_nothing_from_the_stop_on_is_given_and_the_end_is_exact(stop: int, expected: list[int]) -> None:
    data = batch(0, [0, 1, 2, 3]) + batch(8, [8, 9])  # 4 to 7 are gone with compaction
    fetch = CompletedFetch(P0, data, 0, None, stop)
    assert all_of(fetch) == expected
    assert fetch.position == stop


def test_columns_are_limited_and_go_on_in_the_middle_of_a_batch() -> None:
    fetch = CompletedFetch(P0, batch(0, [0, 1, 4, 5], 6) + batch(7, [7]), 0, None)
    builder = ColumnBuilder(True)
    assert fetch.append_to(builder, 3) == 2  # offsets 0, 1 and 2: never more than asked for
    assert fetch.position == 3
    assert fetch.append_to(builder, 100) == 2
    assert fetch.position == 7
    assert fetch.append_to(builder, 100) == 1
    assert fetch.append_to(builder, 100) == 0
    assert (fetch.position, builder.row_count) == (8, 5)


def test_records_and_columns_can_be_mixed() -> None:
    fetch = CompletedFetch(P0, batch(0, [0, 1, 2, 3]), 0, None)
    fetch.advance(len(fetch.peek(1)))
    builder = ColumnBuilder(True)
    assert fetch.append_to(builder, 2) == 2
    assert [record.offset for record in fetch.peek(9)] == [3]


def test_a_damaged_batch_stays_in_front_until_it_is_skipped() -> None:
    bad = bytearray(batch(2, [2, 3]))
    bad[-1] ^= 1
    fetch = CompletedFetch(P0, batch(0, [0, 1]) + bytes(bad) + batch(4, [4]), 0, None)
    fetch.advance(len(fetch.peek(9)))
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as raised:
            fetch.peek(9)
    with pytest.raises(RecordDeserializationError):
        fetch.append_to(ColumnBuilder(True), 9)
    assert (raised.value.offset, raised.value.next_offset, fetch.position) == (2, 4, 2)
    fetch.skip_batch()
    assert all_of(fetch) == [4]
