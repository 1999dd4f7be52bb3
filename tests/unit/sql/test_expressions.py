"""Expressions: operators, casts and functions, each with the value that ksqlDB documents for it
(cases/expressions.txt).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from headwater.sql import budget
from headwater.sql.expressions import generated, row_functions
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.functions import library
from headwater.sql.functions.whole_calls import Failed
from headwater.sql.language import tree
from headwater.sql.language import types as t
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import parse
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import Session
from headwater.sql.values import EvaluationError, java_double, java_time
from unit.sql.expression_cases import LINES, parts_of

_COLUMNS: dict[str, tuple[t.Type, Any]] = {
    "I": (t.INTEGER, 7),
    "L": (t.BIGINT, 10_000_000_000),
    "D": (t.DOUBLE, 2.5),
    "S": (t.STRING, "Hello World"),
    "N": (t.STRING, None),
    "B": (t.BOOLEAN, True),
    "A": (t.array(t.INTEGER), [3, 1, 2]),
    "M": (t.mapping(t.STRING, t.DOUBLE), {"a": 1.5, "b": 2.0}),
    "T": (t.struct(("X", t.INTEGER), ("Y", t.STRING)), {"X": 5, "Y": "y"}),
    "DEC": (t.decimal(5, 2), Decimal("123.45")),
    "BYT": (t.BYTES, b"abc"),
    "NI": (t.INTEGER, None),
}
_SCOPE = Scope({(None, name): (place, given) for place, (name, (given, _)) in enumerate(_COLUMNS.items())}, width=12)
_ROW = [value for _, value in _COLUMNS.values()]


def compiled(text: str) -> Any:
    (statement,) = parse(f"SELECT {text} FROM x;")
    assert isinstance(statement, tree.Select)
    (item,) = statement.query.select
    assert isinstance(item, tree.SelectItem)
    return Compiler(_SCOPE).compile(item.expression)


def shown(value: Any) -> Any:
    """A value as the table of cases writes it."""
    match value:
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return java_double(value)
        case datetime() | date():
            return (
                value.isoformat().removesuffix("000")
                if isinstance(value, datetime) and value.microsecond
                else value.isoformat()
            )
        case time():
            return java_time(value)
        case _:
            return value


@pytest.mark.parametrize("line", LINES)
def test_an_expression_has_the_documented_value(line: str) -> None:
    text, rest = parts_of(line)
    wanted, _, wanted_type = rest.partition(" :: ")
    if wanted == "refused":
        with pytest.raises(SqlError):
            compiled(text)
        return
    expression = compiled(text)
    if wanted == "error":
        with pytest.raises(EvaluationError):
            expression.evaluate(list(_ROW))
        return
    value = shown(expression.evaluate(list(_ROW)))
    expected = json.loads(wanted)
    if isinstance(expected, float) and isinstance(value, float):
        assert math.isclose(value, expected, rel_tol=1e-12, abs_tol=1e-12)
    else:
        assert value == expected
        assert type(value) is type(expected)
    if wanted_type:
        assert str(expression.type) == wanted_type


_ROWS = [
    _ROW,
    [None] * len(_ROW),
    *([*_ROW[:place], None, *_ROW[place + 1 :]] for place in range(len(_ROW))),
    [2**31 - 1, 2**63 - 1, float("inf"), "%_\ud800\u00e9", "", False, [], {}, {}, Decimal("-0.01"), b"", -(2**31)],
]


def _outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    budget.begin()
    try:
        value = call()
    except Exception as error:  # noqa: BLE001  an error is an outcome as good as any
        return type(error), str(error)
    return type(value), repr(value)


@pytest.mark.parametrize("line", LINES)
def test_an_expression_that_is_written_out_gives_what_its_functions_give(line: str) -> None:
    """As a column and as a condition, with NULL in each place and at the edges of types: values and errors."""
    text, rest = parts_of(line)
    if rest.startswith("refused") or any(each in text for each in _DIFFERENT):
        return
    expression = compiled(text)
    noted: list[tuple[str, BaseException]] = []
    column = row_functions.select_of([("c", expression.written)], lambda *each: noted.append(each))
    condition = row_functions.filter_of(expression.written, "c", lambda *each: noted.append(each))
    assert column is not None
    assert condition is not None
    for row in _ROWS:
        expected = _outcome(lambda row=row: expression.evaluate(list(row)))
        noted.clear()
        (value,) = column(list(row))
        found = (type(noted[0][1]), str(noted[0][1])) if noted else (type(value), repr(value))
        assert found == expected
        assert condition(list(row)) is (expected == (bool, "True"))
    assert column(None) is None
    assert condition(None) is False


@pytest.mark.parametrize("line", LINES)
def test_an_expression_gives_the_same_when_all_its_calls_are_made_by_column(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if all functions took whole columns: values, errors and their order are those of one row after the other."""
    text, rest = parts_of(line)
    if rest.startswith("refused") or any(each in text for each in _DIFFERENT):
        return
    in_one_call, calls = generated.call, []

    def waiting(function: Callable[..., Any], arguments: Any, *, nulls: bool, whole: Any = None) -> generated.Code:
        def whole_of(rows: Sequence[tuple[Any, ...]]) -> list[Any]:
            calls.append(len(rows))
            return [_or_failed(function, row) for row in rows]

        return in_one_call(function, arguments, nulls=nulls, whole=whole or whole_of)

    monkeypatch.setattr(generated, "call", waiting)
    written = compiled(text).written
    for by_row, by_column in (
        (
            row_functions.select_of([("c", written)], _note_to(one := [])),
            row_functions.select_by_column([("c", written)]),
        ),
        (row_functions.filter_of(written, "c", _note_to(one)), row_functions.filter_by_column(written, "c")),
    ):
        if by_column is None:
            return
        assert by_row is not None
        one.clear()
        calls.clear()
        many: list[Any] = []
        expected = [by_row(None if row is None else list(row)) for row in (*_ROWS, None)]
        found = by_column.run([None if row is None else list(row) for row in (*_ROWS, None)], _note_to(many))
        assert repr(found) == repr(expected)
        assert many == one
        assert "=>" in text or len(calls) <= len(by_column.calls)  # within lambdas, once for each row


