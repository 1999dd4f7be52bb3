"""A batch on its way, and the deliveries of its records.

A batch is open (records are appended), then closed (it waits for its turn, or for a retry), then on the wire, then
done: written at `base_offset`, or failed with `error`. All its records share that outcome, so a `Delivery` is only a
batch and a place in it, and nothing is done per record when a batch is answered.

A batch that the broker found too large is split: it is not done then, its `parts` are.

Who changes what: `append` and the fields behind it belong to whoever holds the accumulator's lock, as do `done` and
`callbacks`; the rest belongs to the owner of the kernel. `data` is never changed once made: it may be in flight.
"""

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from headwater.base.errors import KafkaError
from headwater.base.ports import Buffer
from headwater.client.producer.types import RecordMetadata
from headwater.client.reactor.kernel import Future
from headwater.records.batch import NO_SEQUENCE
from headwater.records.builder import finish_section, restamped
from headwater.records.codec import BatchAppender
from headwater.records.columns import Section

if TYPE_CHECKING:
    from headwater.client.producer.queues import PartitionQueue

NO_OFFSET = -1
NO_TIME = -1
Callback = Callable[[KafkaError | None, RecordMetadata | None], object]


class Awaited(Protocol):
    """What somebody waits for: a record's delivery, or a table's."""

    def pending(self) -> "ProducerBatch | None":
        """A batch that it still waits for; None: it is done."""


class Waiting(Protocol):
    """The face that a delivery came from."""

    def wait_for(self, awaited: Awaited, timeout: float | None) -> None:
        """Returns when it is done; raises TimeoutError."""

    def hurry(self, awaited: Awaited) -> None:
        """Somebody waits for it: its batch goes as soon as it can."""

    def call_back(self, delivery: "Delivery", callback: "Callable[[Delivery], object]") -> None:
        """Has `callback(delivery)` called once the delivery is done; at once if it is."""


