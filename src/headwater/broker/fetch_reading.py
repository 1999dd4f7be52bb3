"""What one fetch reads of one partition, and what it is refused for: for a consumer, or for a follower.

A consumer reads up to the high watermark, or with read_committed up to the last stable offset, from the leader or (v11)
from any replica. With `replica.selector.class` set to the rack-aware one, a leader sends it to an in-sync replica in
its own rack (KIP-392). A follower reads the leader's whole log. Asking from an offset on tells the leader what it has,
but only where the logs do not differ: a follower that knows another history is told where it diverges, and must cut
back first. One that is not in sync may have to keep to a rate (broker/throttles.py): for a while it is told everything
but records.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, TopicId
from headwater.base.ports import FileSlice
from headwater.broker.context import RequestContext
from headwater.broker.fetch_sessions import FetchSpec
from headwater.broker.rights.authorizer import Caller, caller_of
from headwater.log.leader_epochs import UNDEFINED
from headwater.replication.partition import Partition
from headwater.wire.messages.fetch import AbortedTransaction, EpochEndOffset, FetchRequest, PartitionData

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

FIRST_TOPIC_ID: Final = 13
_FIRST_FROM_FOLLOWERS: Final = 11
_READ_COMMITTED: Final = 1
_NOTED_EVERY_MS: Final = 500  # much less than a follower may lag
_RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Reader:
    """`is_cut` tells whether some partition has more than the answer's limits let it give."""

    __slots__ = (
        "_broker",
        "_by_id",
        "_caller",
        "_from_followers",
        "_has_told",
        "_is_read_committed",
        "_noted",
        "_now_ms",
        "_rack",
        "_replica_epoch",
        "is_cut",
        "is_follower",
        "replica_id",
    )

    def __init__(self, broker: "Broker", context: RequestContext, request: FetchRequest) -> None:
        version = context.api_version
        state = request.replica_state
        self._broker = broker
        self._by_id = version >= FIRST_TOPIC_ID
        self.replica_id = BrokerId(request.replica_id if state is None else state.replica_id)
        self._replica_epoch = -1 if state is None else state.replica_epoch
        self.is_follower = self.replica_id >= 0
        self._caller = None if self.is_follower else caller_of(broker.authorizer, context.connection)
        self._noted = context.connection.rights
        self._from_followers = version >= _FIRST_FROM_FOLLOWERS and not self.is_follower
        self._rack = request.rack_id
        self._is_read_committed = request.isolation_level == _READ_COMMITTED and not self.is_follower
        self._has_told = False
        self._now_ms = broker.clock.monotonic_ms()
        self.is_cut = False

    def has_no_news(self, spec: FetchSpec) -> bool:
        """Whether a follower's session has heard all there is. It may hold very many partitions, of which few change at
        a time.
        """
        partition = spec.found
        if partition is None or partition.deleted:
            return False
        log = partition.log
        return (
            log.log_end_offset == spec.fetch_offset
            and partition.high_watermark == spec.told_high_watermark
            and log.log_start_offset == spec.told_log_start_offset
            and (self._has_told or self._now_ms - spec.noted_ms < _NOTED_EVERY_MS)
        )

    def find(self, spec: FetchSpec) -> Partition:
        if self._caller is not None:  # before anything that another request of the session has left
            self._check_rights(self._caller, spec)
        if spec.found is not None and not spec.found.deleted:
            return spec.found
        broker = self._broker
        topic_id = TopicId(spec.topic_id) if self._by_id else broker.image.topic(spec.topic).topic_id
        if self._from_followers:
            return broker.replica_of(topic_id, spec.partition)
        return broker.partition_of(topic_id, spec.partition)

    def _check_rights(self, caller: Caller, spec: FetchSpec) -> None:
        """Each time: a session, or a fetch that is parked, may outlive the right to read."""
        topic = self._broker.image.topics.get(TopicId(spec.topic_id)) if self._by_id else None
        name = spec.topic if not self._by_id else None if topic is None else topic.name
        if name is not None and not caller.may_topic(Operation.READ, name):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self._noted is not None:
            topic_id = TopicId(spec.topic_id) if self._by_id else self._broker.image.ids_by_name.get(spec.topic)
            if topic_id in self._broker.image.topics:
                self._noted.note_readable(topic_id)

    def has_read(self) -> None:
        """What a follower has, it says once, when it asks; not again each time that it is woken."""
        self._has_told = True

    def read(self, partition: Partition, spec: FetchSpec, room: int, must_give: bool) -> PartitionData:
        """Raises KafkaError and OSError."""
        partition.check_leader_epoch(spec.current_leader_epoch)
        log = partition.log
        offset = spec.fetch_offset
        if offset > log.log_end_offset and not partition.is_leader:  # only the leader knows whether it is out of range
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This replica does not reach that far.")
        diverging = _divergence(partition, spec, self.replica_id)
        if diverging is None:
            if not log.log_start_offset <= offset <= log.log_end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            if self.is_follower and not self._has_told:
                self._follower_has(partition, offset, spec.log_start_offset)
                spec.found, spec.noted_ms = partition, self._now_ms
        high_watermark = partition.high_watermark
        stable = partition.last_stable_offset
        data = PartitionData(
            partition_index=spec.partition,
            error_code=0,
            high_watermark=high_watermark,
            last_stable_offset=stable,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if diverging is not None:
            data.diverging_epoch = diverging
            return data
        if self._rack and partition.in_sync is not None:
            data.preferred_read_replica = self._nearest(partition, offset)
            if data.preferred_read_replica >= 0:
                return data
        upper = log.log_end_offset if self.is_follower else stable if self._is_read_committed else high_watermark
        if self._is_read_committed:
            data.aborted_transactions = [
                AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
                for aborted in log.aborted_transactions(offset, upper)
            ]
        if offset < upper and not self._is_held_back(partition):
            piece = None
            if room > 0 or must_give:
                piece = log.read(offset, min(room, spec.max_bytes), upper, min_one_batch=must_give)
            # Whole batches rarely add up to the very limit, and one slice is of one segment. Where more lies behind it,
            # the answer is as full as it gets, and waiting for `min_bytes` would be in vain.
            if piece is None:
                self.is_cut = self.is_cut or not must_give
            else:
                data.records = piece  # nothing may fail from here on: the answer owns the slice
                self.is_cut = self.is_cut or not log.is_end(piece)
        if data.aborted_transactions:
            data.aborted_transactions = _aborted_within(data.aborted_transactions, data.records)
        return data

    def must_hear_start(self, partition: Partition, spec: FetchSpec) -> bool:
        """Whether a follower begins before the leader and is not in sync: until it has heard where to begin, it cannot
        be.
        """
        in_sync = partition.in_sync
        return (
            self.is_follower
            and spec.log_start_offset < partition.log.log_start_offset
            and in_sync is not None
            and self.replica_id in in_sync.followers  # it may be none any more, and its fetch parked still
            and in_sync.is_news(self.replica_id)
        )

    def gave(self, partition: Partition, size_bytes: int) -> None:
        """What goes out to a follower."""
        if self._broker.replicas is not None:
            self._broker.replicas.throttles.gave(partition, self.replica_id, size_bytes)

    def _is_held_back(self, partition: Partition) -> bool:
        replicas = self._broker.replicas
        return self.is_follower and replicas is not None and replicas.throttles.holds_back(partition, self.replica_id)

    def _follower_has(self, partition: Partition, offset: int, log_start_offset: int) -> None:
        replicas = self._broker.replicas
        if replicas is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, "This broker has no followers.")
        replicas.keeper.follower_fetched(partition, self.replica_id, self._replica_epoch, offset, log_start_offset)

    def _nearest(self, partition: Partition, offset: int) -> int:
        """An in-sync replica in the consumer's rack that has the offset; -1 if that is the leader, or nobody."""
        broker, in_sync = self._broker, partition.in_sync
        assert in_sync is not None
        brokers = broker.image.brokers
        own = brokers.get(broker.broker_id)
        if broker.config.string("replica.selector.class") != _RACK_AWARE or (
            own is not None and own.rack == self._rack
        ):
            return -1
        found = [
            (follower.log_end_offset, -replica)
            for replica, follower in in_sync.followers.items()
            if replica in in_sync.members
            and replica in brokers
            and brokers[replica].rack == self._rack
            and follower.log_end_offset >= offset
        ]
        return -max(found)[1] if found else -1


