"""The database API of Python (PEP 249). Parameters: each becomes one literal, whatever is in it."""

import base64
import contextlib
import enum
import json
import math
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pytest

import headwater.sql
from headwater.base.errors import UserError
from headwater.sql import dbapi
from headwater.sql.language.parser import parse, split, substitute
from headwater.sql.shell import RefusedError, ServerAwayError, TypedRows


class _Colour(int, enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (5, "5"),
        (2.5, "2.5E0"),
        (1e300, "1e+300"),
        (Decimal("1.50"), "1.50"),
        ("it's", "'it''s'"),
        (date(2020, 2, 29), "'2020-02-29'"),
        ([1, "a"], "ARRAY[1, 'a']"),
        ({"k": 1}, "MAP('k' := 1)"),
        (b"\x00\xff", "TO_BYTES('00ff', 'hex')"),
        (np.float64(1.5), "1.5E0"),
        (np.float32(1.5), "1.5E0"),
        (np.int64(-7), "-7"),
        (np.bool_(True), "TRUE"),
        (datetime(2024, 1, 1, 1, 2, 3, 123456), "'2024-01-01T01:02:03.123'"),  # noqa: DTZ001  a TIMESTAMP has no zone
        (datetime(2024, 1, 1, 1, 2, 3, tzinfo=timezone(timedelta(hours=5, minutes=30))), "'2023-12-31T19:32:03.000'"),
        (time(1, 2, 3), "'01:02:03.000'"),
        (_Colour.RED, "1"),
        (Decimal("1E+25"), "10000000000000000000000000."),
        (Decimal("-5"), "-5."),
    ],
)
def test_literals(value: Any, text: str) -> None:
    assert dbapi.literal(value) == text
    parse(f"SELECT {text} FROM s;")


def bind(statement: str, parameters: Any) -> str:
    """What a cursor sends where no variables are defined."""
    text, literals = dbapi._marked(statement, parameters)
    return substitute(text, {}, literals)


def test_places_are_those_outside_of_quotes_and_comments() -> None:
    text = "SELECT '?', `?`, ? /* ? */ FROM s -- ?\n WHERE a = ?"
    assert bind(text, ["x", 2]) == "SELECT '?', `?`, 'x' /* ? */ FROM s -- ?\n WHERE a = 2"


@pytest.mark.parametrize("value", ["'; DROP STREAM s; --", "' OR 1 = 1", "\\'"])
def test_a_value_stays_a_value(value: str) -> None:
    assert len(parse(bind("SELECT * FROM s WHERE a = ?;", [value]))) == 1


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("SELECT ?", []),
        ("SELECT ?", [1, 2]),
        ("SELECT ?", [1, None]),
        ("SELECT 1", [1]),
        ("SELECT ?", [object()]),
        ("SELECT ?", "a"),
        ("SELECT ?", {0: "a"}),
    ],
)
def test_what_does_not_fit_is_told(text: str, given: Any) -> None:
    with pytest.raises(dbapi.ProgrammingError):
        bind(text, given)


def test_what_nobody_answers_is_told() -> None:
    with dbapi.connect("http://127.0.0.1:1") as connection, pytest.raises(dbapi.DatabaseError, match="does not answer"):
        connection.cursor().execute("SELECT 1 FROM s")


def test_a_server_that_is_away_is_an_operational_error() -> None:
    with dbapi.connect("http://127.0.0.1:1") as connection:
        for statement in ("SELECT 1 FROM s", "SHOW STREAMS"):
            with pytest.raises(dbapi.OperationalError, match="does not answer"):
                connection.cursor().execute(statement)


@pytest.mark.parametrize("value", [math.nan, math.inf, Decimal("NaN")])
def test_what_no_column_can_hold_is_a_data_error(value: Any) -> None:
    with pytest.raises(dbapi.DataError):
        dbapi.literal(value)


def test_a_negative_number_behind_a_minus_is_no_comment() -> None:
    assert bind("SELECT a -? FROM s", [-5]) == "SELECT a - -5 FROM s"


