"""A stretch: records and columns of it, where the reader goes on, and offsets that hold nothing."""

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.client.consumer.stretch import Stretch
from headwater.records.builder import build_batch
from headwater.records.codec import ColumnBuilder
from headwater.records.record import Record

P0 = TopicPartition("orders", 0)


def batch(base: int, offsets: list[int], last: int | None = None, **more: int) -> bytes:
    records = [Record(offset, 0, None, b"%d" % offset) for offset in offsets]
    delta = None if last is None else last - base
    return bytes(build_batch(records, base_offset=base, last_offset_delta=delta, **more))


def all_of(stretch: Stretch, limit: int = 100) -> list[int]:
    taken: list[int] = []
    while records := stretch.peek(limit):
        taken += [record.offset for record in records]
        stretch.advance(len(records))
    return taken


def test_the_position_is_past_the_last_record_and_at_the_end_of_a_batch_past_its_holes() -> None:
    data = batch(0, [0, 2], 5, partition_leader_epoch=3) + batch(6, [7], 9, partition_leader_epoch=4)
    stretch = Stretch(P0, data, 0, None)
    assert (stretch.end_offset, stretch.end_epoch) == (10, 4)
    assert [record.offset for record in stretch.peek(1)] == [0]
    stretch.advance(1)
    assert (stretch.position, stretch.epoch) == (1, 3)
    assert [record.offset for record in stretch.peek(5)] == [2]
    stretch.advance(1)
    assert stretch.position == 6
    assert all_of(stretch) == [7]
    assert (stretch.position, stretch.epoch) == (10, 4)


def test_records_before_the_position_are_left_out() -> None:
    assert all_of(Stretch(P0, batch(0, [0, 1, 2, 3]), 2, None)) == [2, 3]


def test_peek_gives_the_same_until_they_are_taken() -> None:
    stretch = Stretch(P0, batch(0, [0, 1, 2]), 0, None)
    assert stretch.peek(2) == stretch.peek(2)
    stretch.advance(0)
    assert [record.offset for record in stretch.peek(9)] == [0, 1, 2]


def test_a_batch_that_is_cut_off_comes_with_the_next_fetch() -> None:
    data = batch(0, [0]) + batch(1, [1])
    stretch = Stretch(P0, data[:-3], 0, None)
    assert stretch.end_offset == 1
    assert all_of(stretch) == [0]
    assert stretch.position == 1


def test_an_empty_stretch_moves_nothing() -> None:
    stretch = Stretch(P0, b"", 5, None)
    assert (stretch.end_offset, stretch.end_epoch, all_of(stretch), stretch.position) == (5, -1, [], 5)


@pytest.mark.parametrize(("stop", "expected"), [(3, [0, 1, 2]), (5, [0, 1, 2, 3]), (9, [0, 1, 2, 3, 8]), (1, [0])])
def test_nothing_from_the_stop_on_is_given_and_the_end_is_exact(stop: int, expected: list[int]) -> None:
    data = batch(0, [0, 1, 2, 3]) + batch(8, [8, 9])  # 4 to 7 are gone with compaction
    stretch = Stretch(P0, data, 0, None, stop)
    assert all_of(stretch) == expected
    assert stretch.position == stop


def test_columns_are_limited_and_go_on_in_the_middle_of_a_batch() -> None:
    stretch = Stretch(P0, batch(0, [0, 1, 4, 5], 6) + batch(7, [7]), 0, None)
    builder = ColumnBuilder(True)
    assert stretch.append_to(builder, 3) == 2  # offsets 0, 1 and 2: never more than asked for
    assert stretch.position == 3
    assert stretch.append_to(builder, 100) == 2
    assert stretch.position == 7
    assert stretch.append_to(builder, 100) == 1
    assert stretch.append_to(builder, 100) == 0
    assert (stretch.position, builder.row_count) == (8, 5)


def test_records_and_columns_can_be_mixed() -> None:
    stretch = Stretch(P0, batch(0, [0, 1, 2, 3]), 0, None)
    stretch.advance(len(stretch.peek(1)))
    builder = ColumnBuilder(True)
    assert stretch.append_to(builder, 2) == 2
    assert [record.offset for record in stretch.peek(9)] == [3]


def test_a_damaged_batch_stays_in_front_until_it_is_skipped() -> None:
    bad = bytearray(batch(2, [2, 3]))
    bad[-1] ^= 1
    stretch = Stretch(P0, batch(0, [0, 1]) + bytes(bad) + batch(4, [4]), 0, None)
    stretch.advance(len(stretch.peek(9)))
    for _ in range(2):
        with pytest.raises(RecordDeserializationError) as raised:
            stretch.peek(9)
    with pytest.raises(RecordDeserializationError):
        stretch.append_to(ColumnBuilder(True), 9)
    assert (raised.value.offset, raised.value.next_offset, stretch.position) == (2, 4, 2)
    stretch.skip_batch()
    assert all_of(stretch) == [4]
