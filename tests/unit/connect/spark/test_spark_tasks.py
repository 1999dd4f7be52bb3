"""The tasks of SparkSink and SparkSource between Spark's threads and the worker's. Spark is in memory: no JVM."""

import gc
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.connect.api import SparkSinkTask
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connectors.spark.source import SparkSourceTask
from headwater.connect.data import schema as s
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import Interrupted
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import source, spark_session, spark_sink
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.spark_conversion import Conversion
from headwater.connect.runtime.spark_session import WorkerSpark
from headwater.connect.runtime.spark_sink import QueryPlan, SparkSinkWorkerTask
from headwater.connect.runtime.submitted import Submitted
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.worker import TaskSpec, Worker

PATIENCE_S = 60.0
SINK = {"name": "x", "connector.class": "SparkSink", "topics": "t", "value.converter": "JsonConverter"}
PLAN = QueryPlan("/checkpoint", 0, 10, None)


class Sink(SparkSinkTask):
    def start(self, props: Mapping[str, str]) -> None: ...

    def write(self, frame: Any, batch_id: int) -> None: ...


class Stream:
    """A session, a reader, a writer and a query in one. `stop` waits for the query's thread, as the JVM's does."""

    def __init__(self) -> None:
        self.readStream = self.writeStream = self
        self.begun, self.stops = threading.Event(), threading.Event()
        self.outcome: BaseException | None = None
        self._thread: threading.Thread | None = None

    def _self(self, *_arguments: object, **_options: object) -> "Stream":
        return self

    format = options = load = option = trigger = _self
    isActive = True
    lastProgress: Any = None

    def foreachBatch(self, each: Callable[[Any, int], None]) -> "Stream":
        self._each = each
        return self

    def start(self) -> "Stream":
        self.begun.set()
        return self

    def stop(self) -> None:
        """The next batch begins while the query is stopped."""
        self._thread = threading.Thread(target=self._next_batch, daemon=True)
        self._thread.start()
        self._thread.join(PATIENCE_S)
        if not self._thread.is_alive():
            self.stops.set()

    def _next_batch(self) -> None:
        try:
            self._each(None, 1)
        except BaseException as error:  # noqa: BLE001
            self.outcome = error


class Session:
    """The worker's."""

    place = "memory"

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def session(self) -> Any:
        return self._stream


def sink_task(stream: Stream, **more: Any) -> SparkSinkWorkerTask:
    config = connector_def(Catalog(), Kind.SINK).parse(SINK)
    nothing: dict[str, Any] = {"worker": {}, "allowed": ("*",), "secrets": frozenset(), "producer": {}, "admin": {}}
    conversion = Conversion.of(TaskId("x", 0), SINK, config, **nothing)
    made = SparkSinkWorkerTask(
        TaskId("x", 0), Sink, conversion, {}, PLAN, restart=False, on_topic=lambda _topic: None, **more
    )
    made.worker_spark = Session(stream)  # type: ignore[assignment]
    return made


def test_a_batch_that_begins_while_the_query_is_stopped_does_not_wait_for_who_stops_it() -> None:
    stream = Stream()
    task = sink_task(stream)
    task.start()
    assert stream.begun.wait(PATIENCE_S)
    task.begin_stop()
    assert task.join(PATIENCE_S / 2)
    assert stream.stops.is_set()
    assert isinstance(stream.outcome, Interrupted)


@pytest.mark.parametrize(("reset", "expected"), [("latest", [{TopicPartition("t", 0): 7}]), ("earliest", [])])
def test_a_sink_that_begins_at_the_end_is_told_where_that_is_before_its_query_starts(
    monkeypatch: pytest.MonkeyPatch, reset: str, expected: list[object]
) -> None:
    stream, told = Stream(), []

    class Beginning(Sink):
        def begin(self, spark: Any, ends: Callable[[], Any]) -> None:
            assert spark is stream
            assert not stream.begun.is_set()
            told.append(ends())

    monkeypatch.setattr(spark_sink, "ends_of", lambda options: {TopicPartition(options["subscribe"], 0): 7})
    task = sink_task(stream)
    task._make_task, task._consumer = Beginning, {"auto.offset.reset": reset}
    task.start()
    assert stream.begun.wait(PATIENCE_S)
    task.begin_stop()
    assert task.join(PATIENCE_S / 2)
    assert told == expected


