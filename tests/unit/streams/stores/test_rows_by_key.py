"""The rows of a join's side by key: what a run of a lane has added, and takes back when it fails."""

from typing import Any

import pytest

from headwater.streams.engine.lane.code import Code
from headwater.streams.stores.build import build_store
from headwater.streams.stores.formats import window_key
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.rows_by_key import Row, RowsByKey
from headwater.streams.stores.segments import Segments
from headwater.streams.stores.spec import StoreKind, StoreSpec

OLD = [(start, start, b"old") for start in range(10)]


def _rows_by_key() -> RowsByKey:
    state = MemoryState()
    rows = RowsByKey(Segments(state, "side", 100_000, 60_000), state)
    assert rows.complete
    for start, sequence, value in OLD:
        rows.prepare()
        rows.put(b"k", start, sequence, value)
    return rows


def _add(rows: RowsByKey, key: bytes, row: Row) -> tuple[bytes, Row]:
    """As a lane does it."""
    together = rows.lists().setdefault(key, [])
    together.append(row)
    together.sort()
    return key, row


def test_a_store_that_is_only_restored_keeps_no_rows_until_somebody_asks() -> None:
    spec = StoreSpec("side", StoreKind.WINDOW, retention_ms=100_000, retain_duplicates=True, timestamped=False)
    state = MemoryState()
    side: Any = build_store(spec, state)
    for start, sequence, value in OLD:
        side.restore(window_key(b"k", start, sequence), value, start)
    assert side.by_key._rows == 0
    state.commit({})
    side.restore(window_key(b"k", 20, 20), b"new", 20)
    assert [start for start, _ in side.fetch(b"k", 5, 100)] == [5, 6, 7, 8, 9, 20]
    side.put(b"k", b"next", 30)
    assert [start for start, _ in side.fetch(b"k", 9, 100)] == [9, 20, 30]


def test_all_is_taken_back_where_some_of_it_was_trimmed() -> None:
    rows = _rows_by_key()
    added = [
        _add(rows, b"k", (5_000, 20, b"new")),
        _add(rows, b"k", (500, 21, b"late")),
        _add(rows, b"z", (6_000, 22, b"other key")),
    ]
    assert rows.trim(b"k", 1_000) == [(5_000, 20, b"new")]
    rows.take_back(added)
    assert rows.lists() == {}
    assert (rows._rows, rows._bytes) == (0, 0)


def test_what_a_run_added_and_trimmed_is_counted_once() -> None:
    rows = _rows_by_key()
    added = [_add(rows, b"k", (500, 20, b"late")), _add(rows, b"k", (5_000, 21, b"new"))]
    rows.trim(b"k", 1_000)
    rows.added(added)
    assert rows.lists() == {b"k": [(5_000, 21, b"new")]}
    assert (rows._rows, rows._bytes) == (1, 3)


def test_each_side_of_a_failed_run_is_taken_back_whatever_becomes_of_the_other() -> None:
    code, done = Code(), []

    def fails() -> None:
        done.append("first")
        raise KeyError("first")

    code.failed = [f"{code.bind(fails, 'fails')}()", f"{code.bind(lambda: done.append('second'), 'second')}()"]
    code.begin_source()
    code.line("boom()")
    run = code.compiled(code.function([{"key": "in_raw_keys_0"}]), "run")
    with pytest.raises(KeyError):
        run(b"", [b"k"], [], [])
    assert done == ["first", "second"]
