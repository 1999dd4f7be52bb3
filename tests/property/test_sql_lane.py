"""Queries a run of records at a time, and record by record: the same records, whatever comes in."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.streams.engine.columns import Chunk, OutputColumns
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord, OutputRecord
from headwater.streams.stores.memory import MemoryState
from property.sql_queries_support import COLUMNS, Aggregates, Expressions, random_rows

Raw = tuple[int, bytes | None, bytes | None]  # time, key, value


def _query(select: str, where: str) -> PersistentQuery:
    columns = ", ".join(f"{each} {sort}" for each, sort in COLUMNS.items())
    session = Session()
    session.run(
        f"CREATE STREAM s (ID INT KEY, {columns}) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM t AS SELECT {select} FROM s WHERE {where};"
    )
    (query,) = session.queries.values()
    return query


_U = "CREATE TABLE u (ID INT PRIMARY KEY, I INT, W STRING) WITH (kafka_topic='u', value_format='JSON');"
_S2 = "CREATE STREAM s2 (ID INT KEY, I INT, W STRING) WITH (kafka_topic='u', value_format='JSON');"
_WINDOWS = (
    "",
    "WINDOW TUMBLING (SIZE 10 SECONDS)",
    "WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 10 SECONDS, GRACE PERIOD 5 SECONDS)",
)


def _stateful(chance: random.Random) -> PersistentQuery:
    """An aggregation, or a join of two topics: s and u."""
    columns = ", ".join(f"{each} {sort}" for each, sort in COLUMNS.items())
    make = Expressions(chance)
    where = f"WHERE {make.condition(1)[0]}" if chance.random() < 0.5 else ""
    match chance.choice(("group", "table", "stream")):
        case "group":
            items = ", ".join(f"{Aggregates(chance, make).one()[0]} AS C{number}" for number in range(2))
            having = chance.choice(("", "HAVING COUNT(*) > 1"))
            text = (
                f"CREATE TABLE t AS SELECT ID, {items} FROM s {chance.choice(_WINDOWS)} {where} GROUP BY ID {having};"
            )
        case "table":
            kind = chance.choice(("JOIN", "LEFT JOIN"))
            text = f"CREATE STREAM t AS SELECT s.ID AS ID, s.I + u.I AS N, S, u.W AS W FROM s {kind} u ON s.ID = u.ID;"
        case _:
            text = (
                "CREATE STREAM t AS SELECT s.ID AS ID, s.I + s2.I AS N, s2.W AS W FROM s JOIN s2 "
                "WITHIN 5 SECONDS GRACE PERIOD 5 SECONDS ON s.ID = s2.ID;"
            )
    session = Session()
    session.run(f"CREATE STREAM s (ID INT KEY, {columns}) WITH (kafka_topic='s', value_format='JSON');{_U}{_S2}{text}")
    (query,) = session.queries.values()
    return query


def _by_nodes(query: PersistentQuery, records: list[Raw], others: Sequence[Raw] = ()) -> list[Any]:
    driver = query.app.test()
    driver.feed(
        InputRecord(topic, 0, at, time, key, value, ())
        for topic, given in (("s", records), ("u", others))
        if topic in driver.input_topics
        for at, (time, key, value) in enumerate(given)
    )
    return [(each.key, each.value, each.timestamp) for each in driver.read_raw("T")]


def _task(query: PersistentQuery) -> Task:
    (plan,) = query.app.topology().sub_topologies()
    return Task(plan, 0, query.app.settings(partition_count=lambda _: 1), MemoryState())


def _by_runs(task: Task, records: list[Raw], others: Sequence[Raw] = (), *, only_lane: bool = False) -> list[Any]:
    """`only_lane`: none of the records may have gone through the nodes."""
    for topic, given in (("s", records), ("u", others)):
        if (topic, 0) in task.group.queues:
            times, keys, values = ([each[place] for each in given] for place in range(3))
            task.add_columns(Chunk(topic, 0, list(range(len(given))), times, keys, values))  # type: ignore[arg-type]
    while task.process_next(100):
        pass
    output = task.collect()
    if only_lane:
        assert not output.records, "records went through the nodes"
        assert all(isinstance(each, OutputColumns) for each in output.columns), "records went through the nodes"
    pieces = [
        each
        for piece in (*output.records, *output.columns)
        for each in ([piece] if isinstance(piece, OutputRecord) else piece.records())
        if each.topic == "T"
    ]
    return [(each.key, each.value, each.timestamp) for each in pieces]


def _records(chance: random.Random, poison: bool) -> list[Raw]:
    found: list[Raw] = []
    for row in random_rows(chance, 40, 5):
        key = None if chance.random() < 0.1 else row.id.to_bytes(4, "big")
        value: bytes | None = json.dumps(row.values).encode()
        if chance.random() < 0.1:
            value = chance.choice((None, b"{}", b"null", *((b"{no row", b"[1]") if poison else ())))
        found.append((row.timestamp, key, value))
    return sorted(found, key=lambda each: each[0])


@pytest.mark.parametrize("poison", [False, True])
def test_runs_give_what_records_one_by_one_give(poison: bool) -> None:
    count = 0
    for seed in range(15):
        chance = random.Random(f"{seed} {poison}")
        make = Expressions(chance)
        items = ", ".join(f"{make.any()[0]} AS C{number}" for number in range(3))
        query = _query(f"ID, 10 / J AS Q, {items}", make.condition(2)[0])
        records = _records(chance, poison)
        task = _task(query)
        found = _by_runs(task, records, only_lane=not poison)
        assert found == _by_nodes(query, records), f"seed {seed}: {items}"
        assert task._lane is not None, "the query has no lane"
        count += len(found)
    assert count > 0


@pytest.mark.parametrize("poison", [False, True])
def test_runs_of_aggregations_and_joins_give_what_records_one_by_one_give(poison: bool) -> None:
    count = in_lane = 0
    for seed in range(25):
        chance = random.Random(f"stateful {seed} {poison}")
        query = _stateful(chance)
        records, others = _records(chance, poison), _records(chance, poison)
        task = _task(query)
        found = _by_runs(task, records, others)
        assert found == _by_nodes(query, records, others), f"seed {seed}: {query.sink.text}"
        in_lane += task._lane is not None
        count += len(found)
    assert count > 100
    assert in_lane == 25, "queries have no lane"


_FUNCTIONS = """
CREATE FUNCTION inverse AS $$
import pyarrow as pa, pyarrow.compute as pc
from typing import Annotated
def inverse(x: Annotated[pa.Array, "BIGINT"]) -> Annotated[pa.Array, "BIGINT"]:
    return pc.divide(1000, x)
