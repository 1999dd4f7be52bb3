"""Parameters of the database API: each becomes one literal, whatever is in it."""

from datetime import date
from decimal import Decimal
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.sql import dbapi
from headwater.sql.language.parser import parse


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
    ],
)
def test_literals(value: Any, text: str) -> None:
    assert dbapi.literal(value) == text
    parse(f"SELECT {text} FROM s;")


def test_places_are_those_outside_of_quotes_and_comments() -> None:
    text = "SELECT '?', `?`, ? /* ? */ FROM s -- ?\n WHERE a = ?"
    assert dbapi.bind(text, ["x", 2]) == "SELECT '?', `?`, 'x' /* ? */ FROM s -- ?\n WHERE a = 2"


@pytest.mark.parametrize("value", ["'; DROP STREAM s; --", "' OR 1 = 1", "\\'"])
def test_a_value_stays_a_value(value: str) -> None:
    assert len(parse(dbapi.bind("SELECT * FROM s WHERE a = ?;", [value]))) == 1


@pytest.mark.parametrize(
    ("text", "given"), [("SELECT ?", []), ("SELECT ?", [1, 2]), ("SELECT 1", [1]), ("SELECT ?", [object()])]
)
def test_what_does_not_fit_is_told(text: str, given: list[Any]) -> None:
    with pytest.raises(dbapi.ProgrammingError):
        dbapi.bind(text, given)


def test_what_nobody_answers_is_told() -> None:
    with dbapi.connect("http://127.0.0.1:1") as connection, pytest.raises(dbapi.DatabaseError, match="does not answer"):
        connection.cursor().execute("SELECT 1 FROM s")


def test_a_server_that_is_away_is_an_operational_error() -> None:
    with dbapi.connect("http://127.0.0.1:1") as connection:
        for statement in ("SELECT 1 FROM s", "SHOW STREAMS"):
            with pytest.raises(dbapi.OperationalError, match="does not answer"):
                connection.cursor().execute(statement)


class _Client:
    """Answers as the server does."""

    def statements(self, text: str) -> list[str]:
        return [text]

    def run(self, text: str) -> list[dict[str, Any]]:
        if text == "CREATE;":
            return [{"@type": "currentStatus", "commandStatus": {"message": "made"}}]
        if text == "NONSENSE;":
            raise UserError("line 1:1: mismatched input")
        return [{"@type": "variables", "variables": [{"name": "a", "value": "1"}]}]


def test_what_show_lists_are_rows() -> None:
    cursor = dbapi.Cursor(cast("Any", _Client()))
    cursor.execute("SHOW VARIABLES")
    assert [each[0] for each in cursor.description or ()] == ["NAME", "VALUE"]
    assert cursor.fetchall() == [("a", "1")]
    cursor.execute("CREATE")
    assert cursor.description is None
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchall()
    with pytest.raises(dbapi.DatabaseError) as refused:
        cursor.execute("NONSENSE")
    assert not isinstance(refused.value, dbapi.OperationalError)
