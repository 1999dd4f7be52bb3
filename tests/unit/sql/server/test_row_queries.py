"""Queries for rows: what is answered without asking anybody, and which of two languages an error is told in."""

import asyncio
import re
from typing import Any

import pytest

from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.catalog import Column
from headwater.sql.plan.session import Session
from headwater.sql.server import push
from headwater.sql.server.api import make_door
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.duckdb_errors import UnknownNameError
from headwater.sql.server.node import SqlNode
from headwater.sql.server.refusals import code_of
from headwater.streams.model.record import InputRecord
from headwater.web.messages import Headers, Request


@pytest.mark.parametrize("to_end", [False, True])
def test_no_rows_are_waited_for_where_none_are_wanted(to_end: bool) -> None:
    session = Session()
    session.run("CREATE STREAM s (n INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")
    (statement,) = session.parse("SELECT * FROM s EMIT CHANGES LIMIT 0;")
    assert isinstance(statement, tree.Select)
    made = push.PushQuery(push.plan(statement.query, session.catalog, "localhost:1", {}), {}, {}, to_end=to_end)

    async def all_rows() -> list[Any]:
        return [row async for row in made.rows()]

    assert asyncio.run(all_rows()) == []


@pytest.mark.parametrize(
    ("clauses", "rows"),
    [
        ("TUMBLING (SIZE 10 SECONDS) GROUP BY id", [[1, 2], [2, 1]]),
        ("TUMBLING (SIZE 10 SECONDS) GROUP BY id HAVING COUNT(*) < 2", [[2, 1]]),
        ("SESSION (10 SECONDS) GROUP BY id HAVING COUNT(*) > 1", [[1, 2]]),
    ],
)
def test_a_push_query_tells_the_final_rows_of_windows_that_time_jumped_past(
    clauses: str, rows: list[list[int]]
) -> None:
    session = Session()
    session.run("CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='s', value_format='JSON');")
    (statement,) = session.parse(f"SELECT id, COUNT(*) AS n FROM s WINDOW {clauses} EMIT FINAL;")
    assert isinstance(statement, tree.Select)
    planned = push.plan(statement.query, session.catalog, "nowhere:1", {})
    records = ((0, 1), (5, 1), (6, 2), (400_000, 3))
    planned.app.test().feed(
        InputRecord("s", 0, at, time, key.to_bytes(4, "big"), b'{"N": 1}', ()) for at, (time, key) in enumerate(records)
    )
    assert planned.finished() == rows


def test_a_push_query_joins_no_stream_with_a_table_over_its_topic() -> None:
    """It was told behind the header, when the topology was made; a query that made it would have read all twice."""
    session = Session()
    for kind, key in (("STREAM s", "KEY"), ("TABLE t", "PRIMARY KEY")):
        session.run(f"CREATE {kind} (id INT {key}, n INT) WITH (kafka_topic='in', value_format='JSON');")
    (statement,) = session.parse("SELECT s.id, t.n FROM s JOIN t ON s.id = t.id EMIT CHANGES;")
    assert isinstance(statement, tree.Select)
    with pytest.raises(SqlError, match="A push query cannot join a stream and a table over one topic, in"):
        push.plan(statement.query, session.catalog, "nowhere:1", {})


def test_what_duckdb_alone_can_read_is_told_in_both_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])

    async def refused(*_: Any, **__: Any) -> Any:
        raise UnknownNameError("There is no struct.", name="struct")

    monkeypatch.setattr(node.row_queries._analytics, "answer", refused)
    with pytest.raises(SqlError, match=r"^There is no struct. Read as ksqlDB's SQL: line 1:26: \"BY\" is a reserved"):
        asyncio.run(node.row_queries.query("SELECT STRUCT(x := 1) AS BY FROM s;", {}, {}))


