"""Queries of an application whose tasks are in slots of other processes: the lead's door asks the slots that own them.

A slot answers for its own tasks (`scope=local`); asked for the whole application it says which partitions it does not
hold. The lead's door has no tasks: it knows from the program what stores there are, and from the slots who has which. A
value by key is asked for where the default partitioner puts the key; if nothing is there, in all other partitions,
since an application may partition by a function of its own.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.query.directory import Host
from headwater.streams.query.readable import NotReady
from headwater.streams.stores.state import TaskState
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SubTopology


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A `readable.Readable` of which only the plan and the serdes are known here."""

    plan: SubTopology
    settings: TaskSettings
    partition: int = -1

    def snapshot(self) -> AbstractContextManager[TaskState]:
        raise NotReady(f"The tasks of sub-topology {self.plan.number} are in slots", "", "")


class SlotDirectory:
    """Of one slot: it knows of no other host, but how many partitions stores have in all."""

    def __init__(self, plans: Sequence[SubTopology], counts: Mapping[int, int]) -> None:
        self._plans = plans
        self._counts = counts

    def others(self) -> Sequence[Host]:
        return ()

    def partitions(self, store: str) -> int:
        return next(
            (self._counts.get(plan.number, 0) for plan in self._plans for each in plan.stores if _is(each, store)), 0
        )


class LeadDirectory(SlotDirectory):
    """`slots`: rows of the status, with their tasks and where they answer queries."""

    def __init__(
        self,
        plans: Sequence[SubTopology],
        counts: Mapping[int, int],
        settings: TaskSettings,
        slots: Callable[[], Sequence[Mapping[str, Any]]],
    ) -> None:
        super().__init__(plans, counts)
        self._settings = settings
        self._slots = slots

    def others(self) -> Sequence[Host]:
        return [Host(str(row["queries"]), self._stores(row["tasks"])) for row in self._slots() if row["queries"]]

    def known(self, store: str) -> tuple[Elsewhere, StorePlan] | None:
        """Its plan and serdes; None if there is no such store in tasks."""
        found = [
            (plan, each) for plan in self._plans for each in plan.stores if _is(each, store) and not plan.is_global
        ]
        return (Elsewhere(found[0][0], self._settings), found[0][1]) if found else None

    def names(self) -> list[str]:
        """Of all stores in tasks."""
        return sorted(
            {each.name for plan in self._plans for each in plan.stores if not each.buffer and not plan.is_global}
        )

    def _stores(self, tasks: Sequence[str]) -> dict[str, list[int]]:
        stores: dict[str, list[int]] = {}
        for task in tasks:
            number, _, partition = task.partition("_")
            plan = next(plan for plan in self._plans if plan.number == int(number))
            for each in plan.stores:
                if not each.buffer:
                    stores.setdefault(each.name, []).append(int(partition))
        return stores


def _is(plan: StorePlan, store: str) -> bool:
    return plan.name == store and not plan.buffer