class ProducerBatch:
    __slots__ = (
        "append",
        "appender",
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "count",
        "created_at",
        "data",
        "done",
        "error",
        "future",
        "last_error",
        "log_append_time_ms",
        "on_wire",
        "owner",
        "parts",
        "producer_epoch",
        "producer_id",
        "queue",
        "resequenced",
        "section",
        "sent_at",
        "size_bytes",
    )

    def __init__(self, queue: "PartitionQueue", created_at: float, owner: Waiting, limit_bytes: int) -> None:
        """An open batch; with `limit_bytes` 0 one whose section is given at once (`of_section`)."""
        self.queue = queue
        self.created_at = created_at
        self.owner = owner
        self.count = 0
        self.size_bytes = 0  # of the records so far, uncompressed, with the header
        self.appender: BatchAppender | None = None
        self.append: Any = None
        if limit_bytes:
            self.appender = BatchAppender(limit_bytes)
            self.append = self.appender.append
        self.section: Section | None = None
        self.data: Buffer | None = None
        self.callbacks: list[tuple[Delivery, Callable[[Delivery], object]]] | None = None
        self.future: Future[None] | None = None
        self.parts: list[tuple[int, ProducerBatch]] | None = None  # (first record, batch)
        self.done = False
        self.error: KafkaError | None = None
        self.last_error: KafkaError | None = None  # of an attempt that is tried again
        self.base_offset = NO_OFFSET
        self.log_append_time_ms = NO_TIME
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        self.resequenced = False  # its sequence was begun anew: an answer about order is not about this attempt
        self.attempts = 0
        self.on_wire = False
        self.sent_at = 0.0

    @classmethod
    def of_section(
        cls, queue: "PartitionQueue", created_at: float, owner: Waiting, section: Section
    ) -> "ProducerBatch":
        batch = cls(queue, created_at, owner, 0)
        batch.section = section
        batch.count = section.record_count
        batch.size_bytes = len(section.batch)
        return batch

    def close(self) -> None:
        """No more records; under the accumulator's lock."""
        if self.appender is not None:
            self.section = self.appender.section()
            self.appender = self.append = None

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        return following(self.base_sequence, self.count)

    def stamp(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Under which name and number it goes. A batch that was encoded under others is copied: it may be in flight."""
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        if self.data is not None:
            self.data = restamped(
                self.data, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
            )

    def encode(self, codec: int, level: int | None, transactional: bool) -> Buffer:
        """The bytes that go out, made once."""
        if self.data is None:
            assert self.section is not None, "the batch is open"
            self.data = finish_section(
                self.section,
                codec=codec,
                level=level,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                transactional=transactional,
            )
            self.section = None
        return self.data

    def when_done(self) -> Future[None]:
        """Resolved when the batch is done or split; for the owner of the kernel."""
        if self.future is None:
            self.future = Future()
            if self.done or self.parts is not None:
                self.future.resolve(None)
        return self.future


def following(sequence: int, count: int) -> int:
    """Sequences wrap to 0 after 2^31 - 1."""
    return (sequence + count) & 0x7FFFFFFF


class Delivery:
    """A record on its way: `result(timeout)` waits for its metadata; `await` it in asyncio. It may be dropped at
    once.
    """

    __slots__ = ("_batch", "_index", "_timestamp_ms")

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms

    def done(self) -> bool:
        return self.current().done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record went; raises what kept it from there, or TimeoutError after `timeout` seconds."""
        batch = self.current()
        if not batch.done:
            batch.owner.wait_for(self, timeout)
            batch = self.current()
        if batch.error is not None:
            raise batch.error
        return self.metadata()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """What went wrong, None if nothing did. Waits as `result` does."""
        batch = self.current()
        if not batch.done:
            batch.owner.wait_for(self, timeout)
            batch = self.current()
        return batch.error

    def add_done_callback(self, callback: "Callable[[Delivery], object]") -> None:
        """`callback(delivery)`, once, by the thread that learns of it (it should be quick), or at once if it is
        done.
        """
        self._batch.owner.call_back(self, callback)

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            yield from asyncio_wait(self, self._batch.owner)
        return self.result(0)

    # For the producer

    def current(self) -> ProducerBatch:
        """The batch that the record is in now: a batch may have been split."""
        return self._place()[0]

    def pending(self) -> ProducerBatch | None:
        batch = self.current()
        return None if batch.done else batch

    def _place(self) -> tuple[ProducerBatch, int]:
        """The batch, and which of its records. Looked for each time: any thread may, at the same time as others."""
        batch, index = self._batch, self._index
        while batch.parts is not None:
            for first, part in reversed(batch.parts):
                if index >= first:
                    batch, index = part, index - first
                    break
        return batch, index

    def metadata(self) -> RecordMetadata:
        batch, index = self._place()
        offset = batch.base_offset
        queue = batch.queue
        return RecordMetadata(
            queue.topic.name,
            queue.partition,
            NO_OFFSET if offset < 0 else offset + index,
            self._timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms,
        )

    def __repr__(self) -> str:
        batch = self.current()
        where = f"{batch.queue.topic.name}-{batch.queue.partition}"
        if not batch.done:
            return f"<Delivery to {where}, under way>"
        return f"<Delivery to {where}, failed: {batch.error}>" if batch.error else f"<Delivery: {self.metadata()}>"


def asyncio_wait(awaited: Any, owner: Waiting) -> Generator[Any, None, None]:
    """Waits in the running asyncio loop, whichever thread learns of the end."""
    import asyncio

    loop = asyncio.get_running_loop()
    came = loop.create_future()

    def resolve() -> None:
        if not came.done():
            came.set_result(None)

    def tell(_: object) -> None:
        loop.call_soon_threadsafe(resolve)

    awaited.add_done_callback(tell)
    owner.hurry(awaited)
    yield from came.__await__()
