"""Chains of operators and joins: what may stand in a statement can be planned and run, wherever it stands; what is
longer is refused before anything is created.
"""

from typing import Any

import pytest

from headwater.sql import budget
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree_depth import JOINS_MAX, LEVELS_MAX
from headwater.sql.plan.session import Session
from headwater.sql.testing import run
from headwater.sql.values import EvaluationError

_S = "CREATE STREAM s (id INT KEY, a INT, t STRING) WITH (kafka_topic='in', value_format='JSON');"
_T = "CREATE TABLE t (id INT PRIMARY KEY, b INT) WITH (kafka_topic='t', value_format='JSON');"
_COUNT = LEVELS_MAX - 3  # terms, and a few levels around them


def _values(statements: str, *values: dict[str, Any]) -> list[Any]:
    inputs = [{"topic": "in", "key": 1, "value": each, "timestamp": 0} for each in values]
    return [each["value"] for each in run(_S + statements, inputs)]


def _sum(name: str) -> str:
    return " + ".join([name] * _COUNT)


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        (f"CREATE STREAM u AS SELECT id, {_sum('a')} AS x FROM s;", {"X": 2 * _COUNT}),
        (f"CREATE STREAM u AS SELECT id, {_sum('CAST(a AS DECIMAL(3, 1))')} AS x FROM s;", {"X": 2.0 * _COUNT}),
        (f"CREATE STREAM u AS SELECT id, a AS x FROM s WHERE {_sum('a')} > 0;", {"X": 2}),
        (f"CREATE STREAM u AS SELECT {_sum('a')} AS k, a AS x FROM s PARTITION BY {_sum('a')};", {"X": 2}),
        (f"CREATE STREAM u AS SELECT id, TRANSFORM(ARRAY[a], y => {_sum('y')}) AS x FROM s;", {"X": [2 * _COUNT]}),
        (f"CREATE STREAM u AS SELECT id, EXPLODE(ARRAY[{_sum('a')}]) AS x FROM s;", {"X": 2 * _COUNT}),
        (
            f"CREATE TABLE u AS SELECT {_sum('a')} AS k, SUM({_sum('a')}) AS x FROM s GROUP BY {_sum('a')} "
            f"HAVING SUM({_sum('a')}) > 0;",
            {"X": 2 * _COUNT},
        ),
    ],
    ids=["select", "decimals", "where", "partition by", "lambda", "table function", "group by"],
)
def test_the_longest_chain_works_wherever_it_stands(statement: str, value: dict[str, Any]) -> None:
    assert _values(statement, {"a": 2}) == [value]


def test_chains_of_thousands_work_where_brackets_change_nothing() -> None:
    either = " OR ".join(f"a = {place}" for place in range(1_000))
    neither = " AND ".join(f"a <> {place}" for place in range(10, 1_000))
    text = " || ".join(["t"] * 1_000)
    statement = f"CREATE STREAM u AS SELECT id, {text} AS x FROM s WHERE ({either}) AND {neither};"
    assert _values(statement, {"a": 7, "t": "n"}, {"a": 70, "t": "m"}) == [{"X": "n" * 1_000}]


def test_a_long_chain_stops_where_a_short_one_does() -> None:
    """At the first term that decides; one that is NULL before has no value."""
    either = " OR ".join(["a = 1"] * 60 + ["1 / (a - 1) > 5"] * 60)
    statement = f"CREATE STREAM u AS SELECT id, {either} AS x, CAST(NULL AS BOOLEAN) OR {either} AS y FROM s;"
    assert _values(statement, {"a": 1}, {"a": 2}) == [{"X": True, "Y": None}, {"X": False, "Y": None}]


@pytest.mark.parametrize("count", [50, 51, 300])
@pytest.mark.parametrize(
    ("first", "others"), [("t", "NULL"), ("NULL || t", "NULL"), ("NULL || t", "t"), ("t || t", "NULL || NULL")]
)
def test_null_in_a_concatenation_is_null_however_long_it_is(first: str, others: str, count: int) -> None:
    text = " || ".join([first, *[others] * count])
    assert _values(f"CREATE STREAM u AS SELECT id, {text} AS x FROM s;", {"t": "n"}) == [{"X": None}]


@pytest.mark.parametrize("count", [3, 50, 51, 300])
@pytest.mark.parametrize("others", ["NULL", "t"])
def test_a_concatenation_that_begins_with_null_twice_is_refused_however_long_it_is(others: str, count: int) -> None:
    text = " || ".join(["NULL", "NULL", *[others] * count])
    with pytest.raises(SqlError, match=r"Unsupported arithmetic types: NULL \+ NULL"):
        _values(f"CREATE STREAM u AS SELECT id, {text} AS x FROM s;", {"t": "n"})


