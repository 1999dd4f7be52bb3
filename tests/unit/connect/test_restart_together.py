"""A connector that is restarted with its tasks: these end together. One after the other, each may take
`task.shutdown.graceful.timeout.ms`, and the connector stands still for their sum.
"""

from typing import Any

import pytest

from headwater.connect.api import SourceConnector, SourceTask
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.distributed.assignor import CONNECTOR
from headwater.connect.distributed.config_records import ConnectorConfig, Restart, TaskConfig, TasksCommit
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.local_work import LocalWork
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, connector_plugin
from headwater.connect.runtime.herder import StandaloneHerder
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.worker import Worker

CONFIG = {"connector.class": "Wide", "name": "c", "tasks.max": "3"}
WORKER = {
    "key.converter": "StringConverter",
    "value.converter": "StringConverter",
    "offset.storage.file.filename": "unused",
}
BEGUN = [f"{number} starts" for number in range(3)]


class WideTask(SourceTask):
    pass


class Wide(SourceConnector):
    task_class = WideTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{"part": str(number)} for number in range(3)]


class Tasks:
    """What is done with tasks, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.made: dict[int, Made] = {}
        self.unmakable: int | None = None

    def make(self, spec: Any) -> "Made":
        if spec.id.number == self.unmakable:
            raise ConnectError("the secret is gone")
        self.made[spec.id.number] = Made(spec.id, self.done)
        return self.made[spec.id.number]


class Made:
    paused = False
    on_state: Any = None
    trace = version = runs_on = None

    def __init__(self, own: TaskId, done: list[str]) -> None:
        self.id, self._done = own, done
        self.state = State.RUNNING

    def start(self) -> None:
        self._done.append(f"{self.id.number} starts")

    def begin_stop(self) -> None:
        self._done.append(f"{self.id.number} is to stop")

    def join(self, _timeout_s: float) -> bool:
        self._done.append(f"{self.id.number} ends")
        return True


class Around:
    generation = 1

    def tell(self, *_records: Any) -> None:
        pass

    def publish(self, _connector: str, _tasks: list[dict[str, str]]) -> None:
        pass


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


@pytest.fixture
def worker(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> Worker:
    catalog = Catalog(installed=False)
    catalog.add(*connector_plugin(Wide, "Wide"))
    made = Worker(WorkerConfig(WORKER), MemoryOffsetStore(), catalog)
    monkeypatch.setattr(made, "make_task", tasks.make)
    monkeypatch.setattr(made, "generations", {}, raising=False)
    return made


def ended(*numbers: int) -> list[str]:
    stops = [f"{number} is to stop" for number in numbers]
    return stops + [f"{number} ends" for number in numbers] + [f"{number} starts" for number in numbers]


@pytest.mark.parametrize(("only_failed", "chosen"), [(False, (0, 1, 2)), (True, (0, 2))])
def test_of_a_worker_on_its_own(worker: Worker, tasks: Tasks, only_failed: bool, chosen: tuple[int, ...]) -> None:
    herder = StandaloneHerder(worker)
    herder.create("c", CONFIG)
    assert tasks.done == BEGUN
    tasks.made[0].state = tasks.made[2].state = State.FAILED
    herder.restart("c", include_tasks=True, only_failed=only_failed)
    assert tasks.done[3:] == ended(*chosen)


def test_where_one_cannot_be_made_all_go_on(worker: Worker, tasks: Tasks) -> None:
    """Those before it had been restarted."""
    herder = StandaloneHerder(worker)
    herder.create("c", CONFIG)
    tasks.unmakable = 1
    with pytest.raises(ConnectError, match="the secret is gone"):
        herder.restart("c", include_tasks=True, only_failed=False)
    assert tasks.done == BEGUN


@pytest.mark.parametrize(("only_failed", "chosen"), [(False, (0, 1, 2)), (True, (0, 2))])
def test_of_a_worker_of_a_group(worker: Worker, tasks: Tasks, only_failed: bool, chosen: tuple[int, ...]) -> None:
    made: Any = worker
    around: Any = Around()
    work = LocalWork(made, around)
    state = ConfigState()
    configs = [TaskConfig(TaskId("c", number), {"part": str(number)}) for number in range(3)]
    for record in (ConnectorConfig("c", CONFIG), *configs, TasksCommit("c", 3)):
        state.apply(record)
    work.start_what_is_not(frozenset(TaskId("c", number) for number in (CONNECTOR, 0, 1, 2)), state)
    assert tasks.done == BEGUN
    tasks.made[0].state = tasks.made[2].state = State.FAILED
    work.restart(Restart("c", include_tasks=True, only_failed=only_failed), state)
    assert tasks.done[3:] == ended(*chosen)