def _or_failed(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return function(*given)
    except Exception as error:  # noqa: BLE001
        return Failed(error)


def _note_to(seen: list[Any]) -> Callable[[str, BaseException], None]:
    return lambda what, error: seen.append((what, type(error), str(error)))


_DIFFERENT = ("RANDOM(", "UUID(", "UNIX_", "NOW(", "CURRENT")


@pytest.mark.parametrize(
    ("text", "is_short"),
    [
        ("I > 5 AND S <> 'x' AND N IS NOT NULL", True),
        ("I * 2 + 1", True),
        ("CASE WHEN I > 50 THEN 'large' ELSE 'small' END", True),
        ("S LIKE '%World'", True),
        ("L IN (1, 2, 3)", True),
        ("CAST(I AS DOUBLE) * D", True),
        ("UCASE(S)", True),
        ("DEC + 1", True),
        ("T->X", True),
        ("A[1] IS DISTINCT FROM I", True),
        ("TRANSFORM(A, x => x + 1)", False),
    ],
)
def test_the_commonest_expressions_call_no_tree_of_functions(text: str, is_short: bool) -> None:
    source = generated.Source()
    assert ("(row)" not in compiled(text).written.write(source)) is is_short


class _CountedRow(list[Any]):
    """How often each place is read."""

    def __init__(self, row: list[Any]) -> None:
        super().__init__(row)
        self.reads: Counter[Any] = Counter()

    def __getitem__(self, place: Any) -> Any:
        self.reads[place] += 1
        return super().__getitem__(place)


@pytest.mark.parametrize(
    "around",
    [
        "CASE WHEN {} BETWEEN 1 AND 9 THEN 7 ELSE 2 END",
        "CASE WHEN {} NOT BETWEEN 1 AND 6 THEN 7 ELSE 2 END",
        "CASE WHEN {} BETWEEN 1.5 AND 9.5 THEN 7e0 ELSE 2e0 END",
        "CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 WHEN 8 THEN 7 ELSE 5 END",
        "CASE {} WHEN 1.5 THEN 2e0 WHEN 3.5 THEN 4e0 ELSE 5e0 END",
        "CASE WHEN {} IN (1, L, 7) THEN 7 ELSE 2 END",
        "CASE WHEN {} IS DISTINCT FROM 7 THEN 7 ELSE 2 END",
        "CASE WHEN 7 IS DISTINCT FROM {} THEN 7 ELSE 2 END",
    ],
)
def test_an_operand_that_is_needed_several_times_is_compiled_written_and_worked_out_once(
    around: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each BETWEEN within another one doubles what a short statement costs."""
    text = "I + 1"
    for _ in range(8):
        text = around.format(text)
    found: Counter[str] = Counter()
    find = Scope.find

    def counted(scope: Scope, node: tree.Column) -> Any:
        found[node.name] += 1
        return find(scope, node)

    monkeypatch.setattr(Scope, "find", counted)
    expression = compiled(text)
    assert found["I"] == 1
    assert len(expression.written.write(generated.Source())) < 5 * len(text)
    column = row_functions.select_of([("c", expression.written)], lambda *_: None)
    assert column is not None
    for evaluate in (expression.evaluate, column):
        row = _CountedRow(_ROW)
        evaluate(row)
        assert row.reads[0] == 1


@pytest.mark.parametrize("text", ["I + 1", "I < 3", "-I", "I + 1 BETWEEN 1 AND 3", "CASE WHEN I < 3 THEN 1 END"])
def test_a_value_that_is_not_of_its_declared_type_makes_its_column_null_and_is_told(text: str) -> None:
    """A function or an aggregate of a user may give one: the other columns and rows go on."""
    expression, plain = compiled(text), compiled("I")
    noted: list[tuple[str, BaseException]] = []
    columns = row_functions.select_of(
        [("c", expression.written), ("i", plain.written)], lambda *each: noted.append(each)
    )
    assert columns is not None
    row = ["7", *_ROW[1:]]
    assert columns(row) == [None, "7"]
    ((name, error),) = noted
    assert name == "c"
    assert _outcome(lambda: expression.evaluate(row)) == (type(error), str(error))


def test_what_python_does_not_compile_stays_a_tree_of_functions() -> None:
    deep = compiled("DEC > 1").written
    for _ in range(300):
        deep = generated.negation(deep, bool)
    assert row_functions.filter_of(deep, "c", lambda *_: None) is None
    assert row_functions.select_of([("c", deep)], lambda *_: None) is None


def test_every_function_has_a_case() -> None:
    """Those that give another value each time are left out."""
    text = "\n".join(LINES)
    different = {"RANDOM", "UUID", "AS_VALUE"}
    assert [name for name in library.SCALARS if name not in different and f"{name}(" not in text] == []


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("UCAS(S)", "Did you mean UCASE?"),
        ("T->Z", "Could not find field 'Z'"),
        ("DEX + 1", "Did you mean DEC?"),
        ("COUNT(*)", "GROUP BY"),
        ("UCASE(I)", "UCASE(value STRING)"),
    ],
)
def test_a_wrong_expression_is_told_with_its_place_and_a_way_out(text: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        compiled(text)
    assert hint in str(caught.value)
    assert caught.value.position is not None


def test_a_pattern_that_could_run_for_ever_does_not() -> None:
    """RE2 takes time that grows with the text only; Python's own expressions would take years for these."""
    assert (
        compiled("REGEXP_EXTRACT('(a+)+$', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab')").evaluate(_ROW) is None
    )
    assert compiled("'" + "a" * 5000 + "' LIKE '" + "%a" * 60 + "b'").evaluate(_ROW) is False


def test_what_is_padded_is_bounded() -> None:
    with pytest.raises(EvaluationError, match="at most"):
        compiled("LPAD('a', 2000000000, 'x')").evaluate(_ROW)


def test_a_number_with_a_huge_exponent_is_not_written_out() -> None:
    """One record with it would fill the memory of the server."""
    assert compiled("""EXTRACTJSONFIELD('{"a": 1e999999999}', '$.a')""").evaluate(_ROW) == "1E+999999999"


def test_names_of_queries_have_nothing_that_a_path_could_use() -> None:
    session = Session()
    session.run("CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');")
    session.run("CREATE STREAM `../x` WITH (kafka_topic='x') AS SELECT * FROM s;")
    assert list(session.queries) == ["CSAS____x_0"]


@pytest.mark.parametrize(
    "text",
    [
        "TRANSFORM(GENERATE_SERIES(1, 3000), x => REDUCE(GENERATE_SERIES(1, 3000), 0, (q, y) => q + y))",
        "TRANSFORM(GENERATE_SERIES(1, 1000), x => LPAD('a', 4000000, 'a'))",
        "REPLACE(LPAD('a', 4000000, 'a'), 'a', LPAD('b', 3000, 'b'))",
    ],
)
def test_what_a_row_may_cost_is_bounded(text: str) -> None:
    budget.begin()
    with pytest.raises(EvaluationError, match="at most"):
        compiled(text).evaluate(_ROW)
    budget.begin()


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("i", "99999999999", "Expected type INTEGER for field `I` but got BIGINT(99999999999)"),
        ("i", "1.9", "Expected type INTEGER for field `I` but got DECIMAL(2, 1)(1.9)"),
        ("i", "-2147483649", "Expected type INTEGER for field `I` but got BIGINT(-2147483649)"),
        ("b", "1e30", "Expected type BIGINT for field `B` but got DOUBLE(1.0E30)"),
        ("d", "123.4", "for field `D` but got DECIMAL(4, 1)(123.4). Numeric field overflow"),
        ("d", "1.234", "got DECIMAL(4, 3)(1.234). Cannot fit decimal '1.234' into DECIMAL(4, 2) without rounding"),
        ("a", "ARRAY[1, 99999999999]", "got ARRAY<BIGINT>([1, 99999999999]). 99999999999 is no INTEGER"),
        ("m", "MAP('x' := 1.234)", "got MAP<STRING, DECIMAL(4, 3)>({x=1.234}). Cannot fit decimal"),
        ("s", "STRUCT(n := 99999999999)", "but got STRUCT<`N` BIGINT>({N=99999999999}). 99999999999 is no INTEGER"),
        ("s", "STRUCT(deep := ARRAY[STRUCT(at := 'never')])", "Failed to parse date 'never'"),
        ("s", "STRUCT(other := 1)", "but got STRUCT<`OTHER` INTEGER>"),
        ("a", "ARRAY['1']", "Expected type ARRAY<INTEGER> for field `A` but got ARRAY<STRING>"),
    ],
)
def test_a_number_of_values_that_the_column_cannot_hold_is_refused_and_not_cut(
    column: str, value: str, told: str
) -> None:
    session = Session()
    session.run(
        """CREATE STREAM s (i INT, b BIGINT, d DECIMAL(4, 2), a ARRAY<INT>, m MAP<STRING, DECIMAL(4, 2)>,
        s STRUCT<n INT, deep ARRAY<STRUCT<at DATE>>>) WITH (kafka_topic='s', value_format='JSON', partitions=1);"""
    )
    with pytest.raises(SqlError, match=re.escape(told)):
        session.run(f"INSERT INTO s ({column}) VALUES ({value});")
    (row,) = session.run("INSERT INTO s (i, b) VALUES (2147483647, 5e0);")
    assert isinstance(row, Insertion)
    assert row.value == [2147483647, 5, None, None, None, None]
    (row,) = session.run(
        """INSERT INTO s (d, a, m, s) VALUES
        (1e0, ARRAY[2.0, NULL], MAP('x' := 1), STRUCT(deep := ARRAY[STRUCT(at := '2020-01-02')]));"""
    )
    assert isinstance(row, Insertion)
    struct = {"N": None, "DEEP": [{"AT": date(2020, 1, 2)}]}
    assert row.value == [None, None, Decimal("1.00"), [2, None], {"x": Decimal("1.00")}, struct]


