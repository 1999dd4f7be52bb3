"""The synchronous consumer: for one thread; only `wakeup` is for all.

The thread that polls serves the sockets itself, so records reach it without a detour; between its calls a caretaker
thread keeps heartbeats going and takes answers in. The user's functions (listeners, callbacks) run in the calling
thread, with no lock held: they may call the consumer.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
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
from headwater.client.reactor.kernel import TimedOut
from headwater.client.reactor.thread_engine import Engine
from headwater.client.session import Session
from headwater.client.settings.common import network, session_settings
from headwater.client.types import OffsetAt, Partition, Topic

if TYPE_CHECKING:
    import pyarrow

    from headwater.client.consumer.arrow import Decode

T = TypeVar("T")

_WAIT: Final = 1.0  # a long poll tells the group now and then that it lives
_CLOSE_TIMEOUT: Final = 30.0


class Consumer(ConsumerFace):
    """Settings by Kafka's names, or as keywords with underscores: Consumer(bootstrap_servers="...", group_id="g")."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        known = consumer_settings(settings, keywords)
        session = session_settings(known.raw, known.api_timeout_ms)
        self._network = network(known.raw)
        self._engine = Engine(self._network, patient=True, name="headwater-consumer")
        self._core = ConsumerCore(Session(self._engine.kernel, self._network, session), known)
        self._max_poll_records = known.max_poll_records
        self._wait = min(_WAIT, known.raw.number("max.poll.interval.ms") / 3000)
        self._owner: int | None = None
        self._depth = 0
        self._closed = False

    # What to read

    def unsubscribe(self) -> None:
        with self._entered():
            try:
                self._last_event()
            finally:  # a listener that raises does not keep the consumer in its group
                self._engine.run(self._core.unsubscribe())

    # Reading

    def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records, up to `max.poll.records`; none if none came within `timeout` seconds (None: waits for some)."""
        limit = max_records or self._max_poll_records
        core = self._core
        with self._giving():
            return self._poll(lambda: core.take(limit), timeout) or []

    def poll_arrow(
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
        with self._giving():
            self._poll(taker.take, timeout)
            return taker.batch()

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Record by record, for ever. `commit` within commits what the iteration has given, not what it holds ready."""
        buffer = self._core.iteration_buffer
        while True:
            buffer.extend(self.poll())
            while buffer:
                yield buffer.popleft()

    # Positions

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """The offset of the record that comes next."""
        return self._run(self._core.position(TopicPartition(*partition), milliseconds(timeout)))

    # Commits

    def commit(self, offsets: OffsetsGiven = None, timeout: float | None = None) -> None:
        """Offsets by partition, records (then the offsets behind them), or all positions. Waits; raises
        `CommitFailed`.
        """
        self._run(self._core.commit(offsets_of(offsets), milliseconds(timeout)))

    def committed(
        self, *partitions: Any, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return self._run(self._core.committed(partitions_of(partitions), milliseconds(timeout)))

    # Topics and offsets

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAt | None]:
        """The first record whose timestamp (ms) is not before the one given; None: there is none."""
        return self._run(self._core.cluster_queries.offsets_for_times(times, milliseconds(timeout)))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._run(self._core.cluster_queries.ends(partitions, milliseconds(timeout), earliest=True))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        return self._run(self._core.cluster_queries.ends(partitions, milliseconds(timeout), earliest=False))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[Partition]:
        """None of them: there is no such topic."""
        found = self._run(self._core.cluster_queries.partitions_for(topic, milliseconds(timeout)))
        return found.partitions if found is not None else []

    def list_topics(self) -> dict[str, Topic]:
        return {topic.name: topic for topic in self._run(self._core.cluster_queries.list_topics())}

    # The end

    def close(self, timeout: float | None = None, *, departure: Departure = Departure.DEFAULT) -> None:
        """Commits if commits are automatic, leaves the group, closes connections. Never takes longer than `timeout`."""
        if self._closed:
            return
        deadline = time.monotonic() + (_CLOSE_TIMEOUT if timeout is None else timeout)
        with self._entered():
            try:
                try:
                    self._last_event(deadline)
                finally:  # a listener that raises does not keep the consumer in its group
                    left_ms = milliseconds_left(deadline) or 0
                    try:
                        with contextlib.suppress(TimedOut):  # whatever did not end in time ends with the connections
                            self._engine.run(self._core.close(left_ms, departure), timeout=left_ms / 1000 + 1)
                    finally:
                        self._call_back()
            finally:
                self._closed = True
                self._engine.submit(self._core.session.close)
                self._engine.close()

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    def _poll(self, take: Callable[[], Any], timeout: float | None) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        core, engine = self._core, self._engine
        with self._entered():
            engine.advance()  # what came while the application was at work
            turn: Turn = engine.submit(lambda: core.first_turn(take))
            while True:
                if turn.taken:
                    return turn.taken
                if turn.event is not None:
                    self._rebalance(turn.event, acknowledge=True)
                elif turn.finished is not None:
                    turn.finished.callback(turn.finished.offsets, turn.finished.error)
                else:
                    wait = self._wait if deadline is None else min(self._wait, deadline - time.monotonic())
                    if wait <= 0:
                        return None
                    engine.run(core.wait_for_news(turn.seen, wait))
                turn = engine.submit(lambda: core.turn(take))

    def _rebalance(self, event: RebalanceEvent, *, acknowledge: bool, deadline: float | None = None) -> None:
        core = self._core
        membership = core.membership if acknowledge else None
        try:
            self._engine.run(core.before_listener(event, milliseconds_left(deadline)))
            method = listener_method(core.subscription.listener, event.kind)
            if method is not None:
                method(list(event.partitions))
        finally:
            self._engine.submit(lambda: core.after_listener(event, membership))

    def _last_event(self, deadline: float | None = None) -> None:
        event = self._engine.submit(self._core.stop_membership)
        if event is not None:
            self._rebalance(event, acknowledge=False, deadline=deadline)

    def _call_back(self) -> None:
        """All of them; then what the first of them raised is raised."""
        raised: Exception | None = None
        finished = self._core.commits.finished
        while finished:
            callback, offsets, error = finished.popleft()
            try:
                callback(offsets, error)
            except Exception as problem:  # noqa: BLE001 (it is the user's, and raised below)
                raised = raised or problem
        if raised is not None:
            raise raised

    def _do(self, action: Callable[[], T]) -> T:
        with self._entered():
            return self._engine.submit(action)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            with self._entered():
                return self._engine.run(coroutine)
        finally:
            coroutine.close()

    def _giving(self) -> "Consumer._Giving":
        return Consumer._Giving(self)

    class _Giving:
        """Around a poll: what it took counts as read once it is given, not when Ctrl-C ends the poll before."""

        __slots__ = ("_consumer",)

        def __init__(self, consumer: "Consumer") -> None:
            self._consumer = consumer

        def __enter__(self) -> None:
            self._consumer._core.drain.begin()

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            if kind is not None and not issubclass(kind, Exception):
                if not self._consumer._depth:
                    self._consumer._engine.interrupted()
                self._consumer._engine.submit(self._consumer._core.interrupted)

    def _entered(self) -> "Consumer._Entry":
        return Consumer._Entry(self)

    class _Entry:
        """One thread at a time; the same one again from within a callback."""

        __slots__ = ("_consumer",)

        def __init__(self, consumer: "Consumer") -> None:
            self._consumer = consumer

        def __enter__(self) -> None:
            consumer = self._consumer
            me = threading.get_ident()
            if consumer._closed:
                raise UserError("The consumer is closed")
            if consumer._owner not in (None, me):
                raise UserError(
                    "A consumer is for one thread at a time",
                    "another thread is using it",
                    "wakeup() is for all threads",
                )
            consumer._owner = me
            consumer._depth += 1

        def __exit__(self, *_: object) -> None:
            consumer = self._consumer
            consumer._depth -= 1
            if not consumer._depth:
                consumer._owner = None
