"""What may be cleaned, what is worth it, what stays of a batch: the decisions, one by one."""

from typing import Any

import pytest

from headwater.log.compaction.decisions import (
    Dirtiness,
    SegmentFacts,
    cleanable_count,
    dirtiness,
    first_dirty_offset,
    grouped,
    is_due,
)
from headwater.log.compaction.filtering import BatchFilter, delete_horizon_ms
from headwater.log.compaction.offset_map import KEY_OVERHEAD_BYTES, OffsetMap
from headwater.log.compaction.transaction_walk import TransactionWalk
from headwater.log.transaction_index import AbortedTransaction
from headwater.records.batch import read_header
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_records

NOW_MS = 100_000
RETENTION_MS = 1000
GIGABYTES = 1 << 31


def segments(*sizes: int, each: int = 10) -> list[SegmentFacts]:
    return [SegmentFacts(at * each, (at + 1) * each, size) for at, size in enumerate(sizes)]


@pytest.mark.parametrize(("checkpoint", "expected"), [(None, 5), (3, 5), (5, 5), (7, 7), (20, 20), (21, 5)], ids=str)
def test_the_first_dirty_offset(checkpoint: int | None, expected: int) -> None:
    assert first_dirty_offset(checkpoint, 5, 20) == expected


@pytest.mark.parametrize(
    ("limit_offset", "lag_ms", "expected"),
    [(40, 0, 4), (39, 0, 3), (9, 0, 0), (40, 150, 3), (40, 350, 1), (40, 9999, 1)],
)
def test_what_may_be_cleaned(limit_offset: int, lag_ms: int, expected: int) -> None:
    """The first is clean already, so its age does not matter; the others are 300, 200 and 100 ms old."""
    aged = list(zip(segments(1, 1, 1, 1), [NOW_MS - age for age in (0, 300, 200, 100)], strict=True))
    assert cleanable_count(aged, limit_offset, 10, NOW_MS, lag_ms) == expected


def test_dirtiness_counts_a_segment_that_is_clean_in_part_as_dirty() -> None:
    state = dirtiness(segments(100, 200, 300), 15)
    assert (state.clean_bytes, state.dirty_bytes, state.end_offset) == (100, 500, 30)
    assert dirtiness([], 15).ratio == 0


@pytest.mark.parametrize(
    ("dirty_bytes", "oldest_ms", "expected"),
    [(51, None, True), (50, None, False), (50, NOW_MS - 501, True), (50, NOW_MS - 500, False), (0, 0, False)],
)
def test_what_is_due(dirty_bytes: int, oldest_ms: int | None, expected: bool) -> None:
    state = Dirtiness(0, 10, 100 - dirty_bytes, dirty_bytes, oldest_ms)
    assert is_due(state, 0.5, 500, NOW_MS) is expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((40, 40, 40), [2, 1]),
        ((100, 1), [1, 1]),
        ((200, 50, 50, 1), [1, 2, 1]),
        ((0, 0, 0), [3]),
    ],
)
def test_neighbours_that_fit_together_become_one(sizes: tuple[int, ...], expected: list[int]) -> None:
    assert [len(group) for group in grouped(segments(*sizes), 100, 100)] == expected


