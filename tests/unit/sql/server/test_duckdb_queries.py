"""Pull queries beyond one table, by DuckDB over given rows; and keys that a condition names."""

import asyncio
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from headwater.sql.functions.python_functions import EVERYTHING
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import parse
from headwater.sql.plan.session import Session
from headwater.sql.server import duckdb_queries
from headwater.sql.server.duckdb_functions import own_functions
from headwater.sql.server.duckdb_pool import AT_ONCE, DuckDbPool
from headwater.sql.server.duckdb_queries import SourceName
from headwater.sql.server.lookup import key_of, lookup_of

_ORDERS = duckdb_queries.Relation(
    (("ID", types.INTEGER), ("WHO", types.STRING), ("AMOUNT", types.decimal(6, 2))),
    [[1, "ada", Decimal("2.50")], [2, "bob", Decimal("1.00")], [3, "ada", None]],
)
_PEOPLE = duckdb_queries.Relation(
    (("NAME", types.STRING), ("BORN", types.DATE), ("TAGS", types.array(types.STRING))),
    [["ada", date(1815, 12, 10), ["x"]], ["eve", date(2000, 1, 1), None]],
)


def _ask(text: str) -> tuple[list[tuple[str, str]], list[list[Any]]]:
    words = duckdb_queries.in_duckdbs_words(text)
    columns, rows = duckdb_queries.answer(words, {"orders": _ORDERS, "People": _PEOPLE})
    return [(each.name, str(each.type)) for each in columns], list(rows)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT o.id, p.born FROM orders o JOIN people p ON o.who = p.name ORDER BY o.id;", [[1, date(1815, 12, 10)], [3, date(1815, 12, 10)]]),
        ("SELECT name FROM people WHERE name NOT IN (SELECT who FROM orders);", [["eve"]]),
        ("SELECT who, SUM(id) AS n FROM orders GROUP BY who ORDER BY n DESC;", [["ada", 4], ["bob", 2]]),
        ("WITH big AS (SELECT * FROM orders WHERE amount > 2) SELECT `ID` FROM big;", [[1]]),
        ("SELECT id FROM orders UNION ALL SELECT 9 ORDER BY 1;", [[1], [2], [3], [9]]),
        ("SELECT id, ROW_NUMBER() OVER (PARTITION BY who ORDER BY id) AS n FROM orders ORDER BY id;", [[1, 1], [2, 1], [3, 2]]),
        ("SELECT tags FROM people ORDER BY name;", [[["x"]], [None]]),
        ("SELECT SUM(amount) AS s FROM orders;", [[Decimal("3.50")]]),
        ("SELECT id, TO_BYTES('00ff', 'hex') AS b FROM orders ORDER BY id LIMIT 1;", [[1, b"\x00\xff"]]),
    ],
)  # fmt: skip
def test_any_sql_over_rows(text: str, rows: list[list[Any]]) -> None:
    assert _ask(text)[1] == rows


def test_what_sql_has_no_type_for_is_text_as_duckdb_writes_it() -> None:
    """A difference of two times was `MonthDayNano(months=0, ...)`."""
    columns, rows = _ask(
        'SELECT MAX(born)::TIMESTAMP - MIN(born)::TIMESTAMP AS "a", [INTERVAL 1 MONTH] AS "a", \'101\'::BIT AS b, '
        "99999999999999999999999999999999999999999 AS n, TIMETZ '10:00:00+02' AS t, COUNT(*) AS c FROM people;"
    )
    assert columns == [
        ("A", "STRING"), ("A", "ARRAY<STRING>"), ("B", "STRING"), ("N", "STRING"), ("T", "STRING"), ("C", "BIGINT")
    ]  # fmt: skip
    assert rows == [["67227 days", ["1 month"], "101", "99999999999999999999999999999999999999999", "10:00:00+02", 2]]


def test_a_function_that_duckdb_has_not_is_told_with_who_has_it() -> None:
    with pytest.raises(SqlError, match=r"Can't find any functions with the name 'nobodys'.*DuckDB carries out joins"):
        _ask("SELECT nobodys(id) AS n FROM orders ORDER BY n;")


