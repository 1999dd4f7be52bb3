"""The state of one assigned partition: where the reader is, what is buffered, what has to happen before it can be
fetched.

Pure: events go in (a committed offset, a reset, a seek, a fetch answer), and `may_fetch` follows. Owned by the
`Subscription`. An answer that was asked for before a seek is recognized by `version` and dropped.
"""

from collections import deque
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch

EARLIEST: Final = -2
LATEST: Final = -1
NO_EPOCH: Final = -1
BUFFERED_STRETCHES_MAX: Final = 2  # one that is read, one that waits behind it


class Phase(IntEnum):
    UNCOMMITTED = 0  # the group is to be asked for its offset
    RESETTING = 1  # a timestamp (or an end) is to be looked up: `reset_to`
    VALIDATING = 2  # the leader changed: is the position still in its log?
    FETCHING = 3
    BROKEN = 4  # an error that only the user can mend, by a seek; `error` says which


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, or one that was. `offset` is that of the next record to read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = NO_EPOCH


class PartitionState:
    __slots__ = (
        "buffered",
        "buffered_bytes",
        "checked_epoch",
        "epoch",
        "error",
        "failures",
        "held",
        "high_watermark",
        "introduced",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "paused",
        "phase",
        "position",
        "preferred_replica",
        "preferred_until",
        "prefetch",
        "queued",
        "reset_to",
        "retry_at",
        "stop",
        "topic_id",
        "version",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        self.phase = Phase.UNCOMMITTED
        self.position = -1
        self.epoch = NO_EPOCH  # leader epoch of the record before the position
        self.checked_epoch = NO_EPOCH  # leader epoch in which the position was last known to be good
        self.reset_to: int | None = None
        self.error: KafkaError | None = None
        self.paused = False
        self.held = False  # the group gives or takes it just now: nothing is fetched, nothing is given out
        self.topic_id: bytes | None = None  # of the topic that the position is in
        self.version = 0
        self.stop: int | None = None  # nothing from this offset on is wanted
        self.buffered: deque[CompletedFetch] = deque()
        self.buffered_bytes = 0
        self.prefetch = True  # whether to fetch on behind what is buffered
        self.queued = False  # among those that the reader takes in turn
        self.introduced = False  # whether what its broker told of it since it is assigned was heard, or is to come
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.failures = 0
        self.retry_at = 0.0

    @property
    def has_position(self) -> bool:
        return self.phase in (Phase.FETCHING, Phase.VALIDATING)

    # What the user and the group do

    def seek(self, offset: int, epoch: int = NO_EPOCH) -> None:
        self._restart(Phase.FETCHING)
        self.position = offset
        self.epoch = epoch

    def of_topic(self, topic_id: bytes) -> None:
        """A topic that was deleted and made again is another one: what is known of its log's past does not count."""
        if self.topic_id is not None and self.topic_id != topic_id:
            self.seek(self.position)
        self.topic_id = topic_id

    def reset(self, timestamp: int) -> None:
        """To the offset of a timestamp, or to one of the ends (EARLIEST, LATEST), once the leader has said which it
        is.
        """
        self._restart(Phase.RESETTING)
        self.reset_to = timestamp

    def broke(self, error: KafkaError) -> None:
        self._restart(Phase.BROKEN)
        self.error = error

    def ask_again(self) -> None:
        """The group's offset is wanted once more."""
        self._restart(Phase.UNCOMMITTED)

    def _restart(self, phase: Phase) -> None:
        self.version += 1
        self.phase = phase
        self.reset_to = None
        self.error = None
        self.drop_buffers()
        self.failures = 0
        self.retry_at = 0.0
        self.checked_epoch = NO_EPOCH

    def drop_buffers(self) -> None:
        self.buffered.clear()
        self.buffered_bytes = 0
        self.prefetch = True

    # Fetching

    def is_full(self) -> bool:
        """Whether what is buffered has to be read before more is fetched."""
        return len(self.buffered) >= BUFFERED_STRETCHES_MAX or (bool(self.buffered) and not self.prefetch)

    def may_fetch(self, now: float) -> bool:
        """Apart from `is_full`, which concerns the broker's other partitions too."""
        if self.phase is not Phase.FETCHING or self.paused or self.held or now < self.retry_at:
            return False
        return self.stop is None or self.fetch_position()[0] < self.stop

    def fetch_position(self) -> tuple[int, int]:
        """Offset and epoch to fetch on at: behind what is buffered."""
        if self.buffered:
            last = self.buffered[-1]
            return last.end_offset, last.end_epoch
        return self.position, self.epoch

    def add(self, fetch: CompletedFetch) -> None:
        self.buffered.append(fetch)
        self.buffered_bytes += fetch.size_bytes

    def drop_first(self) -> int:
        """The first fetch is read. Gives the bytes that became free."""
        fetch = self.buffered.popleft()
        self.buffered_bytes -= fetch.size_bytes
        if not self.buffered:
            self.prefetch = True
        return fetch.size_bytes

    def moved(self, fetch: CompletedFetch) -> None:
        """The reader took something of the first fetch."""
        self.position = fetch.position
        if fetch.epoch >= 0:
            self.epoch = fetch.epoch

    def lag(self, read_committed: bool) -> int | None:
        end = self.last_stable_offset if read_committed else self.high_watermark
        if end < 0 or not self.has_position:
            return None
        return max(0, end - self.position)

    def committable(self) -> OffsetAndMetadata | None:
        return OffsetAndMetadata(self.position, "", self.epoch) if self.has_position else None
