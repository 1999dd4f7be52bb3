"""What clients of a cluster were told, and whether all of it can be true together: as `history.py` and `catalog.py`,
but for

- metadata: a broker may be behind, so a topic may be missing in one answer, or be there still in another;
- ends: a leader that was deposed and does not know it yet may tell an older end. Only what one client was told, which
  sends the
  highest leader epoch that it knows of, never goes back (I9, I15: `cluster_clients/reading.py`);
- acknowledgements: at that moment every true in-sync replica has what was acknowledged (I8), which the world knows.
"""

from collections.abc import Callable, Sequence

from headwater.records.reader import Record
from headwater.sim.catalog import Catalog, Expected, Topic
from headwater.sim.history import Ends, PartitionHistory, key_of
from headwater.sim.trace import Violation
from headwater.wire.messages.metadata import MetadataResponse

Committed = Callable[[bytes, int, int], None]
"""Topic id, partition, end: raises Violation if an in-sync replica does not have all below the end."""


def is_lossy(topic: str) -> bool:
    """By its name: a topic with `unclean.leader.election.enable`."""
    return topic.startswith("lossy")


def is_trimmed(topic: str) -> bool:
    """By its name: a topic whose records are deleted."""
    return topic.startswith("trimmed")


def has_wide_gaps(topic: str) -> bool:
    """By its name: a topic whose leaders now and then go on more than 2^31 offsets further."""
    return topic.endswith("wide")


def is_compacted(topic: str) -> bool:
    """By its name: a topic with `cleanup.policy=compact`."""
    return topic.startswith("compacted")


class ClusterHistory(PartitionHistory):
    def __init__(self, name: str, is_durable: bool, committed: Callable[[int], None]) -> None:
        super().__init__(name, is_durable)
        self._committed = committed

    def acknowledged(self, base_offset: int, values: Sequence[bytes]) -> None:
        super().acknowledged(base_offset, values)
        self._committed(base_offset + len(values))

    def told_earliest(self, offset: int, asked: Ends) -> None:
        if not self.begins_anywhere:
            super().told_earliest(offset, asked)

    def told_latest(self, offset: int, asked: Ends, what: str) -> None:  # noqa: ARG002
        self._grow(latest=offset)


class TrimmedHistory(ClusterHistory):
    """Of a topic whose records are deleted, by retention and by request. The beginning that one leader told may be
    ahead of the one that the next tells. But what DeleteRecords was acknowledged for is gone from all in-sync replicas,
    for as long as they live: where a log begins is written down now and then only.
    """

    begins_anywhere = True
    deleted_up_to = 0

    def deleted(self, low_watermark: int) -> None:
        if self.tell is not None:
            self.tell(f"its deletion up to {low_watermark} is acknowledged")
        self.deleted_up_to = max(self.deleted_up_to, low_watermark)

    def broker_died(self) -> None:
        self.deleted_up_to = 0

    def audited(self, earliest: int, position: int) -> None:
        super().audited(earliest, position)
        if earliest < self.deleted_up_to:
            raise Violation(f"I15: {self.name} was deleted up to {self.deleted_up_to}, and begins at {earliest}")


class CompactedHistory(ClusterHistory):
    """Of a compacted topic. What was acknowledged may be missing, but only if a later record has the same key
    (`key_of`); so the last one of each key is there.
    """

    has_gaps = True

    def __init__(self, name: str, is_durable: bool, committed: Callable[[int], None]) -> None:
        super().__init__(name, is_durable, committed)
        self._read_last: dict[bytes | None, int] = {}  # by the reader that has come furthest

    def read(self, position: int, records: Sequence[Record], high_watermark: int, asked: Ends) -> int:
        for record in records:
            if record.key != key_of(record.value or b""):
                raise Violation(f"{self.name} has at {record.offset} a record with the key of another: {record.key!r}")
            self._read_last[record.key] = max(record.offset, self._read_last.get(record.key, -1))
        return super().read(position, records, high_watermark, asked)

    def audited(self, earliest: int, position: int) -> None:
        super().audited(earliest, position)
        for offset, value in self._values.items():
            if self._read_last.get(key_of(value), -1) < offset:
                raise Violation(
                    f"I1: {self.name} has no record of {key_of(value)!r} from {offset} on, and one was acknowledged or seen"
                )


class LossyHistory(ClusterHistory):
    """Of a topic with `unclean.leader.election.enable`: records may be gone, and others stand where they were. Nothing
    is served that nobody sent, none of it past the high watermark, and at the end the replicas are equal all the
    same.
    """

    may_lose = True

    def _learn(self, offset: int, value: bytes, how: str) -> None:
        """It may be another one later."""

    def _grow(self, earliest: int = 0, latest: int = 0) -> None:
        """Both may go back."""


class ClusterTopic(Topic):
    def __init__(self, name: str, topic_id: bytes, committed: Committed) -> None:
        super().__init__(name, topic_id)
        self._committed = committed

    def new_history(self, index: int) -> PartitionHistory:
        kind: type[ClusterHistory] = ClusterHistory
        for is_of, special in (
            (is_lossy, LossyHistory), (is_trimmed, TrimmedHistory), (is_compacted, CompactedHistory)
        ):  # fmt: skip
            kind = special if is_of(self.name) else kind
        return kind(f"{self.name}-{index}", self.is_durable, lambda end: self._committed(self.topic_id, index, end))


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