class _Client:
    """Answers as the server does."""

    def __init__(self, *rows: list[Any], types: tuple[str, ...] = (), refusal: Exception | None = None) -> None:
        self._rows = rows
        self._types = list(types)
        self._refusal = refusal
        self.asked: list[str] = []
        self.variables: dict[str, str] = {"amount": "it's 5", "place": "s"}

    def statements(self, text: str, literals: Mapping[str, str]) -> list[str]:
        return [substitute(each, self.variables, literals) for each in split(text)]

    @contextlib.contextmanager
    def typed_query(self, text: str) -> Iterator[TypedRows]:
        self.asked.append(text)
        if self._refusal is not None:
            raise self._refusal
        yield [f"C{place}" for place in range(len(self._types))], self._types, iter(self._rows)

    def run(self, text: str) -> list[dict[str, Any]]:
        self.asked.append(text)
        if text.startswith(("CREATE", "INSERT")):
            return [{"@type": "currentStatus", "commandStatus": {"message": "made"}}]
        if self._refusal is not None:
            raise self._refusal
        return [{"@type": "variables", "variables": [{"name": "a", "value": "1"}]}]


def _cursor(*rows: list[Any], types: tuple[str, ...] = (), refusal: Exception | None = None) -> dbapi.Cursor:
    return dbapi.Connection(cast("Any", _Client(*rows, types=types, refusal=refusal))).cursor()


def test_what_show_lists_are_rows() -> None:
    cursor = _cursor()
    cursor.execute("SHOW VARIABLES")
    assert cursor.description == [(name, "STRING", None, None, None, None, True) for name in ("NAME", "VALUE")]
    assert (cursor.rowcount, cursor.rownumber) == (1, 0)
    assert cursor.fetchall() == [("a", "1")]
    assert cursor.rownumber == 1
    cursor.execute("CREATE")
    assert (cursor.description, cursor.rowcount, cursor.rownumber) == (None, -1, None)
    for fetch in (cursor.fetchall, cursor.fetchone, cursor.fetchmany):
        with pytest.raises(dbapi.InterfaceError, match="gave no rows"):
            fetch()


@pytest.mark.parametrize(
    ("refusal", "kind", "code"),
    [
        (RefusedError("line 1:1: mismatched input", code=40001), "ProgrammingError", 40001),
        (RefusedError("not authorized", code=40301), "ProgrammingError", 40301),
        (RefusedError("who are you?", code=40100), "OperationalError", 40100),
        (RefusedError("too many", code=42900), "OperationalError", 42900),
        (RefusedError("starting", code=50300), "OperationalError", 50300),
        (RefusedError("oh", code=50000), "InternalError", 50000),
        (RefusedError("POST only", code=40500), "NotSupportedError", 40500),
        (UserError("no end of a text"), "ProgrammingError", None),
        (ServerAwayError("gone"), "OperationalError", None),
        (ConnectionResetError("gone"), "OperationalError", None),
    ],
)
@pytest.mark.parametrize("statement", ["SELECT 1 FROM s", "SHOW VARIABLES"])
def test_errors_are_sorted_as_pep_249_has_them(statement: str, refusal: Exception, kind: str, code: int | None) -> None:
    cursor = _cursor(refusal=refusal)
    with pytest.raises(dbapi.DatabaseError) as refused:
        cursor.execute(statement)
    assert (type(refused.value).__name__, refused.value.code) == (kind, code)