@pytest.mark.parametrize(
    ("text", "properties", "told"),
    [
        (
            "SELECT * FROM t;",
            {"ksql.query.pull.table.scan.enabled": "false"},
            "Query requires table scan to be enabled",
        ),
        (
            "SELECT * FROM t WHERE v > 1;",
            {"ksql.query.pull.table.scan.enabled": "FALSE"},
            "Query requires table scan to be enabled",
        ),
        (
            "SELECT * FROM t JOIN t u ON t.k = u.k;",
            {"ksql.query.pull.table.scan.enabled": "false"},
            "requires table scan",
        ),
        ("SELECT * FROM s;", {"ksql.query.pull.stream.enabled": "false"}, "Pull queries on streams are disabled"),
        ("SELECT COUNT(*) FROM s;", {"ksql.query.pull.stream.enabled": "false"}, "on streams are disabled"),
        (
            "SELECT * FROM t WHERE k > 'a';",
            {"ksql.query.pull.table.scan.enabled": "false", "ksql.query.pull.range.scan.enabled": "false"},
            "Query requires table scan to be enabled",
        ),
        ("SELECT * FROM t LIMIT 3;", {"ksql.query.pull.limit.clause.enabled": "false"}, "LIMIT clause in pull queries"),
        ("SELECT * FROM t LIMIT -1;", {}, "Value must be integer for command: LIMIT"),
        ("SELECT * FROM s LIMIT 2.5;", {}, "Value must be integer for command: LIMIT"),
        ("SELECT * FROM s a JOIN s b WITHIN 1 HOUR ON a.n = b.n;", {}, "Pull queries don't support WITHIN clauses"),
        ("SELECT * FROM t GROUP BY k;", {}, "not part of GROUP BY: V"),
        ("SELECT * FROM s;", {"auto.offst.reset": "earliest"}, "Did you mean 'auto.offset.reset'"),
        ("SELECT * FROM t;", {"ksql.query.pull.table.scan.enabled": "no"}, "cannot be 'no'"),
    ],
)
def test_properties_that_forbid_a_query(text: str, properties: dict[str, str], told: str) -> None:
    """They were taken, and had no effect."""
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    node.engine.session.run(
        "CREATE STREAM s (n INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON', partitions=1);"
    )
    with pytest.raises(SqlError, match=told):
        asyncio.run(node.row_queries.query(text, properties, {}))