def test_columns_have_types_of_sql() -> None:
    columns, _ = _ask("SELECT id, who, amount, COUNT(*) OVER () AS n, SUM(id) OVER () AS s, 1.5 > id AS b FROM orders;")
    assert [name for name, _ in columns] == ["ID", "WHO", "AMOUNT", "N", "S", "B"]
    assert [given for _, given in columns] == ["INTEGER", "STRING", "DECIMAL(6, 2)", "BIGINT", "BIGINT", "BOOLEAN"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM nothing;",
        "SELECT missing FROM orders;",
        "SELECT * FROM read_csv('/etc/passwd');",
        "SELECT * FROM '/etc/passwd';",
        "SELECT * FROM read_json('http://169.254.169.254/latest/meta-data');",
        "SELECT * FROM 'http://127.0.0.1:8081/subjects';",
        "SELECT * FROM relations;",
        "SELECT getenv('HOME');",
        "SELECT CAST('x' AS INT) FROM orders;",
    ],
)
def test_what_is_not_there_or_not_allowed_is_told(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        _ask(text)
    assert "\n" not in caught.value.what


@pytest.mark.parametrize(
    ("text", "bounds", "told"),
    [
        ("SELECT * FROM range(11);", duckdb_queries.Bounds(rows_max=10), "ksql.query.pull.rows.max"),
        ("SELECT * FROM range(100000000000);", duckdb_queries.Bounds(), "more than 1000000 rows"),
        (
            "SELECT repeat('x', 1000) FROM range(2000);",
            duckdb_queries.Bounds(bytes_max=1_000_000),
            "The answer has more than",
        ),
        ("SELECT 1 FROM orders;", duckdb_queries.Bounds(bytes_max=20), "What the query reads has more than"),
    ],
)
def test_an_answer_and_its_sources_are_bounded(text: str, bounds: duckdb_queries.Bounds, told: str) -> None:
    with pytest.raises(SqlError, match=told):
        duckdb_queries.answer(text, {"orders": _ORDERS}, bounds)


def test_bounds_are_what_is_still_allowed() -> None:
    assert (
        len(list(duckdb_queries.answer("SELECT * FROM range(5000);", {}, duckdb_queries.Bounds(rows_max=5_000))[1]))
        == 5_000
    )


def test_an_error_in_the_middle_of_an_answer_is_told() -> None:
    with pytest.raises(SqlError, match=r"^(?!.*\n).*Could not convert"):
        _ask("SELECT CAST(CASE WHEN range = 9000 THEN 'x' ELSE '1' END AS INT) FROM range(10000);")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM duckdb_settings();",
        "SELECT * FROM arrow_scan(1, 2, 3);",  # it read memory at the address that was given
        "SELECT * FROM query('SELECT 1');",
        "SELECT * FROM orders WHERE id IN (SELECT 1 FROM Duckdb_Secrets());",
        "SELECT (SELECT COUNT(*) FROM glob('*')) AS n;",
        "SELECT * FROM duckdb_tables;",
        "SELECT * FROM sqlite_master;",
        "SELECT * FROM information_schema.tables;",
        "SELECT * FROM pg_catalog.pg_settings;",
        "SELECT * FROM 'file.csv';",
        "SELECT * FROM (DESCRIBE orders);",
        "SELECT * FROM (SHOW TABLES);",
        "SELECT id FROM orders UNION ALL (FROM duckdb_logs);",
        "WITH duckdb_tables AS (SELECT * FROM duckdb_tables) SELECT * FROM duckdb_tables;",
        "WITH RECURSIVE duckdb_views AS (SELECT * FROM duckdb_views UNION ALL SELECT 1) SELECT * FROM duckdb_views;",
        "SELECT (WITH pg_class AS (SELECT 1) SELECT * FROM pg_class), relname FROM pg_class;",
        "WITH x AS (INSERT INTO orders VALUES (1) RETURNING *) SELECT * FROM x;",
        "SELECT 1; SELECT * FROM duckdb_settings();",
        "SELECT E'\\'' FROM duckdb_settings() --';",  # a text of DuckDB's, of which our tokens know nothing
        "PRAGMA version;",
        "ATTACH 'file';",
        "COPY orders TO 'file';",
        "SELECT getenv('HOME');",
        "SELECT current_setting('temp_directory') AS t;",
        "SELECT id FROM orders ORDER BY getvariable('x');",
        "SELECT version();",
        "SELECT pg_catalog.pg_typeof(1);",
        "SELECT write_log('x');",
        "SELECT get_block_size('memory');",  # a macro that reads pragma_database_size()
    ],
)
def test_a_query_reaches_its_sources_and_ordinary_functions_alone(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        duckdb_queries.answer(text, {"orders": _ORDERS})
    assert re.search("exist|no stream|carried out here|Can't find any functions", caught.value.message)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("WITH a AS (SELECT 1 AS n), B AS (SELECT n + 1 AS n FROM A) SELECT n FROM b;", [[2]]),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT SUM(n) FROM r;", [[6]]),
        ("SELECT COUNT(*) FROM orders, range(2), unnest([1, 2]) AS u(x), json_each('[1]');", [[12]]),
        ("SELECT list_avg([1, 3]), [x + 1 for x in [1]], NULLIF(1, 2), {'a': 1}['a'], now() = now();", [[2.0, [2], 1, 1, True]]),
        ("SELECT LAG(id) OVER w AS l FROM orders WINDOW w AS (ORDER BY id) ORDER BY id LIMIT 1;", [[None]]),
        ("SELECT * FROM (SELECT id, who FROM orders) PIVOT (COUNT(*) FOR who IN ('ada')) WHERE id = 1;", [[1, 1]]),
        (f"SELECT {' + '.join(['1'] * 400)};", [[400]]),  # deeper than Python's reader of JSON goes
    ],
)  # fmt: skip
def test_ordinary_queries_are_not_refused(text: str, rows: list[list[Any]]) -> None:
    assert list(duckdb_queries.answer(text, {"orders": _ORDERS})[1]) == rows


