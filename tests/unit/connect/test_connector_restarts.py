"""A connector that has failed, because its database was away when it began, say, is started again like a task. So is a
task that could not even be made.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.connect.api import SourceConnector, SourceTask
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.assignor import CONNECTOR
from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    TargetState,
    TaskConfig,
    TasksCommit,
)
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.local_work import LocalWork
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, connector_plugin
from headwater.connect.runtime.herder import StandaloneHerder
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.worker import Worker

CONFIG = {"connector.class": "Flaky", "name": "c"}
WORKER = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "unused",
}


class Database:
    """What the connector needs at its start."""

    def __init__(self) -> None:
        self.away = True
        self.asked = threading.Semaphore(0)
        self.asked_times = 0


DATABASE = Database()


class FlakyTask(SourceTask):
    pass


class Flaky(SourceConnector):
    task_class = FlakyTask

    def start(self, props: Any) -> None:
        super().start(props)
        DATABASE.asked_times += 1
        DATABASE.asked.release()
        if DATABASE.away:
            raise ConnectError("the database is away")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []


@pytest.fixture(autouse=True)
def database() -> None:
    DATABASE.__init__()  # type: ignore[misc]


@pytest.fixture
def worker() -> Worker:
    catalog = Catalog(installed=False)
    catalog.add(*connector_plugin(Flaky, "Flaky"))
    return Worker(WorkerConfig(WORKER), MemoryOffsetStore(), catalog)


@pytest.fixture
def herder(worker: Worker) -> Iterator[StandaloneHerder]:
    made = StandaloneHerder(worker)
    yield made
    made.close()


def waiting(herder: StandaloneHerder) -> threading.Timer:
    found = herder.get("c").retry
    assert found is not None
    return found


def over(timer: threading.Timer) -> None:
    """Its time has come."""
    timer.cancel()
    timer.function()


def test_a_connector_that_failed_at_its_start_is_started_again(herder: StandaloneHerder) -> None:
    herder.create("c", CONFIG)
    for seconds in (1, 2, 4):
        assert f"(this connector is started again in {seconds} s;" in herder.status("c")["connector"]["trace"]
        over(waiting(herder))
    DATABASE.away = False
    over(waiting(herder))
    connector = herder.status("c")["connector"]
    assert connector["state"] == "RUNNING"
    assert "trace" not in connector


def test_nobody_has_to_ask_for_it(herder: StandaloneHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.connect.runtime.task.RESTART_FIRST_S", 0.001)
    herder.create("c", CONFIG)
    for _ in range(3):
        assert DATABASE.asked.acquire(timeout=60)


def test_the_status_tells_the_cause_and_when_it_is_tried_again(herder: StandaloneHerder) -> None:
    herder.create("c", CONFIG)
    trace = herder.status("c")["connector"]["trace"]
    assert trace.startswith("(this connector is started again in 1 s; failures in a row: 1)\n")
    assert "the database is away" in trace


def test_a_connector_that_is_not_to_be_restarted_stays_failed(herder: StandaloneHerder) -> None:
    herder.create("c", {**CONFIG, "errors.restart": "false"})
    assert herder.get("c").retry is None
    assert herder.status("c")["connector"]["trace"].startswith("Traceback")


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda herder: herder.set_target("c", State.STOPPED),
        lambda herder: herder.delete("c"),
        lambda herder: herder.create("c", {**CONFIG, "tasks.max": "2"}, replace=True),
        lambda herder: herder.restart("c", include_tasks=False, only_failed=True),
        lambda herder: herder.close(),
    ],
    ids=["stopped", "deleted", "reconfigured", "restarted", "closed"],
)
def test_a_restart_that_waits_is_over_when_the_connector_is_changed(
    herder: StandaloneHerder, meanwhile: Callable[[StandaloneHerder], object]
) -> None:
    herder.create("c", CONFIG)
    timer = waiting(herder)
    DATABASE.away = False
    meanwhile(herder)
    asked = DATABASE.asked_times
    over(timer)  # just then
    assert DATABASE.asked_times == asked
    if "c" in herder.names():
        assert herder.get("c").retry is None


def test_a_connector_that_is_paused_while_its_restart_waits_is_paused_then(herder: StandaloneHerder) -> None:
    herder.create("c", CONFIG)
    timer = waiting(herder)
    herder.set_target("c", State.PAUSED)
    DATABASE.away = False
    over(timer)
    assert herder.status("c")["connector"]["state"] == "PAUSED"


def test_what_a_stopped_connector_says_late_starts_nothing(herder: StandaloneHerder) -> None:
    herder.create("c", CONFIG)
    herder.set_target("c", State.STOPPED)
    herder.connector_failed("c", ConnectError("late"))
    assert herder.status("c")["connector"]["state"] == "STOPPED"
    assert herder.get("c").retry is None


def test_the_failure_of_a_connector_is_not_that_of_the_next_one(herder: StandaloneHerder) -> None:
    DATABASE.away = False
    herder.create("c", CONFIG)
    first = herder.get("c").connector
    assert first is not None
    herder.create("c", {**CONFIG, "tasks.max": "2"}, replace=True)
    first.context.raise_error(ConnectError("the old password"))
    assert herder.status("c")["connector"]["state"] == "RUNNING"
    second = herder.get("c").connector
    assert second is not None
    second.context.raise_error(ConnectError("the new password"))
    assert herder.status("c")["connector"]["state"] == "FAILED"


class Around:
    """The rest of a distributed herder."""

    generation = 1

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.published: list[Any] = []

    def tell(self, *records: Any) -> None:
        self.told += records

    def publish(self, connector: str, tasks: list[dict[str, str]]) -> None:
        self.published.append((connector, tasks))

    def states(self) -> list[State]:
        return [each.status.state for each in self.told if each.status is not None]


MINE = frozenset({TaskId("c", CONNECTOR)})


def state_of(*records: ConfigRecord) -> ConfigState:
    state = ConfigState()
    for each in (ConnectorConfig("c", CONFIG), *records):
        state.apply(each)
    return state


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def work(worker: Worker, around: Around) -> LocalWork:
    made: Any = worker
    surroundings: Any = around
    return LocalWork(made, surroundings)


def test_a_failed_connector_of_a_group_is_started_again(
    work: LocalWork, around: Around, monkeypatch: pytest.MonkeyPatch
) -> None:
    work.start_what_is_not(MINE, state_of())
    wait_s = work.restart_failed(state_of())
    assert wait_s is not None
    assert 0 < wait_s <= 1
    assert around.states() == [State.FAILED]
    assert around.told[0].status.trace.startswith("(this connector is started again in 1 s; failures in a row: 1)\n")
    monkeypatch.setattr("headwater.connect.distributed.local_work.time.monotonic", lambda: 1e12)
    DATABASE.away = False
    assert work.restart_failed(state_of()) is None
    assert around.states() == [State.FAILED, State.RUNNING]
    assert around.published == [("c", [])]


@pytest.mark.parametrize("how", ["stopped", "moved", "deleted", "reconfigured", "paused"])
def test_a_restart_that_waits_in_a_group_follows_what_becomes_of_the_connector(
    work: LocalWork, around: Around, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr("headwater.connect.runtime.task.RESTART_FIRST_S", 0.0)
    work.start_what_is_not(MINE, state_of())
    DATABASE.away = False
    assigned = frozenset() if how == "moved" else MINE
    changes: dict[str, list[ConfigRecord]] = {
        "stopped": [TargetState("c", State.STOPPED)],
        "deleted": [ConnectorConfig("c", None)],
        "reconfigured": [ConnectorConfig("c", {**CONFIG, "tasks.max": "2"})],
        "paused": [TargetState("c", State.PAUSED)],
    }
    state = state_of(*changes.get(how, []))
    work.stop_what_is_not(assigned, state)
    work.start_what_is_not(assigned, state)
    assert work.restart_failed(state) is None
    later = {
        "stopped": [State.STOPPED],
        "moved": [State.UNASSIGNED],
        "deleted": [],
        "reconfigured": [State.UNASSIGNED, State.RUNNING],
        "paused": [State.PAUSED],
    }
    assert around.states() == [State.FAILED, *later[how]]
    assert DATABASE.asked_times == 1 + (how in ("reconfigured", "paused"))


TASK = TaskId("c", 0)
ITS_TASK = (TaskConfig(TASK, {}), TasksCommit("c", 1))


class Made:
    """A task, as far as it is looked at here."""

    paused = False

    def __init__(self, spec: Any) -> None:
        self.id = spec.id
        self.state = State.RUNNING
        self.started = 0

    def start(self) -> None:
        self.started += 1


@pytest.fixture
def making(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> list[Made]:
    """What was made: nothing while the database is away."""
    made: list[Made] = []

    def make_task(spec: Any) -> Made:
        if DATABASE.away:
            raise ConnectError("the secret is away")
        made.append(Made(spec))
        return made[-1]

    monkeypatch.setattr(worker, "make_task", make_task)
    monkeypatch.setattr(worker, "generations", {}, raising=False)
    return made


def test_a_task_that_could_not_be_made_is_tried_again(
    work: LocalWork, around: Around, making: list[Made], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr("headwater.connect.distributed.local_work.time.monotonic", lambda: now_s[0])
    state = state_of(*ITS_TASK)
    work.start_what_is_not(frozenset({TASK}), state)
    for pause_s in (1, 2, 4):
        assert work.restart_failed(state) == pause_s
        assert around.told[-1].status.trace.startswith(f"(this task is started again in {pause_s} s;")
        assert "the secret is away" in around.told[-1].status.trace
        now_s[0] += pause_s - 0.5
        assert work.restart_failed(state) == 0.5
        work.start_what_is_not(frozenset({TASK}), state)  # which comes with every step, and does not hurry it
        now_s[0] += 0.5
        DATABASE.away = pause_s < 4
        if DATABASE.away:
            work.restart_failed(state)
    assert making == []
    assert work.restart_failed(state) is None
    assert [each.started for each in making] == [1]
    assert around.states() == [State.FAILED] * 3


def test_a_task_that_is_not_to_be_restarted_is_made_once(work: LocalWork, around: Around, making: list[Made]) -> None:
    state = state_of(ConnectorConfig("c", {**CONFIG, "errors.restart": "false"}), *ITS_TASK)
    work.start_what_is_not(frozenset({TASK}), state)
    assert work.restart_failed(state) is None
    assert around.told[-1].status.trace.startswith("Traceback")
    assert making == []


@pytest.mark.parametrize("how", ["given to another", "no more", "made anew"])
def test_a_task_that_waits_to_be_made_follows_what_becomes_of_it(work: LocalWork, making: list[Made], how: str) -> None:
    work.start_what_is_not(frozenset({TASK}), state_of(*ITS_TASK))
    assert work.restart_failed(state_of(*ITS_TASK)) is not None
    DATABASE.away = False
    assigned = frozenset() if how == "given to another" else frozenset({TASK})
    later: dict[str, list[ConfigRecord]] = {"no more": [TasksCommit("c", 0)], "made anew": [*ITS_TASK]}
    state = state_of(*ITS_TASK, *later.get(how, []))
    work.stop_what_is_not(assigned, state)
    work.start_what_is_not(assigned, state)
    assert work.restart_failed(state) is None
    assert len(making) == (how == "made anew")
