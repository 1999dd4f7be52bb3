"""Pull queries over the rows of a table."""

from decimal import Decimal
from typing import Any

import pytest

from headwater.sql.functions import scope
from headwater.sql.functions.python_functions import Policy
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import parse
from headwater.sql.plan.session import Session
from headwater.sql.server import pull

_ROWS = [("a", 1, 5.0), ("b", 2, None), ("c", 2, 1.0), ("d", None, 3.0)]


def _answer(text: str) -> tuple[list[str], list[list[Any]]]:
    session = Session()
    session.run("CREATE TABLE t (k STRING PRIMARY KEY, g INT, v DOUBLE) WITH (kafka_topic='t', value_format='JSON');")
    (statement,) = parse(text)
    assert isinstance(statement, tree.Select)
    assert isinstance(statement.query.source, tree.Source)
    plan = pull.plan(statement.query, session.catalog.find("T"), statement.query.source.alias)
    rows = [[g, v, 100 + place, 0, place, key] for place, (key, g, v) in enumerate(_ROWS)]
    return [each.name for each in plan.columns], plan.answer(rows)


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("SELECT * FROM t;", ["K", "G", "V"], [[key, g, v] for key, g, v in _ROWS]),
        ("SELECT v FROM t WHERE k = 'c';", ["V"], [[1.0]]),
        ("SELECT k FROM t WHERE g >= 2;", ["K"], [["b"], ["c"]]),
        ("SELECT k, ROWTIME AS at FROM t WHERE k IN ('a', 'd');", ["K", "AT"], [["a", 100], ["d", 103]]),
        ("SELECT x.k FROM t x LIMIT 2;", ["K"], [["a"], ["b"]]),
        ("SELECT k FROM t ORDER BY v DESC;", ["K"], [["b"], ["a"], ["d"], ["c"]]),
        ("SELECT k, v * 2 AS w FROM t WHERE v IS NOT NULL ORDER BY w LIMIT 1;", ["K", "W"], [["c", 2.0]]),
        ("SELECT k FROM t ORDER BY g, k DESC;", ["K"], [["a"], ["c"], ["b"], ["d"]]),
        ("SELECT COUNT(*) AS n, SUM(v) AS s, MAX(k) AS m FROM t;", ["N", "S", "M"], [[4, 9.0, "d"]]),
        ("SELECT COUNT(*) AS n FROM t WHERE k = 'z';", ["N"], [[0]]),
        ("SELECT g, COUNT(*) AS n FROM t GROUP BY g ORDER BY n DESC LIMIT 1;", ["G", "N"], [[2, 2]]),
        ("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) > 1;", ["G", "N"], [[2, 2]]),
        ("SELECT g + 1 AS h, SUM(v) + 1 AS s FROM t WHERE g = 2 GROUP BY g + 1;", ["H", "S"], [[3, 2.0]]),
    ],
)
def test_rows_now(text: str, names: list[str], rows: list[list[Any]]) -> None:
    assert _answer(text) == (names, rows)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k FROM t WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY k;",
        "SELECT k FROM t PARTITION BY g;",
        "SELECT nothing FROM t;",
        "SELECT k FROM t WHERE v;",
        "SELECT k FROM t GROUP BY g;",
    ],
)
def test_what_cannot_be_asked_is_refused(text: str) -> None:
    with pytest.raises(SqlError):
        _answer(text)


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["id INT PRIMARY KEY"], [[1], [2]]),
        (["id INT PRIMARY KEY", "word STRING PRIMARY KEY"], [[1], [2]]),
        (["word STRING PRIMARY KEY", "id INT PRIMARY KEY"], [[3], [1]]),
        (["tags ARRAY<INT> PRIMARY KEY", "id INT PRIMARY KEY"], [[2], [3]]),
    ],
)
def test_a_limit_alone_goes_by_the_key(keys: list[str], wanted: list[list[Any]]) -> None:
    """It took the rows that had come first: the next page by the last key left out those in between."""
    session = Session()
    columns = f"{', '.join(keys)}, v INT"
    session.run(f"CREATE TABLE t ({columns}) WITH (kafka_topic='t', key_format='JSON', value_format='JSON');")
    (statement,) = parse("SELECT id FROM t LIMIT 2;")
    assert isinstance(statement, tree.Select)
    plan = pull.plan(statement.query, session.catalog.find("T"), "T")
    given: list[dict[str, Any]] = [
        {"id": 2, "word": None, "tags": [1]},
        {"id": 3, "word": "a", "tags": [2]},
        {"id": 1, "word": "b", "tags": [3]},
    ]
    names = [each.split()[0] for each in keys]
    assert plan.answer([[0, 0, 0, 0, *(each[name] for name in names)] for each in given]) == wanted