def test_sizes_of_values() -> None:
    assert duckdb_queries.size_of([1, None, "abc", b"de", {"k": ["v", 2.0]}]) == 8 + 8 + 3 + 2 + 1 + 1 + 8


_ENDLESS = "SELECT SUM((a.range * b.range) % 7) FROM range(100000000) a, range(100000000) b;"


async def _nothing() -> dict[str, Any]:
    return {}


def test_a_query_that_takes_too_long_is_stopped() -> None:
    async def test() -> None:
        pool = DuckDbPool(duckdb_queries.Bounds(), seconds_max=0.01)
        for _ in range(AT_ONCE + 1):
            with pytest.raises(SqlError, match=r"no answer within 0\.01 seconds"):
                await pool.answer(_ENDLESS, _nothing)
        await pool.close()

    asyncio.run(test())


def test_a_query_that_nobody_waits_for_gives_its_place_to_others() -> None:
    async def test() -> None:
        pool = DuckDbPool(duckdb_queries.Bounds())
        asked = [asyncio.create_task(pool.answer(_ENDLESS, _nothing)) for _ in range(AT_ONCE)]
        while len(pool._running) < AT_ONCE:
            await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        assert list((await pool.answer("SELECT 1;", _nothing))[1]) == [[1]]
        await pool.close()
        assert all(each.cancelled() for each in asked)

    asyncio.run(test())


def test_the_end_of_the_server_stops_queries() -> None:
    async def test() -> None:
        pool = DuckDbPool(duckdb_queries.Bounds())
        asked = asyncio.create_task(pool.answer(_ENDLESS, _nothing))
        while not pool._running:
            await asyncio.sleep(0)
        await pool.close()
        with pytest.raises(SqlError, match="was stopped"):
            await asked

    asyncio.run(test())


def test_which_texts_are_questions_with_an_end() -> None:
    assert duckdb_queries.is_query("SELECT 1;")
    assert duckdb_queries.is_query("with a as (select 1) select * from a")
    assert not duckdb_queries.is_query("SELECT * FROM s EMIT CHANGES;")
    assert not duckdb_queries.is_query("DROP TABLE t;")
    assert not duckdb_queries.is_query("SELECT 1; DROP TABLE t;")
    assert not duckdb_queries.is_query("")


