"""CREATE FUNCTION is code in the server: what the server's owner has not allowed is refused, whether in a call or in
the log.
"""

import json

import pytest

from headwater.sql.functions.python_functions import Policy
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.session import Session
from headwater.sql.server import answers
from headwater.sql.server.engine import Engine

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
