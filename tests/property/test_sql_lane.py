"""Queries a run of records at a time, and record by record: the same records, whatever comes in."""

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from headwater.sql.formats.internal import ROWS
from headwater.sql.functions import scope
from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.language import tree
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server import push
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
        assert found == _by_nodes(query, records, others), f"seed {seed}: {query.statement}"
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
                f"REDUCE(ARRAY[{inverse}, {whole}, 3], CAST(9 AS BIGINT), (q, x) => CASE WHEN x > q THEN q ELSE INVERSE(x - q) END)",
                f"TRANSFORM(ARRAY[3, {whole}], y => REDUCE(MAP('a' := y, 'b' := 2), {inverse}, (q, k, x) => INVERSE(q) + x))",
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


def _tasks(query: PersistentQuery) -> list[Task]:
    settings = query.app.settings(partition_count=lambda _: 1)
    return [Task(plan, 0, settings, MemoryState()) for plan in query.app.topology().sub_topologies()]


def _through(tasks: Sequence[Task], records: list[Raw]) -> list[Any]:
    """What the last task writes to the sink: each takes what those before it have written, in runs."""
    topics: dict[str, list[Raw]] = {"s": records}
    for task in tasks:
        for topic in topics.keys() & {name for name, _ in task.group.queues}:
            times, keys, values = ([each[place] for each in topics[topic]] for place in range(3))
            task.add_columns(Chunk(topic, 0, list(range(len(times))), times, keys, values))  # type: ignore[arg-type]
        while task.process_next(100):
            pass
        output = task.collect()
        if task is tasks[0]:
            assert task._lane is not None, "the query has no lane"
            assert not output.records, "records went through the nodes"
        for piece in (*output.records, *output.columns):
            for each in [piece] if isinstance(piece, OutputRecord) else piece.records():
                topics.setdefault(each.topic, []).append((each.timestamp, each.key, each.value))
    return [(key, value, time) for time, key, value in topics.get("T", [])]


def _grouped(chance: random.Random) -> PersistentQuery:
    make = _ColumnExpressions(chance)
    keys = chance.choice((["ID"], ["INVERSE(I)"], ["SHORTER(S, J)", "ID"], ["INVERSE(I) % 3", "J"]))
    items = ", ".join(each if each == "ID" else f"{each} AS K{at}" for at, each in enumerate(keys))
    several = "WITH (key_format='JSON')" if len(keys) > 1 else ""
    arguments = [f"COLLECT_LIST(INVERSE({make._make.whole(1)[0]}))", f"SUM(I + KNOWN({make._make.real(1)[0]}))"]
    having = chance.choice(("", "HAVING COUNT(*) > 1"))
    return _column_query(
        f"CREATE TABLE t {several} AS SELECT {items}, {arguments[0]} AS A, {arguments[1]} AS B, MAX(I) AS C FROM s "
        f"{chance.choice(_WINDOWS)} {chance.choice(('', 'WHERE ' + make.condition()))} GROUP BY {', '.join(keys)} {having};"
    )


def test_functions_on_columns_in_groups_and_aggregates_give_in_runs_what_they_give_one_by_one() -> None:
    count = failed = 0
    for seed in range(12):
        chance = random.Random(f"grouped columns {seed}")
        query = _grouped(chance)
        records = _records(chance, poison=False)
        tasks = _tasks(query)
        found = _through(tasks, records)
        told = _told(query)
        assert "by_column" in tasks[0]._lane.compiled.text, "nothing runs by column"  # type: ignore[union-attr]
        assert found == _by_nodes(query, records), f"seed {seed}: {query.statement}"
        assert sorted(told) == sorted(_told(query)), f"seed {seed}: {query.statement}"
        count += len(found)
        failed += len(told)
    assert count > 50
    assert failed > 10


def _behind(chance: random.Random, source: str) -> str:
    """A query with functions on columns behind an aggregation, or behind a table."""
    inner = Expressions(chance).whole(1)[0]
    written = chance.choice(("JSON", "DELIMITED"))
    selected = chance.choice(
        (
            "INVERSE({0}) AS A, SHORTER(CAST({0} AS STRING), 2) AS B, {0} AS C",
            "CASE WHEN {0} > 3 THEN INVERSE({0} - 5) END AS A, KNOWN({0}) AS B",
            "REDUCE(ARRAY[{0}, 2, CAST(0 AS BIGINT)], CAST(70 AS BIGINT), (q, x) => INVERSE(q) + x) AS A",
        )
    )
    condition = chance.choice(("", "INVERSE({0}) > 90", "{0} > 2 AND INVERSE({0} - 5) < 300", "{0} > 2"))
    if source == "u":
        where = f"WHERE {condition.format('I')}" if condition else ""
        return f"CREATE TABLE t WITH (value_format='{written}') AS SELECT ID, {selected.format('CAST(I AS BIGINT)')} FROM u {where};"
    aggregate = chance.choice(("COUNT(*)", f"SUM(CAST({inner} AS BIGINT))", "MAX(CAST(I AS BIGINT))"))
    having = f"HAVING {condition.format(aggregate)}" if condition else ""
    return (
        f"CREATE TABLE t WITH (value_format='{written}') AS SELECT ID, {selected.format(aggregate)} FROM s "
        f"{chance.choice(_WINDOWS)} GROUP BY ID {having};"
    )


