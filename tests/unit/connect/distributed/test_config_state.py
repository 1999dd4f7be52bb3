"""What the config topic says, record by record."""

from headwater.connect.distributed.config_records import (
    ConfigRecord,
    ConnectorConfig,
    TargetState,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.runtime.task import State, TaskId


def state(*records: ConfigRecord) -> ConfigState:
    made = ConfigState()
    for record in records:
        made.apply(record)
    return made


def config(text: str = "1") -> ConnectorConfig:
    return ConnectorConfig("c", {"a": text})


def task(number: int, text: str = "1") -> TaskConfig:
    return TaskConfig(TaskId("c", number), {"t": text})


def test_tasks_count_with_their_commit() -> None:
    found = state(config(), task(0), task(1))
    assert found.task_ids("c") == []
    found.apply(TasksCommit("c", 2))
    assert found.task_ids("c") == [TaskId("c", 0), TaskId("c", 1)]
    assert found.tasks["c"] == ({"t": "1"}, {"t": "1"})


def test_half_a_set_of_tasks_is_none() -> None:
    found = state(config(), task(0), TasksCommit("c", 2))
    assert found.task_ids("c") == []
    assert found.inconsistent == {"c"}
    for record in (task(0), task(1), TasksCommit("c", 2)):
        found.apply(record)
    assert len(found.task_ids("c")) == 2
    assert not found.inconsistent


def test_configs_of_more_tasks_that_compaction_left_are_no_harm() -> None:
    found = state(config(), task(1, "old"), task(0), TasksCommit("c", 1))
    assert found.tasks["c"] == ({"t": "1"},)


def test_what_compaction_left_of_a_deleted_connector_is_nothing() -> None:
    found = state(task(0), TasksCommit("c", 1))
    assert not found.tasks
    assert not found.configs


def test_a_deleted_connector_is_gone_with_its_tasks_and_target() -> None:
    found = state(config(), TargetState("c", State.PAUSED), task(0), TasksCommit("c", 1))
    assert found.target("c") is State.PAUSED
    found.apply(ConnectorConfig("c", None))
    found.apply(TargetState("c", None))
    assert (found.configs, found.tasks, found.target("c")) == ({}, {}, State.RUNNING)


def test_new_tasks_are_to_be_fenced_until_a_task_count_comes() -> None:
    found = state(config(), task(0), TasksCommit("c", 1))
    assert found.unfenced == {"c"}
    found.apply(TaskCount("c", 1))
    assert not found.unfenced
    found.apply(task(0, "2"))
    found.apply(TasksCommit("c", 1))
    assert found.unfenced == {"c"}
    assert found.task_counts == {"c": 1}
    assert found.generations == {"c": 2}


def test_the_count_of_the_last_fencing_outlives_the_connector() -> None:
    found = state(config(), task(0), TasksCommit("c", 1), TaskCount("c", 1), ConnectorConfig("c", None))
    assert found.task_counts == {"c": 1}


def test_the_config_that_tasks_were_made_for_is_known() -> None:
    found = state(config("1"), task(0), TasksCommit("c", 1), config("2"))
    assert found.applied["c"] == {"a": "1"}
    assert found.configs["c"] == {"a": "2"}


def test_a_snapshot_does_not_change() -> None:
    found = state(config())
    kept = found.snapshot()
    found.apply(ConnectorConfig("c", None))
    assert set(kept.configs) == {"c"}
