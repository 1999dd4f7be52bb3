"""One session for all queries: who waits for it, who does not, and what becomes of one that does not come or has gone.
Without a JVM.
"""

import pickle
import threading
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.sql.server import spark_host
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.processing_log import LogSettings, ProcessingLog
from headwater.sql.server.query_host import InProcessHost
from headwater.sql.server.schemas import RegistrySchemas
from headwater.sql.server.spark_host import SparkHost, host_for

_SETTINGS = ["spark.master=local[2]", "spark.executor.memory=2g", "ksql.service.id=s_"]


class FakeRun:
    def __init__(self, restored: threading.Event) -> None:
        self._restored = restored
        self.stopped = False

    def wait_started(self, timeout: float | None = None) -> bool:
        return self._restored.wait(timeout)

    def stop(self) -> None:
        self.stopped = True


class FakeRuntime:
    slots = 1

    def __init__(self) -> None:
        self.is_over = False
        self.restored = threading.Event()
        self.restored.set()
        self.apps: list[Any] = []

    def run(self, app: Any, *, wait: bool, **_: Any) -> FakeRun:
        assert not wait
        self.apps.append(app)
        return FakeRun(self.restored)

    def stop(self) -> None:
        self.is_over = True


class Query:
    def __init__(self, app: str) -> None:
        self.app = app


class Host(SparkHost):
    """Opens what it is given, one after the other; an error is raised. Waits for `may_open`."""

    def __init__(self, *given: FakeRuntime | Exception) -> None:
        config, warnings = SqlServerConfig.load(None, _SETTINGS)
        assert warnings == []
        super().__init__(config)
        self._given = list(given)
        self.may_open = threading.Event()
        self.may_open.set()

    def _open(self) -> Any:
        assert self.may_open.wait(60)
        found = self._given.pop(0)
        if isinstance(found, Exception):
            raise found
        return spark_host._Opened(found, is_ours=False)  # type: ignore[arg-type]


def _start(host: Host, app: str, stopping: threading.Event | None = None) -> Any:
    query: Any = Query(app)
    return host.start(query, stopping or threading.Event())


def test_queries_share_one_session_until_it_has_gone() -> None:
    first, second = FakeRuntime(), FakeRuntime()
    host = Host(first, second)
    _start(host, "a")
    _start(host, "b")
    assert (first.apps, second.apps) == (["a", "b"], [])
    first.is_over = True  # Spark has gone
    _start(host, "a")
    assert second.apps == ["a"]
    host.close()
    assert second.is_over
    with pytest.raises(UserError, match="The server stops"):
        _start(host, "c")


def test_a_session_that_cannot_be_opened_is_told_and_tried_again() -> None:
    runtime = FakeRuntime()
    host = Host(UserError("No core of local[1] is left for a slot"), runtime)
    with pytest.raises(UserError, match="No core"):
        _start(host, "a")
    _start(host, "a")
    assert runtime.apps == ["a"]


def test_whoever_is_to_stop_waits_neither_for_the_jvm_nor_for_state() -> None:
    runtime, stopping = FakeRuntime(), threading.Event()
    host = Host(runtime)
    host.may_open.clear()
    stopping.set()
    assert _start(host, "a", stopping) is None
    host.may_open.set()
    runtime.restored.clear()
    answers: list[Any] = []
    stopping = threading.Event()
    starts = threading.Thread(target=lambda: answers.append(_start(host, "b", stopping)))
    starts.start()
    while not runtime.apps:
        pass
    stopping.set()
    starts.join(60)
    assert (runtime.apps, len(answers)) == (["b"], 1)


def test_a_server_that_never_ran_a_query_has_nothing_to_close() -> None:
    Host().close()


def test_settings_of_spark_are_passed_on_and_have_no_effect_without_a_master() -> None:
    config, warnings = SqlServerConfig.load(None, _SETTINGS)
    assert (config.spark, warnings) == ({"spark.executor.memory": "2g"}, [])
    config, warnings = SqlServerConfig.load(None, _SETTINGS[1:])
    assert warnings == ["spark.executor.memory has no effect: queries run on Spark only with spark.master"]
    assert isinstance(host_for(config), InProcessHost)


def test_queries_have_the_login_of_the_server_and_a_session_of_their_own() -> None:
    config, warnings = SqlServerConfig.load(None, ["ksql.streams.session.timeout.ms=90000", "sasl.username=sql"])
    assert (config.query_client, warnings) == ({"sasl.username": "sql", "session.timeout.ms": "90000"}, [])
    assert "session.timeout.ms" not in config.client
    with pytest.raises(UserError, match=r"ksql\.streams\.session\.timeout\.ms"):
        SqlServerConfig.load(None, ["ksql.streams.session.timeout.ms=1000"])


def test_without_pyspark_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(UserError, match="PySpark is not installed"):
        Host()


def test_the_processing_log_of_an_executor_is_one_for_all_its_queries() -> None:
    config, _ = SqlServerConfig.load(None, ["ksql.service.id=s_"])
    pickled = pickle.dumps(ProcessingLog(LogSettings.of(config)).put)
    one, other = pickle.loads(pickled), pickle.loads(pickled)
    assert one.__self__ is other.__self__
    assert one.__self__._settings == LogSettings(
        (("bootstrap.servers", "localhost:9092"),), "s_ksql_processing_log", 1, True, False
    )


def test_the_schema_registry_of_an_executor_has_a_client_of_its_own() -> None:
    given = RegistrySchemas({"url": "http://127.0.0.1:1"})
    found = pickle.loads(pickle.dumps(given))
    assert found._settings == given._settings
    assert found._client is not given._client
