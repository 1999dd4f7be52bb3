"""A follower's side of a fetch session (KIP-227): the leader remembers what is asked for, and is told only what
changed.

Whatever goes wrong, the next request begins a new session with everything in it. Owned by a fetcher.
"""

from typing import Final, NamedTuple

from headwater.base.ids import PartitionKey, TopicId
from headwater.replication.partition import Partition
from headwater.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

_EPOCH_MAX: Final = 2**31 - 1


class Position(NamedTuple):
    """What is asked of a partition: from `offset` on, `epoch` being that of what stands before it."""

    partition: Partition
    offset: int
    epoch: int
    log_start_offset: int


class FollowerSession:
    def __init__(self, partition_bytes_max: int) -> None:
        self._partition_bytes_max = partition_bytes_max
        self.session_id = 0
        self.epoch = 0  # of the next request; 0 begins a new session
        self._known: dict[PartitionKey, Position] = {}  # what the leader remembers
        self._changed: dict[PartitionKey, None] = {}

    @property
    def is_new(self) -> bool:
        return self.epoch == 0

    def changed(self, key: PartitionKey) -> None:
        """The partition may be asked for otherwise than before, or not at all."""
        self._changed[key] = None

    def next(self, wanted: dict[PartitionKey, Position]) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        """What the next request holds, so that the session is about `wanted` and nothing else."""
        if self.is_new:
            self._known = {}
        topics: dict[TopicId, FetchTopic] = {}
        forgotten: dict[TopicId, ForgottenTopic] = {}
        for key in wanted if self.is_new else self._changed:
            position = wanted.get(key)
            if position is None:
                if self._known.pop(key, None) is not None:
                    gone = forgotten.setdefault(key.topic_id, ForgottenTopic(topic_id=key.topic_id, partitions=[]))
                    gone.partitions.append(key.partition)
            elif self._known.get(key) != position:
                self._known[key] = position
                topic = topics.setdefault(key.topic_id, FetchTopic(topic_id=key.topic_id, partitions=[]))
                topic.partitions.append(self._partition(position))
        self._changed = {}
        return list(topics.values()), list(forgotten.values())

    def _partition(self, position: Position) -> FetchPartition:
        partition = position.partition
        return FetchPartition(
            partition=partition.index,
            current_leader_epoch=partition.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.epoch,
            log_start_offset=position.log_start_offset,
            partition_max_bytes=self._partition_bytes_max,
        )

    def answered(self, session_id: int) -> None:
        """0: the leader keeps no session for us, and every request holds everything."""
        self.session_id = session_id
        self.epoch = 0 if session_id == 0 else 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def begin_again(self) -> None:
        """The id is named once more, so that the leader can let go of what it remembers."""
        self.epoch = 0
