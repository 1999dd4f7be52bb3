"""The loop of a source task: poll, transform, convert, send, and commit the offsets of what has arrived.
At least once.
"""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, Final, cast

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Admin, Producer
from headwater.connect.api import OffsetReader, SourceTask, TransactionContext
from headwater.connect.data.record import ConnectRecord, SourceRecord
from headwater.connect.data.runs import RUN_RECORDS_MIN, SourceRun, source_runs, transformed_runs
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.runtime.offsets import ConnectorOffsets, key_of
from headwater.connect.runtime.pipeline import Pipeline, class_name
from headwater.connect.runtime.submitted import Submitted, SubmittedRecords
from headwater.connect.runtime.task import TaskId, WorkerTask
from headwater.connect.runtime.tolerance import Failure, LogReporter, Skipped, Stage, Tolerance
from headwater.connect.runtime.topic_creation import TopicCreation, is_there

if TYPE_CHECKING:
    from headwater.client.producer.arrow import TableDelivery

logger = logging.getLogger("headwater.connect")

_FOREVER_MS: Final = (1 << 31) - 1
_POLL_AGAIN_S: Final = 0.1
_LARGE_BYTES: Final = 64 * 1024  # a record of that size goes by itself: a run has nothing to gain with it
_PRODUCER: Final = "headwater.client.Producer"
# Raised by `send`, for what is wrong with the record alone: as if it could not be delivered.
_OF_THE_RECORD: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TOPIC_EXCEPTION)
_UNTOLD_MAX: Final = 1000  # arrivals, before a plugin is told in the middle of what a poll gives
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

    def _loop(self, task: SourceTask, sending: "Sending", tolerance: Tolerance) -> None:
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
                records = self._poll(task, tolerance)
                if not sending.send_all(records or ()):
                    return
        finally:
            if not self.cancelled:
                sending.flush(self._flush_timeout_s)
                self._commit(task, sending)
        sending.check()

    def _wait_if_requested(self, sending: "Sending") -> None:
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

    def _commit(self, task: SourceTask, sending: "Sending") -> None:
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