@pytest.mark.parametrize("count", [2, 50, 51, 201, 900])
def test_numbers_between_bars_are_added_from_left_to_right_however_many_they_are(count: int) -> None:
    """As ksqlDB, for which || is +; each addition makes a decimal a digit wider."""
    session = Session()
    session.run(_S + f"CREATE STREAM u AS SELECT id, {' || '.join(['1.5'] * count)} AS x FROM s;")
    assert str(session.catalog.find("U").value_columns[0].type) == f"DECIMAL({count + 1}, 1)"
    assert _values(f"CREATE STREAM u AS SELECT id, {' || '.join(['a'] * count)} AS x FROM s;", {"a": 2}) == [
        {"X": 2 * count}
    ]


def test_numbers_between_bars_are_added_as_where_there_are_few() -> None:
    """NULL gives NULL, INTEGER wraps around, a decimal among them makes all behind it decimals."""
    count = 1_100
    bars = " || ".join(["a"] * count)
    assert _values(f"CREATE STREAM u AS SELECT id, {bars} AS x FROM s;", {"a": 2**31 - 1}, {"a": None}) == [
        {"X": -count},
        {"X": None},
    ]
    session = Session()
    session.run(_S + f"CREATE STREAM u AS SELECT id, {bars} || 1.5 || {' || '.join(['a'] * 60)} AS x FROM s;")
    assert str(session.catalog.find("U").value_columns[0].type) == "DECIMAL(72, 1)"
    with pytest.raises(SqlError, match=r"1:\d+: DECIMAL precision must be at most 1000"):
        session.run(f"CREATE STREAM v AS SELECT id, {' || '.join(['1.5'] * count)} AS x FROM s;")


@pytest.mark.parametrize("given", ["d * d", "ROUND(d)", "1." + "1" * 1_000])
def test_a_decimal_that_is_too_wide_is_refused_with_its_place(given: str) -> None:
    """It was an error of the server."""
    source = "CREATE STREAM w (id INT KEY, d DECIMAL(1000, 0)) WITH (kafka_topic='w', value_format='JSON');"
    with pytest.raises(SqlError, match=r"^line 1:\d+: DECIMAL precision must be at most 1000"):
        Session().run(f"{source} CREATE STREAM u AS SELECT id, {given} AS x FROM w;")


def test_what_cannot_be_put_together_is_told_with_its_place() -> None:
    text = " || ".join(["t"] * 60 + ["a"] + ["t"] * 60)
    with pytest.raises(SqlError, match=r"1:\d+: Unsupported arithmetic types: STRING [+] INTEGER") as refused:
        _values(f"CREATE STREAM u AS SELECT id, {text} AS x FROM s;", {"t": "n"})
    assert refused.value.position is not None
    assert refused.value.position.column > 300


def test_a_long_concatenation_costs_what_it_makes_and_fails_where_a_term_does() -> None:
    text = " || ".join(["t"] * 60 + ["CAST(1 / a AS STRING)"])
    statement = f"CREATE STREAM u AS SELECT id, {text} AS x FROM s;"
    assert _values(statement, {"a": 1, "t": "n"}, {"a": 0, "t": "n"}) == [{"X": "n" * 60 + "1"}, {"X": None}]
    terms = tuple(tree.Literal("x" * 100) for _ in range(60))
    made = Compiler(Scope()).compile(tree.Concatenation(terms, (tree.NOWHERE,) * 59))
    budget.go_on(59)
    with pytest.raises(EvaluationError, match="at most"):
        made.evaluate([])
    budget.go_on(60)
    assert made.evaluate([]) == "x" * 6_000
    budget.begin()


def test_as_many_joins_as_a_query_may_have_work() -> None:
    joins = " ".join(f"JOIN t AS t{place} ON s.id = t{place}.id" for place in range(JOINS_MAX))
    statements = f"{_S}{_T}CREATE STREAM u AS SELECT s.id AS id, t{JOINS_MAX - 1}.b AS x FROM s {joins};"
    inputs = [
        {"topic": "t", "key": 1, "value": {"b": 5}, "timestamp": 0},
        {"topic": "in", "key": 1, "value": {"a": 1}, "timestamp": 1},
    ]
    assert [each["value"] for each in run(statements, inputs)] == [{"X": 5}]


def test_a_chain_that_is_too_long_is_refused_and_nothing_is_created() -> None:
    session = Session()
    session.run(_S)
    with pytest.raises(SqlError, match="Operators in one chain"):
        session.run(f"CREATE STREAM u AS SELECT id, {' + '.join(['a'] * 900)} AS x FROM s;")
    assert list(session.catalog.sources) == ["S"]
    assert session.queries == {}