$$;
CREATE FUNCTION shorter AS $$
import pyarrow as pa, pyarrow.compute as pc
from typing import Annotated
def shorter(x: Annotated[pa.Array, "STRING"], most: Annotated[pa.Array, "INT"]) -> Annotated[pa.Array, "STRING"]:
    if pc.any(pc.less(most, 0)).as_py():
        raise ValueError(f"less than nothing: {pc.min(most)}")
    return pa.array(text[:length] for text, length in zip(x.to_pylist(), most.to_pylist()))
$$;
CREATE FUNCTION known AS $$
import pyarrow as pa, pyarrow.compute as pc
from typing import Annotated
def known(x: Annotated[pa.Array | None, "DOUBLE"]) -> Annotated[pa.Array, "DECIMAL(4, 1)"]:
    return pc.multiply(pc.fill_null(x, 0.25), 20)
$$;
"""


class _ColumnExpressions:
    """Expressions with calls of functions on Arrow columns, some of which fail for some rows."""

    def __init__(self, chance: random.Random, prefix: str = "") -> None:
        self._chance = chance
        self._make = Expressions(chance, prefix)

    def one(self) -> str:
        make, chance = self._make, self._chance
        whole, real, text, condition = make.whole(1)[0], make.real(1)[0], make.text(1)[0], make.condition(1)[0]
        inverse = f"INVERSE({chance.choice((whole, make.large(1)[0]))})"
        return chance.choice(
            (
                inverse,
                f"INVERSE({inverse} - 100) + {inverse}",
                f"CASE WHEN {condition} THEN {inverse} ELSE {whole} END",
                f"CASE {inverse} WHEN 5 THEN KNOWN({real}) WHEN {whole} THEN 2 END",
                f"ARRAY[{inverse}, {whole}, KNOWN({real})]",
                f"STRUCT(A := {inverse}, B := SHORTER({text}, {whole}))",
                f"MAP('a' := {inverse}, {text} := INVERSE(1))['a']",
                f"SHORTER(SHORTER({text}, 5), {whole})",
                f"COALESCE({inverse}, INVERSE({whole}))",
                f"UCASE(SHORTER({text}, ABS({whole}))) LIKE '%A%'",
                f"TRANSFORM(ARRAY[{inverse}, 3], x => INVERSE(x))",
                f"KNOWN({real})",
                f"{inverse} BETWEEN {whole} AND INVERSE(7)",
                f"{inverse} IS DISTINCT FROM KNOWN({real})",
                f"CAST({inverse} AS DECIMAL(8, 2)) / 3",
            )
        )

    def condition(self) -> str:
        whole, condition = self._make.whole(1)[0], self._make.condition(1)[0]
        tests = (
            f"INVERSE({whole}) > 9",
            f"({condition} OR INVERSE({whole}) < 50)",
            f"({condition} AND KNOWN(D) = 1)",
            condition,
        )
        return f"{self._chance.choice(tests)} OR {self._chance.choice(tests)}"


def _column_query(text: str) -> PersistentQuery:
    columns = ", ".join(f"{each} {sort}" for each, sort in COLUMNS.items())
    session = Session(functions_allowed=EVERYTHING)
    stream = f"CREATE STREAM s (ID INT KEY, {columns}) WITH (kafka_topic='s', value_format='JSON');"
    session.run(f"{_FUNCTIONS}{stream}{_U}{_S2}{text}")
    (query,) = session.queries.values()
    return query


def _told(query: PersistentQuery) -> list[tuple[str, str]]:
    told = list(query.errors.seen)
    query.errors.seen.clear()
    return told


def test_functions_on_columns_give_in_runs_what_they_give_for_one_row_after_the_other() -> None:
    """Values, and what the processing log is told; of a SELECT alone in the same order."""
    count = failed = 0
    for seed in range(30):
        chance = random.Random(f"columns {seed}")
        make = _ColumnExpressions(chance)
        items = ", ".join(f"{make.one()} AS C{number}" for number in range(3))
        where = f"WHERE {make.condition()}" if seed % 2 else ""
        query = _column_query(f"CREATE STREAM t AS SELECT ID, {items} FROM s {where};")
        records = _records(chance, poison=False)
        found = _by_runs(_task(query), records, only_lane=True)
        told = _told(query)
        assert found == _by_nodes(query, records), f"seed {seed}: {items} {where}"
        expected = _told(query)
        assert sorted(told) == sorted(expected), f"seed {seed}: {items} {where}"
        assert where or told == expected, f"seed {seed}: {items}"
        count += len(found)
        failed += len(told)
    assert count > 300
    assert failed > 100


@pytest.mark.parametrize("join", ["JOIN u", "LEFT JOIN u", "JOIN s2 WITHIN 5 SECONDS GRACE PERIOD 5 SECONDS"])
def test_functions_on_columns_behind_a_join_give_in_runs_what_they_give_one_by_one(join: str) -> None:
    other = "s2" if "s2" in join else "u"
    count = 0
    for seed in range(6):
        chance = random.Random(f"{join} {seed}")
        make = _ColumnExpressions(chance, "s.")
        items = ", ".join(f"{make.one()} AS C{number}" for number in range(2))
        where = f"WHERE INVERSE({other}.I) > 3" if seed % 2 else ""
        query = _column_query(
            f"CREATE STREAM t AS SELECT s.ID AS ID, {items}, INVERSE({other}.I) AS X FROM s {join} "
            f"ON s.ID = {other}.ID {where};"
        )
        records, others = _records(chance, poison=False), _records(chance, poison=False)
        task = _task(query)
        found = _by_runs(task, records, others)
        told = _told(query)
        assert task._lane is not None
        assert "by_column" in task._lane.compiled.text, "nothing runs by column"
        assert found == _by_nodes(query, records, others), f"seed {seed}: {items} {where}"
        assert sorted(told) == sorted(_told(query)), f"seed {seed}: {items} {where}"
        count += len(found)
    assert count > 20


def test_a_query_that_asks_for_a_pseudo_column_has_its_value() -> None:
    query = _query("ID, ROWTIME AS AT, ROWOFFSET AS PLACE", "J > 0")
    (found,) = _by_runs(_task(query), [(7, b"\0\0\0\1", b'{"J": 1}')])
    assert json.loads(found[1]) == {"AT": 7, "PLACE": 0}
