"""The loop of a source task: poll, transform, convert, send, and commit the offsets of what has arrived.
At least once.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.client import Admin, Producer
from headwater.connect.api import OffsetReader, SourceTask, TransactionContext
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.runtime.offsets import ConnectorOffsets
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.sending import Sending
from headwater.connect.runtime.task import TaskId, WorkerTask
from headwater.connect.runtime.tolerance import LogReporter, Tolerance
from headwater.connect.runtime.topic_creation import TopicCreation, is_there

logger = logging.getLogger("headwater.connect")

_FOREVER_MS: Final = (1 << 31) - 1
_POLL_AGAIN_S: Final = 0.1
Settings = Mapping[str, object]


class SourceContext:
    def __init__(
        self,
        task: "SourceWorkerTask",
        reader: OffsetReader,
        config: Mapping[str, str],
        transactions: TransactionContext | None,
    ) -> None:
        self._task, self.offset_reader, self.config = task, reader, config
        self.transaction_context = transactions

    @property
    def stopping(self) -> bool:
        return self._task.stopping.is_set()

    def request_commit(self) -> None:
        self._task.commit_requested = True

    def spark(self) -> Any:
        return self._task.use_spark()


class _StopOnce:
    """A plugin's `stop`, called once, by whichever thread comes first. A coroutine runs in the task's own loop, beside
    a poll.
    """

    def __init__(self, stop: Callable[[], Any]) -> None:
        self._stop = stop
        self._first = threading.Lock()
        self._returned = threading.Event()
        self._result: Any = None
        self._future: asyncio.Future[Any] | None = None

    def __call__(self) -> bool:
        """Whether it goes on in the task's loop."""
        if self._first.acquire(blocking=False):
            try:
                self._result = self._stop()
            finally:
                self._returned.set()
        return inspect.isawaitable(self._result)

    def in_loop(self) -> asyncio.Future[Any]:
        """By the loop."""
        if self._future is None:
            self._future = asyncio.ensure_future(self._result)
        return self._future

    def finish(self) -> Any:
        """By the task's thread, at the end; what is left to be awaited, if anything is."""
        self()
        self._returned.wait()

        async def rest() -> None:
            await self.in_loop()

        return rest() if inspect.isawaitable(self._result) else None


