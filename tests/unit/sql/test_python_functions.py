"""CREATE FUNCTION is code in the server: what the server's owner has not allowed is refused, whether in a call or in
the log.
"""

import json
import pickle
from typing import Any
from unittest import mock

import pytest
from pyspark import cloudpickle

from headwater.sql import budget
from headwater.sql.functions import scope
from headwater.sql.functions.python_functions import Policy
from headwater.sql.functions.registry import ScalarFunction
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.session import Session
from headwater.sql.server import answers, pull
from headwater.sql.server.engine import Engine
from headwater.sql.testing import run
from headwater.sql.values import EvaluationError
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.task import Task
from headwater.streams.stores.memory import MemoryState

_CODE = "CREATE FUNCTION f AS 'def f(x: int) -> int: return x + 1';"
_MODULE = "CREATE FUNCTION mean USING 'statistics:no_such_thing';"


def test_nothing_is_allowed_unless_it_is_said() -> None:
    session = Session()
    with pytest.raises(SqlError, match=r"ksql.functions.python.source.enabled=true"):
        session.run(_CODE)
    with pytest.raises(SqlError, match=r"ksql.functions.python.modules=statistics"):
        session.run(_MODULE)
    with pytest.raises(SqlError, match="may not take anything out of statistics"):
        Session(functions_allowed=Policy(modules=("stat", "statistics.more"))).run(_MODULE)


def test_a_statement_of_the_log_that_is_not_allowed_any_more_fails() -> None:
    command = json.dumps({"statement": _CODE, "streamsProperties": {}, "originalProperties": {}}).encode()
    assert Engine("s", "b", None, Policy()).apply(0, command).error is not None
    assert Engine("s", "b", None, Policy(source=True)).apply(0, command).error is None


def test_an_allowed_module_is_taken() -> None:
    session = Session(functions_allowed=Policy(modules=("unit",)))
    session.run("CREATE FUNCTION doubled USING 'unit.sql.test_python_functions:doubled';")
    assert list(session.catalog.functions) == ["DOUBLED"]
    shown = answers.function("", "DOUBLED", session.catalog.functions)
    assert (shown["type"], shown["description"]) == ("SCALAR", "Twice as much.")
    assert [each["signature"] for each in shown["functions"]] == ["(x BIGINT)"]
    names = [each["name"] for each in answers.functions("", session.catalog.functions)["functions"]]
    assert "DOUBLED" in names
    assert names == sorted(names)


def doubled(x: int) -> int:
    """Twice as much."""
    return 2 * x


def test_a_statement_that_fails_makes_no_function() -> None:
    session = Session(functions_allowed=Policy(source=True))
    for code in ("raise SystemError", "def f(x): return 1", "f = 4"):
        with pytest.raises(SqlError):
            session.run(f"CREATE FUNCTION f AS $${code}$$;")
    assert session.catalog.functions == {}


@pytest.mark.parametrize("way", ["json.loads", "json.codecs.open", "doubled.__globals__.get", "doubled.__class__"])
def test_an_allowed_module_does_not_allow_what_it_imports(way: str) -> None:
    session = Session(functions_allowed=Policy(modules=("unit",)))
    with pytest.raises(SqlError, match="is defined elsewhere"):
        session.run(f"CREATE FUNCTION taken USING 'unit.sql.test_python_functions:{way}';")
    assert session.catalog.functions == {}


_ON_COLUMNS = """
CREATE FUNCTION inverse AS $$
import pyarrow as pa, pyarrow.compute as pc
from typing import Annotated
calls = []
def inverse(x: Annotated[pa.Array, "BIGINT"]) -> Annotated[pa.Array, "BIGINT"]:
    calls.append(x.to_pylist())
    return pc.divide(100, x)
inverse.calls = calls
$$;
CREATE STREAM s (id INT KEY, a BIGINT, b BIGINT) WITH (kafka_topic='s', value_format='JSON');
"""