def _divergence(partition: Partition, spec: FetchSpec, replica_id: BrokerId) -> EpochEndOffset | None:
    """Where the reader's history leaves ours, if it does."""
    if spec.last_fetched_epoch < 0:
        return None
    epoch, end_offset = partition.end_offset_for_epoch(spec.last_fetched_epoch)
    if epoch < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < spec.last_fetched_epoch or end_offset < spec.fetch_offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if replica_id >= 0 and _is_incomparable(partition, spec, replica_id):
        return EpochEndOffset(epoch=UNDEFINED, end_offset=end_offset)
    return None


def _is_incomparable(partition: Partition, spec: FetchSpec, replica_id: BrokerId) -> bool:
    """Whether nothing is left here that could tell if a follower's history is ours. Of one that is in sync it is: it
    has what is committed, and so has everything that was deleted here. So it is of one that has deleted just as much,
    and has nothing else: only what is committed is deleted.
    """
    log, in_sync = partition.log, partition.in_sync
    return (
        log.epochs.is_before_all(spec.last_fetched_epoch)
        and log.log_start_offset <= spec.fetch_offset
        and spec.log_start_offset < spec.fetch_offset
        and in_sync is not None
        and not in_sync.counts(replica_id)
    )


def _aborted_within(aborted: list[AbortedTransaction], records: object) -> list[AbortedTransaction]:
    """Those that a reader of `records` must know: begun before the batch that follows. A long log may have very many
    others.
    """
    if not isinstance(records, FileSlice):
        return []
    try:
        following = records.file.pread(records.position + records.length, 8)
    except OSError:
        return aborted  # too many do no harm
    if len(following) < 8:
        return aborted
    end_offset = int.from_bytes(following, "big")
    return [entry for entry in aborted if entry.first_offset < end_offset]
