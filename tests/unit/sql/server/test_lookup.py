"""Conditions on the key and on the start of windows find their rows in an index, and leave out none."""

import asyncio
import random
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.ids import TopicPartition
from headwater.sql.language import tree
from headwater.sql.plan.session import Session
from headwater.sql.server import pull
from headwater.sql.server.key_index import Range, SortedIndex
from headwater.sql.server.lookup import Lookup, key_of, lookup_of
from headwater.sql.server.views import TableView
from headwater.streams.model.windows import Windowed

_TABLES = """
CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');
CREATE TABLE s (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE d (k DECIMAL(9, 2) PRIMARY KEY, v INT) WITH (kafka_topic='d', format='JSON');
CREATE TABLE f (k DOUBLE PRIMARY KEY, v INT) WITH (kafka_topic='f', value_format='JSON');
CREATE TABLE two (k INT PRIMARY KEY, l INT PRIMARY KEY, v INT) WITH (kafka_topic='u', format='JSON');
CREATE TABLE w (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='w', value_format='JSON', window_type='TUMBLING', window_size='10 SECONDS');
"""


def _session() -> Session:
    session = Session()
    session.run(_TABLES)
    return session


def _lookup(table: str, where: str) -> Lookup:
    session = _session()
    (statement,) = session.parse(f"SELECT * FROM {table} WHERE {where};")
    assert isinstance(statement, tree.Select)
    return lookup_of(statement.query.where, session.catalog.find(table.upper()))


@pytest.mark.parametrize(
    ("table", "where", "found"),
    [
        ("t", "k = 3", Lookup(keys=(key_of([3]),))),
        ("t", "k = 10 + 1", Lookup(keys=(key_of([11]),))),
        ("t", "k IN (2 * -3, 9 % 5)", Lookup(keys=(key_of([-6]), key_of([4])))),
        ("t", "k = 1 + v", Lookup()),
        ("t", "k = 1 + LEN('ab')", Lookup()),
        ("t", "k = 1 / 0", Lookup()),
        ("t", "k = 1 + 1.5", Lookup()),
        ("t", "k > 3", Lookup(key_range=Range(3, False))),
        ("t", "3 >= k AND v = 1", Lookup(key_range=Range(high=3))),
        ("t", "k >= -2 AND k < 7", Lookup(key_range=Range(-2, True, 7, False))),
        ("t", "k > 1 AND k >= 1 AND k < 9 AND k <= 9", Lookup(key_range=Range(1, False, 9, False))),
        ("t", "k BETWEEN 2 AND 5", Lookup(key_range=Range(2, True, 5, True))),
        ("t", "k > 2 OR k < 1", Lookup()),
        ("t", "NOT k > 2", Lookup()),
        ("t", "k NOT BETWEEN 2 AND 5", Lookup()),
        ("t", "k > 2.5", Lookup()),
        ("t", "v > 2", Lookup()),
        ("t", "k > v", Lookup()),
        ("s", "k >= 'b' AND k < 'c'", Lookup(key_range=Range("b", True, "c", False))),
        ("s", "k > 5", Lookup()),
        ("d", "k < 1.50", Lookup(key_range=Range(high=Decimal("1.50"), high_included=False))),
        ("f", "k < 1.5e0", Lookup()),  # NaN has no place in an order
        ("two", "k > 1", Lookup()),
        ("w", "WINDOWSTART >= 10 AND WINDOWSTART < 20", Lookup(starts=Range(10, True, 20, False))),
        ("w", "k = 'a' AND WINDOWSTART > 12500 + 10", Lookup(keys=(key_of(["a"]),), starts=Range(12510, False))),
        ("w", "k = 'a' AND WINDOWSTART > 10", Lookup(keys=(key_of(["a"]),), starts=Range(10, False))),
        ("w", "k > 'a' AND WINDOWSTART = 10", Lookup(key_range=Range("a", False), starts=Range(10, True, 10, True))),
        ("w", "WINDOWSTART > '2020-01-01'", Lookup()),
    ],
)
def test_what_a_condition_says(table: str, where: str, found: Lookup) -> None:
    assert _lookup(table, where) == found


