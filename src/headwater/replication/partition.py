"""A partition: one log, a leader epoch and a high watermark.

Append and commit are two things, also with one replica. `append` writes to the log; what consumers may read, and what an
acks=all producer is told, follows the high watermark, which is the log's end only because the in-sync replicas are this one.
Whoever waits for progress (parked fetches, produces that wait for replicas) is in `waiters` and is told through
`on_progress`; it must not read or answer from there, only note that it is due: the append that woke it comes first.

Owned by the broker's loop.
"""

from typing import Any, Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import LeaderEpoch, TopicId
from headwater.log.config import INT64_MAX
from headwater.log.log import Log
from headwater.log.producer_state import Producer
from headwater.log.results import AppendResult
from headwater.records.batch import BatchHeader
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker


class Waiter(Protocol):
    def on_progress(self, appended_bytes: int) -> None:
        """The high watermark of a partition it waits for has moved, or the partition is gone (0 bytes)."""
        ...


class Partition:
    __slots__ = (
        "bytes_in",
        "bytes_out",
        "deleted",
        "high_watermark",
        "index",
        "is_alone",
        "leader_epoch",
        "log",
        "others_confirmed",
        "produce_replies",
        "records_in",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(self, topic: str, topic_id: TopicId, index: int, log: Log, leader_epoch: LeaderEpoch) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.leader_epoch = leader_epoch
        self.high_watermark = log.log_end_offset  # the only replica: all that it has is committed
        log.on_flushed = self._commit
        log.requires_verification = True
        self.others_confirmed = INT64_MAX  # what every other in-sync replica has; there is none so far
        self.config_changed()
        self.waiters: dict[Waiter, None] = {}  # a set that keeps its order: who came first is told first
        self.produce_replies: dict[int, Any] = {}  # per Produce version, what does not change between two answers
        self.deleted = False
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0

    def append(self, records: memoryview, now_ms: int) -> AppendResult:
        """As leader: assigns offsets, appends, and moves the high watermark as far as the in-sync replicas allow."""
        log = self.log
        before = log.log_end_offset
        result = log.append_as_leader(records, self.leader_epoch, now_ms)
        end = log.log_end_offset
        if end != before:  # not a duplicate
            self.records_in += end - before
            self.bytes_in += len(records)
            if self.is_alone:
                self.high_watermark = end
                if self.waiters:
                    self._progressed(len(records))
            else:
                self._commit(log)
        return result

    def append_internal(
        self, records: memoryview, now_ms: int, marker: EndTransactionMarker | None = None
    ) -> AppendResult:
        """The same for what a coordinator writes: no sequence numbers, and transactional without being asked."""
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

    def begin_verification(self, header: BatchHeader, epoch_bump: bool) -> int:
        """A guard (never 0) for `append_verified`, void as soon as a marker of the producer is appended. `epoch_bump`: version 2."""
        return self.log.producers.begin_verification(
            header.producer_id, header.producer_epoch, header.base_sequence, epoch_bump
        )

    def append_verified(self, records: memoryview, guard: int, now_ms: int) -> AppendResult:
        """A batch of a transactional client. INVALID_TXN_STATE if it begins a transaction and its guard is void."""
        before = self.log.log_end_offset
        result = self.log.append_as_leader(records, self.leader_epoch, now_ms, guard=guard)
        self._appended(before, len(records))
        return result

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        committed: bool,
        now_ms: int,
        *,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Ends the producer's transaction here, if one is open. Raises INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED."""
        log = self.log
        producer = log.producers.producers.get(producer_id)
        if producer is not None:
            producer.check_marker(producer_epoch, coordinator_epoch, transaction_version)
        marker = EndTransactionMarker(committed, coordinator_epoch)
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
            self._commit(log)

    # Committing

    def config_changed(self) -> None:
        """`is_alone`: what is appended is committed, with no other in-sync replica and no flush to wait for."""
        self.is_alone = self.log.config.flush_messages == INT64_MAX == self.others_confirmed
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
        """Nothing more will be committed here: the topic is gone, or the log has failed."""
        return self.deleted or self.log.failed is not None

    def delete(self) -> None:
        """The topic is gone: whoever waits learns it."""
        self.deleted = True
        self._progressed(0)

    def _commit(self, log: Log) -> None:
        """What all in-sync replicas have. With `flush.messages`, this one has a record when it is on the device."""
        offset = min(log.committable_offset, self.others_confirmed)
        if offset > self.high_watermark:
            self.commit_through(offset)
        elif log.failed is not None:
            self._progressed(0)  # whoever waits for the device waits in vain

    def _progressed(self, appended_bytes: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.on_progress(appended_bytes)
