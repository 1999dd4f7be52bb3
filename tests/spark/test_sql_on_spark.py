"""SQL on Spark: the server's persistent queries in one session that it starts and ends, and our cases with the outputs
that they have in process.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat.support.members import until
from compat.support.sql_server import SqlServer
from headwater.sql.testing import run
from headwater.sql.testing_on_spark import CasesOnSpark
from headwater.streams.on_spark import Runtime
from headwater.testing import Broker
from unit.sql.cases_support import CASES, Case
from unit.sql.expression_cases import INPUT, queries

_PATIENCE_S = 300
_RUNNABLE = [case for case in CASES if case.refusal is None]
_SAMPLE = _RUNNABLE[::12]
_AT_A_TIME = 4


@pytest.fixture(scope="module")
def group_broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield broker


@pytest.fixture
def cases(spark: SparkSession, group_broker: Broker, tmp_path: Path) -> Iterator[CasesOnSpark]:
    runtime = Runtime(spark)
    yield CasesOnSpark(runtime, group_broker.bootstrap_servers, tmp_path)
    runtime.stop()


def _compare(cases: CasesOnSpark, chosen: list[Case]) -> None:
    def difference(case: Case) -> tuple[str, object, object] | None:
        wanted = run(case.sql, case.inputs, topics=case.topics)
        found = cases.run(case.sql, case.inputs, topics=case.topics)
        return None if found == wanted else (case.name, wanted, found)

    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        assert [each for each in threads.map(difference, chosen) if each is not None] == []


def test_cases_give_on_spark_what_they_give_in_process(cases: CasesOnSpark) -> None:
    _compare(cases, _SAMPLE)


def test_expressions_have_the_same_values_on_spark(cases: CasesOnSpark) -> None:
    """All cases of expressions, as columns of a few queries."""
    made = queries(columns=160)
    assert sum(len(expressions) for _, expressions in made) > 600
    _compare(cases, [Case(f"expressions {place}", sql, [INPUT], [], None, []) for place, (sql, _) in enumerate(made)])


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_all_cases_give_on_spark_what_they_give_in_process(cases: CasesOnSpark) -> None:
    _compare(cases, _RUNNABLE)


def test_a_server_runs_its_queries_on_spark(group_broker: Broker, tmp_path: Path) -> None:
    settings = {"spark_master": "local[2]", "ksql_functions_python_source_enabled": "true"}
    with SqlServer(group_broker.bootstrap_servers, tmp_path, "on_spark_", **settings) as server:
        assert _below(server.pid) == []  # no JVM before the first query
        server.run(
            "CREATE STREAM s (id INT KEY, n STRING, v INT) WITH (kafka_topic='served', value_format='JSON', partitions=2);"
            "CREATE FUNCTION twice AS $$\ndef twice(given: int) -> int:\n    return 2 * given\n$$;"
            "CREATE TABLE totals AS SELECT n, COUNT(*) AS c, SUM(twice(v)) AS total FROM s GROUP BY n;"
            "CREATE STREAM quotients AS SELECT id, 10 / v AS q FROM s;"
        )
        for number in range(6):
            server.run(f"INSERT INTO s VALUES ({number}, 'n{number % 2}', {number});")
        _until_total(server, [["n0", 3, 12], ["n1", 3, 18]])
        until(lambda: "/ by zero" in _processing_log(server), "the executor tells nothing", _PATIENCE_S)

        server.run("PAUSE CTAS_TOTALS_2;")
        server.run("INSERT INTO s VALUES (6, 'n0', 1);")
        assert _states(server) == {"CTAS_TOTALS_2": "PAUSED", "CSAS_QUOTIENTS_3": "RUNNING"}
        server.run("RESUME CTAS_TOTALS_2;")
        _until_total(server, [["n0", 4, 14], ["n1", 3, 18]])
        server.run("TERMINATE CSAS_QUOTIENTS_3;")
        assert "CSAS_QUOTIENTS_3" not in _states(server)

        (java,) = _jvms(server.pid)
        os.kill(java, signal.SIGKILL)
        until(lambda: "Spark is gone" in _why(server), "the query says nothing of its death", _PATIENCE_S)
        server.run("INSERT INTO s VALUES (7, 'n1', 1);")
        _until_total(server, [["n0", 4, 14], ["n1", 4, 20]])  # once each, in another session

        processes = _below(server.pid)
        server.run("INSERT INTO s VALUES (8, 'n0', 1);")
        server.kill()  # with the driver; nobody ends its JVM and its slots
        server.start()
        server.run("INSERT INTO s VALUES (9, 'n1', 1);")
        _until_total(server, [["n0", 5, 16], ["n1", 5, 22]])  # once each, by another server
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), "an orphan stays", _PATIENCE_S)

        processes = _below(server.pid)
        assert processes
        assert server.stop() == 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), "a process stays", _PATIENCE_S)


def _until_total(server: SqlServer, wanted: list[list[object]]) -> None:
    until(lambda: server.ask("SELECT * FROM totals ORDER BY n;") == wanted, "the totals do not come", _PATIENCE_S)


def _states(server: SqlServer) -> dict[str, str]:
    return {each["id"]: each["state"] for each in server.run("SHOW QUERIES;")[0]["queries"]}


def _why(server: SqlServer) -> str:
    return str(server.run("EXPLAIN CTAS_TOTALS_2;")[0]["queryDescription"]["queryErrors"])


def _processing_log(server: SqlServer) -> str:
    if "on_spark_ksql_processing_log" not in str(server.run("SHOW TOPICS;")):
        return ""
    return str(server.ask("SELECT VALUE FROM `on_spark_ksql_processing_log`;"))


def _program(pid: int) -> str:
    """Empty for a process that is gone by now, as Python workers that have nothing to do are."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def _jvms(pid: int) -> list[int]:
    """Those below it. What a JVM starts is its own program too for a moment, before it becomes a Python worker."""
    found = []
    for child in _children(pid):
        found += [child] if "java" in _program(child) else _jvms(child)
    return found


def _below(pid: int) -> list[int]:
    """The processes that it has started, and those that they have."""
    found = _children(pid)
    return found + [each for child in found for each in _below(child)]


def _children(pid: int) -> list[int]:
    try:
        tasks = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it is gone by now
        return []
    return [int(each) for task in tasks for each in task.split()]
