"""Random queries over random records: what is left when all has come is what DuckDB answers over the same rows.

For everything that has a batch meaning: projections and conditions, functions, groups with HAVING, windows, joins of
two streams within a time and of two tables. A failure prints the seed; `SQL_SEED=... pytest -k ...` runs it again. Many
more under `make soak`.
"""

import os
import random
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pytest

from headwater.sql.testing import run
from property.sql_queries_support import COLUMNS, DUCK_TYPES, Aggregates, Expressions, Row, random_rows

_SEEDS = [int(os.environ["SQL_SEED"])] if "SQL_SEED" in os.environ else list(range(12))
_SOAK = range(1_000, 3_000)


def _source(kind: str, name: str, key: str = "KEY") -> str:
    columns = ", ".join(f"{each} {sort}" for each, sort in COLUMNS.items())
    return f"CREATE {kind} {name} (ID INT {key}, {columns}) WITH (kafka_topic='{name}', value_format='JSON');"


def _inputs(topic: str, rows: Iterable[Row]) -> list[dict[str, Any]]:
    return [{"topic": topic, "key": row.id, "value": row.values or None, "timestamp": row.timestamp} for row in rows]


def _in_duckdb(query: str, **tables: list[Row]) -> list[tuple[Any, ...]]:
    connection = duckdb.connect(config={"threads": 1})
    try:
        for name, rows in tables.items():
            columns = ", ".join(f"{each} {DUCK_TYPES[sort]}" for each, sort in COLUMNS.items())
            connection.execute(f"CREATE TABLE {name} (PLACE INTEGER, ID INTEGER, TS BIGINT, {columns})")
            values = [
                [place, row.id, row.timestamp, *(row.values[each] for each in COLUMNS)]
                for place, row in enumerate(rows)
            ]
            if values:
                places = ", ".join(f"({', '.join('?' * len(each))})" for each in values)
                connection.execute(f"INSERT INTO {name} VALUES {places}", [value for each in values for value in each])
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def _projection(chance: random.Random) -> None:
    make = Expressions(chance)
    rows = random_rows(chance, 30, 5)
    pairs = [make.any() for _ in range(4)]
    where = make.condition(3)
    names = [f"C{number}" for number in range(len(pairs))]
    ours = ", ".join(f"{each[0]} AS {name}" for each, name in zip(pairs, names, strict=True))
    theirs = ", ".join(each[1] for each in pairs)
    sql = f"{_source('STREAM', 's')} CREATE STREAM t AS SELECT ID, {ours} FROM s WHERE {where[0]};"
    found = [(each["key"], *(each["value"][name] for name in names)) for each in run(sql, _inputs("s", rows))]
    wanted = _in_duckdb(f"SELECT ID, {theirs} FROM s WHERE {where[1]} ORDER BY PLACE", s=rows)
    assert found == wanted, sql


def _grouping(chance: random.Random) -> None:
    make = Expressions(chance)
    rows = random_rows(chance, 40, 5)
    aggregates = Aggregates(chance, make)
    pairs = [aggregates.one() for _ in range(3)]
    names = [f"A{number}" for number in range(len(pairs))]
    key = chance.choice((("W", "W"), make.whole(1), make.text(1)))
    where, least = make.condition(2), chance.randint(0, 3)
    ours = ", ".join(f"{each[0]} AS {name}" for each, name in zip(pairs, names, strict=True))
    theirs = ", ".join(each[1] for each in pairs)
    sql = (
        f"{_source('STREAM', 's')} CREATE TABLE t AS SELECT {key[0]} AS K, {ours} FROM s WHERE {where[0]}"
        f" GROUP BY {key[0]} HAVING COUNT(*) > {least};"
    )
    found = {
        each["key"]: tuple(each["value"][name] for name in names)
        for each in run(sql, _inputs("s", rows))
        if each["value"] is not None
    }
    query = f"SELECT {key[1]}, {theirs} FROM s WHERE {where[1]} AND {key[1]} IS NOT NULL GROUP BY 1 HAVING COUNT(*) > {least}"
    wanted = {each[0]: each[1:] for each in _in_duckdb(query, s=rows)}
    assert found == wanted, sql


def _windows(chance: random.Random) -> None:
    rows = random_rows(chance, 40, 5)
    aggregates = Aggregates(chance, Expressions(chance))
    ours, theirs = aggregates.one()
    advance = chance.choice((5_000, 10_000, 15_000))
    count = chance.randint(1, 3)
    size = advance * count
    window = f"TUMBLING (SIZE {size} MILLISECONDS)"
    if count > 1:
        window = f"HOPPING (SIZE {size} MILLISECONDS, ADVANCE BY {advance} MILLISECONDS)"
    sql = f"{_source('STREAM', 's')} CREATE TABLE t AS SELECT W, {ours} AS A FROM s WINDOW {window} GROUP BY W;"
    found = {
        (each["key"], each["window"]["start"]): (each["window"]["end"], each["value"]["A"])
        for each in run(sql, _inputs("s", rows))
    }
    query = (
        f"SELECT W, BEGINS, {theirs} FROM (SELECT s.*, TS // {advance} * {advance} - N * {advance} AS BEGINS"
        f" FROM s, range({count}) r(N)) WHERE BEGINS >= 0 GROUP BY W, BEGINS"
    )
    wanted = {(word, begins): (begins + size, value) for word, begins, value in _in_duckdb(query, s=rows)}
    assert found == wanted, sql


