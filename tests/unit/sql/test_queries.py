"""Whole statements, run without a broker: cases/*.txt say what goes in and what must come out."""

from typing import Any

import pytest

from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.processing_errors import ProcessingError
from headwater.sql.plan.relations import Errors
from headwater.sql.plan.session import Session
from headwater.sql.testing import run
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.task import Task
from headwater.streams.stores.memory import MemoryState
from unit.sql.cases_support import CASES, Case


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_statements_give_what_ksqldb_documents(case: Case) -> None:
    if case.refusal is not None:
        with pytest.raises(SqlError) as caught:
            run(case.sql, case.inputs, topics=case.topics)
        assert case.refusal in str(caught.value)
        return
    found: dict[str, list[dict[str, Any]]] = {}
    for record in run(case.sql, case.inputs, topics=case.topics):
        window = record.pop("window", None)
        if window:
            record["window"] = {"start": window["start"], "end": window["end"]}
        found.setdefault(record["topic"], []).append(record)
    wanted: dict[str, list[dict[str, Any]]] = {}
    for record in case.outputs:
        wanted.setdefault(record["topic"], []).append(record)
    assert found == wanted


def test_names_of_cases_differ() -> None:
    assert len({case.name for case in CASES}) == len(CASES)


def _told(statement: str, *values: str) -> list[tuple[str, str]]:
    """What a query told while it read these records."""
    session = Session()
    session.run(statement)
    (query,) = session.queries.values()
    (plan,) = query.app.topology().sub_topologies()
    task = Task(plan, 0, query.app.settings(partition_count=lambda _: 1), MemoryState())
    count = len(values)
    rows = [each.encode() for each in values]
    task.add_columns(Chunk("in", 0, list(range(count)), [7] * count, [b"\0\0\0\1"] * count, rows))  # type: ignore[arg-type]
    while task.process_next(100):
        pass
    return query.errors.seen


_TEXT = """CREATE STREAM s (id INT KEY, at STRING) WITH (kafka_topic='in', value_format='JSON', timestamp='at',
timestamp_format='yyyy-MM-dd'); CREATE STREAM t AS SELECT * FROM s;"""
_SINK = """CREATE STREAM s (id INT KEY, at BIGINT) WITH (kafka_topic='in', value_format='JSON');
CREATE STREAM t WITH (timestamp='at') AS SELECT * FROM s;"""


@pytest.mark.parametrize(
    ("statement", "value", "told"),
    [
        (_TEXT, '{"AT": "2020-01-01"}', ""),
        (_TEXT, '{"AT": null}', "in-0@0 is left out: its TIMESTAMP column AT says no time: it is NULL"),
        (
            _TEXT,
            '{"AT": "x"}',
            "in-0@0 is left out: its TIMESTAMP column AT says no time: Text 'x' could not be parsed with the pattern 'yyyy-MM-dd'",
        ),
        (_SINK, '{"AT": 5}', ""),
        (_SINK, '{"AT": null}', "A row of the result is left out: its TIMESTAMP column AT says no time: it is NULL"),
        (_SINK, '{"AT": -5}', "A row of the result is left out: its TIMESTAMP column AT says no time: -5 is before 1970"),
    ],
)  # fmt: skip
def test_rows_without_a_time_are_told(statement: str, value: str, told: str) -> None:
    assert _told(statement, value) == ([("timestamp", told)] if told else [])


_THROW = {"ksql.timestamp.throw.on.invalid": "TRUE"}
_NUMBER = """CREATE STREAM s (id INT KEY, at BIGINT) WITH (kafka_topic='in', value_format='JSON', timestamp='at');
CREATE STREAM t AS SELECT * FROM s;"""


@pytest.mark.parametrize(
    ("statement", "value"), [(_TEXT, {"AT": "x"}), (_TEXT, {"AT": None}), (_NUMBER, {"AT": None}), (_NUMBER, {})]
)
def test_a_row_of_a_source_without_a_time_ends_the_query_where_that_is_set(statement: str, value: Any) -> None:
    rows = [{"topic": "in", "key": 1, "value": value, "timestamp": 0}]
    assert run(statement, rows) == []
    with pytest.raises(SqlError, match=r"^in-0@0 ends the query: its TIMESTAMP column AT says no time: "):
        run(statement, rows, _THROW)