def test_what_the_jvm_is_told_of_a_failed_batch_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream()
    task = sink_task(stream, secrets=frozenset({"geheim"}))

    def fails(*_arguments: object) -> None:
        raise ValueError("cannot log in with geheim")

    monkeypatch.setattr(task, "_write", fails)
    task._started(stream, Sink(), {})  # type: ignore[arg-type]
    stream._next_batch()
    assert "cannot log in with" in str(stream.outcome)
    assert "geheim" not in str(stream.outcome)


class Batch:
    """A frame whose conversion comes to these rows: topic, columns, rows and counts of each group."""

    def __init__(self, *groups: tuple[str | None, bytes | None, int, list[str]]) -> None:
        names = ("topic", "columns", "sum(rows)", "collect_list(counts)")
        self._rows = [dict(zip(names, group, strict=True)) for group in groups]

    def _self(self, *_arguments: object, **_options: object) -> "Batch":
        return self

    mapInArrow = persist = groupBy = agg = unpersist = _self

    def collect(self) -> list[dict[str, Any]]:
        return self._rows


def sink_values(task: SparkSinkWorkerTask) -> dict[str, float]:
    found = task.metrics.values()
    return {name: value for group in found.values() for name, value in group.items() if "rate" not in name}


def test_metrics_of_a_sink_are_those_of_kafka_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, task = Stream(), sink_task(Stream())
    monkeypatch.setattr(spark_sink, "frame_of", lambda *_arguments: None)
    task._query = task._started(stream, Sink(), {})  # type: ignore[arg-type]
    counted = json.dumps({"read": 5, "total-record-failures": 1, "total-records-skipped": 1, "last-error-timestamp": 7})
    batch = Batch(("t", b"x", 3, []), ("t", b"y", 1, []), (None, None, 0, [counted, json.dumps({"read": 2})]))

    stream._each(batch, 4)
    found = sink_values(task)
    assert (found["sink-record-read-total"], found["sink-record-send-total"]) == (7, 4)
    assert found["batch-size-max"] == 7
    assert found["sink-record-active-count"] == 7  # not in the checkpoint
    assert (found["total-records-skipped"], found["last-error-timestamp"]) == (1, 7)
    assert found["offset-commit-completion-total"] == 0
    task._look_for_commit()
    stream.lastProgress = progress(3)  # of the batch before it
    task._look_for_commit()
    assert sink_values(task)["offset-commit-completion-total"] == 0

    stream.lastProgress = progress(4)
    task._look_for_commit()
    task._look_for_commit()
    found = sink_values(task)
    assert found["sink-record-active-count"] == 0
    assert (found["offset-commit-completion-total"], found["offset-commit-seq-no"]) == (1, 1)
    assert (found["offset-commit-max-time-ms"], found["offset-commit-success-percentage"]) == (21, 1)
    assert found["partition-count"] == 3

    stream._each(batch, 5)
    stream.lastProgress = progress(5)
    stream._each(batch, 6)  # nobody looked between the two
    assert sink_values(task)["offset-commit-completion-total"] == 2
    task._commit_failed()
    assert sink_values(task)["offset-commit-seq-no"] == 3
    assert sink_values(task)["offset-commit-failure-percentage"] == pytest.approx(1 / 3)


def test_a_jvm_that_tells_nothing_of_its_progress_fails_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Stream):
        @property
        def lastProgress(self) -> Any:
            raise OSError("the gateway is closed")

    stream, task = Silent(), sink_task(Stream())
    monkeypatch.setattr(spark_sink, "frame_of", lambda *_arguments: None)
    task._query = task._started(stream, Sink(), {})  # type: ignore[arg-type]
    for number in (0, 1):
        stream._each(Batch(("t", b"x", 3, [])), number)
    task._look_for_commit()
    assert sink_values(task)["sink-record-send-total"] == 6


