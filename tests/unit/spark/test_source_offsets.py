"""Which offsets the next batch takes, and how they are cut into tasks."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.input_partitions import OffsetRange, ranges, split
from headwater.spark.offset_options import LogFacts
from headwater.spark.stream_offsets import (
    advance,
    from_json,
    from_tree,
    lag,
    past_their_end,
    raise_losses,
    share,
    to_tree,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 3))
offsets = st.dictionaries(partitions, st.integers(0, 1 << 62), max_size=8)
sizes = st.dictionaries(partitions, st.integers(0, 1 << 40), max_size=8)
logs = st.dictionaries(
    partitions,
    st.tuples(st.integers(0, 100), st.integers(0, 200)).map(lambda t: LogFacts(t[0], t[0] + t[1])),
    max_size=8,
)
small_offsets = st.dictionaries(partitions, st.integers(0, 400), max_size=8)


def test_the_json_is_that_of_sparks_kafka_source() -> None:
    assert json.dumps(to_tree({B0: 1, A1: 7, A0: 3})) == '{"a": {"0": 3, "1": 7}, "b": {"0": 1}}'


@given(offsets)
def test_offsets_survive_json(given_offsets: dict[TopicPartition, int]) -> None:
    tree = to_tree(given_offsets)
    assert from_tree(tree) == given_offsets
    assert from_json(json.dumps(tree)) == given_offsets


def test_a_batch_goes_to_the_ends_of_the_logs() -> None:
    found = advance({A0: 5, A1: 10}, {A0: LogFacts(0, 9), A1: LogFacts(0, 10)}, max_records=None)
    assert found.end == {A0: 9, A1: 10}
    assert found.losses == []


def test_a_limit_is_shared_by_size() -> None:
    found = advance({A0: 0, A1: 0}, {A0: LogFacts(0, 301), A1: LogFacts(0, 101)}, max_records=42)
    assert found.end == {A0: 31, A1: 11}


def test_a_new_partition_enters_at_its_earliest_and_is_read_in_the_next_batch() -> None:
    facts = {A0: LogFacts(0, 9), A1: LogFacts(3, 8)}
    first = advance({A0: 9}, facts, max_records=None)
    assert first.end == {A0: 9, A1: 3}
    # What lies before the earliest is gone already: the range is there for checkpoints of others, and gives nothing.
    assert ranges({A0: 9}, first.end) == [OffsetRange("a", 1, 0, 3, exact=False)]
    assert advance(first.end, facts, max_records=None).end == {A0: 9, A1: 8}


def test_a_partition_that_is_gone_is_a_loss() -> None:
    found = advance({A0: 5, B0: 7}, {A0: LogFacts(0, 6)}, max_records=None)
    assert found.end == {A0: 6}
    assert found.losses == ["b-0 is gone; it was read up to offset 7"]
    with pytest.raises(UserError, match="failOnDataLoss"):
        raise_losses(found.losses)


def test_a_log_that_was_made_anew_is_read_from_its_beginning() -> None:
    facts = {A0: LogFacts(0, 3)}
    found = advance({A0: 10}, facts, max_records=None)
    assert found.end == {A0: 0}
    assert len(found.losses) == 1
    assert ranges({A0: 10}, found.end) == []
    assert advance(found.end, facts, max_records=None).end == {A0: 3}


def test_a_log_that_was_made_anew_and_is_longer_is_read_from_its_beginning() -> None:
    found = advance({A0: 10}, {A0: LogFacts(2, 30, anew=True)}, max_records=None)
    assert found.end == {A0: 2}
    assert found.losses == ["a-0 was read up to 10: it was made anew"]


def test_what_retention_took_is_a_loss_but_the_batch_goes_on() -> None:
    found = advance({A0: 10}, {A0: LogFacts(15, 30)}, max_records=None)
    assert found.end == {A0: 30}
    assert found.losses == ["a-0 begins at offset 15, after 10: 5 offsets are gone"]


def test_a_query_that_ends_reads_up_to_its_target_only() -> None:
    facts = {A0: LogFacts(0, 50), A1: LogFacts(0, 9), B0: LogFacts(0, 5)}
    target = {A0: 20, A1: 9}  # b came later
    first = advance({A0: 0}, facts, max_records=None, target=target)
    assert first.end == {A0: 20, A1: 0}
    second = advance(first.end, facts, max_records=None, target=target)
    assert second.end == {A0: 20, A1: 9}
    assert advance(second.end, facts, max_records=None, target=target).end == second.end


@given(sizes, st.integers(1, 1 << 41))
def test_shares_are_exact_fair_and_starve_nobody(given_sizes: dict[TopicPartition, int], total: int) -> None:
    parts = share(given_sizes, total)
    waiting = [each for each, size in given_sizes.items() if size]
    assert all(1 <= parts[each] <= given_sizes[each] for each in waiting)
    assert sum(parts.values()) == min(sum(given_sizes.values()), max(total, len(waiting)))
    ordered = sorted(waiting, key=lambda each: given_sizes[each])
    assert all(parts[less] <= parts[more] + 1 for less, more in pairwise(ordered))


@given(small_offsets, logs, st.one_of(st.none(), st.integers(1, 500)))
def test_batches_end_up_at_the_ends_of_the_logs(
    start: dict[TopicPartition, int], facts: dict[TopicPartition, LogFacts], limit: int | None
) -> None:
    """And every record that is there, from the start on, is in exactly one of them."""
    seen: dict[TopicPartition, list[OffsetRange]] = {}
    position = start
    for _ in range(2000):
        end = advance(position, facts, max_records=limit).end
        if end == position:
            break
        for each in ranges(position, end):
            if TopicPartition(each.topic, each.partition) in position:
                seen.setdefault(TopicPartition(each.topic, each.partition), []).append(each)
        position = end
    assert position == {each: fact.latest for each, fact in facts.items()}
    assert lag(position, facts) == 0
    for each, fact in facts.items():
        begin = start.get(each, fact.earliest)
        begin = fact.earliest if begin > fact.latest else begin
        covered = [offset for piece in seen.get(each, []) for offset in range(piece.start, piece.end)]
        assert covered == list(range(begin, fact.latest))


@given(small_offsets, small_offsets, st.one_of(st.none(), st.integers(1, 30)), st.one_of(st.none(), st.integers(1, 50)))
def test_pieces_cover_the_ranges_in_order(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    min_partitions: int | None,
    max_records: int | None,
) -> None:
    whole = ranges(start, end)
    pieces = split(whole, min_partitions, max_records)
    assert pieces == split(ranges(dict(start), dict(end)), min_partitions, max_records)
    covered = [(each.topic, each.partition, offset) for each in pieces for offset in range(each.start, each.end)]
    assert covered == [(each.topic, each.partition, offset) for each in whole for offset in range(each.start, each.end)]
    assert all(each.size > 0 for each in pieces)
    assert len(pieces) >= min(min_partitions or 0, sum(each.size for each in whole))
    assert max_records is None or all(each.size <= max_records for each in pieces)


def test_the_longest_ranges_are_cut_first() -> None:
    whole = [OffsetRange("a", 0, 0, 100), OffsetRange("a", 1, 0, 10)]
    assert [(each.partition, each.size) for each in split(whole, 4, None)] == [(0, 33), (0, 33), (0, 34), (1, 10)]


def test_a_partition_that_only_the_end_knows_is_read_from_wherever_it_begins() -> None:
    assert ranges({}, {A0: 5}) == [OffsetRange("a", 0, 0, 5, exact=False)]


def test_a_batch_that_begins_behind_the_end_of_its_log_is_a_loss() -> None:
    """It gave no rows, for ever, to a job that notes its offsets, when the topic was made anew."""
    assert past_their_end({A0: 5, A1: 5, B0: 5}, {A0: 4, A1: 5}) == ["a-0 is to be read from offset 5, and ends at 4"]