def test_keys_may_be_asked_for_where_scans_are_forbidden() -> None:
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    node.engine.session.run("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    for condition, ranges in (("k = 'a'", "false"), ("k IN ('a', 'b') AND v > 1", "false"), ("k > 'a'", "true")):
        forbidden = {"ksql.query.pull.table.scan.enabled": "false", "ksql.query.pull.range.scan.enabled": ranges}
        answer = asyncio.run(node.row_queries.query(f"SELECT * FROM t WHERE {condition};", forbidden, {}))
        assert [each.name for each in answer.columns] == ["K", "V"]


_ROWS = [
    [5, 1700, 0, 0, 1],
    [7, 1800, 0, 1, 2],
    [5, 1900, 1, 0, 3],
]  # the value, ROWTIME, ROWPARTITION, ROWOFFSET, the key


def _asked(monkeypatch: pytest.MonkeyPatch, text: str, more: str = "") -> tuple[list[str], list[list[Any]]]:
    """Of a stream with these rows, beside what `more` makes."""
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    node.engine.session.run("CREATE STREAM s (id INT KEY, n INT) WITH (kafka_topic='s', value_format='JSON');")
    node.engine.session.run(more)
    queries: Any = node.row_queries

    async def read(_source: Any, names: list[str], *_: Any) -> Any:
        if names[0] == "*":
            return (Column("ID", types.INTEGER), Column("N", types.INTEGER)), [[row[4], row[0]] for row in _ROWS]
        assert names == ["`N`", "`ROWTIME`", "`ROWPARTITION`", "`ROWOFFSET`", "`ID`"]
        return (), [list(row) for row in _ROWS]

    async def no_topics() -> list[str]:
        return []

    monkeypatch.setattr(queries._analytics, "read_stream", read)
    monkeypatch.setattr(queries._analytics, "_topics", no_topics)

    async def ask() -> tuple[list[str], list[list[Any]]]:
        answer = await queries.query(text, {}, {})
        return [each.name for each in answer.columns], [row async for row in answer.rows]

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("SELECT id, FORMAT_TIMESTAMP(FROM_UNIXTIME(ROWTIME), 'SSS') AS ms FROM s ORDER BY n DESC, id DESC;",
         ["ID", "MS"], [[2, "800"], [3, "900"], [1, "700"]]),
        ("SELECT n, LATEST_BY_OFFSET(id) AS last, COUNT(*) / 2 AS half FROM s GROUP BY n HAVING COUNT(*) > 1;",
         ["N", "LAST", "HALF"], [[5, 3, 1]]),
        ("SELECT * FROM s ORDER BY ROWTIME DESC LIMIT 1;", ["ID", "N"], [[3, 5]]),
        ("SELECT COUNT(*) FROM s WHERE n = 5;", ["KSQL_COL_0"], [[2]]),
        ("SELECT median(n) AS m FROM s ORDER BY m;", ["M"], [[5.0]]),  # only DuckDB has it
    ],
)  # fmt: skip
def test_queries_over_one_stream_know_ksqldbs_functions(
    monkeypatch: pytest.MonkeyPatch, text: str, names: list[str], rows: list[list[Any]]
) -> None:
    """DuckDB carried them out, and does not know them."""
    assert _asked(monkeypatch, text) == (names, rows)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT nope FROM s ORDER BY id;", "Column 'NOPE' cannot be resolved"),
        ("SELECT UCASEE('x') AS x FROM s ORDER BY id;", "Did you mean UCASE"),
    ],
)
def test_what_neither_language_knows_is_told_in_ours(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    with pytest.raises(SqlError, match=told):
        _asked(monkeypatch, text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT * FROM totls t JOIN s ON t.id = s.id;", "1:15"),
        ("\n  SELECT id FROM s WHERE n IN (SELECT n FROM totls);", "2:46"),  # not of our own grammar
        ("SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM totls;", "1:49"),
    ],
)
def test_a_misspelt_table_is_told_in_our_words_and_not_as_one_of_duckdbs(
    monkeypatch: pytest.MonkeyPatch, text: str, place: str
) -> None:
    """Did you mean "pg_tables"? was the suggestion."""
    with pytest.raises(SqlError, match=f"line {place}: TOTLS does not exist. Did you mean TOTALS"):
        _asked(
            monkeypatch, text, "CREATE TABLE totals (id INT PRIMARY KEY) WITH (kafka_topic='t', value_format='JSON');"
        )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT a.id FROM s a\n JOIN s b ON id = b.id;", "line 2:14: Column 'id' is ambiguous. Write its source"),
        ("SELECT a.id, b.nm FROM s a JOIN s b ON a.id = b.id;", "line 1:16: Column 'b.nm' cannot be resolved"),
        ("\nSELECT c.id FROM s a JOIN s b ON a.id = b.id;", "line 2:8: 'c' is not a valid stream/table name"),
        (
            "SELECT idd FROM s WHERE n IN (SELECT n FROM s);",
            "line 1:8: Column 'idd' cannot be resolved.*Did you mean ID",
        ),
        ("SELECT id, n, COUNT(*) FROM (SELECT * FROM s) GROUP BY id;", "line 1:12: Non-aggregate SELECT .*: n.*Either"),
        ("SELECT abs(a.id, 2) FROM s a JOIN s b USING (id);", r"1:8: Function 'abs' does not accept parameters \(INT"),
        ("SELECT lfpad(a.n) FROM s a JOIN s b USING (id);", "line 1:8: Can't find any functions with the name 'lfpad'"),
        ("SELECT CAST(n AS NOTYPE) FROM (SELECT * FROM s);", "line 1:18: There is no type NOTYPE"),
        ("SELECT * FROM s a JOIN s b USING (nope);", "line 1:35: Column 'nope' cannot be resolved"),
        ("SELECT a.n - DATE '2020-01-01' FROM s a JOIN s b USING (id);", "^The operator - does not take INTEGER, DATE"),
        ("SELECT 1 FROM s a JOIN s b USING (id) WHERE SUM(a.n) > 1;", "^WHERE clause cannot contain aggregates"),
        (
            "SELECT *\n FROM duckdb_settings();",
            r"^line 2:7: duckdb_settings\(\) is not carried out here: a query reads",
        ),
        ("SELECT * FROM information_schema.tables;", "^line 1:34: information_schema.tables is no stream, table"),
        ("SELECT * FROM s a JOIN duckdb_tables t ON a.id = t.id;", "^line 1:24: DUCKDB_TABLES does not exist"),
        ('SELECT COUNT(*) FROM (SELECT * FROM "absent") AS x;', "^line 1:37: absent does not exist"),
        ("SELECT current_setting('x') FROM s a JOIN s b ON a.id = b.id;", "^line 1:8: Can't find any functions"),
        ("SELECT getenv('HOME') AS h FROM s ORDER BY id;", "^line 1:8: Can't find any functions"),
        ("SELECT CAST('x' AS INT) FROM s a JOIN s b USING (id);", "^Could not convert string 'x'"),
    ],
)
def test_what_duckdb_refuses_is_told_in_our_sentences(monkeypatch: pytest.MonkeyPatch, text: str, told: str) -> None:
    """Binder Error: was before them, and no place."""
    with pytest.raises(SqlError, match=told) as caught:
        _asked(monkeypatch, text)
    assert not re.search("(Binder|Catalog|Conversion) Error", str(caught.value))


