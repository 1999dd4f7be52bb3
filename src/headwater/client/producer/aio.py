"""The producer for asyncio: the same core, driven by the running loop, without a thread of its own.

    async with AsyncProducer({"bootstrap.servers": "localhost:9092"}) as producer:
        delivery = await producer.send("orders", b"a value", key=b"a key")   # in a batch now
        print(await delivery)                                                # where it went

Made and used within one loop. It begins with the first call, so it may be made before the loop runs.
Records of one topic are appended in the order of the calls to `send` and `send_arrow`, whatever these have to wait for.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.producer.batch import Awaited, Callback, Delivery
from headwater.client.producer.core import ProducerCore
from headwater.client.producer.face import Intake, record_fields
from headwater.client.producer.queues import TopicQueues
from headwater.client.producer.transaction_manager import OpenTransaction, TransactionManager
from headwater.client.producer.types import ProducerRecord, TransactionFailed
from headwater.client.producer.waiting_sends import Place, WaitingSends
from headwater.client.reactor.aio import AioEngine
from headwater.client.reactor.kernel import Closed
from headwater.client.serialization.lookups import LookupDeferred, Lookups, without_waiting
from headwater.client.session import Session
from headwater.client.settings.common import network, session_settings
from headwater.client.settings.producer import read_producer_settings
from headwater.client.types import Partition

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.client.producer.arrow import TableDelivery
    from headwater.client.producer.encoding import Encodings

T = TypeVar("T")


class AsyncProducer:
    """Settings as for `Producer`."""

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        self._given, self._settings = read_producer_settings(settings, keywords)
        self._engine: AioEngine | None = None
        self._core: ProducerCore
        self._intake: Intake
        self._topics: dict[str, TopicQueues] = {}
        self._waiting = WaitingSends()
        self._lookups = Lookups()
        self._finished = False

    async def __aenter__(self) -> "AsyncProducer":
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Records

    async def send(
        self,
        topic: str | ProducerRecord | Any,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Any = (),
        timestamp_ms: int | None = None,
        on_delivery: Callback | None = None,
    ) -> Delivery:
        """As `Producer.send`. It gives the loop a turn with every full batch; await the delivery for its end."""
        if type(topic) is not str:
            topic, value, rest = record_fields(topic)
            return await self.send(topic, value, on_delivery=on_delivery, **rest)
        queues = self._topics.get(topic)
        delivery = None
        if queues is not None and partition is None and self._core.plain and topic not in self._waiting.lines:
            now_ms = time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms  # the short way, as in `Producer`
            with suppress(TypeError, AttributeError, ValueError):
                delivery = self._core.accumulator.append(queues, None, now_ms, key, value, headers, on_delivery)
        if delivery is None:

            def put(queues: TopicQueues) -> Delivery | None:
                return self._intake.put(queues, value, key, partition, headers, timestamp_ms, on_delivery)

            delivery = await self._put(topic, put)
        core = self._core
        if core.accumulator.closed:
            self._begin().submit(core.sender.wake)
            await asyncio.sleep(0)
        elif core.sender.lingering_until is None:
            self._begin().submit(core.sender.wake)
        return delivery

    async def _put(self, topic: str, put: Callable[[TopicQueues], Delivery | None]) -> Delivery:
        """Appends by `put`, which gives None where there is no room: at once if it can and nobody waits, in turn
        otherwise.
        """
        engine = self._begin()
        queues = self._topics.get(topic)
        if queues is not None and topic not in self._waiting.lines:
            with suppress(LookupDeferred):
                delivery = without_waiting(partial(put, queues), {})
                if delivery is not None:
                    return delivery
        with self._waiting.place(topic) as place:
            await self._queues(engine, topic)  # all of the line at once: they may wait in vain
            await place.first()
            while True:
                found = await self._queues(engine, topic)
                delivery = await self._answered(topic, place, partial(put, found))
                if delivery is not None:
                    return delivery
                await self._room(engine, self._waiting.behind(topic))

    async def _answered(self, topic: str, place: Place, call: Callable[[], T]) -> T:
        """What the first of a line serializes: what has to be asked for is asked for by a thread."""
        while True:
            try:
                return without_waiting(call, place.answers)
            except LookupDeferred as needed:
                place.answers[needed.key] = outcome = await self._lookups.outcome(needed)
                self._waiting.tell(topic, needed.key, outcome)

    async def _queues(self, engine: AioEngine, topic: str) -> TopicQueues:
        found = self._topics.get(topic)
        return found if found is not None else await engine.run(self._core.topic(topic))

    async def _room(self, engine: AioEngine, behind: Sequence[Place]) -> None:
        """Memory for the first of a line. Those behind have waited as long: what it fails by, they do."""
        try:
            await engine.run(self._core.room())
        except Exception as error:
            for each in behind:
                each.failure = error
            raise

    async def send_arrow(
        self,
        table: "pa.Table | pa.RecordBatch",
        topic: str,
        *,
        value: Any = "value",
        key: Any = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | int | None = None,
        encode: "Encodings | None" = None,
    ) -> "TableDelivery":
        """As `Producer.send_arrow`. Its rows stand behind what was sent to the topic before, and before what is sent
        later.
        """
        from headwater.client.producer.arrow import TableDelivery, TableSource

        source = TableSource(
            table,
            self._settings,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            encode=encode,
        )
        engine = self._begin()
        core = self._core
        core.check()
        delivery = TableDelivery(topic, self)
        with self._waiting.place(topic) as place:  # to its last slice: nothing comes between them
            await self._queues(engine, topic)
            await place.first()
            await self._answered(topic, place, source.try_encoders)
            queues = await self._queues(engine, topic)
            for sections in source.sections(queues):
                core.check_send()
                await engine.run(core.room_for(source.slice_bytes))
                delivery.add(core.add_sections(queues, sections))
                engine.submit(core.sender.wake)
        return delivery

    async def flush(self, timeout: float | None = None) -> None:
        """Waits until all that was sent before is done; TimeoutError after `timeout` seconds."""
        engine = self._begin()
        self._core.check()
        await asyncio.wait_for(engine.run(self._core.flush()), timeout)

    async def partitions_for(self, topic: str) -> list[Partition]:
        engine = self._begin()
        self._core.check()
        await engine.run(self._core.topic(topic))
        return list(self._core.session.view.topics[topic].partitions)

    def metrics(self) -> dict[str, float]:
        self._begin()
        return self._core.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """Sends what is left, for as long as `timeout` seconds, and ends. As with `Producer`, who calls it beside
        another waits as well.
        """
        self._finished = True
        if self._engine is None:
            return
        try:
            with suppress(Closed):
                await self._engine.run(self._core.close(timeout))
        finally:
            self._engine.close()

    # Transactions

    async def init_transactions(self) -> None:
        await self._run_transaction(self._transactions.init())

    async def resume_transactions(self, producer_id: int, producer_epoch: int) -> None:
        await self._run_transaction(self._transactions.resume(producer_id, producer_epoch))

    async def begin_transaction(self) -> None:
        self._transactions.begin()

    async def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_metadata: Any) -> None:
        await self._run_transaction(self._transactions.send_offsets(offsets, group_metadata))

    async def commit_transaction(self) -> None:
        await self._run_transaction(self._transactions.commit())

    async def abort_transaction(self) -> None:
        await self._run_transaction(self._transactions.abort())

    async def prepare_transaction(self) -> OpenTransaction:
        prepared: OpenTransaction = await self._run_transaction(self._transactions.prepare())
        return prepared

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["AsyncProducer"]:
        """`async with producer.transaction(): ...` commits at the end, and aborts if an exception leaves the block."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._core.fatal is None:
                await self.abort_transaction()
            raise
        try:
            await self.commit_transaction()
        except TransactionFailed:
            await self.abort_transaction()
            raise

    # What deliveries need

    def wait_for(self, awaited: Awaited, timeout: float | None) -> None:  # noqa: ARG002 (it never waits)
        if awaited.pending() is not None:
            raise UserError("The delivery is under way", "result() cannot wait in asyncio", "await the delivery")

    def hurry(self, awaited: Awaited) -> None:
        if self._engine is not None and not self._finished:
            self._engine.submit(lambda: self._core.sender.hurry(awaited))

    def call_back(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
        if not self._core.accumulator.call_back(delivery, callback):
            callback(delivery)

    # Inside

    def _begin(self) -> AioEngine:
        if self._engine is None:
            sockets = network(self._given)
            self._engine = AioEngine(sockets)
            timeout_ms = int(self._settings.max_block * 1000)
            session = Session(self._engine.kernel, sockets, session_settings(self._given, timeout_ms))
            self._core = ProducerCore(session, self._settings, self)
            self._intake = Intake(self._core, self._settings)
            self._topics = self._core.accumulator.topics
        elif self._finished:
            self._core.check()
        return self._engine

    @property
    def _transactions(self) -> TransactionManager:
        self._begin()
        found = self._core.transactions
        if found is None:
            raise UserError(
                "This producer makes no transactions", "it has no transactional.id", "Set one, the same after a restart"
            )
        return found

    async def _run_transaction(self, coroutine: Any) -> Any:
        return await asyncio.wait_for(self._begin().run(coroutine), self._settings.max_block)