@pytest.mark.parametrize("statement", [_NUMBER, _SINK])
def test_a_time_before_1970_and_a_result_without_one_are_left_out_all_the_same(statement: str) -> None:
    at = [-5] if statement is _NUMBER else [-5, None]
    rows = [{"topic": "in", "key": 1, "value": {"AT": each}, "timestamp": 0} for each in at]
    assert run(statement, rows, _THROW) == []


_KEYLESS = "CREATE STREAM s (a INT, b INT) WITH (kafka_topic='in', key_format='NONE', value_format='JSON');"


@pytest.mark.parametrize(
    ("statement", "format_"),
    [
        ("CREATE STREAM t (a INT KEY, b INT) WITH (kafka_topic='t', value_format='JSON');", "JSON"),
        (f"{_KEYLESS} CREATE STREAM t AS SELECT * FROM s PARTITION BY a;", "JSON"),
        (f"{_KEYLESS} CREATE TABLE t AS SELECT a, COUNT(*) AS n FROM s GROUP BY a;", "JSON"),
        (f"{_KEYLESS} CREATE STREAM t AS SELECT l.a, r.b FROM s l JOIN s r WITHIN 1 HOUR ON l.a = r.a;", "JSON"),
        (f"{_KEYLESS} CREATE STREAM t AS SELECT * FROM s;", "NONE"),
        (f"{_KEYLESS} CREATE STREAM t WITH (key_format='KAFKA') AS SELECT * FROM s PARTITION BY a;", "KAFKA"),
        (f"{_KEYLESS} CREATE STREAM k AS SELECT * FROM s PARTITION BY a; CREATE STREAM t AS SELECT * FROM k PARTITION BY NULL;", "NONE"),
    ],
)  # fmt: skip
def test_a_key_that_no_format_is_said_for_has_the_default_one(statement: str, format_: str) -> None:
    session = Session(settings={"ksql.persistence.default.format.key": "json"})
    session.run(statement)
    assert session.catalog.sources["T"].key_format.name == format_


def test_what_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(SqlError, match=r"ksql.timestamp.throw.on.invalid cannot be 'perhaps'"):
        run(_TEXT, [], {"ksql.timestamp.throw.on.invalid": "perhaps"})


def test_rows_of_a_thousand_columns() -> None:
    columns = ", ".join(f"c{place} INT" for place in range(1_000))
    row = {f"C{place}": place for place in range(1_000)}
    (found,) = run(
        f"CREATE STREAM s (k INT KEY, {columns}) WITH (kafka_topic='in', value_format='JSON');"
        "CREATE STREAM t AS SELECT * FROM s WHERE c999 = 999;",
        [{"topic": "in", "key": 1, "value": row, "timestamp": 0}],
    )
    assert found["value"] == row


def test_retention_is_that_of_the_store() -> None:
    session = Session()
    session.run(
        "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON'); CREATE TABLE t AS SELECT id, "
        "COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 5 DAYS, GRACE PERIOD 1 MINUTE) GROUP BY id;"
    )
    (query,) = session.queries.values()
    (plan,) = query.app.topology().sub_topologies()
    assert [store.spec.retention_ms for store in plan.stores] == [5 * 86_400_000]


@pytest.mark.parametrize("format_", ["AVRO", "JSON_SR", "PROTOBUF"])
def test_rows_of_every_version_of_a_schema_are_read_and_what_a_version_has_not_is_null(format_: str) -> None:
    """Each by the schema whose id stands before it, whichever was the latest when the statement was made."""
    schemas = MemorySchemas()
    options = FormatOptions(subject="in-value", schemas=schemas, nullable="OPTIONAL" if format_ == "PROTOBUF" else None)

    def serde(*names: str) -> Any:
        return format_named(format_).serde([Field(name, types.STRING) for name in names], options)

    first, second, third = serde("A"), serde("A", "B"), serde("B", "C")
    written = [first.serialize(["a1"]), second.serialize(["a2", "b2"]), third.serialize(["b3", "c3"])]
    assert len({each[:5] for each in written}) == 3  # the ids
    assert [second.deserialize(each) for each in written] == [["a1", None], ["a2", "b2"], [None, "b3"]]


