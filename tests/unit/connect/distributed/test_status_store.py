"""Statuses of a group: whose word counts. The producer is in memory, and records are given to the store as its log
gives them.
"""

from typing import Any, NamedTuple

from headwater.connect.distributed import status_records
from headwater.connect.distributed.status_records import Status, TaskStatus
from headwater.connect.distributed.stores import StatusStore
from headwater.connect.runtime.task import State, TaskId

TASK = TaskId("c", 0)


class Written(NamedTuple):
    key: bytes
    value: bytes | None


class MemoryProducer:
    def __init__(self) -> None:
        self.written: list[Written] = []

    def send(self, _topic: str, value: bytes | None, *, key: bytes, on_delivery: Any) -> None:
        self.written.append(Written(key, value))


def store(worker_id: str) -> tuple[StatusStore, MemoryProducer]:
    producer: Any = MemoryProducer()
    nobody: Any = None
    made = StatusStore("s", {}, producer, nobody)
    made.worker_id = worker_id
    return made, producer


def read(made: StatusStore, state: State, worker: str, generation: int) -> None:
    key, value = status_records.encode(TaskStatus(TASK, Status(state, worker, generation)))
    record: Any = Written(key.encode(), value)
    made._take(record)


def test_what_a_worker_that_was_asleep_says_of_its_end_does_not_hide_who_runs_the_task_now() -> None:
    """It had not read yet that another runs it, and the status was FAILED from then on."""
    made, producer = store("b:1")
    read(made, State.RUNNING, "a:1", 3)
    read(made, State.RUNNING, "b:1", 4)
    read(made, State.FAILED, "a:1", 3)
    found = made.task(TASK)
    assert found is not None
    assert (found.state, found.worker_id) == (State.RUNNING, "b:1")
    expected = status_records.encode(TaskStatus(TASK, Status(State.RUNNING, "b:1", 4)))
    assert producer.written == [Written(expected.key.encode(), expected.value)]  # the topic says it again


def test_the_others_leave_it_to_the_owner() -> None:
    made, producer = store("c:1")
    read(made, State.RUNNING, "b:1", 4)
    read(made, State.UNASSIGNED, "a:1", 3)
    assert made.tasks("c")[TASK].state is State.RUNNING
    assert not producer.written


def test_a_late_end_is_not_told_and_a_new_beginning_always_is() -> None:
    made, producer = store("a:1")
    read(made, State.RUNNING, "b:1", 4)
    made.put(TaskStatus(TASK, Status(State.UNASSIGNED, "a:1", 3)))
    assert not producer.written
    made.put(TaskStatus(TASK, Status(State.RUNNING, "a:1", 1)))  # the group has begun to count anew
    assert len(producer.written) == 1


def test_tasks_of_a_connector_are_in_the_order_of_their_numbers() -> None:
    made, _ = store("a:1")
    for task in (TaskId("c", 10), TaskId("b", 0), TaskId("c", 2)):
        key, value = status_records.encode(TaskStatus(task, Status(State.RUNNING, "a:1", 1)))
        record: Any = Written(key.encode(), value)
        made._take(record)
    assert list(made.tasks("c")) == [TaskId("c", 2), TaskId("c", 10)]
    gone: Any = Written(status_records.encode(TaskStatus(TaskId("b", 0), None)).key.encode(), None)
    made._take(gone)
    assert made.tasks("b") == {}
