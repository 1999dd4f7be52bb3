"""The producer without a face: what both faces drive, on a kernel of theirs.

It owns the session's use, the accumulator, the sender, and the producer's id. Everything but `accumulator.append`
belongs to the owner of the kernel. A fatal error (`fatal`) ends it: all waiting batches fail with it, and so does every
call.
"""

import random
from collections.abc import Callable
from contextlib import suppress

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut, UnknownTopic, error_for
from headwater.client.producer.accumulator import Accumulator
from headwater.client.producer.batch import Awaited, ProducerBatch, Waiting
from headwater.client.producer.metrics import Meter
from headwater.client.producer.queues import PartitionQueue, TopicQueues
from headwater.client.producer.sender import Sender
from headwater.client.producer.sequences import Sequences
from headwater.client.producer.transaction_manager import State, TransactionManager
from headwater.client.producer.types import BufferFull, ProducerClosed
from headwater.client.reactor.kernel import Signal, Task, TimedOut
from headwater.client.session import Session
from headwater.client.settings.producer import ProducerSettings
from headwater.client.types import Topic
from headwater.records.columns import Section
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_UNSENT_LOOK = 0.001
_UNREACHABLE = (BootstrapFailed, ConnectionFailed, RequestTimedOut, TimedOut)


class ProducerCore:
    """`transactions` is None without a transactional id."""

    def __init__(
        self,
        session: Session,
        settings: ProducerSettings,
        owner: Waiting,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.session = session
        self.kernel = session.kernel
        self.settings = settings
        self.fatal: KafkaError | None = None
        self.closed = False
        self.takes_plain = False  # records go in as they are: see `Intake`
        self.plain = False  # and nothing stands against that at this moment
        self.meter = Meter(self.kernel.clock())
        self.accumulator = Accumulator(
            owner,
            self.kernel.clock,
            batch_bytes=settings.batch_bytes,
            buffer_bytes=settings.buffer_bytes,
            record_bytes_max=settings.request_bytes_max,
            linger=settings.linger,
        )
        self.sequences = Sequences(
            idempotent=settings.idempotent,
            transactional=settings.transactional_id is not None,
            retries=settings.retries,
        )
        self.sender = Sender(
            session,
            self.accumulator,
            self.sequences,
            settings,
            self,
            self.meter,
            chance,
        )
        self.transactions: TransactionManager | None = None
        if settings.transactional_id is not None:
            self.transactions = TransactionManager(settings.transactional_id, self)
        self._chance = chance
        self._room = Signal()
        self._waiting_for_room = 0
        self._metadata_wanted = Signal()
        self._wants_metadata = False
        self._keeper: Task[None] | None = None
        self._asking_for_id: Task[None] | None = None

    # Topics

    async def topic(self, name: str) -> TopicQueues:
        """The queues of a topic, once its partitions are known; waits for that up to max.block.ms."""
        found = self.accumulator.topics.get(name)
        if found is not None:
            return found
        topic = await self._find_topic(name)
        found = self.accumulator.topics.get(name)
        if found is None:
            found = TopicQueues(name, lambda n: int(self._chance() * n), self.settings.adaptive)
            found.used_at = self.kernel.clock()
            found.apply(topic)
            self.accumulator.topics[name] = found
        if self._keeper is None:
            self._keeper = self.kernel.spawn(self._keep_metadata(), "metadata of the producer")
        return found

    async def _find_topic(self, name: str) -> Topic:
        deadline = self.kernel.clock() + self.settings.max_block
        attempt = 0
        while True:
            problem: KafkaError
            try:
                asking = self.kernel.spawn(self.session.refresh([name], auto_create=self.settings.auto_create))
                topic = (await self.kernel.within(deadline - self.kernel.clock(), asking))[0]
                if not topic.error and topic.partitions:
                    return topic
                problem = KafkaError(topic.error or ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r}")
                if problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    problem = UnknownTopic(name, [])
            except TimedOut:  # of `within`
                problem = KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"nobody said where topic {name!r} is")
            except KafkaError as error:
                problem = error
            if not (problem.code.retriable or isinstance(problem, _UNREACHABLE)):
                raise problem
            if not await self.session.pause(attempt, deadline):
                problem.message = f"{problem.message}, for {self.settings.max_block:g} s (max.block.ms)"
                raise problem
            attempt += 1

    async def _keep_metadata(self) -> None:
        """Asks again when something hints at a change, and now and then."""
        while not self.closed:
            if not self._wants_metadata:
                with suppress(TimedOut):
                    await self.kernel.within(
                        self.session.settings.metadata_max_age_ms / 1000, self._metadata_wanted.next()
                    )
            self._wants_metadata = False
            topics = self._topics_in_use()
            if topics:
                await self.session.refresh_quietly(topics)
                self.apply_metadata()
            await self.kernel.sleep(self.session.settings.backoff.delay_ms(0, self._chance()) / 1000)

    def apply_metadata(self) -> None:
        for name, queues in list(self.accumulator.topics.items()):
            topic = self.session.view.topics.get(name)
            if topic is not None and not topic.error and topic.partitions:
                with self.accumulator.lock:
                    changed = queues.apply(topic)
                for queue in changed:
                    self.sender.leader_changed(queue)
        self.sender.route_all()

    def _topics_in_use(self) -> list[str]:
        """Those whose metadata is kept fresh (metadata.max.idle.ms).

        The queues of the others stay: they know the sequence numbers. A partition that began at 0 again under the same
        producer id and epoch would be answered as a duplicate of what it wrote before.
        """
        limit = self.kernel.clock() - self.settings.metadata_max_idle
        return [
            name
            for name, queues in self.accumulator.topics.items()
            if queues.used_at >= limit or any(queue.open or queue.waiting or queue.wire for queue in queues.queues)
        ]

    # Waiting

    async def room(self) -> None:
        """Waits until there is memory for another record. Nothing lingers meanwhile."""
        started_at = self.kernel.clock()
        deadline = started_at + self.settings.max_block
        self._waiting_for_room += 1
        try:
            while self.accumulator.is_full:
                self.check()
                freed = self._room.next()  # before the flush, which may free some at once
                self.sender.flush()
                await self.kernel.within(deadline - self.kernel.clock(), freed)
        except TimedOut:
            raise BufferFull(self.settings.buffer_bytes, self.settings.max_block) from None
        finally:
            self._waiting_for_room -= 1
            self.meter.blocked += self.kernel.clock() - started_at

    async def room_for(self, size_bytes: int) -> None:
        """Waits until so much fits, or nothing else is there. For tables, whose slices come all at once."""
        self._waiting_for_room += 1
        try:
            while self.accumulator.used_bytes and self.accumulator.used_bytes + size_bytes > self.settings.buffer_bytes:
                self.check()
                freed = self._room.next()
                self.sender.flush()
                oldest = self.accumulator.oldest_incomplete()
                if oldest is not None:
                    await oldest.when_done()
                elif not freed.done:  # what is left was given up on the wire, and is not off it yet
                    await freed
        finally:
            self._waiting_for_room -= 1
        self.check()

    async def delivered(self, awaited: Awaited) -> None:
        while (batch := awaited.pending()) is not None:
            self.sender.hurry(awaited)
            await batch.when_done()

    async def flush(self) -> None:
        """Waits until all that was sent before is done, one way or the other."""
        self.sender.flush()
        for batch in self.accumulator.incomplete():
            await self._done(batch)
        while self.settings.acks == 0 and self.sender.unsent_bytes():
            await self.kernel.sleep(_UNSENT_LOOK)

    async def _done(self, batch: ProducerBatch) -> None:
        await batch.when_done()
        for _, part in batch.parts or ():
            await self._done(part)

    async def close(self, timeout: float | None) -> None:
        """Sends what it has for as long as `timeout`; the rest fails."""
        if self.closed:
            return
        try:
            if self.transactions is not None and self.fatal is None:
                await self.kernel.within(timeout, self.kernel.spawn(self.transactions.close()))
            await self.kernel.within(timeout, self.kernel.spawn(self.flush()))
        except (TimedOut, KafkaError):
            pass
        finally:
            self.closed = True
            self.allow_short_way()
            self.sender.stop()
            if self._keeper is not None:
                self._keeper.cancel()
            if self._asking_for_id is not None:
                self._asking_for_id.cancel()
            self.session.close()  # what is on the wire comes back as failed
            self.sender.fail_waiting(ProducerClosed())
            self._room.notify()

    def allow_short_way(self) -> None:
        """Looks whether records may be appended, and whether without any further question. Called when something of it
        has changed. Who asked before and appends now is too late: a commit, say, has flushed already.
        """
        writes = self.transactions is None or self.transactions.state is State.OPEN
        is_open = writes and self.fatal is None and not self.closed
        self.plain = self.takes_plain and is_open
        self.accumulator.shut(not is_open)

    def check(self) -> None:
        if self.fatal is not None:
            raise self.fatal
        if self.closed:
            raise ProducerClosed("the producer is closed")

    def check_send(self) -> None:
        self.check()
        if self.transactions is not None:
            self.transactions.check_send()

    def add_sections(self, topic: TopicQueues, sections: list[Section]) -> list[ProducerBatch]:
        """Those of a table. It may have waited for room, and its transaction may be over."""
        batches = self.accumulator.add_sections(topic, sections)
        if sections and not batches:
            self.check_send()
        return batches

    def fail(self, error: KafkaError) -> None:
        """There is no way on from here."""
        if self.fatal is None:
            self.fatal = error
            self.allow_short_way()
            self.sender.fail_waiting(error)
            self._room.notify()

    def gauges(self) -> dict[str, float]:
        accumulator = self.accumulator
        queues = [queue for topic in accumulator.topics.values() for queue in topic.queues]
        return {
            "requests-in-flight": self.sender.in_flight,
            "buffer-total-bytes": accumulator.buffer_bytes,
            "buffer-available-bytes": max(0, accumulator.buffer_bytes - accumulator.used_bytes),
            "waiting-threads": self._waiting_for_room,
            "batches-waiting": sum(len(queue.waiting) + (queue.open is not None) for queue in queues),
            "topics": len(accumulator.topics),
        }

    def metrics(self) -> dict[str, float]:
        return self.meter.snapshot(self.kernel.clock(), self.gauges)

    # The sender's gate

    @property
    def transactional_id(self) -> str | None:
        return self.settings.transactional_id

    @property
    def uses_new_transactions(self) -> bool:
        return self.transactions is not None and self.transactions.uses_new_protocol

    def may_write(self, queue: PartitionQueue) -> bool:
        return self.transactions is None or self.transactions.may_write(queue)

    def give_up(self) -> KafkaError | None:
        if self.fatal is not None or self.closed:
            return self.fatal or ProducerClosed()
        return self.transactions.give_up() if self.transactions is not None else None

    def want_metadata(self) -> None:
        self._wants_metadata = True
        self._metadata_wanted.notify()

    def memory_freed(self) -> None:
        if self._waiting_for_room and not self.accumulator.is_full:
            self._room.notify()

    def batch_failed(self, error: KafkaError) -> None:
        if self.transactions is not None:
            self.transactions.failed(error)

    def want_producer_id(self) -> None:
        if self.transactions is None and self._asking_for_id is None:
            self._asking_for_id = self.kernel.spawn(self._ask_for_id(), "producer id")

    async def _ask_for_id(self) -> None:
        """Any broker gives one. It asks until it has it: batches that wait too long fail by themselves."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=(1 << 31) - 1)
        attempt = 0
        try:
            while not self.closed:
                problem: KafkaError
                try:
                    response = await self.session.call_any(request, InitProducerIdResponse)
                    if not response.error_code:
                        self.sequences.begin(response.producer_id, response.producer_epoch)
                        break
                    problem = error_for(response.error_code, "the broker gives no producer id")
                except KafkaError as error:
                    problem = error
                if not (problem.code.retriable or isinstance(problem, _UNREACHABLE)):
                    self.fail(problem)
                    return
                await self.session.pause(attempt, float("inf"))
                attempt += 1
        finally:
            self._asking_for_id = None
        self.sender.route_all()