@pytest.mark.parametrize(
    ("rows", "earliest", "latest"),
    [
        ([(3, 2, 0, 2), (2, 1, 0, 1)], 2, 3),  # the row of offset 2 took the place of one that was there first
        ([(3, 5, 0, 2), (2, 9, 0, 1)], 2, 3),  # whatever times they have
        ([(1, 4, 0, 1), (2, 9, 0, 0), (3, 5, 1, 0)], 3, 1),  # of several partitions, as a query would read them
    ],
)
def test_aggregates_by_offset_go_by_the_places_of_the_rows(
    rows: list[tuple[int, ...]], earliest: int, latest: int
) -> None:
    """A row that was changed kept the place of its key: LATEST_BY_OFFSET told what another key had before."""
    text = "SELECT LATEST_BY_OFFSET(a) AS l, EARLIEST_BY_OFFSET(a) AS e, COLLECT_LIST(a) AS c, COUNT(*) AS n FROM t;"
    ((last, first, everything, count),) = _gathered(text, [[*row, key] for key, row in enumerate(rows)])
    assert (first, last, everything[0], everything[-1], count) == (earliest, latest, earliest, latest, len(rows))


def test_an_aggregate_that_fails_for_a_row_goes_on_with_the_next() -> None:
    """The answer ended there, though a query that runs goes on."""
    function = """CREATE FUNCTION m AS $$
class m:
    def initial(self): return 0
    def add(self, state, a: int): return state + 60 // a
    def result(self, state) -> int: return state
$$;"""
    assert _gathered("SELECT m(a) AS x, COUNT(*) AS n FROM t;", [[0, 0, 0, 0, 1], [3, 0, 0, 1, 2]], function) == [
        [20, 2]
    ]


def _gathered(text: str, rows: list[list[Any]], before: str = "") -> list[list[Any]]:
    session = Session(functions_allowed=Policy(source=True))
    session.run(f"{before} CREATE TABLE t (id INT PRIMARY KEY, a INT) WITH (kafka_topic='t', value_format='JSON');")
    (statement,) = parse(text)
    assert isinstance(statement, tree.Select)
    with scope.using(session.catalog.functions, {}, {}):
        plan = pull.plan(statement.query, session.catalog.find("T"), "T")
    return plan.answer(rows)


_UNLIKE = [  # a DOUBLE, an array, a struct
    (1, 3.0, [1, None], {"X": 1, "Y": None}),
    (2, float("nan"), [1, 2], {"X": 1, "Y": "a"}),
    (3, 1.0, None, None),
    (4, 2.0, [], {"X": None, "Y": "b"}),
]


@pytest.mark.parametrize(
    ("order", "wanted"),
    [
        ("d", [3, 4, 1, 2]),
        ("d DESC", [2, 1, 4, 3]),
        ("a", [4, 2, 1, 3]),
        ("a DESC", [3, 1, 2, 4]),
        ("s", [2, 1, 4, 3]),
    ],
)
def test_rows_are_sorted_by_values_of_any_type_that_has_an_order(order: str, wanted: list[int]) -> None:
    """NaN left the rows around it unsorted, and a NULL within an array, or a struct, ended the query in a TypeError."""
    assert [row[0] for row in _sorted(order)] == wanted


def test_a_map_has_no_order() -> None:
    with pytest.raises(SqlError, match=r"line 1:27: ORDER BY cannot sort by ARRAY<MAP<STRING, INTEGER>>"):
        _sorted("ARRAY[m]")


def _sorted(order: str) -> list[list[Any]]:
    session = Session()
    columns = "id INT PRIMARY KEY, d DOUBLE, a ARRAY<INT>, s STRUCT<x INT, y STRING>, m MAP<STRING, INT>"
    session.run(f"CREATE TABLE t ({columns}) WITH (kafka_topic='t', value_format='JSON');")
    (statement,) = parse(f"SELECT id FROM t ORDER BY {order};")
    assert isinstance(statement, tree.Select)
    plan = pull.plan(statement.query, session.catalog.find("T"), "T")
    return plan.answer([[*each[1:], None, 0, 0, 0, each[0]] for each in _UNLIKE])


def test_an_aggregate_without_a_result_is_null() -> None:
    """The query ended with the error of its first group that had one: Numeric field overflow."""
    session = Session()
    session.run(
        "CREATE TABLE t (id INT PRIMARY KEY, g INT, a DECIMAL(3, 0)) WITH (kafka_topic='t', value_format='JSON');"
    )
    (statement,) = parse("SELECT g, SUM(a) AS total FROM t GROUP BY g;")
    assert isinstance(statement, tree.Select)
    plan = pull.plan(statement.query, session.catalog.find("T"), "T")
    rows = [[g, Decimal(a), 0, 0, 0, key] for key, (g, a) in enumerate([(1, 900), (1, 200), (2, 900)])]
    assert plan.answer(rows) == [[1, None], [2, 900]]