def test_a_push_query_whose_columns_cannot_be_written_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there for another minute: as many as may run, and nobody could ask."""
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    node.engine.session.run("CREATE STREAM s (n INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")

    def refused(*_: Any) -> Any:
        raise SqlError("There is no such message.")

    monkeypatch.setattr("headwater.sql.server.row_answers.sent", refused)
    body = b'{"sql": "SELECT * FROM s EMIT CHANGES;", "properties": {"auto.offset.reset": "earliest"}}'
    headers = Headers((("content-type", "application/json"),))
    answer = asyncio.run(make_door(node).handle(Request("POST", "/query-stream", ("query-stream",), "", headers, body)))
    assert answer.status == 400
    assert node.row_queries.pushes == {}


class _Quiet:
    """A topic to which nobody writes."""

    def __init__(self, _settings: Any) -> None:
        pass

    async def __aenter__(self) -> "_Quiet":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def list_topics(self) -> list[str]:
        return []

    async def partitions_for(self, _topic: str) -> list[Any]:
        return []

    async def beginning_offsets(self, _places: Any) -> dict[Any, int]:
        return {}

    end_offsets = beginning_offsets

    def assign(self, _places: Any) -> None:
        pass

    async def poll(self, _timeout_s: float) -> list[Any]:
        await asyncio.sleep(0)
        return []


def test_a_topic_of_print_that_is_not_there_is_no_wrong_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """It had the code of one."""
    monkeypatch.setattr("headwater.sql.server.row_queries.AsyncConsumer", _Quiet)
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    (statement,) = node.engine.session.parse("PRINT 't';")
    assert isinstance(statement, tree.Print)
    with pytest.raises(SqlError, match="Could not find topic 't'") as refused:
        asyncio.run(node.row_queries.check_printable(statement))
    assert code_of(refused.value) == 40000


def test_print_ends_with_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server waited for it until its patience was over."""
    monkeypatch.setattr("headwater.sql.server.row_queries.AsyncConsumer", _Quiet)
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    (statement,) = node.engine.session.parse("PRINT 't';")
    assert isinstance(statement, tree.Print)

    async def scene() -> list[str]:
        printing = asyncio.create_task(_all(node.row_queries.printed(statement)))
        await asyncio.sleep(0)
        node.row_queries.end_answers()
        return await asyncio.wait_for(printing, 30)

    async def _all(lines: Any) -> list[str]:
        return [each async for each in lines]

    assert asyncio.run(scene()) == []


def test_a_push_query_that_comes_while_its_server_stops_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rights were still being asked for when the others were ended: the server waited for it."""
    monkeypatch.setattr(push, "AsyncConsumer", _Quiet)
    node = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1"})[0])
    node.engine.session.run("CREATE STREAM s (n INT) WITH (kafka_topic='s', value_format='JSON', partitions=1);")

    async def scene() -> list[Any]:
        node.row_queries.end_answers()
        answer = await node.row_queries.query("SELECT * FROM s EMIT CHANGES;", {}, {})
        return [row async for row in answer.rows]

    assert asyncio.run(asyncio.wait_for(scene(), 30)) == []
    assert node.row_queries.pushes == {}