def progress(batch: int) -> dict[str, Any]:
    """What PySpark makes of Spark's progress."""
    sources = [{"endOffset": '{"t": {"0": 3, "1": 9}, "u": {"0": 1}}'}]
    return {"batchId": batch, "durationMs": {"addBatch": 300, "commitOffsets": 21}, "sources": sources}


# The source


class Rows(SparkSourceTask):
    """Its batches are lists of rows; the rest is the connector's."""

    def _started(self) -> Any:
        self._schema, self._value = s.INT64, lambda row: row["id"]
        self._key_schema, self._key = None, lambda _row: None
        return None

    def _rows(self, frame: Any) -> Iterator[dict[str, Any]]:
        for number in frame:
            yield {"id": number}


class SlowProducer:
    """Keeps each delivery until it is released, or fails the one named."""

    def __init__(self, fails: bytes = b"") -> None:
        self._fails = fails
        self.held: dict[bytes, Callable[..., None]] = {}
        self.sent = threading.Semaphore(0)
        self.late: set[bytes] = set()

    def __call__(self, _settings: object) -> "SlowProducer":
        return self

    def send(self, _topic: str, value: bytes, *, on_delivery: Callable[..., None], **_rest: object) -> None:
        if value == self._fails:
            on_delivery(KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large"), None)
        elif value in self.late:
            self.held[value] = on_delivery
        else:
            on_delivery(None, None)
        self.sent.release()

    def flush(self, _timeout: float) -> None: ...

    def close(self, _timeout: float | None = None) -> None: ...


SOURCE = {
    "name": "c", "connector.class": "SparkSource", "errors.restart": "false", "format": "rate", "topic": "t",
    "checkpoint.location": "/c",
}  # fmt: skip
WORKER = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


def running(task: SparkSourceTask, offsets: ConnectorOffsets) -> SourceWorkerTask:
    """It has started."""
    catalog = Catalog()
    config = connector_def(catalog, Kind.SOURCE).parse(SOURCE)
    made = SourceWorkerTask(
        TaskId("c", 0), lambda: task, lambda: Pipeline(catalog, SOURCE, config, WORKER), SOURCE, config, offsets, {}, {},
        flush_interval_s=0.0, flush_timeout_s=1.0, topic_creation=False, on_topic=lambda _topic: None,
    )  # fmt: skip
    made.worker_spark = Session(object())  # type: ignore[assignment]
    runs = threading.Event()
    made.on_state = lambda _task: runs.set()
    made.start()
    assert runs.wait(PATIENCE_S)
    return made


def given(task: Rows, rows: list[int], number: int) -> threading.Thread:
    thread = threading.Thread(target=_give, args=(task, rows, number), daemon=True)
    thread.start()
    return thread


def _give(task: Rows, rows: list[int], number: int) -> None:
    try:
        task._handover.give(rows, "q", number)  # type: ignore[arg-type]
    except Interrupted:
        return


def started(producer: SlowProducer, monkeypatch: pytest.MonkeyPatch) -> tuple[Rows, SourceWorkerTask, ConnectorOffsets]:
    monkeypatch.setattr(source, "Producer", producer)
    task, offsets = Rows(), ConnectorOffsets(MemoryOffsetStore(), "c")
    worker = running(task, offsets)
    return task, worker, offsets


def test_a_batch_whose_rows_have_arrived_is_through_and_its_offset_written(monkeypatch: pytest.MonkeyPatch) -> None:
    task, worker, offsets = started(SlowProducer(), monkeypatch)
    for number in range(3):
        query = given(task, [1, 2, 3], number)
        query.join(PATIENCE_S)
        assert not query.is_alive()
        assert offsets.offset({"format": "rate"}) == {"query": "q", "batch": number}
    given(task, [], 3).join(PATIENCE_S)
    worker.begin_stop()
    assert worker.join(PATIENCE_S)


def test_a_batch_does_not_count_while_one_of_its_rows_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = SlowProducer()
    producer.late.add(b"2")
    task, worker, offsets = started(producer, monkeypatch)
    query = given(task, [1, 2, 3], 0)
    for _ in range(3):
        assert producer.sent.acquire(timeout=PATIENCE_S)
    worker.begin_stop()  # the last commit too passes over it
    assert worker.join(PATIENCE_S)
    assert offsets.all() == []
    query.join(PATIENCE_S)


def test_a_batch_with_a_row_that_is_lost_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    task, worker, offsets = started(SlowProducer(fails=b"2"), monkeypatch)
    query = given(task, [1, 2, 3], 0)
    assert worker.join(PATIENCE_S)
    assert worker.state is State.FAILED
    assert "too large" in (worker.trace or "")
    assert offsets.all() == []
    query.join(PATIENCE_S)


def test_records_of_a_long_batch_are_not_kept_until_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are on their way, whatever the length of what a poll gives."""
    task, most = Rows(), 0

    def kept() -> int:
        return sum(isinstance(each, SourceRecord | Submitted) for each in gc.get_objects())

    def rows(_frame: Any) -> Iterator[dict[str, Any]]:
        nonlocal most
        for number in range(3000):
            if number % 1000 == 999:
                most = max(most, kept())
            yield {"id": number}

    monkeypatch.setattr(task, "_rows", rows)
    monkeypatch.setattr(source, "Producer", SlowProducer())
    offsets = ConnectorOffsets(MemoryOffsetStore(), "c")
    worker = running(task, offsets)
    before = kept()
    given(task, [], 0).join(PATIENCE_S)
    assert offsets.offset({"format": "rate"}) == {"query": "q", "batch": 0}
    assert most - before < 100
    worker.begin_stop()
    assert worker.join(PATIENCE_S)


def test_a_task_that_stops_while_the_session_begins_starts_no_query() -> None:
    class Context:
        stopping = False
        offset_reader = ConnectorOffsets(MemoryOffsetStore(), "c")

        def spark(self) -> Any:
            self.stopping = True
            return Stream()

    task = SparkSourceTask()
    task.context = Context()  # type: ignore[assignment]
    with pytest.raises(Interrupted):
        task.start(SOURCE)
    task.stop()
    task.close()


class Hanging:
    """A session whose JVM answers and does not stop."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def stop(self) -> None:
        assert self.released.wait(PATIENCE_S)


def test_the_end_of_a_session_is_not_waited_for_for_ever_and_none_begins_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark, session = WorkerSpark({}, "w"), Hanging()
    monkeypatch.setattr(spark, "_session", session)
    monkeypatch.setattr(spark, "_is_own", True)
    monkeypatch.setattr(spark_session, "is_alive", lambda _session: True)
    spark.close(0.05)
    with pytest.raises(Interrupted):
        spark.session()
    session.released.set()


def test_executors_get_no_properties_of_the_worker_but_those_of_converters(tmp_path: Path) -> None:
    props = {
        "bootstrap.servers": "h:1", "offset.storage.file.filename": str(tmp_path / "o"), "sasl.jaas.config": "geheim",
        "value.converter": "JsonConverter", "key.converter": "StringConverter", "value.converter.schemas.enable": "true",
    }  # fmt: skip
    worker = Worker(WorkerConfig(props), MemoryOffsetStore())
    config = {**SINK, "format": "parquet", "options.path": "/p", "checkpoint.location": "/c"}
    plugin = worker.catalog.connector("SparkSink")
    parsed = connector_def(worker.catalog, Kind.SINK).parse(config)
    task = worker.make_task(
        TaskSpec(TaskId("x", 0), plugin, config, config, parsed, frozenset(), False, lambda _topic: None)
    )
    assert isinstance(task, SparkSinkWorkerTask)
    assert set(task._conversion.worker) == {"key.converter", "value.converter", "value.converter.schemas.enable"}