class SourceWorkerTask(WorkerTask):
    arrived_is_done = True  # nothing undoes a record that is in Kafka: the plugin may be told of it
    transaction_context: TransactionContext | None = None
    commit_requested = False  # by the plugin

    def __init__(
        self,
        task_id: TaskId,
        make_task: Callable[[], SourceTask],
        make_pipeline: Callable[[], Pipeline],
        props: Mapping[str, str],
        config: dict[str, Any],
        offsets: ConnectorOffsets,
        producer_settings: Settings,
        admin_settings: Settings,
        *,
        flush_interval_s: float,
        flush_timeout_s: float,
        topic_creation: bool,
        on_topic: Callable[[str], None],
        secrets: frozenset[str] = frozenset(),
        paused: bool = False,
    ) -> None:
        super().__init__(task_id, restart=config["errors.restart"], secrets=secrets, paused=paused)
        self._make_task, self._make_pipeline, self._props, self._config = make_task, make_pipeline, props, config
        self._offsets = offsets
        self._producer_settings = {
            "delivery.timeout.ms": _FOREVER_MS,
            "client.id": f"connector-producer-{task_id}",
        } | dict(producer_settings)
        self._admin_settings = admin_settings
        self._flush_interval_s, self._flush_timeout_s = flush_interval_s, flush_timeout_s
        self._creation = TopicCreation(props, config["topic.creation.groups"]) if topic_creation else None
        self._on_topic = on_topic
        self._stop: _StopOnce | None = None
        self._producer: Producer | None = None

    def begin_stop(self) -> None:
        """`stop` is called at once, for it is what ends a poll; in a thread of its own, for nobody knows how long it
        takes.
        """
        super().begin_stop()
        stop = self._stop
        if stop is not None:
            threading.Thread(
                target=self.quietly, args=(self._call_stop, stop), name=f"connect-stop-{self.id}", daemon=True
            ).start()

    def _call_stop(self, stop: _StopOnce) -> None:
        if stop():
            self.in_loop(stop.in_loop)

    def cancel(self) -> None:
        super().cancel()
        producer = self._producer
        if producer is not None:
            producer.close(0)  # a send that waits for room ends by that too

    def work(self) -> None:
        task = self._make_task()
        task.context = SourceContext(self, self._offsets, self._props, self.transaction_context)
        pipeline = self._make_pipeline()
        reporters = []
        if self._config["errors.log.enable"]:
            with_messages = self._config["errors.log.include.messages"]
            reporters.append(LogReporter(*self.id, with_messages, self.redact, self.metrics))
        tolerance = Tolerance(
            self._config, reporters, lambda: time.monotonic_ns() // 1_000_000, self.sleep, self.metrics
        )
        sending = Sending(self, task, pipeline, tolerance)
        self.metrics.fold = sending.count_arrived
        stop, was_begun = _StopOnce(task.stop), False
        try:
            self._producer = sending.producer = Producer(self._producer_settings)
            try:
                self._begin(sending.producer)
                was_begun = True
                self.call(task.start, self._props)
                self._stop = stop
                self.running()
                self._loop(task, sending, tolerance)
            finally:
                sending.producer.close(0)  # what was to be waited for is flushed by now
        finally:
            self._stop = self._producer = None
            sending.count_arrived()
            self.quietly(pipeline.close)
            if was_begun:  # what was never to start has nothing to stop
                self.quietly(stop.finish)
                self.quietly(task.close)

    def _begin(self, producer: Producer) -> None:
        """Before the plugin's task starts, and reads its offsets."""

    def _loop(self, task: SourceTask, sending: Sending, tolerance: Tolerance) -> None:
        next_commit = time.monotonic() + self._flush_interval_s
        try:
            while not self.stopping.is_set():
                sending.count_arrived()
                if time.monotonic() >= next_commit or self.commit_requested:
                    self._wait_if_requested(sending)
                    sending.check()
                    self._commit(task, sending)
                    next_commit = time.monotonic() + self._flush_interval_s
                self.wait_while_paused()
                if self.paused:
                    continue
                sending.check()
                sending.tell_arrived()  # a poll may give nothing until it knows that the last one's have arrived
                records = self._poll(task, tolerance)
                if not sending.send_all(records or ()):
                    return
        finally:
            if not self.cancelled:
                sending.flush(self._flush_timeout_s)
                self._commit(task, sending)
        sending.check()

    def _wait_if_requested(self, sending: Sending) -> None:
        requested, self.commit_requested = self.commit_requested, False
        if requested:
            sending.flush(self._flush_timeout_s)

    def _poll(self, task: SourceTask, tolerance: Tolerance) -> Iterable[SourceRecord] | None:
        """A poll that asks to be repeated is, after a little."""
        del tolerance
        began_ms = self.metrics.now_ms()
        try:
            records: Iterable[SourceRecord] | None = self.call(task.poll)
        except RetriableError as error:
            logger.warning("event=poll-retried connector=%r task=%d error=%r", *self.id, self.redact(str(error)))
            self.sleep(_POLL_AGAIN_S * 10)
            return None
        if records is None:
            return None
        taken_ms = self.metrics.now_ms() - began_ms
        if not isinstance(records, Sized):
            return self._counted(records, taken_ms)
        if len(records):
            self.metrics.polled(len(records), taken_ms)
        return records

    def _counted(self, records: Iterable[SourceRecord], taken_ms: float) -> Iterator[SourceRecord]:
        """Of a poll that says how much it gives by giving it."""
        count = 0
        try:
            for record in records:
                count += 1
                yield record
        finally:
            if count:
                self.metrics.polled(count, taken_ms)

    def _commit(self, task: SourceTask, sending: Sending) -> None:
        """Offsets that brokers do not take now are written with the next ones."""
        sending.tell_arrived()
        offsets = sending.committable()
        with self.committing:
            if not offsets or self.cancelled:
                return
            try:
                with self.timed_commit():
                    self._offsets.write(offsets)
            except RetriableError as error:
                logger.warning("event=offsets-not-written connector=%r task=%d error=%r", *self.id, str(error))
                return
        sending.unwritten.clear()
        self.call(task.commit)

    def make_topic(self, topic: str) -> None:
        """Before its first record, where the connector says how topics are made."""
        self._on_topic(topic)
        wanted = self._creation.new_topic(topic) if self._creation is not None and self._creation.wanted else None
        if wanted is None:
            return
        with Admin(self._admin_settings) as admin:
            for outcome in admin.create_topics([wanted]).values():
                if isinstance(outcome, KafkaError) and not is_there(admin, topic, outcome):
                    raise ConnectError(f"Cannot make the topic {topic!r}: {outcome}")
