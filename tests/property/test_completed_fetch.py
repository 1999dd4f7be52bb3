"""However a completed fetch is read (records or columns, few or many at a time), it gives what is visible,
once and in order.
"""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch
from headwater.records.builder import build_batch
from headwater.records.codec import ColumnBuilder
from headwater.records.columns import Columns
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.record import Record

P0 = TopicPartition("orders", 0)


class Log(NamedTuple):
    data: bytes
    visible: list[int]
    end: int
    aborted: list[tuple[int, int]]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Batches with holes in and between them, and transactions of one producer each that ended one way or the other."""
    data, visible, aborted = bytearray(), [], []
    base = draw(st.integers(0, 3))
    for number in range(draw(st.integers(0, 5))):
        base += draw(st.integers(0, 2))
        span = draw(st.integers(1, 6))
        offsets = sorted(draw(st.sets(st.integers(base, base + span - 1))))
        kind = draw(st.sampled_from(["plain", "committed", "aborted"]))
        records = [Record(offset, 5, None, b"%d" % offset) for offset in offsets]
        data += build_batch(
            records,
            base_offset=base,
            last_offset_delta=span - 1,
            codec=draw(st.sampled_from([0, 1, 4])),
            partition_leader_epoch=number,
            producer_id=-1 if kind == "plain" else number,
            producer_epoch=-1 if kind == "plain" else 0,
            base_sequence=-1 if kind == "plain" else 0,
            transactional=kind != "plain",
        )
        if kind == "aborted":
            aborted.append((number, base))
        else:
            visible += offsets
        base += span
        if kind != "plain":
            marker = EndTransactionMarker(committed=kind == "committed", coordinator_epoch=0)
            data += build_end_transaction_marker(
                marker, producer_id=number, producer_epoch=0, timestamp=5, base_offset=base
            )
            base += 1
    return Log(bytes(data), visible, base, aborted)


steps = st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 5)), min_size=1, max_size=12)


@given(logs(), st.integers(0, 12), st.one_of(st.none(), st.integers(0, 40)), steps)
def test_every_visible_record_comes_once_and_in_order(
    log: Log, position: int, stop: int | None, plan: list[tuple[bool, int, int]]
) -> None:
    fetch = CompletedFetch(P0, log.data, position, log.aborted, stop)
    limit = float("inf") if stop is None else stop
    expected = [offset for offset in log.visible if position <= offset < limit]
    taken: list[int] = []
    idle = 0
    turn = 0
    before = fetch.position
    while idle < 2:
        as_records, wanted, kept = plan[turn % len(plan)]
        turn += 1
        if as_records or turn > 200:
            records = fetch.peek(wanted)
            assert len(records) <= wanted
            count = min(kept, len(records)) if turn <= 200 else len(records)
            fetch.advance(count)
            taken += [record.offset for record in records[:count]]
            idle = 0 if records else idle + 1
        else:
            builder = ColumnBuilder(False)
            rows = fetch.append_to(builder, wanted)
            assert rows <= wanted
            columns = Columns._make(builder.finish())
            taken += list(memoryview(columns.offset).cast("B").cast("q")) if rows else []
            idle = 0 if rows else idle + 1
        assert fetch.position >= before
        before = fetch.position
        assert not taken or fetch.position > taken[-1]
    assert taken == expected
    assert fetch.end_offset == (max(position, log.end) if log.data else position)
    if stop is not None and log.end >= stop:
        assert fetch.position == max(position, stop)
    elif log.data:
        assert fetch.position == max(position, log.end)