class Sending:
    """Records out of the task's hands, until they have arrived."""

    def __init__(self, worker: SourceWorkerTask, task: SourceTask, pipeline: Pipeline, tolerance: Tolerance) -> None:
        self._worker, self._task, self._pipeline, self._tolerance = worker, task, pipeline, tolerance
        self.submitted = SubmittedRecords()
        self.unwritten: dict[bytes, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}  # offsets, by their partitions
        self.producer: Producer
        self._topics: set[str] = set()
        self._outcomes: deque[tuple[SourceRecord, Any]] = deque()  # appended by the producer's threads
        self._failure: BaseException | None = None
        # counts, each changed by one thread: the producer's, which calls back, and the task's
        self._delivered = self._undelivered_and_tolerated = self._dropped = 0
        self._delivered_in_runs = 0  # by either, and so with the lock
        self._counting = threading.Lock()
        self._told_of = 0, 0
        self._tells = type(task).commit_record is not SourceTask.commit_record
        # one by one where the plugin is told of each, or one may fail and the others not
        self._takes_runs = pipeline.is_pure and not self._tells and not tolerance.tolerant
        self._names = [class_name(each) for each in (pipeline.key, pipeline.value, pipeline.header)]

    def send_all(self, records: Iterable[SourceRecord], begin: Callable[[], None] = lambda: None) -> bool:
        """What a poll gave, by runs where that comes to the same, after `begin`, which is called before each. False:
        the task was given up before the end.
        """
        for piece, run, is_dropped in self._pieces(records):
            if self._given_up():
                return False
            if run is not None and self._send_run(run, begin):
                continue
            for record in piece:
                if self._given_up():
                    return False
                begin()
                if is_dropped:
                    self._drop(self.submitted.submit(record.source_partition, record.source_offset), record)
                else:
                    self.send(record)
                if len(self._outcomes) >= _UNTOLD_MAX:
                    self.tell_arrived()
        return True

    def _pieces(
        self, records: Iterable[SourceRecord]
    ) -> Iterator[tuple[Iterable[SourceRecord], SourceRun | None, bool]]:
        """Records as they came, with the run that transforms made of them; or whether they were dropped."""
        is_long = isinstance(records, Sequence) and len(records) >= RUN_RECORDS_MIN
        if not (is_long and self._takes_runs and self.producer.takes_many):
            yield records, None, False
            return
        given = cast("Sequence[SourceRecord]", records)
        if self._pipeline.steps:
            try:
                made = self._pipeline.transform_run(given)
            except Exception:  # noqa: BLE001 - which one it was is found, tried again and told one by one
                yield records, None, False
                return
            yield from transformed_runs(given, made)
        else:
            for piece in source_runs(given):
                yield piece, piece if isinstance(piece, SourceRun) else None, False

    def _given_up(self) -> bool:
        return self._worker.cancelled

    def _send_run(self, run: SourceRun, begin: Callable[[], None]) -> bool:
        """Whether it could be sent as one. Where converting fails, its records go one by one: so it is known which of
        them is at fault, and what is tried again.
        """
        self.check()
        encoded = self._encoded_run(run)
        if encoded is None:
            return False
        keys, values = encoded
        begin()
        self._ensure_topic(run.topic)
        on_the_way = self.submitted.submit(run.source_partition, run.newest_offset)
        times = run.timestamps_ms
        if isinstance(times, Sequence):
            now_ms = time.time_ns() // 1_000_000
            times = [now_ms if each is None else each for each in times]
        delivery = self.producer.send_many(
            run.topic, values, keys=keys, partition=run.partition, timestamps_ms=cast("int | list[int] | None", times)
        )
        delivery.add_done_callback(lambda done: self._run_is_done(on_the_way, len(run), done))
        return True

    def _encoded_run(self, run: SourceRun) -> tuple[list[bytes] | None, list[bytes]] | None:
        """Keys, if there are any, and values; None unless all are there and none is large."""
        key, value = self._pipeline.key, self._pipeline.value
        try:
            keys = key.from_connect_run(run.topic, run.key_schema, [None] if run.keys is None else run.keys)
            values = value.from_connect_run(run.topic, run.value_schema, run.values)
        except Exception:  # noqa: BLE001
            return None
        if None in values or max(len(each) for each in values if each is not None) > _LARGE_BYTES:
            return None
        if run.keys is None:
            keys *= len(run)
        has_keys = keys[0] is not None
        if any((each is not None) != has_keys for each in keys):
            return None
        return (cast("list[bytes]", keys) if has_keys else None), cast("list[bytes]", values)

    def _run_is_done(self, on_the_way: Submitted | None, records: int, delivery: "TableDelivery") -> None:
        error = delivery.exception(0)
        if error is None:
            with self._counting:
                self._delivered_in_runs += records
            if on_the_way is not None:
                on_the_way.arrived = True
        elif self._failure is None:
            self._tolerance.give_up(Failure(Stage.KAFKA_PRODUCE, _PRODUCER, error, None, 1))
            self._failure = error

    def _ensure_topic(self, topic: str) -> None:
        if topic not in self._topics:
            self._worker.make_topic(topic)
            self._topics.add(topic)

    def send(self, record: SourceRecord) -> None:
        self.check()  # what a poll gives may be long: nothing more after a record that is lost
        on_the_way = self.submitted.submit(record.source_partition, record.source_offset)
        try:
            changed = self._pipeline.transform(record, record, self._tolerance)
            if changed is None:
                self._drop(on_the_way, record)
                return
            key, value, headers = self._converted(changed, record)
        except Skipped:
            self._drop(on_the_way, record)
            return
        self._ensure_topic(changed.topic)

        def delivered(error: BaseException | None, metadata: Any) -> None:
            if error is not None:
                self._undelivered(on_the_way, record, error)
            else:
                self._delivered += 1
                self._done(on_the_way, record, metadata)

        try:
            self.producer.send(
                changed.topic,
                value,
                key=key,
                partition=changed.partition,
                headers=headers,
                timestamp_ms=changed.timestamp_ms,
                on_delivery=delivered,
            )
        except KafkaError as error:
            if error.code not in _OF_THE_RECORD:
                raise
            self._undelivered(on_the_way, record, error)
            self.check()

    def _converted(self, record: ConnectRecord, original: SourceRecord) -> tuple[bytes | None, bytes | None, list[Any]]:
        run, pipe, topic = self._tolerance.run, self._pipeline, record.topic
        key_name, value_name, header_name = self._names
        headers = run(
            Stage.HEADER_CONVERTER,
            header_name,
            original,
            lambda: [(each.key, pipe.header.from_connect(topic, each.schema, each.value)) for each in record.headers],
        )
        key = run(
            Stage.KEY_CONVERTER, key_name, original, lambda: pipe.key.from_connect(topic, record.key_schema, record.key)
        )
        value = run(
            Stage.VALUE_CONVERTER,
            value_name,
            original,
            lambda: pipe.value.from_connect(topic, record.value_schema, record.value),
        )
        return key, value, headers

    def _drop(self, on_the_way: Submitted | None, record: SourceRecord) -> None:
        self._dropped += 1
        self._done(on_the_way, record, None)

    def _done(self, on_the_way: Submitted | None, record: SourceRecord, metadata: Any) -> None:
        if on_the_way is not None:
            on_the_way.arrived = True
        if self._tells:
            self._outcomes.append((record, metadata))

    def _undelivered(self, on_the_way: Submitted | None, record: SourceRecord, error: BaseException) -> None:
        if self._failure is not None:
            return
        given_up = self._tolerance.give_up(Failure(Stage.KAFKA_PRODUCE, _PRODUCER, error, record, 1))
        if isinstance(given_up, Skipped):
            self._undelivered_and_tolerated += 1
            self._done(on_the_way, record, None)
        else:
            self._failure = error

    def check(self) -> None:
        if self._failure is not None:
            raise ConnectError(f"A record could not be delivered: {self._failure}") from self._failure

    @property
    def arrived(self) -> int:
        """Records that are in Kafka."""
        return self._delivered + self._delivered_in_runs

    def committable(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        """With those that were given and not written."""
        self.unwritten |= {key_of("", each[0]): each for each in self.submitted.committable()}
        return list(self.unwritten.values())

    def count_arrived(self) -> None:
        """What has arrived since the last time, to the task's metrics."""
        with self._counting:  # who looks at the metrics may come at the same time as the task
            now = self.arrived, self._dropped + self._undelivered_and_tolerated
            before, self._told_of = self._told_of, now
        arrived, passed_over = now[0] - before[0], now[1] - before[1]
        if arrived or passed_over:
            self._worker.metrics.written(arrived, passed_over)

    def tell_arrived(self) -> None:
        while self._outcomes:
            record, metadata = self._outcomes.popleft()
            self._worker.call(self._task.commit_record, record, metadata)

    def flush(self, timeout_s: float) -> None:
        try:
            self.producer.flush(timeout_s)
        except (TimeoutError, KafkaError):
            logger.warning(
                "event=flush-timed-out connector=%r task=%d waiting=%d", *self._worker.id, self.submitted.waiting
            )
