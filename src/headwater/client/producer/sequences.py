"""What keeps an idempotent producer's records in order and free of duplicates: ids, epochs, sequence numbers.

Each batch carries the producer's id and epoch and the sequence number of its first record in its partition. The broker
takes only the number that follows the last one it has, and knows the last five batches again, so a retry is never
written twice and a later batch never before an earlier one. A batch keeps its number through all retries. While a batch
waits for its retry, those behind it are refused by the broker (OUT_OF_ORDER_SEQUENCE_NUMBER) and retried in their turn.

A broker takes any number from a producer that it does not know yet. So the first batch for a partition goes alone: were
it refused, and the second not, the first could never follow.

A number that is lost for good (a batch given up of which nobody knows whether it was written, or one that the broker
refused) leaves a gap that no later batch can pass. The way out is a new epoch, in which numbers begin at 0 again: the
producer takes it by itself; within a transaction, the transaction must be aborted first (`transactions`).

Pure; owned by the owner of the kernel.
"""

from enum import Enum, auto
from typing import Final

from headwater.base.errors import ErrorCode
from headwater.client.producer.batch import ProducerBatch, following
from headwater.client.producer.queues import PartitionQueue
from headwater.records.batch import NO_SEQUENCE

EPOCH_MAX: Final = (1 << 15) - 1
_HALF: Final = 1 << 30
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_ABOUT_ORDER: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


class Verdict(Enum):
    WRITTEN = auto()
    SPLIT = auto()
    RETRY = auto()
    FAIL = auto()