@pytest.mark.parametrize("source", ["s", "u"])
def test_functions_on_columns_behind_tables_give_in_runs_what_they_give_one_by_one(source: str) -> None:
    """HAVING sees new and old values of a row; a row that passes no more is a tombstone, in its turn."""
    count = failed = deleted = 0
    for seed in range(20):
        chance = random.Random(f"behind {source} {seed}")
        query = _column_query(_behind(chance, source))
        records = _records(chance, poison=False)
        given: tuple[list[Raw], list[Raw]] = (records, []) if source == "s" else ([], records)
        task = _task(query)
        found = _by_runs(task, *given, only_lane=source == "u")
        told = _told(query)
        assert "by_column" in task._lane.compiled.text, f"nothing runs by column: {query.statement}"  # type: ignore[union-attr]
        assert found == _by_nodes(query, *given), f"seed {seed}: {query.statement}"
        assert sorted(told) == sorted(_told(query)), f"seed {seed}: {query.statement}"
        count += len(found)
        failed += len(told)
        deleted += sum(value is None for _, value, _ in found)
    assert count > 200
    assert failed > 5
    assert deleted > 5


_SIZED = """CREATE FUNCTION sized AS $$
import pyarrow as pa
from typing import Annotated
def sized(x: Annotated[pa.Array, "BIGINT"]) -> Annotated[pa.Array, "BIGINT"]:
    return pa.array([len(x)] * len(x))
$$;"""  # it tells how many rows a call had: each result should hang on its own row alone


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("SELECT ID, MAX(SIZED(I)) AS X FROM s GROUP BY ID", {"X": 9}),
        ("SELECT ID, MAX(SIZED(I)) AS X FROM s WINDOW TUMBLING (SIZE 1 HOUR) WHERE I > 3 GROUP BY ID", {"X": 5}),
        ("SELECT SIZED(I) AS K, COUNT(*) AS X, AS_VALUE(SIZED(I)) AS V FROM s GROUP BY SIZED(I)", {"X": 9, "V": 9}),
        ("SELECT SIZED(I) AS K, COUNT(*) AS X, MAX(SIZED(J)) AS V FROM s GROUP BY SIZED(I)", {"X": 9, "V": 8}),
        ("SELECT SIZED(I) AS K, J AS X FROM s WHERE J = 1 PARTITION BY SIZED(I)", {"X": 1}),
        ("SELECT ID, EXPLODE(ARRAY[SIZED(I), 7]) AS X, EXPLODE(ARRAY[J]) AS Y FROM s", {"X": 7, "Y": None}),
        ("SELECT ID, EXPLODE(ARRAY[7, SIZED(J)]) AS X FROM s", {"X": 8}),
        ("SELECT ID, SIZED(MAX(I)) AS X FROM s GROUP BY ID", {"X": 9}),
        ("SELECT ID, SIZED(COUNT(*)) AS X FROM s GROUP BY ID HAVING COUNT(*) > 4", {"X": 5}),
        (
            "SELECT ID, COUNT(*) AS X FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY ID HAVING SIZED(MAX(I)) = 17",
            {"X": 9},
        ),
        ("SELECT ID, SIZED(MAX(I)) AS X FROM s WINDOW TUMBLING (SIZE 4 MILLISECONDS) GROUP BY ID", {"X": 9}),
        ("SELECT ID, REDUCE(ARRAY[I, J], CAST(1 AS BIGINT), (q, x) => q * 10 + SIZED(x)) AS X FROM s", {"X": 198}),
        ("SELECT ID, REDUCE(GENERATE_SERIES(1, I), 0, (q, x) => SIZED(x)) AS X FROM s WHERE I > 0", {"X": 1}),
        ("SELECT ID, SIZED(CAST(REDUCE(MAP('a' := I), 0, (q, k, x) => SIZED(x)) AS BIGINT)) AS X FROM s", {"X": 9}),
    ],
)
def test_a_function_on_columns_is_called_once_for_a_run(select: str, expected: dict[str, int]) -> None:
    kind = "TABLE" if "GROUP BY" in select else "STREAM"
    query = _column_query(f"{_SIZED}CREATE {kind} t AS {select};")
    rows = [(at, b"\0\0\0\1", b'{"I": %d, "J": %s}' % (at, b"1" if at else b"null")) for at in range(9)]
    found = _through(_tasks(query), rows)
    assert json.loads(found[-1][1]) == expected


