"""Which records of a fetched stretch a reader sees."""

from headwater.base.ids import TopicPartition
from headwater.client.visible import visible_records
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

P = TopicPartition("t", 0)
LIMIT = 1 << 20


def _batch(first: int, count: int, producer_id: int = -1, transactional: bool = False, codec: int = 0) -> bytes:
    records = [Record(first + at, 1000 + at, None, b"%d" % (first + at)) for at in range(count)]
    return bytes(
        build_batch(records, base_offset=first, producer_id=producer_id, transactional=transactional, codec=codec)
    )


def _marker(offset: int, producer_id: int, committed: bool) -> bytes:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    return bytes(
        build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset)
    )


def _offsets(
    data: bytes, position: int = 0, aborted: list[tuple[int, int]] | None = None, stop: int | None = None
) -> tuple[list[int], int]:
    seen = visible_records(P, data, position, aborted, LIMIT, stop)
    return [record.offset for record in seen.records], seen.next_offset


def test_records_before_the_position_are_dropped() -> None:
    assert _offsets(_batch(0, 5) + _batch(5, 3, codec=4), position=3) == ([3, 4, 5, 6, 7], 8)


def test_a_batch_that_is_cut_off_waits_for_the_next_fetch() -> None:
    data = _batch(0, 2) + _batch(2, 2)
    assert _offsets(data[:-1]) == ([0, 1], 2)


def test_nothing_from_the_stop_on_is_given() -> None:
    data = _batch(0, 5) + _batch(5, 5)
    assert _offsets(data, stop=3) == ([0, 1, 2], 3)
    assert _offsets(data, stop=5) == ([0, 1, 2, 3, 4], 5)


def test_markers_are_never_shown_but_are_moved_past() -> None:
    assert _offsets(_batch(0, 1, 7, True) + _marker(1, 7, True)) == ([0], 2)


def test_read_committed_leaves_out_aborted_transactions_only() -> None:
    data = (
        _batch(0, 2, 7, True)  # aborted
        + _batch(2, 1, 8, True)  # committed
        + _batch(3, 1)
        + _marker(4, 7, False)
        + _batch(5, 1, 7, True)  # the same producer's next transaction, committed
        + _marker(6, 8, True)
        + _marker(7, 7, True)
    )
    assert _offsets(data, aborted=[(7, 0)]) == ([2, 3, 5], 8)
    assert _offsets(data, aborted=None) == ([0, 1, 2, 3, 5], 8)


def test_a_reader_that_starts_inside_an_aborted_transaction_still_leaves_it_out() -> None:
    data = _batch(0, 4, 7, True) + _batch(4, 1, 7, True) + _marker(5, 7, False)
    assert _offsets(data, position=2, aborted=[(7, 0)]) == ([], 6)


def test_a_stretch_that_ends_before_the_position_does_not_take_it_back() -> None:
    assert _offsets(_batch(0, 2), position=5) == ([], 5)
