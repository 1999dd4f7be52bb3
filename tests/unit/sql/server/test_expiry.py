"""Windows past their retention: pull queries have those that the query's own store has, and the view keeps no
others."""

import random
from typing import Any, NamedTuple

import pytest

from headwater.sql.plan.session import Session
from headwater.sql.server.views import TableView
from headwater.streams.model.windows import Windowed

_HOUR = 3_600_000
_SOURCE = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"


class Record(NamedTuple):
    partition: int
    offset: int = 0
    timestamp_ms: int = 0


def _view(window: str, rows_max: int = 1_000) -> TableView:
    session = Session()
    session.run(f"{_SOURCE} CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW {window} GROUP BY k;")
    return TableView(session.catalog.find("T"), {}, rows_max)


def _put(view: TableView, start: int, end: int, value: Any = (1,), *, key: str = "a", partition: int = 0) -> None:
    view._take(Record(partition), (Windowed([key], start, end), None if value is None else list(value)))


def _starts(view: TableView) -> list[int]:
    return sorted(name[-2] for name in view._rows)


@pytest.mark.parametrize(
    ("window", "kept_ms"),
    [
        ("TUMBLING (SIZE 1 HOUR, RETENTION 30 HOURS)", 30 * _HOUR),
        ("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)", _HOUR + 600_000),
        ("TUMBLING (SIZE 1 HOUR)", 24 * _HOUR),  # the grace period that ksqlDB has by default
        ("HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES, GRACE PERIOD 0 SECONDS)", _HOUR),
        ("SESSION (30 MINUTES, GRACE PERIOD 1 HOUR)", _HOUR + 1_800_000),
        ("SESSION (30 MINUTES, RETENTION 50 HOURS)", 50 * _HOUR),
    ],
)
def test_a_window_is_there_until_its_retention_ends(window: str, kept_ms: int) -> None:
    view = _view(window)
    _put(view, 0, _HOUR)
    is_session = "SESSION" in window
    newest = kept_ms + (_HOUR if is_session else 0)  # the end of a session counts, and the start of other windows
    _put(view, newest - 1, newest - 1 if is_session else newest + _HOUR, key="b")
    assert _starts(view) == [0, newest - 1]
    _put(view, newest, newest if is_session else newest + _HOUR, key="b")
    assert _starts(view) == [newest - 1, newest]
    _put(view, 0, _HOUR, (7,))  # it comes too late
    assert _starts(view) == [newest - 1, newest]


def test_each_partition_has_its_own_time() -> None:
    view = _view("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS)")
    _put(view, 0, _HOUR, partition=0)
    _put(view, 9 * _HOUR, 10 * _HOUR, partition=1, key="b")
    assert _starts(view) == [0, 9 * _HOUR]


def test_a_session_that_grows_for_long_leaves_nothing_behind() -> None:
    """Each row of it takes the session away that was there and brings a longer one."""
    view = _view("SESSION (30 MINUTES)")
    for end in range(5_000):
        _put(view, 0, end)
        _put(view, 0, end, None)
    _put(view, 0, 5_000)
    assert len(view._rows) == 1
    assert view._expiry is not None
    assert len(view._expiry._oldest_first[0]) < 600
    _put(view, 25 * _HOUR, 25 * _HOUR)
    assert _starts(view) == [25 * _HOUR]


def test_windows_of_a_topic_that_no_query_of_ours_writes_stay() -> None:
    session = Session()
    session.run(
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='w', value_format='JSON', "
        "window_type='TUMBLING', window_size='1 HOUR');"
    )
    view = TableView(session.catalog.find("T"), {}, 10)
    _put(view, 0, _HOUR)
    _put(view, 10_000 * _HOUR, 10_001 * _HOUR)
    assert _starts(view) == [0, 10_000 * _HOUR]


def test_a_table_whose_windows_come_and_go_never_has_too_many_rows() -> None:
    """Without an end of windows, the view had more rows than a pull query may hold after a while."""
    view = _view("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR)", rows_max=30)
    dice = random.Random(3)
    newest = 0
    for step in range(2_000):
        start = max(0, step // 10 - dice.randrange(4)) * _HOUR
        newest = max(newest, start)
        _put(view, start, start + _HOUR, None if dice.random() < 0.2 else (step,), key=f"k{dice.randrange(8)}")
        assert all(name[-2] > newest - 2 * _HOUR for name in view._rows)
    assert {name for names in view._windows.values() for name in names} == set(view._rows)
    assert view._expiry is not None
    assert sum(map(len, view._expiry._oldest_first.values())) < 100
