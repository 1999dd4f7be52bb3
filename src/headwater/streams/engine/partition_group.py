"""Which buffered record comes next: the one whose partition has the head with the lowest timestamp.

Kafka Streams keeps its partitions in a Java `PriorityQueue` that it polls and offers to again, so ties take turns in
the way of that binary heap. `JavaPriorityQueue` sifts in the same way, which makes the order of merging the same, ties
included.

A head is decoded, and its timestamp extracted, when it becomes the head: an extractor sees the partition time of what
was polled before it. Within a partition, the order of offsets stays, late records included. Owned by one task, or by a
test driver.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from headwater.streams.engine.columns import Chunk
from headwater.streams.model.record import InputRecord, Record

Decode = Callable[[InputRecord, int], Record | None]
_PORTION: Final = 64  # records of a chunk that are made at once


class PartitionQueue:
    """The buffered records of one partition of one topic. `decode(raw, partition_time)` gives None for a record that is
    left out.
    """

    __slots__ = (
        "_later",
        "_raw",
        "chunks",
        "decode",
        "head",
        "head_raw",
        "head_time",
        "last_offset",
        "partition_time",
        "told_offset",
        "topic_partition",
    )

    def __init__(self, topic_partition: tuple[str, int], decode: Decode) -> None:
        self.topic_partition = topic_partition
        self.decode = decode
        self._raw: deque[InputRecord] = deque()
        self._later: deque[Chunk] = deque()  # behind those; a few records of them are made at a time
        self.head: Record | None = None
        self.head_raw: InputRecord | None = None
        self.head_time = -1
        self.chunks: deque[Chunk] = deque()  # what a lane takes; then nothing is decoded
        self.partition_time = -1
        self.last_offset = -1  # of the last record that was polled or left out
        self.told_offset = -1  # the same when positions were last asked for

    def add(self, records: Iterable[InputRecord]) -> None:
        while self._make_records():
            pass  # those of chunks come first
        self._raw.extend(records)
        if self.head is None:
            self._advance()

    def add_later(self, chunk: Chunk) -> None:
        """The same, but records are made when it is their turn: thousands at once would take the time of a punctuator
        that is due, and Python's collector would go over them.
        """
        self._later.append(chunk)
        if self.head is None:
            self._advance()

    def _make_records(self) -> bool:
        """Some of what is left in chunks; False if nothing is."""
        while self._later:
            chunk = self._later[0]
            begin, chunk.at = chunk.at, min(chunk.at + _PORTION, len(chunk.offsets))
            if not len(chunk):
                self._later.popleft()
            if begin < chunk.at:
                self._raw.extend(map(chunk.record, range(begin, chunk.at)))
                return True
        return False

    def poll(self) -> tuple[InputRecord, Record]:
        raw, record = self.head_raw, self.head
        assert raw is not None
        assert record is not None
        if record.timestamp > self.partition_time:
            self.partition_time = record.timestamp
        self.last_offset = raw.offset
        self._advance()
        return raw, record

    def _advance(self) -> None:
        while self._raw or self._make_records():
            raw = self._raw.popleft()
            record = self.decode(raw, self.partition_time)
            if record is not None:
                self.head_raw, self.head, self.head_time = raw, record, record.timestamp
                return
            self.last_offset = raw.offset
        self.head_raw = self.head = None
        self.head_time = -1

    def __len__(self) -> int:
        buffered = len(self._raw) + (self.head is not None)
        return buffered + sum(map(len, self.chunks)) + sum(map(len, self._later))

    # -- for a lane

    def add_chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)
        self.head_time = self.chunks[0].timestamps[self.chunks[0].at]

    def took(self, chunk: Chunk, stop: int) -> None:
        """The records of the first chunk before `stop` are through."""
        self.partition_time = max(self.partition_time, max(chunk.timestamps[chunk.at : stop]))
        self.last_offset = chunk.offsets[stop - 1]
        chunk.at = stop
        if not len(chunk):
            self.chunks.popleft()
        self.head_time = self.chunks[0].timestamps[self.chunks[0].at] if self.chunks else -1

    def as_records(self) -> None:
        chunks, self.chunks = self.chunks, deque()
        self.head_time = -1
        for chunk in chunks:
            self.add_later(chunk)


class JavaPriorityQueue:
    """A binary heap of queues by the timestamp of their heads, with the sifting of `java.util.PriorityQueue`."""

    __slots__ = ("queues",)

    def __init__(self) -> None:
        self.queues: list[PartitionQueue] = []

    def __len__(self) -> int:
        return len(self.queues)

    def offer(self, queue: PartitionQueue) -> None:
        heap = self.queues
        heap.append(queue)
        place, time = len(heap) - 1, queue.head_time
        while place > 0:
            parent = (place - 1) >> 1
            if time >= heap[parent].head_time:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = queue

    def poll(self) -> PartitionQueue | None:
        heap = self.queues
        if not heap:
            return None
        result, last = heap[0], heap.pop()
        if heap:
            self._sift_down(last)
        return result

    def _sift_down(self, queue: PartitionQueue) -> None:
        heap, size, place, time = self.queues, len(self.queues), 0, queue.head_time
        while place < size >> 1:
            child = 2 * place + 1
            if child + 1 < size and heap[child].head_time > heap[child + 1].head_time:
                child += 1
            if time <= heap[child].head_time:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = queue


class PartitionGroup:
    """The queues of a task's inputs, merged by time."""

    __slots__ = ("_by_time", "in_columns", "queues")

    def __init__(self) -> None:
        self.queues: dict[tuple[str, int], PartitionQueue] = {}
        self._by_time = JavaPriorityQueue()
        self.in_columns = False  # all that is buffered is in chunks

    def register(self, queue: PartitionQueue) -> None:
        self.queues[queue.topic_partition] = queue

    def add(self, topic_partition: tuple[str, int], records: Iterable[InputRecord]) -> None:
        self._add(topic_partition, lambda queue: queue.add(records))

    def add_later(self, topic_partition: tuple[str, int], chunk: Chunk) -> None:
        """The records of a chunk, which are made when it is their turn."""
        self._add(topic_partition, lambda queue: queue.add_later(chunk))

    def _add(self, topic_partition: tuple[str, int], add: Callable[[PartitionQueue], None]) -> None:
        self.leave_columns()
        queue = self.queues[topic_partition]
        was_empty = queue.head is None
        add(queue)
        if was_empty and queue.head is not None:
            self._by_time.offer(queue)

    def poll(self) -> tuple[PartitionQueue, InputRecord, Record] | None:
        by_time = self._by_time
        if len(by_time) == 1:  # nothing to compare with: it stays where it is
            queue = by_time.queues[0]
            raw, record = queue.poll()
            if queue.head is None:
                by_time.poll()
            return queue, raw, record
        first = by_time.poll()
        if first is None:
            return None
        raw, record = first.poll()
        if first.head is not None:
            by_time.offer(first)
        return first, raw, record

    # -- for a lane

    def add_chunk(self, topic_partition: tuple[str, int], chunk: Chunk) -> None:
        """As `add`. While records are buffered that are no chunk, it becomes records, too."""
        if not self.in_columns and len(self._by_time):
            self.add_later(topic_partition, chunk)
            return
        self.in_columns = True
        queue = self.queues[topic_partition]
        was_empty = not queue.chunks
        queue.add_chunk(chunk)
        if was_empty:
            self._by_time.offer(queue)

    def in_order(self) -> list[PartitionQueue]:
        """Those that have records, as the heap has them."""
        return self._by_time.queues

    def arrange(self, queues: list[PartitionQueue]) -> None:
        """After a run. At most two."""
        self._by_time.queues = queues

    def leave_columns(self) -> None:
        """What is buffered becomes records, in the same order."""
        if not self.in_columns:
            return
        self.in_columns = False
        heap, self._by_time.queues = self._by_time.queues, []
        for queue in heap:
            queue.as_records()
            if queue.head is not None:
                self._by_time.offer(queue)

    def positions(self) -> dict[tuple[str, int], int]:
        """Where inputs go on that have come further since the last call. A record that was left out is behind, too."""
        found: dict[tuple[str, int], int] = {}
        for queue in self.queues.values():
            if queue.last_offset != queue.told_offset:
                queue.told_offset = queue.last_offset
                found[queue.topic_partition] = queue.last_offset + 1
        return found

    @property
    def all_buffered(self) -> bool:
        """Whether every input has a record, so that the next one is surely the lowest."""
        return len(self._by_time) == len(self.queues)

    @property
    def buffered(self) -> int:
        return sum(len(queue) for queue in self.queues.values())
