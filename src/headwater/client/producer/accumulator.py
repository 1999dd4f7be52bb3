"""Where records gather into batches: one open batch per partition, closed when it is full, has lingered, or must go.

Pure: no I/O and no clock of its own. `append` is the hot path of `send`, called by any thread; so everything that
records and threads touch is under `lock`. What the owner of the kernel takes from here is `closed`: queues that have a
batch to send. Memory is counted in bytes of records, from the append to the moment the batch is done and off the wire.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.client.producer.batch import Callback, Delivery, ProducerBatch, Waiting
from headwater.client.producer.queues import PartitionQueue, TopicQueues
from headwater.records.codec import murmur2
from headwater.records.columns import Section

_POSITIVE: Final = 0x7FFFFFFF


class Accumulator:
    def __init__(
        self,
        owner: Waiting,
        clock: Callable[[], float],
        *,
        batch_bytes: int,
        buffer_bytes: int,
        record_bytes_max: int,
        linger: float,
    ) -> None:
        self.lock = threading.Lock()
        self.topics: dict[str, TopicQueues] = {}
        self.used_bytes = 0
        self.buffer_bytes = buffer_bytes
        self.closed: deque[PartitionQueue] = deque()
        self.record_count = 0  # ever appended; counted as batches close
        self._limit_bytes = buffer_bytes  # -1: shut
        self._owner = owner
        self._clock = clock
        self._batch_bytes = max(batch_bytes, 1)
        self._record_bytes_max = record_bytes_max
        self._linger = linger
        self._lingering: deque[ProducerBatch] = deque()  # by age
        self._incomplete: deque[ProducerBatch] = deque()  # by age; done ones leave when they come to the front

    # From any thread

    def append(
        self,
        topic: TopicQueues,
        partition: int | None,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]] = (),
        on_delivery: Callback | None = None,
    ) -> Delivery | None:
        """The record's delivery; None if there is no room for it now, or none at all (`shut`)."""
        with self.lock:
            if self.used_bytes >= self._limit_bytes:
                return None
            if partition is not None:
                queue = topic.queues[partition]
            elif key is not None:
                queue = topic.queues[(murmur2(key) & _POSITIVE) % topic.count]
            else:
                queue = topic.sticky  # type: ignore[assignment]
            batch = queue.open
            if batch is None or not (size := batch.append(timestamp_ms, key, value, headers)):
                batch, size = self._append_to_new(topic, queue, partition, timestamp_ms, key, value, headers)
            index = batch.count
            batch.count = index + 1
            self.used_bytes += size - batch.size_bytes
            batch.size_bytes = size
            delivery = Delivery(batch, index, timestamp_ms)
            if on_delivery is not None:
                if batch.callbacks is None:
                    batch.callbacks = []
                batch.callbacks.append((delivery, _told(on_delivery)))
        return delivery

    def sticky_partition(self, topic: TopicQueues, size_bytes: int) -> int:
        """Where a record with a key goes when keys are ignored: as one without, so another partition for each batch."""
        with self.lock:
            queue = topic.sticky
            batch = queue.open if queue is not None else None
            if queue is None or batch is None or batch.size_bytes + size_bytes > self._batch_bytes:
                queue = topic.switch()
            return queue.partition

    def add_sections(self, topic: TopicQueues, sections: list[Section]) -> list[ProducerBatch]:
        """Batches that are complete already, of a table. Those without a partition go where the sticky choice leads.
        None at all if it is shut.
        """
        topic.used_at = now = self._clock()
        batches: list[ProducerBatch] = []
        with self.lock:
            if self.is_shut:
                return batches
            for section in sections:
                queue = topic.queues[section.partition] if section.partition >= 0 else topic.switch()
                if queue.open is not None:
                    self._close(queue)
                batch = ProducerBatch.of_section(queue, now, self._owner, section)
                self.used_bytes += batch.size_bytes
                self.record_count += batch.count
                self._incomplete.append(batch)
                queue.waiting.append(batch)
                self.closed.append(queue)
                batches.append(batch)
        return batches

    def call_back(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> bool:
        """Whether the callback was kept for later; False: the delivery is done."""
        with self.lock:
            batch = delivery.current()
            if batch.done:
                return False
            if batch.callbacks is None:
                batch.callbacks = []
            batch.callbacks.append((delivery, callback))
            return True

    @property
    def is_shut(self) -> bool:
        return self._limit_bytes < 0

    @property
    def is_full(self) -> bool:
        return self.used_bytes >= self.buffer_bytes

    # For the owner of the kernel

    def shut(self, shut: bool) -> None:
        """Whether records are refused: what another thread has not appended by now will not come any more."""
        with self.lock:
            self._limit_bytes = -1 if shut else self.buffer_bytes

    def close_due(self, now: float) -> None:
        """Closes the batches that have lingered long enough."""
        if self._lingering:
            with self.lock:
                self._close_older_than(now - self._linger)

    def close_all(self) -> None:
        with self.lock:
            self._close_older_than(float("inf"))

    def close_queue(self, queue: PartitionQueue) -> None:
        with self.lock:
            if queue.open is not None:
                self._close(queue)

    def next_due_at(self) -> float | None:
        """When the oldest open batch has lingered enough."""
        lingering = self._lingering
        with self.lock:
            while lingering and lingering[0].append is None:
                lingering.popleft()
            return lingering[0].created_at + self._linger if lingering else None

    def incomplete(self) -> list[ProducerBatch]:
        """All that is not done, by age."""
        with self.lock:
            self._forget_done()
            return [batch for batch in self._incomplete if not batch.done and batch.parts is None]

    def oldest_incomplete(self) -> ProducerBatch | None:
        with self.lock:
            self._forget_done()
            return next((batch for batch in self._incomplete if batch.parts is None), None)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Puts the parts in the batch's place: its deliveries follow them. The caller puts them into their queue."""
        with self.lock:
            firsts, first = [], 0
            for part in parts:
                firsts.append((first, part))
                first += part.count
            self.used_bytes += sum(part.size_bytes for part in parts) - batch.size_bytes
            batch.parts = firsts
            batch.data = None  # it is off the wire; who follows it to its parts keeps it
            for delivery, callback in batch.callbacks or ():
                part = delivery.current()
                part.callbacks = part.callbacks or []
                part.callbacks.append((delivery, callback))
            batch.callbacks = None
            at = self._incomplete.index(batch)
            self._incomplete.remove(batch)
            for offset, part in enumerate(parts):
                self._incomplete.insert(at + offset, part)

    def finish(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, error: KafkaError | None
    ) -> list[tuple[Delivery, Callable[[Delivery], object]]]:
        """The batch is done; gives the callbacks to run. Its memory is free unless it is still on the wire."""
        with self.lock:
            batch.base_offset = base_offset
            batch.log_append_time_ms = log_append_time_ms
            batch.error = error
            batch.done = True
            callbacks, batch.callbacks = batch.callbacks, None
            if not batch.on_wire:
                self.used_bytes -= batch.size_bytes
            self._forget_done()
        return callbacks or []

    def release(self, batch: ProducerBatch) -> None:
        """A batch that was given up while it was on the wire has left it."""
        with self.lock:
            self.used_bytes -= batch.size_bytes

    # Inside, with the lock held

    def _append_to_new(
        self,
        topic: TopicQueues,
        queue: PartitionQueue,
        partition: int | None,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]],
    ) -> tuple[ProducerBatch, int]:
        """Closes what is full and opens another: for a record that may go anywhere, in another partition."""
        if queue.open is not None:
            self._close(queue)
        if partition is None and key is None:
            queue = topic.switch()
            if queue.open is not None:
                size = queue.open.append(timestamp_ms, key, value, headers)
                if size:
                    return queue.open, size
                self._close(queue)
        batch = ProducerBatch(queue, self._clock(), self._owner, self._batch_bytes)
        size = batch.append(timestamp_ms, key, value, headers)
        if size > self._record_bytes_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"the record takes {size} bytes, max.request.size is {self._record_bytes_max}",
            )
        queue.open = batch
        topic.used_at = batch.created_at
        self._lingering.append(batch)
        self._incomplete.append(batch)
        return batch, size

    def _close(self, queue: PartitionQueue) -> None:
        batch = queue.open
        assert batch is not None
        queue.open = None
        batch.close()
        self.record_count += batch.count
        queue.waiting.append(batch)
        self.closed.append(queue)

    def _close_older_than(self, time: float) -> None:
        lingering = self._lingering
        while lingering and (lingering[0].append is None or lingering[0].created_at <= time):
            batch = lingering.popleft()
            if batch.append is not None and batch.queue.open is batch:
                self._close(batch.queue)

    def _forget_done(self) -> None:
        incomplete = self._incomplete
        while incomplete and incomplete[0].done:
            incomplete.popleft()


def _told(on_delivery: Callback) -> Callable[[Delivery], object]:
    def tell(delivery: Delivery) -> object:
        error = delivery.current().error
        return on_delivery(error, None if error is not None else delivery.metadata())

    return tell
