"""Records out of a source task's hands, until they have arrived: transformed, converted, sent one by one or by runs."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Producer
from headwater.connect.api import SourceTask
from headwater.connect.data.record import ConnectRecord, SourceRecord
from headwater.connect.data.runs import RUN_RECORDS_MIN, SourceRun, source_runs, transformed_runs
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.offsets import key_of
from headwater.connect.runtime.pipeline import Pipeline, class_name
from headwater.connect.runtime.submitted import Submitted, SubmittedRecords
from headwater.connect.runtime.tolerance import Failure, Skipped, Stage, Tolerance

if TYPE_CHECKING:
    from headwater.client.producer.arrow import TableDelivery
    from headwater.connect.runtime.source import SourceWorkerTask

logger = logging.getLogger("headwater.connect")

_LARGE_BYTES: Final = 64 * 1024  # a record of that size goes by itself: a run has nothing to gain with it
_PRODUCER: Final = "headwater.client.Producer"
# Raised by `send`, for what is wrong with the record alone: as if it could not be delivered.
_OF_THE_RECORD: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TOPIC_EXCEPTION)
_UNTOLD_MAX: Final = 1000  # arrivals, before a plugin is told in the middle of what a poll gives


class Sending:
    """One run of a task."""

    def __init__(self, worker: "SourceWorkerTask", task: SourceTask, pipeline: Pipeline, tolerance: Tolerance) -> None:
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
                if self._worker.arrived_is_done and len(self._outcomes) >= _UNTOLD_MAX:
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