def test_the_module_and_its_connections_have_what_pep_249_names() -> None:
    tree = {
        "Warning": Exception, "Error": Exception, "InterfaceError": dbapi.Error, "DatabaseError": dbapi.Error,
        "DataError": dbapi.DatabaseError, "OperationalError": dbapi.DatabaseError,
        "IntegrityError": dbapi.DatabaseError, "InternalError": dbapi.DatabaseError,
        "ProgrammingError": dbapi.DatabaseError, "NotSupportedError": dbapi.DatabaseError,
    }  # fmt: skip
    for name, above in tree.items():
        assert getattr(headwater.sql, name).__base__ is above
        assert getattr(dbapi.Connection, name) is getattr(headwater.sql, name)
    assert (headwater.sql.apilevel, headwater.sql.threadsafety, headwater.sql.paramstyle) == ("2.0", 1, "qmark")
    assert headwater.sql.Date(2020, 2, 29) == date(2020, 2, 29)
    assert headwater.sql.Timestamp(2020, 2, 29, 1, 2, 3) == datetime(2020, 2, 29, 1, 2, 3)  # noqa: DTZ001
    assert headwater.sql.Time(1, 2, 3) == time(1, 2, 3)
    assert headwater.sql.Binary(b"a") == b"a"
    now = headwater.sql.TimestampFromTicks(86_400.5 * 365)
    assert (now.date(), now.time()) == (
        headwater.sql.DateFromTicks(86_400.5 * 365),
        headwater.sql.TimeFromTicks(86_400.5 * 365),
    )
    assert all(hasattr(headwater.sql, name) for name in headwater.sql.__all__)
    with pytest.raises(AttributeError):
        headwater.sql.nothing  # noqa: B018


_TYPES = ("STRING", "BYTES", "DECIMAL(5, 2)", "DATE", "TIME", "TIMESTAMP", "ARRAY<TIMESTAMP>", "MAP<INTEGER, BYTES>",
          "STRUCT<`A` DATE, `B` INTEGER>", "SOMETHING ELSE")  # fmt: skip


def test_columns_have_types_and_their_values_are_those_of_python() -> None:
    row = ["a", "AP8=", Decimal("1.50"), "2020-02-29", "01:02", "2020-02-29T01:02:03.004", [0, None], {"5": "AA=="},
           {"A": 1, "B": None}, 7]  # fmt: skip
    cursor = _cursor(row, [None] * 10, types=_TYPES).execute("-- what is there\nSELECT * FROM s")
    assert cursor.description is not None
    codes = [each[1] for each in cursor.description]
    assert codes == list(_TYPES)
    kinds = [dbapi.STRING, dbapi.BINARY, dbapi.NUMBER, dbapi.DATETIME, dbapi.DATETIME, dbapi.DATETIME]
    assert all(code == kind for code, kind in zip(codes, kinds, strict=False))
    assert not any(code in (dbapi.STRING, dbapi.NUMBER, dbapi.ROWID) for code in codes[6:])
    assert cursor.description[2] == ("C2", "DECIMAL(5, 2)", None, None, 5, 2, True)
    moment = datetime(2020, 2, 29, 1, 2, 3, 4000)  # noqa: DTZ001  a TIMESTAMP has no zone
    first = datetime(1970, 1, 1)  # noqa: DTZ001
    assert cursor.fetchone() == (
        "a", b"\0\xff", Decimal("1.50"), date(2020, 2, 29), time(1, 2), moment, [first, None], {5: b"\0"},
        {"A": date(1970, 1, 2), "B": None}, 7,
    )  # fmt: skip
    assert cursor.fetchmany() == [(None,) * 10]
    assert (cursor.fetchone(), cursor.fetchall(), cursor.rowcount, cursor.rownumber) == (None, [], -1, 2)


def test_tables_of_arrow_have_the_types_of_the_columns_also_where_no_row_has_a_value() -> None:
    cursor = _cursor(["a", None, {"5": "AA=="}], types=("STRING", "DECIMAL(5, 2)", "MAP<INTEGER, BYTES>"))
    table = cursor.execute("WITH x AS (SELECT 1) SELECT * FROM x").to_arrow()
    assert [str(each.type) for each in table.schema] == ["string", "decimal128(5, 2)", "map<int32, binary>"]
    assert table.to_pylist() == [{"C0": "a", "C1": None, "C2": [(5, b"\0")]}]
    assert _cursor().execute("SHOW VARIABLES").to_arrow().to_pylist() == [{"NAME": "a", "VALUE": "1"}]


def test_rows_that_insert_wrote_are_counted() -> None:
    cursor = _cursor()
    assert cursor.execute("INSERT INTO s VALUES (?)", [1]).rowcount == 1
    assert cursor.executemany("INSERT INTO s VALUES (?)", [[1], [2], [3]]).rowcount == 3
    assert cursor.executemany("INSERT INTO s VALUES (?)", []).rowcount == 0
    assert cursor.execute("INSERT INTO s SELECT * FROM t").rowcount == -1
    assert cursor.executemany("CREATE STREAM s", [[], []]).rowcount == -1
    assert cursor.lastrowid is None


