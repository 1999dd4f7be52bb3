"""Records on their way to Kafka, by source partition: an offset may be committed when all before it have arrived. Pure."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from headwater.connect.data.json_text import dumps


class Submitted:
    """One record on its way."""

    __slots__ = ("arrived", "key", "offset", "partition")

    def __init__(self, key: str, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        self.key, self.partition, self.offset = key, partition, offset
        self.arrived = False


class SubmittedRecords:
    """Owned by one source task; `arrived` may be set by any thread."""

    def __init__(self) -> None:
        self._by_partition: dict[str, deque[Submitted]] = {}

    def submit(self, partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> Submitted | None:
        """None for a record without an offset: there is nothing to commit for it."""
        if partition is None or offset is None:
            return None
        key = dumps(dict(sorted(partition.items())))
        made = Submitted(key, partition, offset)
        self._by_partition.setdefault(key, deque()).append(made)
        return made

    def committable(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """The newest offset of each partition behind which nothing is missing; what it covers is forgotten."""
        found = []
        for key, waiting in list(self._by_partition.items()):
            last = None
            while waiting and waiting[0].arrived:
                last = waiting.popleft()
            if last is not None:
                found.append((last.partition, last.offset))
            if not waiting:
                del self._by_partition[key]
        return found

    @property
    def waiting(self) -> int:
        return sum(not each.arrived for waiting in self._by_partition.values() for each in waiting)