def _sessions(chance: random.Random) -> None:
    rows = random_rows(chance, 30, 5)
    gap = chance.choice((2_000, 5_000, 20_000))
    sql = (
        f"{_source('STREAM', 's')} CREATE TABLE t AS SELECT W, COUNT(*) AS N, SUM(J) AS T FROM s"
        f" WINDOW SESSION ({gap} MILLISECONDS) GROUP BY W;"
    )
    found: dict[tuple[str, int, int], tuple[int, int]] = {}
    for each in run(sql, _inputs("s", rows)):
        place = (each["key"], each["window"]["start"], each["window"]["end"])
        if each["value"] is None:  # it was merged into a longer one
            del found[place]
        else:
            found[place] = (each["value"]["N"], each["value"]["T"])
    query = (
        "SELECT W, MIN(TS), MAX(TS), COUNT(*), SUM(J) FROM (SELECT *, SUM(BEGINS) OVER (PARTITION BY W ORDER BY TS, PLACE) AS G"
        f" FROM (SELECT *, CASE WHEN TS - LAG(TS) OVER (PARTITION BY W ORDER BY TS, PLACE) <= {gap} THEN 0 ELSE 1 END AS BEGINS"
        " FROM s)) GROUP BY W, G"
    )
    wanted = {(word, begin, end): (count, total) for word, begin, end, count, total in _in_duckdb(query, s=rows)}
    assert found == wanted, sql


def _stream_join(chance: random.Random) -> None:
    """Inner joins within a time: each pair once, whatever order it came in."""
    left, right = random_rows(chance, 15, 4), random_rows(chance, 15, 4)
    a, b = Expressions(chance, "x.").any(2), Expressions(chance, "y.").any(2)
    within = chance.choice((1_000, 10_000, 50_000))
    sql = (
        f"{_source('STREAM', 's')} {_source('STREAM', 'u')} CREATE STREAM t AS SELECT x.ID, {a[0]} AS A, {b[0]} AS B, x.L AS L"
        f" FROM s x JOIN u y WITHIN {within} MILLISECONDS GRACE PERIOD 1 DAY ON x.ID = y.ID;"
    )
    sent = [*_inputs("s", left), *_inputs("u", right)]
    chance.shuffle(sent)
    found = [(each["key"], *(each["value"][name] for name in "ABL")) for each in run(sql, sent)]
    query = f"SELECT x.ID, {a[1]}, {b[1]}, x.L FROM s x JOIN u y ON x.ID = y.ID AND ABS(x.TS - y.TS) <= {within}"
    assert sorted(found, key=repr) == sorted(_in_duckdb(query, s=left, u=right), key=repr), sql


def _table_join(chance: random.Random) -> None:
    """What two tables have in the end, whatever was written over and taken back before."""
    left, right = random_rows(chance, 15, 6), random_rows(chance, 15, 6)
    for rows in (left, right):
        for place in chance.sample(range(len(rows)), 4):
            rows[place] = rows[place]._replace(values={})
        rows[:] = [row._replace(timestamp=at) for at, row in enumerate(rows)]
    kind = chance.choice(("JOIN", "LEFT JOIN", "FULL OUTER JOIN"))
    a, b = Expressions(chance, "x.").any(2), Expressions(chance, "y.").any(2)
    key = "ROWKEY" if kind.startswith("FULL") else "x.ID"
    sql = (
        f"{_source('TABLE', 's', 'PRIMARY KEY')} {_source('TABLE', 'u', 'PRIMARY KEY')}"
        f" CREATE TABLE t AS SELECT {key} AS K, {a[0]} AS A, {b[0]} AS B FROM s x {kind} u y ON x.ID = y.ID;"
    )
    sent = [*_inputs("s", left), *_inputs("u", right)]
    last = {each["key"]: each["value"] for each in run(sql, sorted(sent, key=lambda each: int(each["timestamp"])))}
    found = {key: (value["A"], value["B"]) for key, value in last.items() if value is not None}
    query = f"SELECT COALESCE(x.ID, y.ID), {a[1]}, {b[1]} FROM s x {kind} u y ON x.ID = y.ID"
    answer = _in_duckdb(query, s=_latest(left), u=_latest(right))
    assert found == {each[0]: each[1:] for each in answer}, sql


def _latest(rows: list[Row]) -> list[Row]:
    last = {row.id: row for row in rows}
    return [row for row in last.values() if row.values]


_KINDS: dict[str, Callable[[random.Random], None]] = {
    "projection": _projection,
    "grouping": _grouping,
    "windows": _windows,
    "sessions": _sessions,
    "stream-join": _stream_join,
    "table-join": _table_join,
}


def _all(kind: str, seeds: Iterable[int]) -> None:
    for seed in seeds:
        try:
            _KINDS[kind](random.Random(f"{kind} {seed}"))
        except Exception as error:
            error.add_note(f"SQL_SEED={seed} pytest {__file__} -k '{kind} and not soak'")
            raise


@pytest.mark.parametrize("kind", _KINDS)
def test_random_queries_end_where_duckdb_does(kind: str) -> None:
    _all(kind, _SEEDS)


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", _KINDS)
def test_many_random_queries_end_where_duckdb_does(kind: str) -> None:
    _all(kind, _SOAK)