def test_what_is_closed_is_told() -> None:
    cursor = _cursor([1], types=("INTEGER",)).execute("SELECT * FROM s")
    connection = cursor.connection
    assert connection is not None
    assert connection.autocommit
    connection.commit()
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()
    connection.close()
    for use in (connection.cursor, connection.commit, connection.rollback, cursor.fetchone, cursor.fetchall):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use()
    with pytest.raises(dbapi.InterfaceError, match="closed"):
        cursor.execute("SELECT 1 FROM s")


def test_all_streams_of_show_streams_extended_are_rows() -> None:
    """The rows were those of the first stream."""

    def described(name: str, *columns: str) -> dict[str, Any]:
        fields = [{"name": each, "schema": {"type": "INTEGER"}} for each in columns]
        return {"name": name, "fields": fields, "type": "STREAM", "topic": name.lower(), "extended": True}

    class Describing(_Client):
        def run(self, text: str) -> list[dict[str, Any]]:
            query = {"id": "Q", "state": "ERROR", "statementText": "S", "topology": "T", "rowErrors": ["F: bad"]}
            form = {"signature": "(x INT)", "returnType": "INT", "description": "d"}
            return {
                "SHOW": [
                    {
                        "@type": "source_descriptions",
                        "sourceDescriptions": [described("ONE", "A", "B"), described("TWO", "C")],
                    }
                ],
                "EXPLAIN": [{"@type": "queryDescription", "queryDescription": query}],
                "DESCRIBE": [{"@type": "describe_function", "name": "F", "type": "SCALAR", "functions": [form]}],
            }[text.split()[0]]

    cursor = dbapi.Connection(cast("Any", Describing())).cursor()
    rows = cursor.execute("SHOW STREAMS EXTENDED").fetchall()
    assert [row[:2] for row in rows] == [("ONE", "A"), ("ONE", "B"), ("TWO", "C")]
    shown = [dict(zip((each[0] for each in cursor.description or ()), row, strict=True)) for row in rows]
    assert [each["TOPIC"] for each in shown] == ["one", "one", "two"]
    assert cursor.execute("EXPLAIN Q").fetchall() == [("Q", "ERROR", "S", "some rows: F: bad", "T")]
    assert cursor.execute("DESCRIBE FUNCTION f").fetchall() == [("F", "SCALAR", "(x INT)", "INT", "d")]