@pytest.mark.parametrize("clauses", ["PARTITION BY {0}", "WHERE I > -9 PARTITION BY {0}"])
def test_functions_on_columns_in_keys_and_table_functions_give_in_runs_what_they_give_one_by_one(clauses: str) -> None:
    count = 0
    for seed in range(4):
        chance = random.Random(f"{clauses} {seed}")
        make = Expressions(chance)
        key = f"INVERSE({make.whole(1)[0]})"
        query = _column_query(
            f"CREATE STREAM t AS SELECT {key} AS K, EXPLODE(ARRAY[INVERSE({make.whole(1)[0]}), I]) AS X, "
            f"EXPLODE(ARRAY[SHORTER(S, J)]) AS Y, J FROM s {clauses.format(key)};"
        )
        records = _records(chance, poison=False)
        found = _through(_tasks(query), records)
        told = _told(query)
        assert found == _by_nodes(query, records), query.statement
        assert sorted(told) == sorted(_told(query)), query.statement
        count += len(found)
    assert count > 50


def test_stores_and_topics_are_called_as_without_functions_on_columns() -> None:
    """Queries that were there before such functions ran by column keep their state."""
    for call, key in (("SUM({}(I))", "ID"), ("SUM({}(I))", "{}(J)"), ("COUNT(*)", "{}(J)")):
        names = []
        for function in ("INVERSE", "ABS"):
            grouped, aggregate = key.format(function), call.format(function)
            query = _column_query(
                f"CREATE TABLE t AS SELECT {grouped} AS K, {aggregate} AS X FROM s GROUP BY {grouped};"
            )
            plans = list(query.app.topology().sub_topologies())
            names.append(
                [(sorted(store.name for store in plan.stores), sorted(map(str, plan.source_topics))) for plan in plans]
            )
        assert names[0] == names[1]


def test_rows_that_an_earlier_version_left_in_a_repartition_topic_are_grouped() -> None:
    query = _column_query("CREATE TABLE t AS SELECT INVERSE(J) AS K, SUM(INVERSE(I)) AS X FROM s GROUP BY INVERSE(J);")
    first, second = _tasks(query)
    topic = next(name for name, _ in second.group.queues)
    first.add_columns(Chunk("s", 0, [0], [7], [b"\0\0\0\1"], [b'{"I": 10, "J": 5}']))  # type: ignore[arg-type]
    while first.process_next(100):
        pass
    (written,) = [each for piece in first.collect().columns for each in piece.records() if each.topic == topic]
    row = ROWS.deserialize(written.value)
    assert row[-2:] == [200, 100]
    old = ROWS.serialize(row[:-2])
    second.add_columns(Chunk(topic, 0, [0, 1], [7, 8], [written.key] * 2, [old, written.value]))  # type: ignore[arg-type]
    while second.process_next(100):
        pass
    values = [each.value for piece in second.collect().columns for each in piece.records() if each.topic == "T"]
    assert [json.loads(each) for each in values] == [{"X": 100}, {"X": 200}]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT SIZED(I) AS X FROM s EMIT CHANGES", [9] * 9),
        ("SELECT SIZED(I) AS X FROM s WHERE SIZED(J) = 9 AND I > 3 EMIT CHANGES", [5] * 5),
        ("SELECT SIZED(I) AS X, ROWTIME FROM s WHERE I > 3 PARTITION BY I EMIT CHANGES", [5] * 5),
        ("SELECT SIZED(MAX(I)) AS X FROM s GROUP BY ID HAVING MAX(I) > 6 EMIT CHANGES", [2] * 2),
        ("SELECT SIZED(EXPLODE(ARRAY[I, J])) AS X FROM s WHERE I > 3 EMIT CHANGES", [10] * 10),
    ],
)
def test_push_queries_call_a_function_on_columns_once_for_all_rows_that_came_together(
    text: str, expected: list[int]
) -> None:
    session = Session(functions_allowed=EVERYTHING)
    session.run(f"{_SIZED}CREATE STREAM s (ID INT KEY, I INT, J INT) WITH (kafka_topic='s', value_format='JSON');")
    (statement,) = session.parse(f"{text};")
    assert isinstance(statement, tree.Select)
    with scope.using(session.catalog.functions, {}):
        planned = push.plan(statement.query, session.catalog, "nowhere:1", {})
    driver = planned.app.test()
    for life in range(2):
        driver.feed(
            InputRecord("s", 0, life * 9 + at, at, b"\0\0\0\1", b'{"I": %d, "J": 1}' % at, ()) for at in range(9)
        )
        found = planned.finished()
        if life == 0:
            assert [row[0] for row in found] == expected
        assert planned.finished() == []


@pytest.mark.parametrize(
    "select",
    [
        "TABLE t AS SELECT ID AS who, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY ID",
        "STREAM t AS SELECT ID AS who, I FROM s",
    ],
)
def test_a_key_under_another_name_is_written_as_it_was_read(select: str) -> None:
    query = _column_query(f"CREATE {select};")
    records = _records(random.Random("another name"), poison=False)
    task = _task(query)
    found = _by_runs(task, records, only_lane=True)
    assert task._lane is not None
    assert len(found) > 20
    assert found == _by_nodes(query, records)


def test_a_query_that_asks_for_a_pseudo_column_has_its_value() -> None:
    query = _query("ID, ROWTIME AS AT, ROWOFFSET AS PLACE", "J > 0")
    (found,) = _by_runs(_task(query), [(7, b"\0\0\0\1", b'{"J": 1}')])
    assert json.loads(found[1]) == {"AT": 7, "PLACE": 0}
