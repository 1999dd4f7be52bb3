"""What a worker of a group runs, brought to what the config topic says, one look after the other: connectors that are
deleted and made again between two looks, and what a connector says when it is over.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.api import SourceConnector, SourceTask
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.assignor import CONNECTOR
from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    Restart,
    TargetState,
    TaskConfig,
    TasksCommit,
)
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.local_work import Context, LocalWork
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, connector_plugin
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.worker import Worker

CONFIG = {"connector.class": "Plain", "name": "c"}
WORKER = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "unused",
}
MINE = frozenset({TaskId("c", CONNECTOR)})


class PlainTask(SourceTask):
    pass


class Plain(SourceConnector):
    task_class = PlainTask
    made: list["Plain"] = []  # noqa: RUF012 - of all tests, one after the other

    def start(self, props: Any) -> None:
        super().start(props)
        self.made.append(self)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]


class Around:
    """The rest of the herder: what is published is in the topic at once."""

    generation = 1

    def __init__(self) -> None:
        self.state = ConfigState()
        self.states: list[State] = []
        self.published = 0
        self.said: list[Any] = []  # by connectors, and not done yet

    def apply(self, *records: ConfigRecord) -> ConfigState:
        for each in records:
            self.state.apply(each)
        return self.state.snapshot()

    def reconfigure(self, connector: Context) -> None:
        self.said.append(connector)

    def connector_failed(self, connector: Context, error: Exception) -> None:
        self.said.append((connector, error))

    def tell(self, *records: Any) -> None:
        self.states += [each.status.state for each in records if each.status is not None]

    def publish(self, connector: str, tasks: list[dict[str, str]]) -> None:
        self.published += 1
        written = [TaskConfig(TaskId(connector, number), each) for number, each in enumerate(tasks)]
        self.apply(*written, TasksCommit(connector, len(tasks)))


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def work(around: Around) -> LocalWork:
    catalog = Catalog(installed=False)
    catalog.add(*connector_plugin(Plain, "Plain"))
    worker: Any = Worker(WorkerConfig(WORKER), MemoryOffsetStore(), catalog)
    rest: Any = around
    Plain.made.clear()
    return LocalWork(worker, rest)


def look(work: LocalWork, state: ConfigState) -> None:
    work.stop_what_is_not(MINE, state)
    work.start_what_is_not(MINE, state)
    work.publish_tasks(state)


def test_a_connector_that_is_deleted_and_made_again_between_two_looks_is_another_one(
    work: LocalWork, around: Around
) -> None:
    """Its config is the same, but its tasks and statuses went with the first one: it had none from then on."""
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    assert around.state.task_ids("c") == [TaskId("c", 0)]
    around.apply(ConnectorConfig("c", None), TargetState("c", None))
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    assert around.state.task_ids("c") == [TaskId("c", 0)]
    assert len(Plain.made) == 2
    assert around.states == [State.RUNNING, State.UNASSIGNED, State.RUNNING]


def test_the_same_config_once_more_changes_nothing(work: LocalWork, around: Around) -> None:
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    look(work, around.apply(ConnectorConfig("c", dict(CONFIG))))
    assert (len(Plain.made), around.published) == (1, 1)


@pytest.mark.parametrize("meanwhile", ["configured anew", "stopped", "restarted", "deleted"])
def test_what_a_connector_says_is_not_about_the_next_one(work: LocalWork, around: Around, meanwhile: str) -> None:
    """The failure of a connector with the old password was that of the one with the new."""
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    (first,) = Plain.made
    first.context.raise_error(ConnectError("the old password"))
    first.context.request_task_reconfiguration()
    changes: dict[str, list[ConfigRecord]] = {
        "configured anew": [ConnectorConfig("c", {**CONFIG, "tasks.max": "2"})],
        "stopped": [TargetState("c", State.STOPPED)],
        "deleted": [ConnectorConfig("c", None)],
    }
    look(work, around.apply(*changes.get(meanwhile, [])))
    if meanwhile == "restarted":
        work.restart(Restart("c", include_tasks=False, only_failed=False), around.state)
    before = list(around.states)
    (failed, error), reconfigured = around.said
    work.connector_failed(failed, error)
    work.reconfigure(reconfigured)
    assert around.states == before
    assert not work.publish_tasks(around.state)


def test_what_a_connector_says_counts_as_long_as_it_runs(work: LocalWork, around: Around) -> None:
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    (first,) = Plain.made
    first.context.raise_error(ConnectError("the wrong password"))
    work.connector_failed(*around.said[0])
    assert around.states == [State.RUNNING, State.FAILED]


def test_a_connector_that_is_stopped_and_resumed_between_two_looks_has_its_tasks(
    work: LocalWork, around: Around
) -> None:
    """It ran without any: the stop had taken them away, and nobody saw that it had been stopped."""
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    around.apply(TasksCommit("c", 0), TargetState("c", State.STOPPED))
    look(work, around.apply(TargetState("c", State.RUNNING)))
    assert around.state.task_ids("c") == [TaskId("c", 0)]
    look(work, around.state.snapshot())
    assert (len(Plain.made), around.published) == (1, 2)


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.REQUEST_TIMED_OUT, "away"), TimeoutError("away")])
def test_tasks_that_could_not_be_written_are_written_later(work: LocalWork, around: Around, error: Exception) -> None:
    """On the leader itself brokers that are away ended the look, and with it all that was to be done in it."""
    publish, around.publish = around.publish, lambda *_: _raise(error)  # type: ignore[method-assign]
    look(work, around.apply(ConnectorConfig("c", CONFIG)))
    around.publish = publish  # type: ignore[method-assign]
    look(work, around.state.snapshot())
    assert around.state.task_ids("c") == [TaskId("c", 0)]


def _raise(error: Exception) -> None:
    raise error