def _run(
    select: str, rows: list[tuple[int | None, int]], *, in_slot: bool = False
) -> tuple[list[Any], list[Any], list[Any]]:
    """What a query gives for a run of rows, the columns that the function was called with, and what was told.
    `in_slot`: it was pickled before, as for a slot of Spark.
    """
    session = Session(functions_allowed=Policy(source=True))
    session.run(f"{_ON_COLUMNS} CREATE STREAM t AS SELECT id, {select};")
    (query,) = session.queries.values()
    (plan,) = query.app.topology().sub_topologies()
    if in_slot:
        plan = pickle.loads(cloudpickle.dumps(plan))
    task = Task(plan, 0, query.app.settings(partition_count=lambda _: 1), MemoryState())
    values = [json.dumps({"A": a, "B": b}).encode() for a, b in rows]
    count = len(rows)
    task.add_columns(Chunk("s", 0, list(range(count)), [0] * count, [b"\0\0\0\1"] * count, values))  # type: ignore[arg-type]
    while task.process_next(100):
        pass
    found = [json.loads(each.value or b"") for piece in task.collect().columns for each in piece.records()]
    function = session.catalog.functions["INVERSE"]
    assert isinstance(function, ScalarFunction)
    return found, _calls_of(function), query.errors.seen


def _calls_of(function: ScalarFunction) -> list[Any]:
    (overload,) = function.overloads
    calls = overload.whole.__self__._call.calls  # type: ignore[union-attr]
    found = list(calls)
    calls.clear()
    return found


def test_a_function_on_columns_is_called_once_for_a_run_of_records() -> None:
    found, calls, told = _run("inverse(a) AS x FROM s", [(1, 1), (None, 1), (20, 1)])
    assert [each["X"] for each in found] == [100, None, 5]
    assert calls == [[1, 20]]
    assert not told


def test_of_a_column_that_fails_only_the_rows_that_fail_alone_are_null_and_told() -> None:
    found, calls, told = _run("inverse(a) AS x FROM s", [(1, 1), (2, 1), (0, 1), (4, 1)])
    assert [each["X"] for each in found] == [100, 50, None, 25]
    assert calls == [[1, 2, 0, 4], [1, 2], [0, 4], [0], [4]]
    assert told == [("X", "divide by zero")]


def test_a_function_on_columns_gets_the_rows_whose_branch_is_taken() -> None:
    select = "CASE WHEN a = 0 THEN 7 WHEN inverse(a) > 50 THEN inverse(b) ELSE inverse(inverse(a)) END AS x FROM s"
    found, calls, told = _run(select, [(0, 0), (1, 4), (20, 0), (1, 5)])
    assert [each["X"] for each in found] == [7, 25, 20, 20]
    assert calls == [[1, 20, 1], [4, 5], [20], [5]]
    assert not told


@pytest.mark.parametrize("in_slot", [False, True])
def test_an_item_that_has_no_value_by_column_is_null_and_the_others_of_its_array_stay(in_slot: bool) -> None:
    found, _, told = _run("ARRAY[inverse(a / b), 1] AS x FROM s", [(4, 2), (4, 0), (5, 1)], in_slot=in_slot)
    assert [each["X"] for each in found] == [[50, 1], [None, 1], [20, 1]]
    assert not told


def test_whatever_a_function_raises_coalesce_goes_on_behind_it() -> None:
    """Only errors of our own functions were NULL there; with others the whole column was."""
    found, _, _ = _run("COALESCE(inverse(a), -1) AS x FROM s", [(4, 1), (0, 1), (None, 1)])
    assert [each["X"] for each in found] == [25, -1, -1]
    (row,) = run(
        """
        CREATE FUNCTION missing AS 'def missing(x: int) -> int: return {}[x]';
        CREATE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='JSON');
        CREATE STREAM t AS SELECT id, COALESCE(missing(a), -1) AS x, missing(a) AS y FROM s;
        """,
        [{"topic": "s", "key": 1, "value": {"A": 2}}],
    )
    assert row["value"] == {"X": -1, "Y": None}


def test_where_and_select_call_a_function_once_each() -> None:
    found, calls, _ = _run("inverse(b) AS x FROM s WHERE inverse(a) > 20", [(1, 1), (50, 2), (2, 4)])
    assert [each["X"] for each in found] == [100, 25]
    assert calls == [[1, 50, 2], [1, 4]]


