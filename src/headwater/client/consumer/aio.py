"""The asyncio consumer: the same core, driven by the loop it is made in. Callbacks may be coroutine functions.

async with AsyncConsumer(bootstrap_servers="...", group_id="g") as consumer:
    consumer.subscribe(["orders"])
    async for record in consumer:
        ...
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.arguments import (
    OffsetsGiven,
    listener_method,
    milliseconds,
    milliseconds_left,
    offsets_of,
    partitions_of,
)
from headwater.client.consumer.consumer_settings import consumer_settings
from headwater.client.consumer.core import ConsumerCore, Turn
from headwater.client.consumer.face import ConsumerFace
from headwater.client.consumer.membership.port import Departure, RebalanceEvent
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.reactor.aio import AioEngine
from headwater.client.serialization.lookups import Answers, LookupDeferred, Lookups, without_waiting
from headwater.client.session import Session
from headwater.client.settings.common import network, session_settings
from headwater.client.types import OffsetAt, Partition, Topic

if TYPE_CHECKING:
    import pyarrow

    from headwater.client.consumer.arrow import Decode

T = TypeVar("T")

_WAIT: Final = 1.0  # a long poll tells the group now and then that it lives
_CLOSE_TIMEOUT: Final = 30.0


class AsyncConsumer(ConsumerFace):
    """Settings as for `Consumer`. Made and used within one running loop; for one task at a time."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        known = consumer_settings(settings, keywords)
        session = session_settings(known.raw, known.api_timeout_ms)
        self._network = network(known.raw)
        self._engine = AioEngine(self._network)
        self._core = ConsumerCore(Session(self._engine.kernel, self._network, session), known)
        self._max_poll_records = known.max_poll_records
        self._wait = min(_WAIT, known.raw.number("max.poll.interval.ms") / 3000)
        self._polling = False
        self._rebalancing: asyncio.Task[None] | None = None  # goes on though the poll that began it was cancelled
        self._lookups = Lookups()
        self._closed = False

    # What to read

    async def unsubscribe(self) -> None:
        try:
            await self._last_event()
        finally:  # a listener that raises does not keep the consumer in its group
            await self._engine.run(self._core.unsubscribe())

    # Reading

    async def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records, up to `max.poll.records`; none if none came within `timeout` seconds (None: waits for some)."""
        limit = max_records or self._max_poll_records
        core = self._core
        return await self._poll(lambda: core.take(limit), timeout) or []

    async def poll_arrow(
        self,
        timeout: float | None = None,
        *,
        max_records: int = 1_000_000,
        max_bytes: int = 64 * 1024 * 1024,
        decode: "Mapping[str, Decode] | None" = None,
        schema: "Decode | None" = None,
    ) -> "pyarrow.RecordBatch":
        """What is there, as columns: no Python object per record. An empty batch if nothing came within `timeout`.
        `schema` is how the value is decoded, an `AvroColumns` say: short for decode={"value": ...}."""
        from headwater.client.consumer.arrow import ArrowTaker

        decode = decode if schema is None else {**(decode or {}), "value": schema}
        taker = ArrowTaker(self._core, self._engine.submit, max_records, max_bytes, decode)
        await self._poll(taker.take, timeout)
        try:
            return await self._lookups.answered(taker.batch)
        except asyncio.CancelledError:
            taker.give_back()
            raise

    async def __aiter__(self) -> AsyncIterator[ConsumerRecord]:
        """Record by record, for ever. `commit` within commits what the iteration has given, not what it holds ready."""
        buffer = self._core.iteration_buffer
        while True:
            buffer.extend(await self.poll())
            while buffer:
                yield buffer.popleft()

    # Positions

    async def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the record that comes next."""
        return await self._engine.run(self._core.position(TopicPartition(*partition), milliseconds(timeout)))

    # Commits

    async def commit(self, offsets: OffsetsGiven = None, timeout: float | None = None) -> None:
        """Offsets by partition, records (then the offsets behind them), or all positions. Raises `CommitFailed`."""
        await self._engine.run(self._core.commit(offsets_of(offsets), milliseconds(timeout)))

    async def committed(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await self._engine.run(self._core.committed(partitions_of(partitions), milliseconds(timeout)))

    # Topics and offsets

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAt | None]:
        """The first record whose timestamp (ms) is not before the one given; None: there is none."""
        return await self._engine.run(self._core.cluster_queries.offsets_for_times(times, milliseconds(timeout)))

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._engine.run(self._core.cluster_queries.ends(partitions, milliseconds(timeout), earliest=True))

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return await self._engine.run(
            self._core.cluster_queries.ends(partitions, milliseconds(timeout), earliest=False)
        )

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[Partition]:
        """None of them: there is no such topic."""
        found = await self._engine.run(self._core.cluster_queries.partitions_for(topic, milliseconds(timeout)))
        return found.partitions if found is not None else []

    async def list_topics(self) -> dict[str, Topic]:
        return {topic.name: topic for topic in await self._engine.run(self._core.cluster_queries.list_topics())}

    # The end

    async def close(self, timeout: float | None = None, *, departure: Departure = Departure.DEFAULT) -> None:
        """Commits if commits are automatic, leaves the group, closes connections."""
        if self._closed:
            return
        deadline = time.monotonic() + (_CLOSE_TIMEOUT if timeout is None else timeout)
        try:
            try:
                await self._last_event(deadline)
            finally:  # a listener that raises does not keep the consumer in its group
                try:
                    await self._engine.run(self._core.close(milliseconds_left(deadline) or 0, departure))
                finally:
                    await self._call_back()
        finally:
            self._closed = True
            self._engine.submit(self._core.session.close)
            self._engine.close()

    async def __aenter__(self) -> "AsyncConsumer":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Inside

    async def _poll(self, take: Callable[[], Any], timeout: float | None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        core, engine = self._core, self._engine
        self._check_open()
        if self._polling:
            raise UserError("A consumer is for one task at a time", "another task polls it")
        self._polling = True
        try:
            await self._rebalanced()
            await asyncio.sleep(0)  # records that are there come without a wait: the loop has its turn nevertheless
            turn = await self._turn(core.first_turn, take)
            while True:
                if turn.taken:
                    return turn.taken
                if turn.event is not None:
                    self._rebalancing = asyncio.ensure_future(self._rebalance(turn.event, acknowledge=True))
                    await self._rebalanced()
                elif turn.finished is not None:
                    await _called(turn.finished.callback(turn.finished.offsets, turn.finished.error))
                else:
                    wait = self._wait if deadline is None else min(self._wait, deadline - time.monotonic())
                    if wait <= 0:
                        return None
                    await engine.run(core.wait_for_news(turn.seen, wait))
                turn = await self._turn(core.turn, take)
        finally:
            self._polling = False

    async def _turn(self, begin: Callable[[Callable[[], Any]], Turn], take: Callable[[], Any]) -> Turn:
        """A schema that a deserializer needs is asked for by a thread, while the loop goes on."""
        answers: Answers = {}
        while True:
            try:
                return self._engine.submit(partial(begin, lambda: without_waiting(take, answers)))
            except LookupDeferred as needed:
                answers[needed.key] = await self._lookups.outcome(needed)
                begin = self._core.turn

    async def _rebalanced(self) -> None:
        """A listener that was begun is heard out: cut short, its partitions would be read, or given away, without
        it.
        """
        task = self._rebalancing
        if task is None or task is asyncio.current_task():
            return
        try:
            await asyncio.shield(task)
        finally:
            if task.done():
                self._rebalancing = None

    async def _rebalance(self, event: RebalanceEvent, *, acknowledge: bool, deadline: float | None = None) -> None:
        core = self._core
        membership = core.membership if acknowledge else None
        try:
            await self._engine.run(core.before_listener(event, milliseconds_left(deadline)))
            method = listener_method(core.subscription.listener, event.kind)
            if method is not None:
                await _called(method(list(event.partitions)))
        finally:
            self._engine.submit(lambda: core.after_listener(event, membership))

    async def _last_event(self, deadline: float | None = None) -> None:
        self._check_open()
        try:
            await self._rebalanced()
        finally:
            event = self._engine.submit(self._core.stop_membership)
            if event is not None:
                await self._rebalance(event, acknowledge=False, deadline=deadline)

    async def _call_back(self) -> None:
        """All of them; then what the first of them raised is raised."""
        raised: Exception | None = None
        finished = self._core.commits.finished
        while finished:
            callback, offsets, error = finished.popleft()
            try:
                await _called(callback(offsets, error))
            except Exception as problem:  # noqa: BLE001 (it is the user's, and raised below)
                raised = raised or problem
        if raised is not None:
            raise raised

    def _do(self, action: Callable[[], T]) -> T:
        self._check_open()
        return self._engine.submit(action)

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("The consumer is closed")


async def _called(outcome: Any) -> None:
    if inspect.isawaitable(outcome):
        await outcome
