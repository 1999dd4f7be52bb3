"""The REST door over a herder whose connectors are stopped: nothing here needs a broker."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REQUIRED, secret, text
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.connectors.file_source import FileStreamSourceConnector
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, connector_plugin
from headwater.connect.rest.api import connect_door
from headwater.connect.runtime import herder as herder_module
from headwater.connect.runtime.herder import StandaloneHerder
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.plugin_calls import PluginCalls
from headwater.connect.runtime.task import State, TaskHandle, TaskId
from headwater.connect.runtime.worker import Worker
from headwater.web.messages import Headers, HttpError, Request

CANARY = "canary-password-42"


class VaultTask(SinkTask):
    pass


class VaultConnector(SinkConnector):
    config_def: ClassVar[ConfigDef] = ConfigDef(
        text("url", REQUIRED, HIGH, "Where."), secret("key", REQUIRED, HIGH, "A secret.")
    )
    task_class = VaultTask

    def start(self, props: Any) -> None:
        raise RuntimeError(f"cannot open {props['url']} with {props['key']}")


class Asked:
    def __init__(self, herder: StandaloneHerder) -> None:
        self.herder = herder
        self._door = connect_door(herder)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        target, _, query = path.partition("?")
        fields = {"content-type": "application/json", "host": "h:1", **headers}
        request = Request(
            method,
            path,
            tuple(each for each in target.split("/") if each),
            query,
            Headers(tuple(fields.items())),
            b"" if body is None else json.dumps(body).encode(),
        )
        try:
            response = asyncio.run(self._door.handle(request))
        except HttpError as error:
            response = self._door.on_error(error, request)
        assert isinstance(response.body, bytes)
        return response.status, json.loads(response.body) if response.body else None


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Asked]:
    (tmp_path / "secrets.properties").write_text(f"key={CANARY}\n")
    worker = {
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": "unused",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    catalog = Catalog(installed=False)
    catalog.add(*connector_plugin(VaultConnector, "Vault"))
    herder = StandaloneHerder(Worker(WorkerConfig(worker), MemoryOffsetStore(), catalog))
    yield Asked(herder)
    herder.close()


SOURCE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "t"}


def make(ask: Asked, name: str = "a", config: dict[str, Any] | None = None) -> tuple[int, Any]:
    return ask("POST", "/connectors", {"name": name, "config": config or SOURCE, "initial_state": "STOPPED"})


def test_a_connector_is_made_shown_changed_and_deleted(ask: Asked) -> None:
    status, made = make(ask)
    assert (status, made) == (201, {"name": "a", "config": {**SOURCE, "name": "a"}, "tasks": [], "type": "source"})
    assert ask("GET", "/connectors") == (200, ["a"])
    assert ask("GET", "/connectors/a/status")[1]["connector"]["state"] == "STOPPED"
    assert ask("PUT", "/connectors/a/config", {**SOURCE, "batch.size": 7})[1]["config"]["batch.size"] == "7"
    assert "batch.size" not in ask("PATCH", "/connectors/a/config", {"batch.size": None})[1]["config"]
    assert ask("GET", "/connectors?expand=info&expand=status")[1]["a"].keys() == {"info", "status"}
    assert ask("DELETE", "/connectors/a") == (204, None)
    assert ask("GET", "/connectors/a") == (404, {"error_code": 404, "message": "Connector a not found"})


def test_the_topics_of_a_connector_outlive_its_config(ask: Asked) -> None:
    make(ask)
    ask.herder.get("a").topics.add("t")
    ask("PUT", "/connectors/a/config", {**SOURCE, "batch.size": 7})
    assert ask("GET", "/connectors/a/topics") == (200, {"a": {"topics": ["t"]}})
    ask("PUT", "/connectors/a/topics/reset")
    assert ask("GET", "/connectors/a/topics") == (200, {"a": {"topics": []}})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic.creation.default.partitions", "0"),
        ("topic.creation.default.replication.factor", "-2"),
        ("topic.creation.g.partitions", "many"),
        ("topic.creation.g.include", "a, ("),
        ("producer.override.linger.ms", "five"),
        ("producer.override.sasl.username", "somebody"),
    ],
)
def test_settings_of_topics_and_clients_are_checked_before_a_connector_is_made(
    ask: Asked, name: str, value: str
) -> None:
    config = {**SOURCE, "topic.creation.groups": "g", "topic.creation.default.partitions": "-1", name: value}
    status, told = make(ask, config=config)
    assert status == 400
    assert "contains the following 1 error(s)" in told["message"]
    assert name in told["message"]
    assert ask("GET", "/connectors") == (200, [])


def test_half_a_character_is_refused_and_a_whole_one_is_not(ask: Asked) -> None:
    """A connector of such a name was made, answered by 500, and could not be deleted: no path could name it."""
    assert make(ask, "half \ud800")[0] == 400
    assert make(ask, "a", {**SOURCE, "file": "\udfff"})[0] == 400
    assert ask("GET", "/connectors") == (200, [])
    assert make(ask, "\U0001f600", {**SOURCE, "file": "\U0001f600"})[0] == 201


def test_names_are_taken_once(ask: Asked) -> None:
    make(ask)
    assert make(ask) == (409, {"error_code": 409, "message": "Connector a already exists"})
    assert ask("PUT", "/connectors/a/config", {**SOURCE, "name": "b"})[0] == 400


def test_a_config_that_is_wrong_is_refused_with_all_its_errors(ask: Asked) -> None:
    status, answer = make(ask, "b", {"connector.class": "FileStreamSource", "tasks.max": "x"})
    assert status == 400
    assert "contains the following 2 error(s)" in answer["message"]
    assert make(ask, "b", {"connector.class": "Nope"})[0] == 400
    assert make(ask, "b", {"topic": "t"})[0] == 400
    assert ask("GET", "/connectors") == (200, [])


def test_a_slip_in_the_initial_state_starts_nothing(ask: Asked) -> None:
    status, answer = ask("POST", "/connectors", {"name": "a", "config": SOURCE, "initialState": "STOPPED"})
    assert (status, "'initialState'" in answer["message"]) == (400, True)
    assert ask("GET", "/connectors") == (200, [])


def test_a_connector_without_a_name_is_told_as_a_property(ask: Asked) -> None:
    status, answer = ask("POST", "/connectors", {"config": SOURCE})
    assert status == 400
    assert "Invalid value  for configuration name: String may not be empty" in answer["message"]


def test_offsets_change_only_while_the_connector_is_stopped(ask: Asked) -> None:
    make(ask)
    wanted = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 5}}]}
    assert ask("PATCH", "/connectors/a/offsets", wanted)[0] == 200
    assert ask("GET", "/connectors/a/offsets") == (200, wanted)
    assert ask("PATCH", "/connectors/a/offsets", {"offsets": []})[0] == 400
    refused = {"offsets": [{"partition": {"nope": "x"}, "offset": {"position": 5}}]}
    assert ask("PATCH", "/connectors/a/offsets", refused)[0] == 500  # the connector's word, as in Kafka Connect
    assert ask("DELETE", "/connectors/a/offsets")[1]["message"].endswith("reset successfully")
    assert ask("GET", "/connectors/a/offsets") == (200, {"offsets": []})
    ask.herder.get("a").state = ask.herder.get("a").state.RUNNING
    assert "must be in the STOPPED state" in ask("DELETE", "/connectors/a/offsets")[1]["message"]


def test_secrets_are_seen_nowhere(ask: Asked, tmp_path: Path) -> None:
    """Neither given ones nor those of providers: not in configs, not in validation, not in traces."""
    reference = f"${{file:{tmp_path}/secrets.properties:key}}"
    for name, key in (("given", CANARY), ("referred", reference)):
        config = {"connector.class": "Vault", "topics": "t", "url": "here", "key": key}
        answers = [ask("POST", "/connectors", {"name": name, "config": config})]
        assert ask.herder.get(name).state == "FAILED"
        answers += [ask("GET", f"/connectors/{name}{rest}") for rest in ("", "/config", "/status", "/tasks")]
        answers.append(ask("PUT", "/connector-plugins/Vault/config/validate", {**config, "tasks.max": reference}))
        answers.append(ask("POST", "/connectors", {"name": "bad", "config": {**config, "tasks.max": reference}}))
        assert CANARY not in json.dumps(answers)
        assert "cannot open here with [hidden]" in json.dumps(answers)
    assert ask("GET", "/connectors/referred/config")[1]["key"] == reference
    shown = ask("GET", "/connectors/given/config")[1]
    ask("PUT", "/connectors/given/config", shown)
    assert ask.herder.get("given").config["key"] == CANARY  # what was hidden came back as it was


def test_a_page_of_another_origin_makes_nothing(ask: Asked) -> None:
    body = {"name": "a", "config": SOURCE}
    assert ask("POST", "/connectors", body, origin="http://evil.example")[0] == 403
    assert ask("POST", "/connectors", body, **{"content-type": "text/plain"})[0] == 415
    assert ask("GET", "/connectors", origin="http://h:1") == (200, [])


def test_validation_answers_definition_and_value(ask: Asked) -> None:
    status, answer = ask("PUT", "/connector-plugins/FileStreamSource/config/validate", {"tasks.max": "x"})
    assert status == 200
    assert answer["name"] == "FileStreamSource"
    assert answer["error_count"] == 3  # name, tasks.max, topic
    topic = next(each for each in answer["configs"] if each["definition"]["name"] == "topic")
    assert topic["value"]["errors"] == ['Missing required configuration "topic" which has no default value.']
    assert topic["definition"].keys() == {
        *("name", "type", "required", "default_value", "importance", "documentation", "group", "order_in_group"),
        *("width", "display_name", "dependents"),
    }
    assert ask("PUT", "/connector-plugins/FileStreamSource/config/validate", {"connector.class": "Datagen"})[0] == 400
    assert ask("PUT", "/connector-plugins/Nope/config/validate", {})[0] == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/connectors/x/status"), ("PUT", "/connectors/x/pause"), ("POST", "/connectors/x/restart"), ("GET", "/connectors/x/tasks/0/status"), ("GET", "/nope"), ("GET", "/connectors/x/tasks/y/status")],
)  # fmt: skip
def test_what_is_not_there_is_a_404_with_a_body(ask: Asked, method: str, path: str) -> None:
    status, answer = ask(method, path)
    assert (status, answer["error_code"]) == (404, 404)


def test_plugins_and_their_properties(ask: Asked) -> None:
    classes = {each["class"] for each in ask("GET", "/connector-plugins")[1]}
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in classes
    every = ask("GET", "/connector-plugins?connectorsOnly=false")[1]
    assert {each["type"] for each in every} == {
        "source",
        "sink",
        "converter",
        "header_converter",
        "transformation",
        "predicate",
    }
    assert [each["name"] for each in ask("GET", "/connector-plugins/Cast$Value/config")[1]] == [
        "spec",
        "replace.null.with.default",
    ]
    assert ask("GET", "/connector-plugins/Nope/config")[0] == 404


def test_plugins_are_there_in_one_version(ask: Asked) -> None:
    """Another one that was asked for was taken: of converters, transforms and predicates, and in the list's call."""
    config = "/connector-plugins/FileStreamSource/config"
    there = ask("GET", config)[1]
    version = ask("GET", "/connector-plugins")[1][0]["version"]
    for asked in ("latest", version, f"[{version}]"):
        assert ask("GET", f"{config}?version={asked}") == (200, there)
    assert ask("GET", f"{config}?version=9.9")[0] == 400
    step = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "a", "transforms.r.replacement": "b", "value.converter": "StringConverter"}  # fmt: skip
    for name in ("connector.plugin.version", "value.converter.plugin.version", "transforms.r.plugin.version"):
        status, told = make(ask, config={**SOURCE, **step, name: "9.9"})
        assert (status, f"is here in version {version} only, not 9.9" in told["message"]) == (400, True)
    everywhere = dict.fromkeys(
        ("connector.plugin.version", "value.converter.plugin.version", "transforms.r.plugin.version"), version
    )
    assert make(ask, config={**SOURCE, **step, **everywhere})[0] == 201