def test_which_names_are_sources() -> None:
    text = "SELECT a, b FROM Orders o, `people` WHERE x IN (SELECT y FROM more) AND z = 1"
    assert duckdb_queries.sources_in(text) == {
        SourceName("b", False): False,
        SourceName("Orders", False): True,
        SourceName("people", True): False,
        SourceName("more", False): True,
    }
    assert [each.sql for each in duckdb_queries.sources_in(text)] == ["B", "ORDERS", "people", "MORE"]
    assert list(duckdb_queries.sources_in("SELECT a IS DISTINCT FROM b FROM s;")) == [SourceName("s", False)]


def test_sources_whose_names_differ_in_case_are_told_apart() -> None:
    """DuckDB took both for the one that came last."""
    text = 'SELECT a.id, `orders`.id FROM orders a JOIN `orders` ON a.id = `orders`.id JOIN "ORDERS" c ON c.id = a.id;'
    names = duckdb_queries.sources_in(text)
    called = duckdb_queries.told_apart(names)
    own, other = called[SourceName("orders", False)], called[SourceName("orders", True)]
    assert own.lower() != other.lower()
    assert called[SourceName("ORDERS", True)].lower() == own.lower(), "the same stream as the first"
    rows = {own: _ORDERS, other: duckdb_queries.Relation((("ID", types.INTEGER),), [[3], [4]])}
    assert list(duckdb_queries.answer(duckdb_queries.in_duckdbs_words(text, called), rows)[1]) == [[3, 3]]
    text = "SELECT ORDERS.id, `orders`.id + 10 FROM `orders`, orders WHERE Orders.id = `orders`.id;"
    called = duckdb_queries.told_apart([SourceName("orders", True), SourceName("orders", False)])
    rows = {
        called[SourceName("orders", False)]: _ORDERS,
        "orders": duckdb_queries.Relation((("ID", types.INTEGER),), [[3]]),
    }
    words = duckdb_queries.in_duckdbs_words(text, called)
    assert '"orders_2".id, "orders".id + 10 FROM "orders", "orders_2" WHERE "orders_2".id' in words
    assert list(duckdb_queries.answer(words, rows)[1]) == [[3, 13]], (
        "also where it is written in other letters elsewhere"
    )
    plain = duckdb_queries.told_apart(duckdb_queries.sources_in("SELECT * FROM Orders, `people`"))
    assert list(plain.values()) == ["Orders", "people"]


