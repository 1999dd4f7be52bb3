"""What a leader knows of the other replicas of a partition, and who of them counts.

A follower that asks from an offset on has everything below it. The high watermark follows the slowest of those that
count: the in-sync replicas, and those that were proposed as such, from the moment they were proposed until a newer
state tells what became of it. The proposal may have been written although nobody told us, and then a leader may be
elected from it. Those proposed to be left out count until they are out. A follower joins when it has all that is
committed and all from before this leader's time, and begins no earlier than the leader (or what was deleted would be
there again, were it elected), in the life (broker epoch) under which it is registered now; it leaves when it has not
been at the log's end for `replica.lag.time.max.ms`.

Pure: time, the log's end and the image's brokers come in. Owned by one partition, for one term of its leader.
"""

from collections.abc import Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, TopicId
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState

INT64_MAX: Final = (1 << 63) - 1
_NEVER_MS: Final = -(1 << 62)
_UNKNOWN: Final = -1


class Follower:
    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_ms: int) -> None:
        self.broker_epoch = _UNKNOWN
        self.log_end_offset = _UNKNOWN
        self.log_start_offset = _UNKNOWN
        self.caught_up_ms = caught_up_ms  # when it last had all that the leader had
        self.fetched_ms = _NEVER_MS
        self.leader_end_offset = INT64_MAX  # where the leader's log ended at that fetch

    def fetched(self, broker_epoch: int, offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Whether it has more or less than before."""
        if offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.broker_epoch = broker_epoch
        self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset
        has_moved = offset != self.log_end_offset
        self.log_end_offset = offset
        return has_moved

    def lags(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset != leader_end_offset and now_ms - self.caught_up_ms > lag_max_ms


class InSync:
    """`confirmed` is what all the others that count have; the leader has its own log."""

    def __init__(
        self,
        topic_id: TopicId,
        partition: int,
        leader: BrokerId,
        state: PartitionState,
        brokers: Mapping[BrokerId, BrokerState],
        *,
        epoch_start_offset: int,
        now_ms: int,
    ) -> None:
        self._topic_id = topic_id
        self._partition = partition
        self._leader = leader
        self._brokers = brokers
        self._epoch_start_offset = epoch_start_offset
        self._now_ms_at_start = now_ms
        self.followers: dict[BrokerId, Follower] = {}
        self._is_proposing = False
        self._rests_until_ms = _NEVER_MS
        self._unconfirmed: frozenset[BrokerId] = frozenset()
        self._take(state)

    # The state as the image has it

    def state_changed(self, state: PartitionState) -> None:
        """Any newer version overrides what was proposed over an older one."""
        if state.version > self._version:
            self._unconfirmed = frozenset()
            self._is_proposing = False
            self._rests_until_ms = _NEVER_MS
            self._take(state)

    def _take(self, state: PartitionState) -> None:
        self._version = state.version
        self._leader_epoch = state.leader_epoch
        self.replicas = tuple(state.replicas)
        self._adding, self._removing = tuple(state.adding), tuple(state.removing)
        epochs = [*state.in_sync_epochs, *[_UNKNOWN] * len(state.in_sync_replicas)]
        self.members: dict[BrokerId, int] = dict(zip(state.in_sync_replicas, epochs, strict=False))
        known = self.followers
        self.followers = {
            replica: known.get(replica)
            or Follower(self._now_ms_at_start if replica in self.members and not known else _NEVER_MS)
            for replica in self.replicas
            if replica != self._leader
        }
        self._count()

    def _count(self) -> None:
        self._awaited = [follower for replica, follower in self.followers.items() if self.counts(replica)]

    def counts(self, replica: BrokerId) -> bool:
        """Whether a leader may be elected from it. Then it has all that is committed."""
        return replica in self.members or replica in self._unconfirmed

    def is_enough(self, min_in_sync_replicas: int) -> bool:
        """No more can be asked for than there are replicas."""
        return len(self.members) >= min(min_in_sync_replicas, len(self.replicas))

    # Followers

    @property
    def confirmed(self) -> int:
        return min((follower.log_end_offset for follower in self._awaited), default=INT64_MAX)

    def low_watermark(self, log_start_offset: int) -> int:
        """Where the logs of all replicas that live or may be elected have begun, the leader's with `log_start_offset`.
        -1 if one has not said. A member whose session is over may come back and lead before anybody has left it out.
        """
        starts = [
            each.log_start_offset
            for replica, each in self.followers.items()
            if replica in self._brokers or self.counts(replica)
        ]
        return min([log_start_offset, *starts])

    def fetched(self, replica: BrokerId, broker_epoch: int, offset: int, leader_end_offset: int, now_ms: int) -> bool:
        """Whether `confirmed` may have changed. Raises if it is no replica, or a fetch from a life that is over."""
        follower = self.followers.get(replica)
        if follower is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, "The broker is not known as a replica of the partition.")
        registered = self._brokers.get(replica)
        if broker_epoch < follower.broker_epoch or (registered is not None and broker_epoch < registered.epoch):
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, "The fetch comes from an earlier life of the broker.")
        return follower.fetched(broker_epoch, offset, leader_end_offset, now_ms)

    def may_join(self, replica: BrokerId, log_start_offset: int, high_watermark: int) -> bool:
        follower, registered = self.followers[replica], self._brokers.get(replica)
        return (
            registered is not None
            and not registered.is_stopping
            and follower.fetched_ms != _NEVER_MS
            and follower.broker_epoch == registered.epoch
            and follower.log_start_offset >= log_start_offset
            and follower.log_end_offset >= max(high_watermark, self._epoch_start_offset)
        )

    def is_news(self, replica: BrokerId) -> bool:
        """Whether the replica does not stand among the in-sync ones under the epoch with which it fetches."""
        return self.members.get(replica) != self.followers[replica].broker_epoch

    # Proposals

    def proposal(
        self,
        log_start_offset: int,
        high_watermark: int,
        leader_end_offset: int,
        now_ms: int,
        lag_max_ms: int,
        joining: BrokerId | None = None,
    ) -> PartitionChanged | None:
        """Who should be in sync from now on, if that is not who is. One proposal at a time.

        `joining` has just fetched. It joins if it may; a member joins under the epoch of its new life. If nobody knows
        what became of an earlier proposal, the members are proposed as they are: that makes a newer state, or is
        refused because there is one.
        """
        if self._is_proposing or now_ms < self._rests_until_ms:
            return None
        wanted: dict[BrokerId, int] = {}
        for member, epoch in self.members.items():
            follower = self.followers.get(member)
            if follower is None:
                wanted[member] = self._own_epoch(epoch) if member == self._leader else epoch
            elif not follower.lags(leader_end_offset, now_ms, lag_max_ms):
                wanted[member] = epoch
        if joining is not None and self.may_join(joining, log_start_offset, high_watermark):
            wanted[joining] = self.followers[joining].broker_epoch
        if wanted == self.members and not self._unconfirmed:
            return None
        return PartitionChanged(
            self._topic_id,
            self._partition,
            self._leader,
            self._leader_epoch,
            self.replicas,
            tuple(wanted),
            tuple(wanted.values()),
            self._adding,
            self._removing,
            self._version,
        )

    def _own_epoch(self, known: int) -> int:
        registered = self._brokers.get(self._leader)
        return known if registered is None else registered.epoch

    def proposed(self, change: PartitionChanged) -> None:
        self._is_proposing = True
        self._unconfirmed |= frozenset(change.in_sync_replicas) - self.members.keys()
        self._count()

    def not_accepted(self, until_ms: int) -> None:
        """Refused, or nobody knows. Who was to join still counts: a newer state tells what became of it."""
        self._is_proposing = False
        self._rests_until_ms = until_ms
