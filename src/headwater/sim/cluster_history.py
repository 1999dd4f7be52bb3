"""What clients of a cluster were told, and whether all of it can be true together: as `history.py` and `catalog.py`, but for

- metadata: a broker may be behind, so a topic may be missing in one answer, or be there still in another;
- ends: a leader that was deposed and does not know it yet may tell an older end. Only what one client was told, which sends the
  highest leader epoch that it knows of, never goes back (I9, I15: `cluster_clients/reading.py`);
- acknowledgements: at that moment every true in-sync replica has what was acknowledged (I8), which the world knows.
"""

from collections.abc import Callable, Sequence

from headwater.sim.catalog import Catalog, Expected, Topic
from headwater.sim.history import Ends, PartitionHistory
from headwater.wire.messages.metadata import MetadataResponse

Committed = Callable[[bytes, int, int], None]
"""Topic id, partition, end: raises Violation if an in-sync replica does not have all below the end."""


class ClusterHistory(PartitionHistory):
    def __init__(self, name: str, is_durable: bool, committed: Callable[[int], None]) -> None:
        super().__init__(name, is_durable)
        self._committed = committed

    def acknowledged(self, base_offset: int, values: Sequence[bytes]) -> None:
        super().acknowledged(base_offset, values)
        self._committed(base_offset + len(values))

    def told_latest(self, offset: int, asked: Ends, what: str) -> None:  # noqa: ARG002
        self._grow(latest=offset)


class ClusterTopic(Topic):
    def __init__(self, name: str, topic_id: bytes, committed: Committed) -> None:
        super().__init__(name, topic_id)
        self._committed = committed

    def new_history(self, index: int) -> PartitionHistory:
        return ClusterHistory(
            f"{self.name}-{index}", self.is_durable, lambda end: self._committed(self.topic_id, index, end)
        )


class ClusterCatalog(Catalog):
    def __init__(self, committed: Committed) -> None:
        super().__init__()
        self._committed = committed

    def new_topic(self, name: str, topic_id: bytes) -> Topic:
        return ClusterTopic(name, topic_id, self._committed)

    def told(self, response: MetadataResponse, expected: Expected) -> None:  # noqa: ARG002
        for answer in response.topics:
            if answer.error_code == 0 and answer.topic_id != bytes(16):
                self.created(answer.name or "", answer.topic_id, len(answer.partitions))
