"""What comes too late starts nothing: task configs of a connector that was stopped, a restart of a task that was given
up, a place in the group that is known after the task was ended.
"""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    TargetState,
    TaskConfig,
    TasksCommit,
)
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.herder import DistributedHerder
from headwater.connect.distributed.leader import Leader
from headwater.connect.distributed.local_work import LocalWork
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.refusals import Conflict
from headwater.connect.runtime.task import State, TaskId

TASK = TaskId("c", 0)


class Store:
    """The config topic, as the leader uses it."""

    def __init__(self, *records: ConfigRecord) -> None:
        self.state = ConfigState()
        self.write(ConnectorConfig("c", {"connector.class": "C"}), *records)

    def claim(self) -> None: ...

    def refreshed(self) -> ConfigState:
        return self.state.snapshot()

    def snapshot(self) -> ConfigState:
        return self.state.snapshot()

    def write(self, *records: ConfigRecord) -> ConfigState:
        for each in records:
            self.state.apply(each)
        return self.refreshed()


class Around:
    generation = 1

    def __init__(self) -> None:
        self.told: list[Any] = []

    def tell(self, *records: Any) -> None:
        self.told += records


def work_of(around: Any) -> LocalWork:
    """One in which every task that is to be made fails, and says so."""
    worker: Any = SimpleNamespace(worker_id="w", end_tasks=lambda _tasks: None, restarts=lambda _config: False)
    return LocalWork(worker, around)


def with_task(*more: ConfigRecord) -> ConfigState:
    return Store(TaskConfig(TASK, {}), TasksCommit("c", 1), *more).refreshed()


@pytest.mark.parametrize("target", [State.RUNNING, State.PAUSED, State.STOPPED])
def test_tasks_of_a_stopped_connector_are_not_written(target: State) -> None:
    store: Any = Store(TargetState("c", target))
    admin: Any = None
    leader = Leader(store, admin, "g", lambda: True, delay_max_ms=0, key_ttl_ms=1000)
    leader.elected(True)
    if target is State.STOPPED:
        with pytest.raises(Conflict, match="stopped"):
            leader.put_tasks("c", [{}])
    else:
        leader.put_tasks("c", [{}])
    assert store.state.task_ids("c") == ([] if target is State.STOPPED else [TASK])


def test_tasks_of_a_stopped_connector_are_not_started() -> None:
    around = Around()
    work = work_of(around)
    work.start_what_is_not(frozenset({TASK}), with_task(TargetState("c", State.STOPPED)))
    assert around.told == []
    work.start_what_is_not(frozenset({TASK}), with_task())
    assert [each.task for each in around.told] == [TASK]


def test_a_task_that_was_given_up_is_not_restarted() -> None:
    around = Around()
    work = work_of(around)
    state = with_task()
    work.restart_task(TASK, state)
    assert around.told == []
    work.start_what_is_not(frozenset({TASK}), state)
    work.restart_task(TASK, state)
    assert [each.status.state for each in around.told] == [State.FAILED, State.UNASSIGNED, State.FAILED]


class Ended:
    """A task that is ended while its worker asks the group."""

    id, generation, cancelled = TASK, 1, False

    def __init__(self, how: str) -> None:
        self.stopping, self._how = threading.Event(), how

    def is_member(self) -> bool:
        if self._how == "stopped":
            self.stopping.set()
        self.cancelled = self._how == "given up"
        return True


@pytest.mark.parametrize("how", ["stopped", "given up"])
def test_a_task_that_is_ended_while_the_group_is_asked_takes_no_transactional_id(how: str) -> None:
    """The answer may wait for the next generation, which has given the task to another worker: that one was fenced."""
    store = Store(TaskConfig(TASK, {}), TasksCommit("c", 1))
    store.state.unfenced.clear()
    task, anything = Ended(how), cast("Any", None)
    herder = DistributedHerder(cast("Any", SimpleNamespace(exactly_once=True)), cast("Any", store), *[anything] * 3)
    herder.membership = cast("Any", task)
    with pytest.raises(ConnectError, match="this one is over"):
        herder.before_producer(task)
