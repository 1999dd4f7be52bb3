"""What queries need of a task: its plan, its partition, serdes where none is named, and its last commit as a snapshot.

A task that runs in this process is one (`slot.open_task`), and so is the state of one that another process has open
(`state_reader`).
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from headwater.base.errors import UserError
from headwater.streams.engine.opening import typed
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.stores.build import build_store
from headwater.streams.stores.state import TaskState
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SubTopology


class NotReady(UserError):
    """The state of a task is being opened, moved or closed: ask again."""


class Readable(Protocol):
    @property
    def plan(self) -> SubTopology: ...

    @property
    def partition(self) -> int: ...

    @property
    def settings(self) -> TaskSettings: ...

    def snapshot(self) -> AbstractContextManager[TaskState]:
        """The last commit that is written. Raises NotReady."""


class _Serdes:
    """What `typed` asks of a task; nothing is written through it."""

    def __init__(self, settings: TaskSettings) -> None:
        self.settings = settings

    def tombstone_at(self, timestamp: int) -> None:
        raise AssertionError(f"a query writes nothing, and here is a deletion at {timestamp}")


def store_plan(task: Readable, name: str) -> StorePlan | None:
    """None where the task has no such store, or one that is not for queries: what `suppress` holds back."""
    return next((store for store in task.plan.stores if store.name == name and not store.buffer), None)


def store_names(tasks: Sequence[Readable]) -> list[str]:
    return sorted({store.name for task in tasks for store in task.plan.stores if not store.buffer})


@contextmanager
def opened(task: Readable, plan: StorePlan) -> Iterator[Any]:
    """The store of the task as of its last commit, with serdes."""
    with task.snapshot() as snapshot:
        yield typed(plan, build_store(plan.spec, snapshot), _Serdes(task.settings))