_BOUND = st.none() | st.integers(0, 20)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=600),
    st.builds(Range, _BOUND, st.booleans(), _BOUND, st.booleans()),
    st.integers(0, 600),
)
def test_an_index_finds_what_a_look_at_all_finds(
    changes: list[tuple[int, bool]], wanted: Range, made_after: int
) -> None:
    """Names that come, go and come again, before and after the index is made."""
    there: set[tuple[int]] = set()
    index: SortedIndex[tuple[int]] | None = None
    for place, (number, comes) in enumerate(changes):
        if place == made_after:
            index = SortedIndex(list(there), lambda name: name[0], there.__contains__)
        if not comes:
            there.discard((number,))
        elif (number,) not in there:
            there.add((number,))
            if index is not None:
                index.add((number,))
    if index is None:
        index = SortedIndex(list(there), lambda name: name[0], there.__contains__)
    found = index.between(wanted)
    assert found == sorted(each for each in there if _is_in(each[0], wanted))


def test_an_index_that_nobody_asks_keeps_no_more_than_a_share_beyond_what_is_there() -> None:
    there: set[int] = set()
    index: SortedIndex[int] = SortedIndex((), lambda name: name, there.__contains__)
    for number in range(20_000):  # each key goes when the one after the next hundred comes
        there.add(number)
        there.discard(number - 100)
        index.add(number)
    assert len(index) <= 100 + 257
    assert index.between(Range()) == sorted(there)


def _is_in(number: int, wanted: Range) -> bool:
    above = wanted.low is None or number > wanted.low or (wanted.low_included and number == wanted.low)
    below = wanted.high is None or number < wanted.high or (wanted.high_included and number == wanted.high)
    return above and below


class Record:
    def __init__(self, offset: int) -> None:
        self.timestamp_ms, self.partition, self.offset = offset, 0, offset


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("t", "k > 90 AND k <= 95"),
        ("t", "k < 5 AND v > 500"),
        ("t", "k IN (3, 1, 400)"),
        ("w", "k = 'k7' AND WINDOWSTART BETWEEN 20000 AND 60000"),
        ("w", "WINDOWSTART >= 80000 AND WINDOWSTART < 100000"),
        ("w", "k >= 'k3' AND k < 'k5' AND WINDOWSTART > 50000"),
        ("w", "k = 'nobody'"),
    ],
)
def test_a_look_up_gives_the_rows_that_a_scan_gives(table: str, where: str) -> None:
    session = _session()
    source = session.catalog.find(table.upper())
    view = TableView(source, {}, 100_000)
    dice = random.Random(7)
    (statement,) = session.parse(f"SELECT * FROM {table} WHERE {where};")
    assert isinstance(statement, tree.Select)
    plan = pull.plan(statement.query, source, table.upper())
    for offset in range(3_000):
        value = None if dice.random() < 0.2 else [offset]
        view._take(Record(offset), (_a_key(table, dice), value))
        if offset % 700 == 0:
            _compare(view, plan)
    assert _compare(view, plan) < len(view._rows) / 4


def _a_key(table: str, dice: random.Random) -> Any:
    if table == "t":
        return [dice.randrange(500)]
    start = dice.randrange(20) * 10_000
    return Windowed([f"k{dice.randrange(10)}"], start, start + 10_000)


def _compare(view: TableView, plan: pull.PullPlan) -> int:
    names = view._named(plan.lookup)
    assert names is not None
    looked_at = [view._rows[each] for each in names if each in view._rows]
    assert sorted(plan.answer(looked_at)) == sorted(plan.answer(list(view._rows.values())))
    return len(looked_at)


class Consumer:
    """A consumer of a topic of one partition, which ends at 10; the view has read to 7."""

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0)]

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    async def position(self, _partition: TopicPartition) -> int:
        return 7


def test_an_answer_may_be_so_many_offsets_behind_and_no_more() -> None:
    async def scene() -> None:
        view = TableView(_session().catalog.find("T"), {}, 100)
        view._consumer, view._read = cast("Any", Consumer()), {0: 7}
        view._take(Record(6), ([1], [5]))
        (row,) = await view.rows(lag_max=3)
        assert row[0] == 5
        waits = asyncio.create_task(view.rows(lag_max=2))
        await asyncio.sleep(0.01)
        assert not waits.done()
        view._take(Record(7), ([2], [6]))
        view._read[0] = 8
        view._moved.set()
        assert len(await waits) == 2

    asyncio.run(scene())