def test_text_of_values_is_base64_where_the_column_has_bytes() -> None:
    session = Session()
    session.run(
        "CREATE STREAM s (b BYTES, s STRUCT<b BYTES>) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
    )
    (row,) = session.run("INSERT INTO s (b, s) VALUES ('YmFy', STRUCT(b := 'YmF6'));")
    assert isinstance(row, Insertion)
    assert row.value == [b"bar", {"B": b"baz"}]
    with pytest.raises(SqlError, match="no base64"):
        session.run("INSERT INTO s (b) VALUES ('!');")


def test_the_negative_of_the_lowest_numbers() -> None:
    """`-(-2147483648)` was an INTEGER that no four bytes hold."""
    assert (compiled("-(-2147483648)").type, compiled("-(-2147483648)").evaluate(_ROW)) == (t.BIGINT, 2147483648)
    assert (compiled("-2147483648").type, compiled("-(2147483647)").type) == (t.INTEGER, t.INTEGER)
    lowest = compiled("-(-9223372036854775808)")
    assert (lowest.type, lowest.evaluate(_ROW)) == (t.BIGINT, -9223372036854775808)


def test_the_cube_root_of_a_cube_is_exact() -> None:
    """A condition `CBRT(27) = 3` did not hold."""
    roots = {27: 3.0, -27: -3.0, 1000: 10.0, 1e300: 1e100, 0: 0.0}
    assert {each: compiled(f"CBRT({each})").evaluate(_ROW) for each in roots} == roots