def test_pseudo_columns_are_there_where_they_are_named_and_not_in_a_star() -> None:
    session = Session()
    session.run("CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    row = [7, 1700, 0, 5, "a"]  # as a view has it: the value, ROWTIME, ROWPARTITION, ROWOFFSET, the key
    table = session.catalog.find("T")
    for text, names, expected in (
        ("SELECT * FROM t JOIN t u USING (k);", ["K", "V", "V"], ["a", 7, 7]),
        ("SELECT * FROM t ORDER BY ROWTIME;", ["K", "V"], ["a", 7]),
        ("SELECT *, ROWTIME AS at FROM t ORDER BY rowoffset;", ["K", "V", "AT"], ["a", 7, 1700]),
        ("SELECT COUNT(*) AS n, v * 2 AS w FROM t GROUP BY v, ROWTIME;", ["N", "W"], [1, 14]),
        ("SELECT x.*, y.ROWTIME AS at FROM t x JOIN t AS y USING (k);", ["K", "V", "AT"], ["a", 7, 1700]),
        ("SELECT DISTINCT t.* FROM t WHERE t.ROWTIME > 1;", ["K", "V"], ["a", 7]),
        ("SELECT * FROM (SELECT k, ROWTIME FROM t) x;", ["K", "ROWTIME"], ["a", 1700]),
        ("SELECT x.* FROM (SELECT *, ROWTIME FROM t) x;", ["K", "V", "ROWTIME"], ["a", 7, 1700]),
        ("WITH x AS (SELECT v, ROWTIME FROM t) SELECT * FROM x;", ["V", "ROWTIME"], [7, 1700]),
        ("SELECT *, v IS DISTINCT FROM 8 AS d FROM t ORDER BY ROWTIME;", ["K", "V", "D"], ["a", 7, True]),
        ("SELECT * EXCLUDE (v, ROWTIME) FROM t;", ["K"], ["a"]),
    ):
        pseudo = duckdb_queries.pseudo_in(text)
        relation = duckdb_queries.relation_of(table, [row], pseudo)
        words = duckdb_queries.in_duckdbs_words(text, {SourceName("t", False): "t"}, pseudo)
        columns, rows = duckdb_queries.answer(words, {"t": relation})
        assert ([each.name for each in columns], list(rows)) == (names, [expected])


def test_own_functions_are_called_by_duckdb() -> None:
    session = Session(functions_allowed=EVERYTHING)
    for code in (
        "def half(x: int) -> int: return 10 // x",
        "def shown(x: int | None, y: str) -> str: return f'{x}{y}'",
        "def parts(x: str) -> list[str]: return list(x)",
        "from typing import Annotated\nimport pyarrow as pa, pyarrow.compute as pc\n"
        "def doubled(x: Annotated[pa.Array, 'INTEGER']) -> Annotated[pa.Array, 'BIGINT']: return pc.multiply(x, 2)",
        "from datetime import date\ndef year(x: date) -> int: return -x.year",
        "def mapped(x: int) -> dict[str, int]: return {}",
        "def many(*x: int) -> int: return 1",
    ):
        name = code.split("def ")[1].partition("(")[0]
        session.run(f"CREATE FUNCTION {name} AS $${code}$$;")
    text = "SELECT half(id - 1) h, shown(NULL, who) s, parts(who) p, doubled(id) d FROM orders ORDER BY id;"
    own = own_functions(text, session.catalog.functions)
    assert sorted(each.name for each in own) == ["DOUBLED", "HALF", "PARTS", "SHOWN"]
    words = duckdb_queries.in_duckdbs_words(text, functions=own)
    rows = list(duckdb_queries.answer(words, {"orders": _ORDERS}, functions=own)[1])
    assert rows[0] == [None, "Noneada", ["a", "d", "a"], 2]
    assert [row[0] for row in rows] == [None, 10, 5]
    assert own_functions("SELECT mapped(1), many(1, 2), year FROM orders", session.catalog.functions) == []
    text = "SELECT year(born) AS y FROM people ORDER BY 1;"  # DuckDB has one, too
    own = own_functions(text, session.catalog.functions)
    words = duckdb_queries.in_duckdbs_words(text, functions=own)
    assert list(duckdb_queries.answer(words, {"people": _PEOPLE}, functions=own)[1]) == [[-2000], [-1815]]


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("k = 'a' AND n = 1", [["a", 1]]),
        ("1 = n AND v > 2 AND k = 'a'", [["a", 1]]),
        ("k = 'a'", None),
        ("k = 'a' OR n = 1", None),
        ("k = 'a' AND n = v", None),
        ("k = 'a' AND n = '1'", None),
        ("k = 'a' AND n IN (1, 2)", None),
        ("k = 'a' AND n <> 1", None),
    ],
)
def test_a_condition_names_keys_or_none(condition: str, keys: list[list[Any]] | None) -> None:
    session = Session()
    session.run(
        "CREATE TABLE t (k STRING PRIMARY KEY, n BIGINT PRIMARY KEY, v INT) WITH (kafka_topic='t', format='JSON');"
    )
    (statement,) = parse(f"SELECT * FROM t WHERE {condition};")
    assert isinstance(statement, tree.Select)
    found = lookup_of(statement.query.where, session.catalog.find("T")).keys
    assert found == (None if keys is None else tuple(map(key_of, keys)))


def test_a_list_names_several_keys() -> None:
    session = Session()
    session.run("CREATE TABLE t (k INT PRIMARY KEY, v INT) WITH (kafka_topic='t', value_format='JSON');")
    (statement,) = parse("SELECT * FROM t WHERE k IN (3, 1, 3);")
    assert isinstance(statement, tree.Select)
    assert lookup_of(statement.query.where, session.catalog.find("T")).keys == (key_of([3]), key_of([1]))
