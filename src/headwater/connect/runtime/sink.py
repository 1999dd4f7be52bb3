"""The loop of a sink task: a member of the group `connect-<name>` that converts, transforms and puts, and commits what
is safe.

At least once: offsets are committed after `pre_commit` has said that they may be. A put that is tried again goes on
polling, to stay in the group: while it waits, no partition gives records, those that a rebalance brings included, and a
partition that was taken away meanwhile has nothing to do with the batch any more, even if it came back: its next owner
reads from the commit.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import Consumer, ConsumerRecord, WakeupError
from headwater.client.errors import passes
from headwater.connect.api import Offsets, SinkTask
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.java_regex import compile_java
from headwater.connect.metrics.names import SINK
from headwater.connect.runtime.dead_letters import DeadLetters
from headwater.connect.runtime.pipeline import Pipeline, class_name
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.task import TaskId, WorkerTask
from headwater.connect.runtime.tolerance import Failure, LogReporter, Reporter, Skipped, Stage, Tolerance

logger = logging.getLogger("headwater.connect")

_POLL_S: Final = 0.5
_MATCH_EVERY_S: Final = 5.0
_RETRY_FIRST_MS: Final = 250
_RETRY_MAX_MS: Final = 30_000
Settings = Mapping[str, object]


class SinkContext:
    """What a sink task may ask of its worker; used by the task's thread alone."""

    def __init__(self, worker: "SinkWorkerTask", config: Mapping[str, str]) -> None:
        self._worker, self.config = worker, config
        self.seeks: dict[TopicPartition, int] = {}
        self.timeout_ms: int | None = None
        self.commit_requested = False
        self.held: set[TopicPartition] = set()

    def assignment(self) -> set[TopicPartition]:
        return set(self._worker.consumer.assignment())

    def offset(self, offsets: Offsets) -> None:
        self.seeks.update(offsets)

    def timeout(self, milliseconds: int) -> None:
        self.timeout_ms = milliseconds

    def pause(self, *partitions: TopicPartition) -> None:
        self.held.update(partitions)
        self._worker.consumer.pause(*partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """At once, or when the connector is resumed and a put that waits has ended."""
        self.held.difference_update(partitions)
        if self._worker.reads:
            self._worker.consumer.resume(*partitions)

    def request_commit(self) -> None:
        self.commit_requested = True

    def report(self, record: SinkRecord, error: Exception) -> None:
        self._worker.report(record, error)

    def flush_reports(self) -> None:
        self._worker.flush_reports()


class SinkWorkerTask(WorkerTask):
    kind = SINK

    def __init__(
        self,
        task_id: TaskId,
        make_task: Callable[[], SinkTask],
        make_pipeline: Callable[[], Pipeline],
        props: Mapping[str, str],
        config: dict[str, Any],
        consumer_settings: Settings,
        producer_settings: Settings,
        admin_settings: Settings,
        *,
        flush_interval_s: float,
        on_topic: Callable[[str], None],
        secrets: frozenset[str] = frozenset(),
        paused: bool = False,
    ) -> None:
        super().__init__(task_id, restart=config["errors.restart"], secrets=secrets, paused=paused)
        self._make_task, self._make_pipeline, self._props, self._config = make_task, make_pipeline, props, config
        self._consumer_settings = {
            "group.id": f"connect-{task_id.connector}",
            "client.id": f"connector-consumer-{task_id}",
            "auto.offset.reset": "earliest",
            # A topic that a pattern has found is not made again when it is deleted.
            **({"allow.auto.create.topics": "false"} if config["topics.regex"] else {}),
        } | dict(consumer_settings) | {"enable.auto.commit": "false"}  # fmt: skip
        self._producer_settings, self._admin_settings = producer_settings, admin_settings
        self._flush_interval_s = flush_interval_s
        self._on_topic = on_topic
        self._dead: DeadLetters | None = None
        self.consumer: Consumer
        self._consuming: Consumer | None = None

    @property
    def reads(self) -> bool:
        """Whether partitions may give records now."""
        return not (self.paused or self._waiting)

    def wake(self) -> None:
        super().wake()
        consumer = self._consuming
        if consumer is not None:
            consumer.wakeup()

    def work(self) -> None:
        self._task = task = self._make_task()
        self._pipeline = pipeline = self._make_pipeline()
        self._context = task.context = SinkContext(self, self._props)
        self._current: dict[TopicPartition, int] = {}  # the next offset of each partition, of all that was put
        self._committed: dict[TopicPartition, int] = {}
        self._covered: dict[TopicPartition, int] = {}  # below it nothing is open: for the metrics
        self._owned: set[TopicPartition] = set()
        self._batch: Sequence[SinkRecord] = []
        self._waiting = False  # a put is to be tried again: nothing may be read
        self._letter_lost: ConnectError | None = None
        self._gone: set[TopicPartition] = set()  # taken away since the batch was read
        self._topics_seen: set[str] = set()
        self._subscribed: list[str] = []
        self._match_again_at = float("inf")
        try:
            self._tolerance = self._make_tolerance()
            with Consumer(self._consumer_settings) as self.consumer:
                self.call(task.start, self._props)
                self._conversion = SinkConversion(pipeline, self._tolerance, columns=task.takes_columns)
                self._consuming = self.consumer
                self._subscribe()
                self.running()
                try:
                    self._loop()
                finally:
                    self._consuming = None
        finally:
            self.quietly(pipeline.close)
            dead, self._dead = self._dead, None
            if dead is not None:
                self.quietly(dead.close)
            self.quietly(task.stop)

    def _make_tolerance(self) -> Tolerance:
        reporters: list[Reporter] = []
        if self._config["errors.log.enable"]:
            with_messages = self._config["errors.log.include.messages"]
            reporters.append(LogReporter(*self.id, with_messages, self.redact, self.metrics))
        if self._config["errors.deadletterqueue.topic.name"]:
            self._dead = DeadLetters(
                self.id, self._config, self._producer_settings, self._admin_settings, self.redact, self.metrics
            )
            reporters.append(self._dead)
        return Tolerance(self._config, reporters, lambda: time.monotonic_ns() // 1_000_000, self.sleep, self.metrics)

    # The loop

    def _subscribe(self) -> None:
        """Patterns are matched here, by RE2, and again now and then: a topic may come later."""
        topics: list[str] = self._config["topics"]
        if self._config["topics.regex"]:
            pattern = compile_java(self._config["topics.regex"])
            try:
                there = self.consumer.list_topics()
            except KafkaError as error:
                if not passes(error):
                    raise
                logger.warning("event=topics-not-listed connector=%r task=%d error=%r", *self.id, str(error))
                there = {}
            topics = sorted(name for name in there if pattern.fullmatch(name) is not None)
            self._match_again_at = time.monotonic() + _MATCH_EVERY_S
        if topics and topics != self._subscribed:
            self.consumer.subscribe(topics, on_assigned=self._assigned, on_revoked=self._revoked, on_lost=self._lost)
            self._subscribed = topics

    def _loop(self) -> None:
        next_commit = time.monotonic() + self._flush_interval_s
        held = False
        while not self.stopping.is_set():
            if time.monotonic() >= next_commit or self._context.commit_requested:
                try:
                    self._commit(self._current)
                except RetriableError as error:
                    self._rewind(error)
                next_commit = time.monotonic() + self._flush_interval_s
            if self.paused != held:
                held = self._hold() if self.paused else self._let_go()
            self.running()
            self._seek()
            if time.monotonic() >= self._match_again_at:
                self._subscribe()
            if not self._subscribed:
                self.sleep(_POLL_S)
                continue
            try:
                records = self.consumer.poll(max(0.0, min(_POLL_S, next_commit - time.monotonic())))
            except WakeupError:
                continue
            self._take(records)

    def _hold(self) -> bool:
        self.consumer.pause(*self.consumer.assignment())
        return True

    def _let_go(self) -> bool:
        self.consumer.resume(*(each for each in self.consumer.assignment() if each not in self._context.held))
        return False

    def _seek(self) -> None:
        seeks, self._context.seeks = self._context.seeks, {}
        for partition, offset in seeks.items():
            self.consumer.seek(partition, offset)
            self._current[partition] = offset

    def _take(self, records: list[ConsumerRecord]) -> None:
        self._gone.clear()
        if records:
            self.metrics.read(len(records))
        self._tell_topics(records)
        run = self._conversion.sink_run(records)
        self._batch = run if run is not None else self._converted(records)
        self.flush_reports()  # a task that keeps offsets of its own is past these records when its put returns
        if self._put():
            newest = {(record[0], record[1]): record.offset for record in records}
            for place, offset in newest.items():
                partition = TopicPartition(*place)
                if partition not in self._gone:
                    if partition not in self._covered:
                        first = next(each.offset for each in records if (each[0], each[1]) == place)
                        self._covered[partition] = first
                    self._current[partition] = offset + 1
            if records:
                self._count_active()
        self._batch = []

    def _put(self) -> bool:
        """The same records again and again, while the task asks for that; False if the task is to stop before."""
        attempts = 0
        while True:
            began_ms = self.metrics.now_ms()
            try:
                self.call(self._task.put, self._batch)
                if self._batch:
                    self.metrics.put(len(self._batch), self.metrics.now_ms() - began_ms)
                return True
            except RetriableError as error:
                attempts += 1
                given, self._context.timeout_ms = self._context.timeout_ms, None
                delay_ms = given if given is not None else min(_RETRY_FIRST_MS << min(attempts - 1, 10), _RETRY_MAX_MS)
                logger.warning("event=put-retried connector=%r task=%d error=%r", *self.id, self.redact(str(error)))
                if self._wait_in_group(delay_ms / 1000):
                    return False

    def _wait_in_group(self, seconds: float) -> bool:
        """Waits with everything paused, as a member that polls. True: stop. What was taken away leaves the batch."""
        self._waiting = True
        self.consumer.pause(*self.consumer.assignment())
        until = time.monotonic() + seconds
        try:
            while (left := until - time.monotonic()) > 0 and not self.stopping.is_set():
                try:
                    self._unread(self.consumer.poll(min(left, _POLL_S)))
                except WakeupError:
                    continue
        finally:
            self._waiting = False
        if not self.paused:
            self._let_go()
        self._batch = [
            each
            for each in self._batch
            if TopicPartition(each.original_topic, each.original_partition) not in self._gone
        ]
        return self.stopping.is_set()

    def _unread(self, records: list[ConsumerRecord]) -> None:
        """What came in spite of the pause is read again later."""
        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
        for partition, offset in first.items():
            self.consumer.seek(partition, offset)

    # Records

    def _tell_topics(self, records: list[ConsumerRecord]) -> None:
        for topic in {record[0] for record in records} - self._topics_seen:
            self._topics_seen.add(topic)
            self._on_topic(topic)

    def _converted(self, records: list[ConsumerRecord]) -> list[SinkRecord]:
        return [made for record in records if (made := self._conversion.sink_record(record)) is not None]

    def report(self, record: SinkRecord, error: Exception) -> None:
        """What `context.report` does, of a record of any put: raised unless errors are tolerated."""
        original = record.original or self._pipeline.consumer_record(record)
        failure = Failure(Stage.TASK_PUT, class_name(self._task), error, original, 1)
        given_up = self._tolerance.give_up(failure)
        if not isinstance(given_up, Skipped):
            raise given_up from error

    def flush_reports(self) -> None:
        """Raises from the first dead letter on that is lost: its record is not done, so nothing behind it may be
        committed in this run, also not when partitions are given up.
        """
        if self._letter_lost is not None:
            raise self._letter_lost
        if self._dead is not None:
            try:
                self._dead.flush()
            except ConnectError as lost:
                self._letter_lost = lost
                raise

    # Partitions and commits

    def _assigned(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self._current.pop(partition, None)
        self._owned.update(partitions)
        self.metrics.partitions(len(self._owned))
        held = self._context.held
        held.intersection_update(self.consumer.assignment())  # of what is another's by now, the task has paused nothing
        self.consumer.pause(*held)
        self.call(self._task.open, partitions)
        if (self.paused or self._waiting) and partitions:
            self.consumer.pause(*partitions)
        self._seek()  # at once: this poll may give records of them

    def _revoked(self, partitions: list[TopicPartition]) -> None:
        offsets = {each: self._current[each] for each in partitions if each in self._current}
        try:
            self._commit(offsets)
        except Exception as error:  # noqa: BLE001 - whatever the task raises: the next owner reads from the commit before
            logger.warning("event=commit-failed connector=%r task=%d error=%r", *self.id, self.redact(str(error)))
        self._lost(partitions)

    def _lost(self, partitions: list[TopicPartition]) -> None:
        self._gone.update(partitions)
        self.call(self._task.close, partitions)
        for partition in partitions:
            for offsets in (self._current, self._committed, self._covered):
                offsets.pop(partition, None)
        self._owned.difference_update(partitions)
        self.metrics.partitions(len(self._owned))
        self._count_active()

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._context.commit_requested = False
        if not offsets or self.cancelled:
            return
        allowed: Offsets = self.call(self._task.pre_commit, dict(offsets)) or {}
        news = {
            partition: offset
            for partition, offset in allowed.items()
            if partition in offsets and self._committed.get(partition) != offset
        }
        if not news:
            return
        self.flush_reports()  # what is in the dead letter topic may be forgotten here
        try:
            with self.timed_commit():
                self.consumer.commit(news)
            self._committed.update(news)
            self._covered.update(news)
            self._count_active()
        except KafkaError as error:  # the next one has these too, or the partitions are another's by then
            logger.warning("event=commit-failed connector=%r task=%d error=%r", *self.id, str(error))

    def _rewind(self, error: RetriableError) -> None:
        """What was put since the last commit is not safe: it comes again."""
        logger.warning("event=commit-refused connector=%r task=%d error=%r", *self.id, self.redact(str(error)))
        for partition in self._current:
            at = self._covered.get(partition)
            if at is not None:
                self.consumer.seek(partition, at)
                self._current[partition] = at

    def _count_active(self) -> None:
        open_ones = (offset - self._covered.get(place, offset) for place, offset in self._current.items())
        self.metrics.active(sum(max(0, each) for each in open_ones))


def group_of(connector: str) -> str:
    return f"connect-{connector}"
