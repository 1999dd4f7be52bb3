"""Fetch sessions (KIP-227): the broker remembers what a consumer asks for, so that it asks for changes only.

A session belongs to whoever knows its random id. Each request carries the next epoch; a wrong one means that a request
or an answer was lost, and the client starts again with a full fetch. The cache is bounded: a full one gives up sessions
that rested for two minutes, and otherwise answers without a session, which every client understands. So are the
partitions of a session, and those of all sessions together: each fetch of a session looks at all it has, however short
the request is.

The partitions of a session keep an order; one that was answered with records goes to the end, so that a full partition
cannot starve the others when the answer's size is limited.
"""

from dataclasses import dataclass
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Random
from headwater.replication.partition import Partition
from headwater.wire.messages.fetch import FetchRequest

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
PARTITIONS_MAX: Final = 100_000  # of one session
PARTITIONS_MAX_IN_ALL: Final = 500_000
_PARTITIONS_FREE: Final = 500  # of one session, whatever the others have
_EVICTABLE_AFTER_MS: Final = 120_000
_EPOCH_MAX: Final = 2**31 - 1


@dataclass(slots=True)
class FetchSpec:
    """What is asked of one partition, and what the client was last told about it."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    found: Partition | None = None  # of a follower's session: where it was read last
    noted_ms: int = 0  # and when the follower's position was last taken note of
    log_start_offset: int = -1  # of a follower's own log

    @property
    def key(self) -> tuple[str | bytes, int]:
        return (self.topic or self.topic_id, self.partition)

    def goes_on_from(self, known: "FetchSpec") -> bool:
        """A follower in a new term, or that went back, may have passed over the answer that told it."""
        return self.current_leader_epoch == known.current_leader_epoch and self.fetch_offset >= known.fetch_offset


def specs_of(request: FetchRequest) -> list[FetchSpec]:
    return [
        FetchSpec(
            topic.topic,
            topic.topic_id,
            part.partition,
            part.fetch_offset,
            part.partition_max_bytes,
            part.current_leader_epoch,
            part.last_fetched_epoch,
            log_start_offset=part.log_start_offset,
        )
        for topic in request.topics
        for part in topic.partitions
    ]


class FetchSession:
    __slots__ = ("epoch", "last_used_ms", "session_id", "specs", "uses_topic_ids")

    def __init__(self, session_id: int, uses_topic_ids: bool) -> None:
        self.session_id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.specs: dict[tuple[str | bytes, int], FetchSpec] = {}
        self.last_used_ms = 0

    def update(self, changed: list[FetchSpec], forgotten: list[tuple[str | bytes, int]]) -> None:
        for spec in changed:
            known = self.specs.get(spec.key)
            if known is not None and spec.goes_on_from(known):
                spec.told_high_watermark = known.told_high_watermark
                spec.told_log_start_offset = known.told_log_start_offset
            self.specs[spec.key] = spec
        for key in forgotten:
            self.specs.pop(key, None)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def to_the_end(self, spec: FetchSpec) -> None:
        newest = self.specs.pop(spec.key, None)
        if newest is not None:
            self.specs[spec.key] = newest


class FetchSessions:
    """Owned by the broker."""

    __slots__ = ("_random", "_sessions", "_slots")

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, uses_topic_ids: bool, now_ms: int, partitions: int = 0) -> FetchSession | None:
        """A new session for so many, or None while the cache is full of sessions in use."""
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        while not self.has_room(partitions):
            if partitions > PARTITIONS_MAX or not self._evict(now_ms):
                return None
        session_id = 0
        while session_id == 0 or session_id in self._sessions:
            session_id = int.from_bytes(self._random.bytes(4)) >> 1
        session = FetchSession(session_id, uses_topic_ids)
        session.last_used_ms = now_ms
        self._sessions[session_id] = session
        return session

    def has_room(self, partitions: int, known: int = 0) -> bool:
        """Whether a session may have so many more than it has."""
        if known + partitions <= _PARTITIONS_FREE:
            return True
        if known + partitions > PARTITIONS_MAX:
            return False
        return sum(len(session.specs) for session in self._sessions.values()) + partitions <= PARTITIONS_MAX_IN_ALL

    def find(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        """The session for the next incremental fetch; its epoch is moved on."""
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.advance()
        # The least recently used stands first.
        del self._sessions[session_id]
        self._sessions[session_id] = session
        session.last_used_ms = now_ms
        return session

    def close(self, session_id: int) -> None:
        self._sessions.pop(session_id, None)

    def _evict(self, now_ms: int) -> bool:
        for session_id, session in self._sessions.items():
            if now_ms - session.last_used_ms < _EVICTABLE_AFTER_MS:
                return False
            del self._sessions[session_id]
            return True
        return False