class HeldTask:
    """What a herder asks of a task that it ends."""

    id = TaskId("a", 0)
    stopped = False

    def begin_stop(self) -> None:
        self.stopped = True

    def join(self, timeout_s: float) -> bool:
        del timeout_s
        return True


def test_a_task_that_cannot_be_made_anew_runs_on(ask: Asked, tmp_path: Path) -> None:
    """A secret is gone: the task was ended first, and then neither ran nor said why."""
    make(ask)
    found, old = ask.herder.get("a"), HeldTask()
    found.tasks = [cast("TaskHandle", old)]
    found.task_configs = [{"file": f"${{file:{tmp_path}/gone:key}}"}]
    status, told = ask("POST", "/connectors/a/tasks/0/restart")
    assert status == 500
    assert "No such file" in told["message"]
    assert (found.tasks, old.stopped) == ([old], False)


def test_a_connector_that_is_stopped_is_told(ask: Asked) -> None:
    """It went on to look at its tables for the time when it would be resumed."""
    make(ask)
    stopped: list[str] = []

    class Looking(FileStreamSourceConnector):
        def stop(self) -> None:
            stopped.append("stopped")

    ask.herder.get("a").connector = Looking()
    assert ask("PUT", "/connectors/a/stop")[0] == 204
    assert stopped == ["stopped"]


