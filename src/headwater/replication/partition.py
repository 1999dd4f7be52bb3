"""A partition: one log, a leader epoch and a high watermark.

Append and commit are two things, also with one replica. `append` writes to the log; what consumers may read, and what
an acks=all producer is told, follows the high watermark: as leader, what every in-sync replica has (`in_sync.py`); as
follower, what the leader says (`following.py`). Whoever waits for progress (parked fetches, produces that wait for
replicas) is in `waiters` and is told through `on_progress`; it must not read or answer from there, only note that it is
due: the append that woke it comes first. Followers' fetches wait for appends, not for the high watermark:
`append_waiters`.

An object is one term: leader or follower under one leader epoch. When that ends, the object is retired, whoever waits
on it learns so, and another is made on the same log. So nobody can take the records of the next term for those it waits
for.

Owned by the broker's loop.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, TopicId
from headwater.log.config import INT64_MAX
from headwater.log.log import Log
from headwater.log.producer_state import SEQUENCES, Producer
from headwater.log.results import AppendResult
from headwater.records.batch import BatchHeader, read_header
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker

if TYPE_CHECKING:
    from headwater.replication.in_sync import InSync


AppendMarker: TypeAlias = "Callable[[Partition, int, int, int, bool, int], int]"
"""Partition, producer id and epoch, coordinator epoch, whether it commits, now.
The marker's offset, or -1: not possible, nothing done.
"""


REFUSED_MS: Final = 3000  # what was on its way when a batch was refused has come by then


class Waiter(Protocol):
    def on_progress(self, appended_bytes: int) -> None:
        """The high watermark of a partition it waits for has moved, or the partition is gone (0 bytes)."""
        ...


class Partition:
    __slots__ = (
        "append_waiters",
        "began_ms",
        "bytes_in",
        "bytes_out",
        "deleted",
        "epoch_start_offset",
        "high_watermark",
        "in_sync",
        "index",
        "is_alone",
        "is_leader",
        "leader_epoch",
        "log",
        "on_flushed",
        "others_confirmed",
        "produce_replies",
        "records_in",
        "too_few_ms",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: TopicId,
        index: int,
        log: Log,
        leader_epoch: LeaderEpoch,
        *,
        is_leader: bool = True,
        high_watermark: int | None = None,
        began_ms: int | None = None,
    ) -> None:
        """Without `high_watermark` this is the only replica: all that it has is committed. `began_ms`: when this broker
        took the partition over from another leader.
        """
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.is_leader = is_leader
        self.began_ms = began_ms
        self.too_few_ms: int | None = None  # when a batch was last refused because too few replicas were in sync
        self.in_sync: InSync | None = None  # as leader, if there are other replicas
        self.epoch_start_offset = log.log_end_offset if is_leader else INT64_MAX
        self.on_flushed: Callable[[Partition], None] | None = None  # as follower
        self.high_watermark = log.log_end_offset if high_watermark is None else high_watermark
        self.waiters: dict[Waiter, None] = {}  # a set that keeps its order: who came first is told first
        self.append_waiters: dict[Waiter, None] = {}
        log.on_flushed = self._commit
        log.requires_verification = True
        self.others_confirmed = INT64_MAX if high_watermark is None else -1  # what every other in-sync replica has
        self.config_changed()
        self.produce_replies: dict[int, Any] = {}  # per Produce version, what does not change between two answers
        self.deleted = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0

    def append(self, records: memoryview, now_ms: int, guard: int = 0) -> AppendResult:
        """As leader: assigns offsets, appends, and moves the high watermark as far as the in-sync replicas allow.

        In a transaction with the guard of its verification. INVALID_TXN_STATE if the batch begins one and the guard is
        void.
        """
        log = self.log
        before = log.log_end_offset
        if not self.is_alone:
            self.check_leads()
        try:
            result = log.append_as_leader(records, self.leader_epoch, now_ms, guard=guard)
        except KafkaError as problem:
            if problem.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self._check_not_behind_refused(records, now_ms)
            raise
        end = log.log_end_offset
        if end != before:  # not a duplicate
            self.records_in += end - before
            self.bytes_in += len(records)
            if self.is_alone:
                self.high_watermark = end
                if self.waiters:
                    self._progressed(0 if guard else len(records))
            else:
                self._tell_followers(len(records))
                self._commit(log)
        return result

    def _check_not_behind_refused(self, records: memoryview, now_ms: int) -> None:
        """Raises what the batch before this one, which is out of order, may have been told a moment ago: this broker
        did not lead yet, or too few replicas were in sync.

        Of several requests on their way the first are refused, and one behind them meets a leader that has learned of
        its term, or whose replicas are back. It is refused as they were, for they come again in order; librdkafka,
        when it is told of a gap, takes another epoch, under which it sends again what partitions may have already. A
        gap for another reason never closes, and is told a moment later.
        """
        is_new = _was_just(self.began_ms, now_ms)
        had_too_few = _was_just(self.too_few_ms, now_ms)
        if not (is_new or had_too_few):
            return
        header = read_header(records)
        producer = self.log.producers.producers.get(header.producer_id)
        if producer is None:
            return
        gap = header.base_sequence - producer.expected_sequence(header.producer_epoch)
        if not 0 < gap % SEQUENCES < SEQUENCES // 2:
            return
        last = producer.last_batch()
        if is_new and (last is None or last.last_offset < self.epoch_start_offset):
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker did not lead yet when the batch before this one came."
            )
        if had_too_few:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "Too few replicas were in sync when the batch before this one came."
            )

    def append_internal(
        self, records: memoryview, now_ms: int, marker: EndTransactionMarker | None = None
    ) -> AppendResult:
        """The same for what a coordinator writes: no sequence numbers, and transactional without being asked.

        It counts only when every in-sync replica has it, so there must be enough of them: NOT_ENOUGH_REPLICAS.
        """
        self.check_leads()
        self.check_enough_in_sync(now_ms)
        before = self.log.log_end_offset
        result = self.log.append_own(records, self.leader_epoch, now_ms, marker)
        self._appended(before, len(records))
        return result

    # Transactions

    def needs_verification(self, header: BatchHeader) -> bool:
        """Whether the coordinator must be asked first: the batch would begin a transaction on this partition.

        Raises INVALID_PRODUCER_EPOCH if a later epoch of the producer has been seen.
        """
        return header.is_transactional and not self.log.producers.has_open_transaction(
            header.producer_id, header.producer_epoch
        )

    def awaits_marker(self, header: BatchHeader) -> bool:
        """Whether the producer's last transaction has yet to end here, although the producer has begun the next."""
        return self.log.producers.has_earlier_transaction(header.producer_id, header.producer_epoch)

    def begin_verification(self, header: BatchHeader, epoch_bump: bool) -> int:
        """A guard (never 0) for `append`, void as soon as a marker of the producer is appended. `epoch_bump`: version
        2.
        """
        return self.log.producers.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, epoch_bump
        )

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        now_ms: int,
        *,
        transaction_version: int = 0,
        append_quickly: "AppendMarker | None" = None,
    ) -> AppendResult:
        """Ends the producer's transaction here, if one is open. Raises INVALID_PRODUCER_EPOCH,
        TRANSACTION_COORDINATOR_FENCED.
        """
        log = self.log
        producer = log.producers.producers.get(producer_id)
        if producer is not None:
            producer.check_marker(producer_epoch, coordinator_epoch, transaction_version)
        marker = EndTransactionMarker(committed, coordinator_epoch)
        if append_quickly is not None:
            offset = append_quickly(self, producer_id, producer_epoch, coordinator_epoch, committed, now_ms)
            if offset >= 0:
                log.marker_written(producer_id, producer_epoch, marker, offset, now_ms)
                log.last_stable_offset(self.high_watermark)
                return AppendResult(offset, offset, -1, log.log_start_offset, False)
        batch = build_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=now_ms
        )
        result = self.append_internal(memoryview(batch), now_ms, marker)
        log.last_stable_offset(self.high_watermark)  # forgets transactions that ended before: nobody may ever read here
        return result

    @property
    def active_producers(self) -> list[Producer]:
        """Whom the log knows, for DescribeProducers."""
        return list(self.log.producers.producers.values())

    def _appended(self, before: int, size_bytes: int) -> None:
        """As at the end of `append`, where it stands for the sake of speed."""
        log = self.log
        if log.log_end_offset != before:
            self.records_in += log.log_end_offset - before
            self.bytes_in += size_bytes
            if self.is_alone:
                self.high_watermark = log.log_end_offset
                if self.waiters:
                    self._progressed(0)  # everybody: a small marker may have let much be read
            else:
                self._tell_followers(size_bytes)
                self._commit(log)

    # Replicas

    def check_leads(self) -> None:
        if self.deleted or not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker does not lead that partition.")

    @property
    def has_enough_in_sync(self) -> bool:
        return self.in_sync is None or self.in_sync.is_enough(self.log.config.min_in_sync_replicas)

    def check_enough_in_sync(self, now_ms: int) -> None:
        if not self.has_enough_in_sync:
            self.too_few_ms = now_ms
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "There are fewer in-sync replicas than min.insync.replicas asks for."
            )

    def has_replicas(self, in_sync: "InSync | None") -> None:
        """As leader: what is known of the others from now on; None if there are none."""
        self.in_sync = in_sync
        self.confirm(INT64_MAX if in_sync is None else in_sync.confirmed)

    def follower_fetched(self, replica: BrokerId, broker_epoch: int, offset: int, monotonic_ms: int) -> None:
        """A follower asks from `offset` on, and so has all below it. Raises what it is to be told if it is not one."""
        in_sync = self.in_sync
        if in_sync is None:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, "The broker is not known as a replica of the partition.")
        if in_sync.fetched(replica, broker_epoch, offset, self.log.log_end_offset, monotonic_ms):
            self.others_confirmed = in_sync.confirmed
            self._commit(self.log)

    def follow_high_watermark(self, offset: int) -> None:
        """As follower: the leader's, as far as this replica has the records. It never goes back."""
        offset = min(offset, self.log.log_end_offset)
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._progressed(0)

    # Committing

    def config_changed(self) -> None:
        """`is_alone`: what is appended is committed, with no other replica and no flush to wait for."""
        self.is_alone = (
            self.log.config.flush_messages == INT64_MAX == self.others_confirmed
            and self.is_leader
            and self.in_sync is None
        )
        if self.is_alone and self.high_watermark < self.log.log_end_offset and self.log.failed is None:
            self.commit_through(self.log.log_end_offset)  # what waited for a flush waits no more

    def confirm(self, offset: int) -> None:
        """The other in-sync replicas have everything below `offset`; INT64_MAX when there are none (any more)."""
        self.others_confirmed = offset
        self.config_changed()
        self._commit(self.log)

    def commit_through(self, offset: int, appended_bytes: int = 0) -> None:
        """All in-sync replicas have what lies below `offset`."""
        assert self.high_watermark <= offset <= self.log.log_end_offset
        self.high_watermark = offset
        self._progressed(appended_bytes)

    def is_committed(self, offset: int) -> bool:
        """Whether the record at `offset` stands on every in-sync replica."""
        return offset < self.high_watermark

    @property
    def knows_what_is_committed(self) -> bool:
        """Not so for a new leader, until it has confirmed again all that its predecessors may have told clients of."""
        return self.high_watermark >= self.epoch_start_offset

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed consumer must stop: the first offset of an open transaction, or the high watermark."""
        return self.log.last_stable_offset(self.high_watermark)

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """A client that knows an older or a newer leader than we do is told so; -1 means that it does not say."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH, "The leader epoch in the request is older than the epoch on the broker."
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH, "The leader epoch in the request is newer than the epoch on the broker."
        )

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or below `epoch`, where the next one begins); (-1, -1) if `epoch` is not known here."""
        if epoch == self.leader_epoch:  # also before anything was written under it
            return epoch, self.log.log_end_offset
        return self.log.end_offset_for_epoch(epoch)

    @property
    def is_over(self) -> bool:
        """Nothing more will be committed here: the topic is gone, the term is over, or the log has failed."""
        return self.deleted or self.log.failed is not None

    def delete(self) -> None:
        """The topic is gone, or the term is over: whoever waits learns it."""
        self.deleted = True
        self.is_alone = False
        self._progressed(0)
        self._tell_followers(0)

    def _commit(self, log: Log) -> None:
        """What all in-sync replicas have. With `flush.messages`, this one has a record when it is on the device."""
        if not self.is_leader:
            if self.on_flushed is not None:
                self.on_flushed(self)
            return
        offset = min(log.committable_offset, self.others_confirmed)
        if offset > self.high_watermark:
            self.commit_through(offset)
        elif log.failed is not None:
            self._progressed(0)  # whoever waits for the device waits in vain

    def _progressed(self, appended_bytes: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.on_progress(appended_bytes)

    def _tell_followers(self, appended_bytes: int) -> None:
        for waiter in tuple(self.append_waiters):
            waiter.on_progress(appended_bytes)


def _was_just(moment_ms: int | None, now_ms: int) -> bool:
    return moment_ms is not None and 0 <= now_ms - moment_ms < REFUSED_MS