def test_a_cursor_that_waits_for_rows_is_closed_by_another_thread() -> None:
    """close() waited for the row that the other thread waited for."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        cursor = headwater.sql.connect(f"http://127.0.0.1:{listening.getsockname()[1]}").cursor()

        def answer() -> socket.socket:
            link = listening.accept()[0]
            link.recv(65536)
            head = b'{"columnNames": ["C"], "columnTypes": ["INTEGER"]}\n'
            link.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(head), head))
            return link

        with ThreadPoolExecutor(2) as threads:
            answering = threads.submit(answer)
            cursor.execute("SELECT * FROM s EMIT CHANGES")
            reading = threads.submit(cursor.fetchone)
            with answering.result():
                cursor.close()
                with pytest.raises(dbapi.InterfaceError, match="closed"):
                    reading.result(60)


@pytest.mark.parametrize("error", [None, AttributeError("'NoneType' object has no attribute 'close'"), ValueError()])
def test_what_comes_of_a_connection_that_another_thread_has_closed_means_nothing(error: Exception | None) -> None:
    """It was told as the end of the rows, or as an error within http.client."""
    cursor = _cursor(*[[1]], types=("INTEGER",)).execute("SELECT * FROM s")

    def rows() -> Iterator[list[Any]]:
        cursor.close()
        if error is not None:
            raise error
        yield from ()

    cursor._rows = rows()
    with pytest.raises(dbapi.InterfaceError, match="closed"):
        cursor.fetchone()


def test_an_error_between_rows_is_told() -> None:
    def rows() -> Iterator[list[Any]]:
        yield [1]
        raise RefusedError("the broker is away", code=50000)

    cursor = _cursor(*[[1]], types=("INTEGER",)).execute("SELECT * FROM s")
    cursor._rows = rows()
    assert cursor.fetchone() == (1,)
    with pytest.raises(dbapi.InternalError, match="the broker is away"):
        cursor.fetchall()


def test_an_address_that_is_none_and_certificates_that_are_not_there_are_told() -> None:
    with pytest.raises(dbapi.InterfaceError, match="is no server"):
        dbapi.connect("ftp://nowhere")
    with pytest.raises(dbapi.InterfaceError, match="No such file"):
        dbapi.connect("https://localhost", ca_location="/nowhere.pem")
    login = dbapi.connect("http://localhost", user="ada", password="p:w")._client._headers["Authorization"]
    assert login == "Basic " + base64.b64encode(b"ada:p:w").decode()


def _asked(statement: str, *parameters: Any) -> str:
    client = _Client(types=("STRING",))
    dbapi.Connection(cast("Any", client)).cursor().execute(statement, parameters)
    (asked,) = client.asked
    return asked


def test_variables_are_replaced_in_the_statement_and_never_in_a_parameter() -> None:
    for value in ("pay ${amount} now", "${unknown}", "$${amount}"):
        assert _asked("SELECT * FROM ${place} WHERE a = ?", value) == f"SELECT * FROM s WHERE a = '{value}'\n;"
        assert _asked("INSERT INTO ${place} VALUES (?, '${amount}')", value) == (
            f"INSERT INTO s VALUES ('{value}', 'it''s 5');"
        )


def test_names_in_strings_that_nobody_has_defined_stay_as_they_stand() -> None:
    assert substitute("SELECT '${x} and ${y}' FROM s;", {"y": "1"}) == "SELECT '${x} and 1' FROM s;"


def test_the_code_of_a_function_has_no_places_and_no_strings() -> None:
    code = "$$ # what? don't\n$$"
    text = f"CREATE FUNCTION f(a INT) RETURNS INT AS {code}"
    assert bind(text, []) == text
    assert bind(f"{text}; SELECT 'is it ? yes', ? FROM s", ["x"]) == f"{text}; SELECT 'is it ? yes', 'x' FROM s"


def test_a_comment_at_the_end_does_not_swallow_the_end_of_the_statement() -> None:
    assert _asked("SELECT 1 FROM s -- all of it").endswith("-- all of it\n;")


def test_numbers_that_json_writes_as_text_are_floats() -> None:
    cursor = _cursor(["NaN", ["Infinity", 1.5]], types=("DOUBLE", "ARRAY<DOUBLE>"))
    ((first, second),) = cursor.execute("SELECT * FROM s").fetchall()
    assert math.isnan(first)
    assert second == [math.inf, 1.5]


@pytest.mark.parametrize(
    ("kind", "value"), [("TIMESTAMP", "+10000-01-01T00:00:00.000"), ("DATE", "-0001-01-01"), ("BYTES", "a")]
)
def test_a_value_that_python_has_not_is_a_data_error_and_no_end_of_rows(kind: str, value: str) -> None:
    cursor = _cursor([value], types=(kind,)).execute("SELECT * FROM s")
    for fetch in (cursor.fetchone, cursor.fetchall):
        with pytest.raises(dbapi.DataError):
            fetch()


def test_an_answer_that_is_no_json_is_an_operational_error() -> None:
    def rows() -> Iterator[list[Any]]:
        yield [1]
        json.loads("[1")

    class Damaged(_Client):
        @contextlib.contextmanager
        def typed_query(self, text: str) -> Iterator[TypedRows]:
            del text
            yield ["C"], ["INTEGER"], rows()

    cursor = dbapi.Connection(cast("Any", Damaged())).cursor().execute("SELECT * FROM s")
    assert cursor.fetchone() == (1,)
    for _ in range(2):
        with pytest.raises(dbapi.OperationalError):
            cursor.fetchone()


def test_a_time_with_a_zone_is_refused() -> None:
    with pytest.raises(dbapi.DataError, match="a TIME has none"):
        dbapi.literal(time(1, 0, tzinfo=UTC))