def test_groups_respect_the_indexes_and_the_range_of_offsets() -> None:
    full = [facts._replace(offset_index_bytes=60) for facts in segments(1, 1)]
    assert len(grouped(full, 100, 100)) == 2
    full = [facts._replace(time_index_bytes=60) for facts in segments(1, 1)]
    assert len(grouped(full, 100, 100)) == 2
    assert len(grouped(segments(1, 1, each=GIGABYTES // 2), 100, 100)) == 1
    assert len(grouped(segments(1, 1, each=GIGABYTES // 2 + 1), 100, 100)) == 2


def test_the_map_counts_keys_once_and_is_full_at_its_limit() -> None:
    offset_map = OffsetMap(2 * (KEY_OVERHEAD_BYTES + 1), 0)
    offset_map.add([Record(0, 0, b"a", b""), Record(1, 0, b"a", b""), Record(2, 0, None, b"")])
    assert not offset_map.is_full
    offset_map.add([Record(3, 0, b"b", None)])
    assert offset_map.is_full
    assert offset_map.offsets == {b"a": 1, b"b": 3}


# What stays of a batch


def filter_of(latest: dict[bytes, int], now_ms: int = NOW_MS, **fields: Any) -> BatchFilter:
    offset_map = OffsetMap(1 << 20, 0)
    offset_map.offsets = latest
    offset_map.end_offset = fields.pop("map_end", 1000)
    walk = TransactionWalk(fields.pop("aborted", ()))
    return BatchFilter(
        offset_map,
        walk,
        fields.pop("producers", {}),
        fields.pop("epoch_starts", frozenset()),
        fields.pop("end_offset", 1000),
        now_ms,
        RETENTION_MS,
    )


def batch_of(*values: tuple[bytes, bytes | None], **fields: Any) -> bytes:
    records = [Record(10 + at, 50 + at, key, value, (("h", b"x"),)) for at, (key, value) in enumerate(values)]
    return bytes(build_batch(records, base_offset=10, partition_leader_epoch=4, **fields))


def marker(committed: bool, offset: int = 20) -> bytes:
    end = EndTransactionMarker(committed, 0)
    return bytes(build_end_transaction_marker(end, producer_id=7, producer_epoch=1, timestamp=60, base_offset=offset))


def apply(batches: BatchFilter, batch: bytes) -> bytes | None:
    kept = batches.apply(read_header(batch), batch)
    return None if kept is None else bytes(kept)


def test_the_first_batch_of_a_leader_epoch_stays_without_records() -> None:
    batches = filter_of({b"a": 900}, epoch_starts=frozenset({10}))
    kept = apply(batches, batch_of((b"a", b"1"), (b"a", b"2")))
    assert kept is not None
    header = read_header(kept)
    assert (header.base_offset, header.last_offset, header.partition_leader_epoch) == (10, 11, 4)
    assert header.record_count == 0
    assert apply(batches, kept) == kept
    assert apply(filter_of({b"a": 900}, epoch_starts=frozenset({11})), kept) is None


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_keeps_its_offsets_and_its_codec(codec: int) -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), codec=codec, producer_id=7, producer_epoch=1, base_sequence=5)  # fmt: skip
    kept = apply(filter_of({b"a": 12, b"b": 11, b"c": 99}), batch)
    assert kept is not None
    before, after = read_header(batch), read_header(kept)
    records = read_records(kept, 1 << 20)
    assert [(record.offset, record.timestamp, record.value) for record in records] == [(11, 51, b"2"), (12, 52, b"3")]
    assert records[0].headers == (("h", b"x"),)
    assert (after.base_offset, after.last_offset, after.codec) == (before.base_offset, before.last_offset, codec)
    assert after[9:12] == before[9:12] == (7, 1, 5)
    assert after.partition_leader_epoch == 4
    assert (after.base_timestamp, after.max_timestamp) == (50, 52)


def test_a_batch_of_which_all_stays_is_not_touched() -> None:
    batch = batch_of((b"a", b"1"), (b"b", b"2"))
    assert apply(filter_of({b"a": 10}), batch) == batch


def test_a_batch_of_which_nothing_stays_goes() -> None:
    assert apply(filter_of({b"a": 99}), batch_of((b"a", b"1"))) is None


@pytest.mark.parametrize(
    "fields",
    [{"producers": {7: (10, 1)}}, {"end_offset": 11}],
    ids=["the last of its producer", "the last of the round"],
)
def test_an_empty_batch_stays_where_it_says_something(fields: dict[str, Any]) -> None:
    batch = batch_of((b"a", b"1"), codec=1, producer_id=7, producer_epoch=1, base_sequence=5)
    kept = apply(filter_of({b"a": 99}, **fields), batch)
    assert kept is not None
    header = read_header(kept)
    assert (header.record_count, header.codec, header.last_offset) == (0, 0, 10)
    assert header[9:12] == (7, 1, 5)
    assert apply(filter_of({b"a": 99}, **fields), kept) == kept
    assert apply(filter_of({b"a": 99}), kept) is None


def test_a_tombstone_stays_until_its_horizon() -> None:
    first = apply(filter_of({b"a": 11}), batch_of((b"a", b"1"), (b"a", None), (b"b", b"2")))
    assert first is not None
    assert delete_horizon_ms(read_header(first)) == NOW_MS + RETENTION_MS
    assert [(record.timestamp, record.value) for record in read_records(first, 1 << 20)] == [(51, None), (52, b"2")]
    assert apply(filter_of({}, NOW_MS + RETENTION_MS - 1), first) == first
    second = apply(filter_of({}, NOW_MS + RETENTION_MS), first)
    assert second is not None
    assert [(record.timestamp, record.value) for record in read_records(second, 1 << 20)] == [(52, b"2")]


def test_what_lies_past_the_map_waits_for_the_next_round() -> None:
    batch = batch_of((b"a", b"1"), (b"a", None))
    assert apply(filter_of({b"a": 11}, map_end=10), batch) == batch


def test_a_marker_stays_while_something_of_its_transaction_does() -> None:
    batches = filter_of({}, NOW_MS)
    data = batch_of((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    assert apply(batches, data) == data
    assert apply(batches, marker(True)) == marker(True)


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_without_a_transaction_goes_at_its_horizon(committed: bool) -> None:
    first = apply(filter_of({}), marker(committed))
    assert first is not None
    assert delete_horizon_ms(read_header(first)) == NOW_MS + RETENTION_MS
    assert read_records(first, 1 << 20) == read_records(marker(committed), 1 << 20)
    assert apply(filter_of({}, NOW_MS + RETENTION_MS - 1), first) == first
    assert apply(filter_of({}, NOW_MS + RETENTION_MS), first) is None


def test_aborted_records_go_and_their_marker_stays_for_once() -> None:
    entry = AbortedTransaction(7, 10, 20, 21)
    data = batch_of((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    batches = filter_of({}, aborted=[entry])
    assert apply(batches, data) is None
    assert apply(batches, marker(False)) == marker(False)
    assert batches.transactions.take_index() == [entry]
    again = filter_of({}, aborted=[entry])
    assert apply(again, marker(False)) != marker(False), "it has a horizon now"
    assert again.transactions.take_index() == []


def test_records_of_a_producer_after_its_aborted_transaction_are_its_own() -> None:
    batches = filter_of({}, aborted=[AbortedTransaction(7, 2, 9, 10)])
    assert batches.apply(read_header(marker(False, 9)), marker(False, 9)) is not None
    data = batch_of((b"a", b"1"), producer_id=7, producer_epoch=1, base_sequence=0, transactional=True)
    assert apply(batches, data) == data
