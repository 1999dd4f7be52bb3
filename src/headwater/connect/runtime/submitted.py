"""Records on their way to Kafka, by source partition: an offset may be committed when all before it have arrived. Pure.

A record without an offset has its place in the order too: a source may give an offset with the last record of a batch
alone.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

from headwater.connect.data.json_text import dumps


class Submitted:
    """One record on its way."""

    __slots__ = ("arrived", "offset", "partition")

    def __init__(self, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> None:
        self.partition, self.offset = partition, offset
        self.arrived = False


class SubmittedRecords:
    """Owned by one source task; `arrived` may be set by any thread."""

    def __init__(self) -> None:
        self._by_partition: dict[str, deque[Submitted]] = {}
        self._newest: tuple[Mapping[str, Any], str] | None = (
            None  # a partition and its text: most have one after another
        )

    def submit(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> Submitted | None:
        """None for a record without a partition: there is nothing to commit for it, nor before it."""
        if partition is None:
            return None
        made = Submitted(partition, offset)
        if self._newest is None or self._newest[0] != partition:
            self._newest = dict(partition), dumps(dict(sorted(partition.items())))
        waiting = self._by_partition.setdefault(self._newest[1], deque())
        waiting.append(made)
        _forget_covered(waiting)
        return made

    def committable(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The newest offset of each partition behind which nothing is missing; what it covers is forgotten."""
        found = []
        for key, waiting in list(self._by_partition.items()):
            _forget_covered(waiting)
            if waiting and waiting[0].arrived:
                last = waiting.popleft()
                if last.offset is not None:
                    found.append((last.partition, last.offset))
            if not waiting:
                del self._by_partition[key]
        return found

    @property
    def waiting(self) -> int:
        return sum(not each.arrived for waiting in self._by_partition.values() for each in waiting)


def _forget_covered(waiting: deque[Submitted]) -> None:
    """Of what has arrived in order, the newest offset is enough: so no more is kept than is on its way."""
    while len(waiting) > 1 and waiting[0].arrived and waiting[1].arrived:
        first = waiting.popleft()
        if waiting[0].offset is None:
            waiting[0].offset = first.offset
