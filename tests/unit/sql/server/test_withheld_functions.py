"""A server that does not have the code of functions that others have accepted: it has the same streams, tables and
queries as they, shows those that need a function in ERROR with the reason, and runs none of them.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headwater.sql.functions import python_functions
from headwater.sql.functions.function_shapes import Shape
from headwater.sql.functions.python_functions import EVERYTHING, Policy
from headwater.sql.language import tree
from headwater.sql.language.errors import NotAllowedHereError, SqlError
from headwater.sql.server import answers
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import Engine
from headwater.sql.server.runner import QueryRunner

_FUNCTIONS = {
    "SHOUT": 'def shout(text: str, times: int | None) -> str:\n    "Louder."\n    return text',
    "ROOT": "from typing import Annotated\nimport pyarrow as pa\n"
    "def root(x: Annotated[pa.Array, 'DECIMAL(10, 2)']) -> Annotated[pa.Array, 'DOUBLE']: return x",
    "MANY": "def many(*x: int) -> dict[str, list[int]]: return {}",
    "WORDS": "from collections.abc import Iterator\ndef words(text: str) -> Iterator[str]: yield text",
    "SPREAD": "class spread:\n    def initial(self): return []\n    def add(self, state, x: float): return state\n"
    "    def undo(self, state, x: float): return state\n    def result(self, state) -> float: return 0.0",
}
_STATEMENTS = (
    "CREATE STREAM s (id INT KEY, v STRING, d DECIMAL(10, 2), x DOUBLE) WITH (kafka_topic='in', value_format='JSON');",
    "CREATE STREAM a AS SELECT id, shout(v, 2) AS v, root(d) AS r, many(1, 2) AS m FROM s;",
    "CREATE STREAM b AS SELECT id, words(v) AS word FROM s;",
    "CREATE TABLE c AS SELECT v, spread(x) AS x, COUNT(*) AS n FROM s GROUP BY v;",
    "CREATE STREAM d AS SELECT id, v FROM a WHERE r > 1;",
)


def _log() -> list[bytes]:
    """As a server that allows everything writes it."""
    engine, found = Engine("default_", "nowhere:1", functions_allowed=EVERYTHING), []
    created = (f"CREATE FUNCTION {name} AS $${code}$$;" for name, code in _FUNCTIONS.items())
    for offset, text in enumerate([*created, *_STATEMENTS]):
        (statement,) = engine.session.parse(text)
        found.append(Command(text, declares=engine.declared(statement)).encode())
        assert engine.apply(offset, found[-1]).error is None
    return found


def _reading(log: list[bytes], allowed: Policy) -> Engine:
    engine = Engine("default_", "nowhere:1", functions_allowed=allowed)
    for offset, data in enumerate(log):
        engine.apply(offset, data)
    return engine


def test_queries_that_need_them_are_there_and_say_why_they_do_not_run() -> None:
    there, here = _reading(_log(), EVERYTHING), _reading(_log(), Policy())
    assert here.session.catalog.sources == there.session.catalog.sources
    assert list(here.session.queries) == ["CSAS_A_6", "CSAS_B_7", "CTAS_C_8", "CSAS_D_9"] == list(there.session.queries)
    told = {name: each.withheld for name, each in here.session.queries.items()}
    assert told.pop("CSAS_D_9") == "", "it needs none itself"
    assert "It needs the function WORDS." in told["CSAS_B_7"]
    assert all("ksql.functions.python.source.enabled=true" in each for each in told.values())
    assert sorted(here.withheld) == sorted(_FUNCTIONS)
    assert there.withheld == {}
    assert not any(each.withheld for each in there.session.queries.values())
    for name in _FUNCTIONS:
        shown = [answers.function("", name, each.session.catalog.functions) for each in (there, here)]
        assert shown[0] == shown[1]


def test_no_new_statement_may_call_them() -> None:
    engine = _reading(_log(), Policy())
    for text in (
        "CREATE STREAM e AS SELECT id, shout(v, 1) AS v FROM s;",
        "CREATE TABLE e AS SELECT v, spread(x) AS x FROM s GROUP BY v;",
        "CREATE STREAM e AS SELECT id, words(v) AS v FROM s;",
    ):
        (statement,) = engine.session.parse(text)
        with pytest.raises(NotAllowedHereError, match="not allowed on this server"):
            engine.check(statement, {})


def test_what_is_terminated_and_dropped_is_withheld_no_more() -> None:
    engine = _reading(_log(), Policy())
    for offset, text in enumerate(("TERMINATE CSAS_B_7;", "DROP FUNCTION words;"), 20):
        assert engine.apply(offset, Command(text).encode()).error is None
    assert "WORDS" not in engine.withheld
    assert "CSAS_B_7" not in engine.session.queries


def test_a_module_that_is_not_installed_here_is_withheld_too() -> None:
    shape = python_functions.shape_of("F", "def f(a: int) -> int: return a", None, EVERYTHING).encode()
    create = "CREATE FUNCTION f USING 'no_such_package.anywhere:f';"
    later = shape.replace("INTEGER", "INTERVAL").replace("BIGINT", "INTERVAL")  # a type that is not known here
    assert later != shape
    for declares in (shape, None, "{}", later, "[" * 100_000):  # the last ones ended the reading of the log
        engine = Engine("default_", "nowhere:1", functions_allowed=EVERYTHING)
        engine.apply(0, Command(create, declares=declares).encode())
        assert "No module named 'no_such_package'" in str(engine.withheld["F"])
    assert not Engine("default_", "nowhere:1").withheld


def test_a_function_that_exists_already_is_an_error_and_not_withheld() -> None:
    engine = _reading(_log(), EVERYTHING)
    assert engine.apply(20, Command("CREATE FUNCTION f AS 'def shout() -> int: return 1';").encode()).error is not None
    assert list(engine.withheld) == ["F"]
    engine = _reading(_log(), EVERYTHING)
    assert (
        engine.apply(20, Command("CREATE FUNCTION shout AS 'def shout() -> int: return 1';").encode()).error is not None
    )
    assert not engine.withheld


@pytest.mark.parametrize("name", list(_FUNCTIONS))
def test_shapes_are_read_as_they_were_written(name: str) -> None:
    shape = python_functions.shape_of(name, _FUNCTIONS[name], None, EVERYTHING)
    assert Shape.decode(shape.encode()) == shape


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "SCALAR"}', '{"takes": [{}], "gives": {}, "kind": "X"}'])
def test_what_is_no_shape_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="no shape"):
        Shape.decode(text)


def test_such_a_query_is_in_error_and_not_started(tmp_path: Path) -> None:
    settings = [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"]
    config, _ = SqlServerConfig.load(None, settings)

    started: list[str] = []

    class Host:
        def start(self, query: Any, _stopping: Any) -> Any:
            started.append(query.id)
            raise ValueError("it runs")

        def restoring(self, _query: Any) -> list[Any]:
            return []

        def close(self) -> None:
            pass

    async def scenario() -> None:
        runner = QueryRunner(config, Host())
        runner.leads = True
        queries = _reading(_log(), Policy()).session.queries
        await runner.follow(queries, set())
        while runner.state_of("CSAS_D_9", paused=False)[0] != "ERROR":
            await asyncio.sleep(0)
        state, why = runner.state_of("CSAS_A_6", paused=False)
        assert (state, "It needs the function" in why) == ("ERROR", True)
        assert runner.state_of("CSAS_A_6", paused=True) == ("PAUSED", "")
        runner.leads = False
        await runner.follow({}, set())
        await runner.close()
        assert set(started) == {"CSAS_D_9"}

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_statements_other_than_create_function_declare_nothing() -> None:
    engine = Engine("default_", "nowhere:1", functions_allowed=EVERYTHING)
    (statement,) = engine.session.parse(_STATEMENTS[0])
    assert isinstance(statement, tree.CreateSource)
    assert engine.declared(statement) is None
    assert b"declares" not in Command(_STATEMENTS[0]).encode()
    with pytest.raises(SqlError):
        engine.declared(engine.session.parse("CREATE FUNCTION f AS 'nothing';")[0])
