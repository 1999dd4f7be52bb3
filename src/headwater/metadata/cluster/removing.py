"""What the controller takes away: the nodes of a doomed topic, which are too many for one step, and old entries of the
log.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headwater.base.coordination import Check, Coordination, CoordinationError, Delete, Write, Written
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.writing import WRITES_MAX, removal

ENTRIES_KEPT: Final = 300  # each look at the log lists all of them
_TRIM_FROM: Final = 400
_AT_ONCE: Final = 200


class Removal:
    """Used once. A topic that is marked as doomed loses its partitions, some at a time, and then its node."""

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        name: str,
        guard_version: int,
        done: Callable[[], None],
        refused: Callable[[CoordinationError], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._name = name
        self._guard = Check(layout.CONTROLLER_EPOCH, guard_version)
        self._done = done
        self._refused = refused
        self._steps: deque[list[Write]] = deque()

    def start(self) -> None:
        self._coordination.children(layout.partitions_path(self._name), self._life.bind(self._listed))

    def _listed(self, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
            return
        partitions = sorted(int(name) for name in names or ())
        for begin in range(0, len(partitions), _AT_ONCE):
            self._steps.append(removal(self._name, partitions[begin : begin + _AT_ONCE]))
        last: list[Write] = [] if names is None else [Delete(layout.partitions_path(self._name))]
        self._steps.append([*last, Delete(layout.topic_path(self._name))])
        self._step()

    def _step(self) -> None:
        self._coordination.write([self._guard, *self._steps.popleft()], self._life.bind(self._stepped))

    def _stepped(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
        elif self._steps:
            self._step()
        else:
            self._done()


class Trimming:
    """Keeps the log of changes short. Whoever has not read what goes loads everything anew."""

    def __init__(self, coordination: Coordination, life: Lifetime, guard_version: int) -> None:
        self._coordination = coordination
        self._life = life
        self._guard = Check(layout.CONTROLLER_EPOCH, guard_version)
        self._is_busy = False

    def listed(self, names: Sequence[str]) -> None:
        """The entries that are there, the oldest first."""
        if len(names) >= _TRIM_FROM and not self._is_busy:
            self._is_busy = True
            old = names[: min(len(names) - ENTRIES_KEPT, WRITES_MAX - 1)]
            deletes = [Delete(f"{layout.CHANGES}/{name}") for name in old]
            self._coordination.write([self._guard, *deletes], self._life.bind(self._trimmed))

    def _trimmed(self, _written: list[Written] | None, _error: CoordinationError | None) -> None:
        self._is_busy = False  # if it was refused, the next who lists them tries again