def test_a_row_that_cannot_be_decoded_ends_a_query_that_is_told_so() -> None:
    """`ksql.fail.on.deserialization.error` was taken, and had no effect."""
    sql = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON'); CREATE STREAM t AS SELECT * FROM s;"
    inputs = [{"topic": "s", "key": 1, "value": {"v": "no number"}, "timestamp": 0}]
    assert run(sql, inputs) == []
    with pytest.raises(Exception, match="no number"):
        run(sql, inputs, {"ksql.fail.on.deserialization.error": "true"})


_TWO = (
    "CREATE STREAM s (n INT) WITH (kafka_topic='in', value_format='JSON');"
    "CREATE STREAM other (n INT) WITH (kafka_topic='in', value_format='JSON');"
)


@pytest.mark.parametrize(
    "loop",
    [
        "INSERT INTO s SELECT n + 1 AS n FROM s;",
        "INSERT INTO s SELECT n + 1 AS n FROM other;",
        "CREATE STREAM t WITH (kafka_topic='in') AS SELECT n + 1 AS n FROM s;",
    ],
)
def test_a_query_that_reads_what_it_writes_for_ever_is_told(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hung until memory ended."""
    monkeypatch.setattr("headwater.sql.testing.OWN_RECORDS_MAX", 50)
    with pytest.raises(SqlError, match="reads the topic in, into which it writes, and comes to no end"):
        run(_TWO + loop, [{"topic": "in", "value": {"n": 1}}])


def test_a_query_whose_results_grow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.sql.testing.OWN_BYTES_MAX", 100_000)
    loop = "CREATE STREAM s (v STRING) WITH (kafka_topic='in', value_format='JSON'); INSERT INTO s SELECT v + v AS v FROM s;"
    with pytest.raises(SqlError, match="comes to no end"):
        run(loop, [{"topic": "in", "value": {"v": "x" * 100}}])


def test_a_query_that_reads_what_it_writes_may_come_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record may lead to as many, however many there are."""
    monkeypatch.setattr("headwater.sql.testing.OWN_RECORDS_MAX", 2)
    inputs = [{"topic": "in", "value": {"n": n}} for n in (0, 1, 1, 1)]
    found = run(_TWO + "INSERT INTO s SELECT n + 1 AS n FROM s WHERE n < 2;", inputs)
    assert [each["value"]["N"] for each in found] == [1, 2, 2, 2, 2]


_S = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"


@pytest.mark.parametrize(
    ("statement", "place", "told"),
    [
        ("CREATE STREAM t (v INT) WITH (kafka_topic='t',\n vlue_format='JSON');", "2:2", "Did you mean VALUE_FORMAT"),
        ("CREATE STREAM t (v INT) WITH (kafka_topic='t', value_format='JSO');", "1:48", "Unknown format: JSO"),
        ("CREATE STREAM t (v INT) WITH (kafka_topic='a b', format='JSON');", "1:31", "cannot be the name of a topic"),
        ("CREATE STREAM t (v INT) WITH (kafka_topic='t', format='JSON', partitions=0);", "1:63", "at least 1"),
        ("CREATE STREAM t (v INT) WITH (kafka_topic='t', format='JSON', timestamp='w');", "1:63", "TIMESTAMP column"),
        (
            "CREATE STREAM t (v INT) WITH (kafka_topic='t', format='KAFKA', wrap_single_value=true);",
            "1:64",
            "not support",
        ),
        ("CREATE STREAM t (k INT KEY) WITH (kafka_topic='t', format='JSON', window_type='X');", "1:67", "WINDOW_TYPE"),
        (_S + "CREATE STREAM t WITH (replicas='x') AS SELECT * FROM s;", f"1:{len(_S) + 23}", "REPLICAS"),
        (_S + "INSERT INTO s WITH (query_id='a b') SELECT * FROM s;", f"1:{len(_S) + 21}", "alphanumeric"),
    ],
)
def test_what_is_wrong_with_a_property_is_told_where_it_stands(statement: str, place: str, told: str) -> None:
    """It was told where the statement begins."""
    with pytest.raises(SqlError, match=f"^line {place}: .*{told}"):
        run(statement, [])


def _totals(clauses: str, inputs: list[dict[str, Any]]) -> list[Any]:
    source = (
        "CREATE TABLE t (id INT PRIMARY KEY, g STRING, a DECIMAL(3, 0)) WITH (kafka_topic='t', value_format='JSON');"
        if "FROM t GROUP" in clauses
        else "CREATE STREAM s (g STRING KEY, a DECIMAL(3, 0)) WITH (kafka_topic='t', value_format='JSON');"
    )
    found = run(f"{source} CREATE TABLE totals AS SELECT g, SUM(a) AS total, COUNT(*) AS n {clauses};", inputs)
    return [each["value"] and (each["value"]["TOTAL"], each["value"]["N"]) for each in found]


def _row(key: Any, at: int, **columns: Any) -> dict[str, Any]:
    return {"topic": "t", "key": key, "value": columns or None, "timestamp": at}


def test_a_sum_of_decimals_is_right_again_when_it_fits_its_type_again() -> None:
    """A value that was left out because the sum was too large was taken back all the same: 700 was left of 900."""
    inputs = [_row(1, 0, g="x", a=900), _row(2, 1, g="x", a=200), _row(2, 2)]
    assert _totals("FROM t GROUP BY g", inputs) == [(900, 1), (None, 2), (900, 1)]


def test_sessions_that_merge_to_a_sum_beyond_its_type_go_on() -> None:
    """The query ended, each time that it was started again: Numeric field overflow."""
    inputs = [_row("x", 0, a=900), _row("x", 100_000, a=900), _row("x", 50_000, a=1), _row("x", 60_000, a=-802)]
    totals = _totals("FROM s WINDOW SESSION (60 SECONDS) GROUP BY g", inputs)
    assert [each for each in totals if each] == [(900, 1), (900, 1), (None, 3), (999, 4)]


def test_what_is_null_because_a_sum_is_too_large_is_told() -> None:
    statement = (
        "CREATE STREAM s (id INT KEY, a DECIMAL(3, 0)) WITH (kafka_topic='in', value_format='JSON');"
        "CREATE TABLE t AS SELECT id, SUM(a) AS total FROM s GROUP BY id;"
    )
    (told,) = _told(statement, '{"A": 900}', '{"A": 200}')
    assert told[0] == "SUM"
    assert told[1].startswith("Numeric field overflow: A field with precision 3 and scale 0")


def test_what_was_told_last_is_kept_and_no_more_of_it_than_somebody_reads() -> None:
    """The first ten thousand messages were kept, whole: a gigabyte, and EXPLAIN never showed what came behind them."""
    told: list[ProcessingError] = []
    errors = Errors(listener=told.append)
    for number in range(20_000):
        errors.note("c", ValueError(f"{number} {'x' * 5_000}"))
    assert errors.seen[-1][1].startswith("19999 x")
    assert len(errors.seen) < 3_000
    assert max(len(message) for _, message in errors.seen) < 2_100
    assert max(len(each.message) for each in told) < 2_100


def test_an_error_that_cannot_say_what_it_is_makes_its_column_null_all_the_same() -> None:
    """The query ended there, each time that it was started again."""
    (row,) = run(
        """
        CREATE FUNCTION f AS $$
class Mute(Exception):
    def __str__(self): return 1
def f(x: int) -> int: raise Mute
$$;
        CREATE STREAM s (id INT KEY, a INT) WITH (kafka_topic='s', value_format='JSON');
        CREATE STREAM t AS SELECT id, a, f(a) AS x FROM s;
        """,
        [{"topic": "s", "key": 1, "value": {"A": 2}}],
    )
    assert row["value"] == {"A": 2, "X": None}


def test_long_fields_of_delimited_rows_are_read() -> None:
    """A row with a field of more than 131,072 characters was left out, also where a query had written it."""
    values = ["x" * 140_000, 'q"' * 100_000]
    found = run(
        """
        CREATE STREAM s (id INT KEY, a STRING, b INT) WITH (kafka_topic='s', value_format='JSON');
        CREATE STREAM t WITH (value_format='DELIMITED') AS SELECT id, a, b FROM s;
        CREATE STREAM u WITH (value_format='JSON') AS SELECT * FROM t;
        """,
        [{"topic": "s", "key": 1, "value": {"A": each, "B": 2}, "timestamp": 0} for each in values],
    )
    assert [each["value"] for each in found if each["topic"] == "U"] == [{"A": each, "B": 2} for each in values]