def test_what_a_row_may_cost_is_counted_for_each_row_while_others_wait() -> None:
    series = "TRANSFORM(GENERATE_SERIES(1, CAST(b AS INT)), x => x)"
    select = f"ARRAY_LENGTH({series}) + inverse(a) + ARRAY_LENGTH({series}) AS x FROM s"
    with mock.patch.object(budget, "STEPS_MAX", 100):
        found, calls, told = _run(select, [(1, 20), (2, 30), (4, 10)])
    assert [each["X"] for each in found] == [140, None, 45]
    assert calls == [[1, 2, 4]]
    assert len(told) == 1


@pytest.mark.parametrize("in_slot", [False, True])
@pytest.mark.parametrize(
    ("select", "value", "calls"),
    [
        ("TRANSFORM(ARRAY[a, 10, b], x => inverse(x) + a)", [52, 12, 27], [[2, 10, 4]]),
        ("TRANSFORM(ARRAY[a, NULL, b], x => inverse(x))", [50, None, 25], [[2, 4]]),
        ("FILTER(ARRAY[a, 10, b], x => inverse(x) > 20)", [2, 4], [[2, 10, 4]]),
        ("TRANSFORM(ARRAY[a, 10, b], x => CASE WHEN x > 5 THEN 0 ELSE inverse(inverse(x)) END)", [2, 0, 4], [[2, 4], [50, 25]]),
        ("TRANSFORM(MAP('p' := a, 'q' := b), (k, v) => k || 's', (k, v) => inverse(v))", {"ps": 50, "qs": 25}, [[2, 4]]),
        ("FILTER(MAP('p' := a, 'q' := b), (k, v) => inverse(v) > 30)", {"p": 2}, [[2, 4]]),
        ("REDUCE(ARRAY[a, b], CAST(100 AS BIGINT), (q, x) => inverse(q) * x)", 200, [[100], [2]]),
        ("TRANSFORM(ARRAY[ARRAY[a, 5], ARRAY[b]], y => TRANSFORM(y, x => inverse(x + a)))", [[25, 14], [16]], [[4, 7], [6]]),
    ],
    ids=["array", "nulls", "filter", "branches", "map", "filter a map", "reduce", "within another"],
)  # fmt: skip
def test_a_lambda_calls_a_function_on_columns_once_for_all_items(
    select: str, value: Any, calls: list[list[int]], in_slot: bool
) -> None:
    found, made, told = _run(f"{select} AS x FROM s", [(2, 4)], in_slot=in_slot)
    assert [each["X"] for each in found] == [value]
    assert in_slot or made == calls
    assert not told


def test_an_item_that_fails_by_column_makes_the_whole_array_null_as_one_by_one() -> None:
    found, _, told = _run("TRANSFORM(ARRAY[a, b], x => inverse(x)) AS x FROM s", [(2, 0), (2, 4)])
    assert [each["X"] for each in found] == [None, [50, 25]]
    assert told == [("X", "divide by zero")]


def test_all_items_of_a_lambda_by_column_share_what_their_row_may_cost() -> None:
    select = (
        "TRANSFORM(ARRAY[a, b], x => inverse(x) + ARRAY_LENGTH(TRANSFORM(GENERATE_SERIES(1, 60), y => y))) AS x FROM s"
    )
    for most, value in ((1_000, [110, 85]), (200, None)):
        with mock.patch.object(budget, "STEPS_MAX", most):
            found, _, told = _run(select, [(2, 4)])
        assert [each["X"] for each in found] == [value]
        assert len(told) == (value is None)


def test_a_pull_query_calls_a_function_on_columns_once() -> None:
    session = Session(functions_allowed=Policy(source=True))
    session.run(_ON_COLUMNS)
    table = "CREATE TABLE t (id INT PRIMARY KEY, a BIGINT, b BIGINT) WITH (kafka_topic='t', value_format='JSON');"
    session.run(table)
    text = "SELECT id, inverse(b) AS x FROM t WHERE inverse(a) > 20 ORDER BY inverse(b) DESC LIMIT 2;"
    sums = "SELECT SUM(inverse(a)) AS n FROM t GROUP BY inverse(b) HAVING inverse(SUM(inverse(a))) < 2;"
    rows = [[a, b, 0, 0, 0, key] for key, (a, b) in enumerate([(1, 10), (50, 1), (2, 4), (4, 5)])]
    function = session.catalog.functions["INVERSE"]
    assert isinstance(function, ScalarFunction)
    with scope.using(session.catalog.functions, {}):
        for query, expected, calls in (
            (text, [[2, 25], [3, 20]], [[1, 50, 2, 4], [10, 4, 5], [4, 5]]),
            (sums, [[100]], [[10, 1, 4, 5], [1, 50, 2, 4], [100, 2, 50, 25]]),
        ):
            (statement,) = session.parse(query)
            assert isinstance(statement, tree.Select)
            plan = pull.plan(statement.query, session.catalog.find("T"), "T")
            assert plan.answer(rows) == expected
            assert _calls_of(function) == calls