def test_tasks_run_on_when_their_connector_cannot_say_what_they_are_to_be(ask: Asked) -> None:
    """They were ended before it was asked; a connector that had nothing new to say had them started anew, too."""
    make(ask)
    found, task = ask.herder.get("a"), HeldTask()
    found.target = State.RUNNING
    found.connector = connector = FileStreamSourceConnector()
    connector.start(found.config)
    found.task_configs = ask.herder._asked_tasks(found).configs
    found.tasks = [cast("TaskHandle", task)]
    ask.herder.reconfigure("a")
    assert (found.tasks, task.stopped) == ([task], False)
    connector.task_configs = lambda _most: 1 / 0  # type: ignore[method-assign, assignment, return-value]
    ask.herder.reconfigure("a")
    assert (found.tasks, task.stopped, found.state) == ([task], False, State.FAILED)


def test_a_level_that_there_is_not_is_told_to_no_worker(ask: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(ask.herder, "tell_loggers", lambda _name, level: told.append(level))
    assert ask("PUT", "/admin/loggers/headwater.connect.test?scope=cluster", {"level": "loud"})[0] == 404
    assert told == []


def test_loggers_are_read_and_set(ask: Asked) -> None:
    assert ask("PUT", "/admin/loggers/headwater.connect.test", {"level": "debug"}) == (200, ["headwater.connect.test"])
    assert ask("GET", "/admin/loggers/headwater.connect.test")[1]["level"] == "DEBUG"
    assert ask("PUT", "/admin/loggers/headwater.connect.test", {"level": "loud"})[0] == 404
    assert ask("PUT", "/admin/loggers/headwater.connect.test", {})[0] == 400
    assert ask("PUT", "/admin/loggers/headwater.connect.test?scope=cluster", {"level": "INFO"}) == (204, None)
    assert ask("GET", "/admin/loggers/no.such.logger")[0] == 404


@pytest.mark.parametrize(
    "config",
    [
        {"transforms": "REF"},
        {"predicates": "a,REF"},
        {"connector.class": "REF"},
        {"transforms": "a", "transforms.a.type": "REF"},
        {"transforms.unused.type": "REF"},
        {"transforms": "a", "transforms.a.type": "Cast$Value", "transforms.a.spec": "REF"},
        {"key.converter": "REF"},
        {"tasks.max": "REF"},
        {"topic.creation.default.partitions": "REF"},
        {"topic.creation.default.include": "(REF"},
        {"producer.override.linger.ms": "REF"},
        {"connector.plugin.version": "REF"},
        {"value.converter": "StringConverter", "value.converter.plugin.version": "REF"},
        {"connector.class": "JdbcSource", "topic.prefix": "x", "connection.url": "jdbc:oracle:thin:sa/REF"},
    ],
)
def test_no_answer_of_a_validation_has_what_a_provider_gave(ask: Asked, tmp_path: Path, config: dict[str, str]) -> None:
    (tmp_path / "secrets.properties").write_text(f"key= {CANARY},part-of-it \n")
    reference = f"${{file:{tmp_path}/secrets.properties:key}}"
    given = {**SOURCE, "name": "v", **{name: value.replace("REF", reference) for name, value in config.items()}}
    plugin = config.get("connector.class", "FileStreamSource").replace("REF", "FileStreamSource")
    answers = [ask("PUT", f"/connector-plugins/{plugin}/config/validate", given), make(ask, "v", given)]
    shown = json.dumps(answers)
    assert CANARY not in shown
    assert "part-of-it" not in shown
    if "transforms.unused.type" not in config:
        assert answers[1][0] == 400


class Hanging(SinkConnector):
    """`start` hangs until a test lets it go on; so does `stop`, if it is told to."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    task_class = VaultTask
    begun, let_go, stopped = threading.Event(), threading.Event(), threading.Event()
    hang_in = "start"

    def start(self, props: Any) -> None:
        self.begun.set()
        assert self.hang_in != "start" or self.let_go.wait(60)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None:
        self.stopped.set()
        assert self.hang_in != "stop" or self.let_go.wait(60)


@pytest.fixture
def hanging(ask: Asked) -> Iterator[type[Hanging]]:
    class Fresh(Hanging):
        begun, let_go, stopped = threading.Event(), threading.Event(), threading.Event()

    made = Fresh
    ask.herder.worker.catalog.add(*connector_plugin(made, "Hanging"))
    yield made
    made.let_go.set()


HANGING = {"connector.class": "Hanging", "topics": "t"}


def test_a_plugins_call_has_a_limited_time_and_raises_what_it_raised() -> None:
    calls, let_go, late = PluginCalls(60), threading.Event(), threading.Event()
    with pytest.raises(ConnectError, match=r"did not return within 0\.01 seconds"):
        calls.run(let_go.wait, limit_s=0.01, late=late.set)
    let_go.set()
    assert late.wait(60)

    async def plugin(number: int) -> int:
        if number == 0:
            raise asyncio.CancelledError
        return number

    assert calls.run(plugin, 7) == 7
    with pytest.raises(ConnectError, match="CancelledError"):
        calls.run(plugin, 0)
    with pytest.raises(TimeoutError):
        calls.run(_times_out)


def test_a_worker_that_ends_calls_plugins_only_to_stop_them() -> None:
    """Each connector that was still to be started was, for a minute if it hung, and then the process was killed."""
    calls = PluginCalls(60)
    calls.abandon()
    with pytest.raises(ConnectError, match="the worker ends"):
        calls.run(lambda: 7)
    assert calls.run(lambda: 7, ends=True) == 7


def _times_out() -> None:
    raise TimeoutError


def test_a_connector_whose_start_hangs_fails_and_is_stopped_when_it_comes_back(
    ask: Asked, hanging: type[Hanging]
) -> None:
    creating = threading.Thread(target=ask.herder.create, args=("h", HANGING))
    creating.start()
    assert hanging.begun.wait(60)
    ask.herder.worker.calls.abandon()
    creating.join(60)
    assert ask.herder.status("h")["connector"]["state"] == "FAILED"
    make(ask)  # others go on
    assert not hanging.stopped.is_set()
    hanging.let_go.set()
    assert hanging.stopped.wait(60)


def test_a_connector_whose_stop_hangs_is_left(ask: Asked, hanging: type[Hanging]) -> None:
    hanging.hang_in = "stop"
    ask.herder.worker.config._values["task.shutdown.graceful.timeout.ms"] = 10
    ask.herder.create("h", HANGING)
    assert ask.herder.status("h")["connector"]["state"] == "RUNNING"
    ask.herder.delete("h")
    assert ask.herder.names() == []
    assert hanging.stopped.wait(60)


def test_a_worker_closes_while_a_plugin_hangs(
    ask: Asked, hanging: type[Hanging], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(herder_module, "_CLOSE_PATIENCE_S", 0.2)
    creating = threading.Thread(target=ask.herder.create, args=("h", HANGING))
    creating.start()
    assert hanging.begun.wait(60)
    ask.herder.close()
    creating.join(60)
    assert not creating.is_alive()
    assert "before the worker ended" in ask.herder.status("h")["connector"]["trace"]


def test_a_name_that_is_half_a_character_does_not_end_the_metrics_of_all_others(ask: Asked) -> None:
    ask.herder.create("half \ud800", {"connector.class": "Vault", "topics": "t", "url": "u", "key": "k"})
    request = Request("GET", "/metrics", ("metrics",), "", Headers((("host", "h:1"),)), b"")
    response = asyncio.run(connect_door(ask.herder).handle(request))
    assert isinstance(response.body, bytes)
    assert b'kafka_connect_connector_status{connector="half ?",status="failed"} 1' in response.body