class Sequences:
    def __init__(self, *, idempotent: bool, transactional: bool, retries: int) -> None:
        self.idempotent = idempotent
        self.transactional = transactional
        self.producer_id = -1
        self.producer_epoch = -1
        self._retries = retries

    @property
    def ready(self) -> bool:
        """Whether batches may be numbered: the producer has its id, or needs none."""
        return not self.idempotent or self.producer_id >= 0

    def begin(self, producer_id: int, producer_epoch: int) -> None:
        """The id and epoch that the broker gave. Partitions take them on when nothing of theirs is under way."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def may_go(self, queue: PartitionQueue) -> bool:
        """Whether the first waiting batch may be sent now, as far as order is concerned."""
        if not self.idempotent:
            return True
        if not self.ready:
            return False  # the last epoch is over, and the new id has not come yet
        self._take_on_epoch(queue)
        if queue.needs_new_epoch:
            return False
        batch = queue.waiting[0]
        if not batch.has_sequence:
            current = (queue.producer_id, queue.producer_epoch) == (self.producer_id, self.producer_epoch)
            return current and not queue.unresolved and (queue.known_id == self.producer_id or not queue.wire)
        return all(_precedes(batch, other) for other in queue.wire)

    def stamp(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Numbers a batch that has no number yet."""
        if self.idempotent and not batch.has_sequence:
            batch.stamp(queue.producer_id, queue.producer_epoch, queue.next_sequence)
            queue.next_sequence = batch.next_sequence

    def put_back(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that is to be tried again goes in front of those that come after it."""
        at = 0
        for other in queue.waiting:
            if other.attempts == 0 or (
                not _precedes(other, batch) if batch.has_sequence else other.created_at > batch.created_at
            ):
                break
            at += 1
        queue.waiting.insert(at, batch)

    def judge(
        self, queue: PartitionQueue, batch: ProducerBatch, code: ErrorCode, log_start_offset: int = -1
    ) -> Verdict:
        """What becomes of a batch that was answered with `code`. It is off the wire already."""
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            return Verdict.WRITTEN
        if code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1:
            return Verdict.SPLIT
        if batch.attempts > self._retries:
            return Verdict.FAIL
        if self.idempotent and code in _ABOUT_ORDER:
            return self._judge_order(queue, batch, code, log_start_offset)
        return Verdict.RETRY if code.retriable else Verdict.FAIL

    def written(self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int) -> None:
        queue.known_id = batch.producer_id
        if batch.has_sequence and batch.producer_epoch == queue.producer_epoch:
            last = following(batch.base_sequence, batch.count - 1)
            if queue.last_acked_sequence == NO_SEQUENCE or _distance(queue.last_acked_sequence, last) < _HALF:
                queue.last_acked_sequence = last
        if base_offset >= 0:
            queue.last_acked_offset = max(queue.last_acked_offset, base_offset + batch.count - 1)
        self._resolve(queue)

    def failed(self, queue: PartitionQueue, batch: ProducerBatch, code: ErrorCode) -> None:
        """The batch was refused for good: its number is free again only in a new epoch."""
        if not batch.has_sequence or batch.producer_epoch != queue.producer_epoch:
            return
        if self.transactional:
            if code == ErrorCode.UNKNOWN_PRODUCER_ID:
                queue.next_sequence, queue.last_acked_sequence = 0, NO_SEQUENCE
        elif _any_before(queue, batch):
            queue.unresolved = True  # those before it may have been written: they end under their numbers first
        else:
            queue.needs_new_epoch = True

    def given_up(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The batch's time is over; it may or may not have been written."""
        if batch.has_sequence:
            queue.unresolved = True
            self._resolve(queue)

    def has_gap(self, queue: PartitionQueue) -> bool:
        """Whether the broker waits for a number that nobody will send. Only while nothing of the queue is under way."""
        current = (queue.producer_id, queue.producer_epoch) == (self.producer_id, self.producer_epoch)
        return current and queue.next_sequence != following(queue.last_acked_sequence, 1)

    def _judge_order(
        self, queue: PartitionQueue, batch: ProducerBatch, code: ErrorCode, log_start_offset: int
    ) -> Verdict:
        if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_next = (
                queue.last_acked_sequence == NO_SEQUENCE and batch.base_sequence == 0
            ) or batch.base_sequence == following(queue.last_acked_sequence, 1)
            one_missing = not queue.unresolved and (batch.resequenced or not is_next)
            if one_missing or _any_before(queue, batch):
                return Verdict.RETRY  # one before it is to be written first
        elif log_start_offset >= 0 and (batch.resequenced or queue.last_acked_offset < log_start_offset):
            if self.transactional and not batch.resequenced:
                self._renumber(queue, [batch])  # retention took all that the broker knew of this producer
                return Verdict.RETRY
            if batch.resequenced:
                return Verdict.RETRY
        if self.transactional:
            return Verdict.FAIL
        queue.needs_new_epoch = True
        return Verdict.RETRY

    def _resolve(self, queue: PartitionQueue) -> None:
        """Once nothing numbered is under way, it is known whether a number was lost."""
        if not queue.unresolved or queue.wire or (queue.waiting and queue.waiting[0].has_sequence):
            return
        queue.unresolved = False
        if following(queue.last_acked_sequence, 1) != queue.next_sequence and not self.transactional:
            queue.needs_new_epoch = True

    def _take_on_epoch(self, queue: PartitionQueue) -> None:
        """A partition changes over when none of its numbered batches is under way; the others go on as they are."""
        self._resolve(queue)
        if queue.wire:
            return
        stale = (queue.producer_id, queue.producer_epoch) != (self.producer_id, self.producer_epoch)
        if queue.needs_new_epoch:
            if not stale and not self._bump():
                return
            queue.needs_new_epoch = False
        elif not stale or (queue.waiting and queue.waiting[0].has_sequence):
            return  # a retry may have been written: only under its own name and number is it known again
        numbered = [batch for batch in queue.waiting if batch.has_sequence]
        self._renumber(queue, numbered)

    def _renumber(self, queue: PartitionQueue, numbered: list[ProducerBatch]) -> None:
        queue.producer_id, queue.producer_epoch = self.producer_id, self.producer_epoch
        queue.next_sequence, queue.last_acked_sequence = 0, NO_SEQUENCE
        queue.unresolved = False
        for batch in numbered:
            batch.stamp(queue.producer_id, queue.producer_epoch, queue.next_sequence)
            batch.resequenced = True
            queue.next_sequence = batch.next_sequence

    def _bump(self) -> bool:
        """The next epoch; False if there is none, and a new id must be asked for."""
        if self.producer_id < 0 or self.producer_epoch >= EPOCH_MAX:
            self.producer_id = self.producer_epoch = -1
            return False
        self.producer_epoch += 1
        return True


def _distance(start: int, end: int) -> int:
    return (end - start) & _SEQUENCE_MASK


def _any_before(queue: PartitionQueue, batch: ProducerBatch) -> bool:
    """Whether a batch with a lower number is still under way."""
    return any(each.has_sequence and _precedes(each, batch) for each in (*queue.waiting, *queue.wire))


def _precedes(batch: ProducerBatch, other: ProducerBatch) -> bool:
    """Whether its number comes before; numbers wrap."""
    return batch.producer_epoch == other.producer_epoch and _distance(batch.base_sequence, other.base_sequence) < _HALF