def test_a_function_on_columns_takes_and_gives_maps() -> None:
    session = Session(functions_allowed=Policy(source=True))
    session.run(
        """CREATE FUNCTION same AS $$
import pyarrow as pa
from typing import Annotated
def same(x: Annotated[pa.Array, "ARRAY<MAP<STRING, INT>>"]) -> Annotated[pa.Array, "ARRAY<MAP<STRING, INT>>"]:
    return x
$$;"""
    )
    function = session.catalog.functions["SAME"]
    assert isinstance(function, ScalarFunction)
    (overload,) = function.overloads
    assert overload.call([{"a": 1}, None, {}]) == [{"a": 1}, None, {}]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("def f(x: Annotated[pa.Array, 'INT']) -> Annotated[pa.Array, 'INT']: return [1]", "gives list, and no array"),
        ("def f(x: Annotated[pa.Array, 'INT']) -> Annotated[pa.Array, 'INT']: return x[:0]", "gives 0 rows for one"),
    ],
)
def test_what_is_no_column_of_its_rows_is_told(code: str, message: str) -> None:
    session = Session(functions_allowed=Policy(source=True))
    session.run(f"CREATE FUNCTION f AS $$import pyarrow as pa\nfrom typing import Annotated\n{code}$$;")
    function = session.catalog.functions["F"]
    assert isinstance(function, ScalarFunction)
    (overload,) = function.overloads
    with pytest.raises(EvaluationError, match=message):
        overload.call(1)


@pytest.mark.parametrize("parameters", ["", "x: int", "x: Annotated[pa.Array, 'INT'], y: int"])
def test_a_function_takes_and_gives_columns_or_none(parameters: str) -> None:
    session = Session(functions_allowed=Policy(source=True))
    code = f"def f({parameters}) -> Annotated[pa.Array, 'INT']: ..."
    with pytest.raises(SqlError, match="either all parameters and the result are columns of Arrow, or none"):
        session.run(f"CREATE FUNCTION f AS $$import pyarrow as pa\nfrom typing import Annotated\n{code}$$;")


_FAILING = """
CREATE FUNCTION m AS $$
class m:
    def initial(self): return 0
    def add(self, state, a: int): return state + a
    def result(self, state) -> int: return "text" if state == 2 else 10 // (state - 3)
    def merge(self, one, other): return 10 // (one + other) if one else other
$$;
CREATE STREAM s (g STRING KEY, a INT) WITH (kafka_topic='s', value_format='JSON');
"""


def _aggregated(window: str, *rows: tuple[int, int]) -> list[Any]:
    """What a table of `m` tells for these times and values, but for its tombstones."""
    found = run(
        f"{_FAILING} CREATE TABLE t AS SELECT g, m(a) AS r, COUNT(*) AS n FROM s {window} GROUP BY g;",
        [{"topic": "s", "key": "x", "value": {"A": a}, "timestamp": at} for at, a in rows],
    )
    return [(each["value"]["R"], each["value"]["N"]) for each in found if each["value"]]


def test_what_the_result_of_an_aggregate_raises_makes_the_column_null() -> None:
    """The query ended there, each time that it was started again; so it did where it gives another type."""
    assert _aggregated("", (0, 1), (1, 1), (2, 1), (3, 1)) == [(-5, 1), (None, 2), (None, 3), (10, 4)]


def test_where_a_merge_raises_the_later_session_stays() -> None:
    """The query ended there, each time that it was started again."""
    assert _aggregated("WINDOW SESSION (60 SECONDS)", (0, 4), (100_000, -4), (50_000, 2)) == [(10, 1), (-2, 1), (-2, 3)]
