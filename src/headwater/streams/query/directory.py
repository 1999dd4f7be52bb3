"""Which host of an application holds which partitions of which stores: what a query of the whole application goes
by.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headwater.streams.query.readable import Readable


@dataclass(frozen=True, slots=True)
class Host:
    """`url` is where it answers queries; `stores` the partitions that it has of each store."""

    url: str
    stores: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Directory(Protocol):
    """Whoever deals out tasks knows this: it is asked again for each query."""

    def others(self) -> Sequence[Host]:
        """The hosts of the same run beside this one."""

    def partitions(self, store: str) -> int:
        """How many partitions the store has in all; 0 if there is no such store."""


class Alone:
    """One host has all tasks."""

    def __init__(self, tasks: Callable[[], Sequence[Readable]]) -> None:
        self._tasks = tasks

    def others(self) -> Sequence[Host]:
        return ()

    def partitions(self, store: str) -> int:
        return len(partitions_here(self._tasks()).get(store, ()))


def partitions_here(tasks: Sequence[Readable]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for task in tasks:
        for store in task.plan.stores:
            if not store.buffer:
                found.setdefault(store.name, []).append(task.partition)
    return {name: sorted(partitions) for name, partitions in sorted(found.items())}
