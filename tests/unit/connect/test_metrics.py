"""What tasks and workers count, and the text that Prometheus reads."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headwater.connect.api import SourceTask
from headwater.connect.connector_config.common import connector_def
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import STRING
from headwater.connect.errors import RetriableError
from headwater.connect.metrics.exposition import PluginTexts, RunningConnector, RunningTask, exposition
from headwater.connect.metrics.names import ERRORS, GROUPS, SINK, SINK_TASK, SOURCE, SOURCE_TASK, TASK
from headwater.connect.metrics.sensors import Sensor, Windows
from headwater.connect.metrics.task_metrics import TaskMetrics
from headwater.connect.metrics.worker_metrics import WorkerMetrics
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import source
from headwater.connect.runtime import task as task_module
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.plugin_texts import plugin_texts
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Failure, Skipped, Stage, Tolerance


class Clock:
    def __init__(self) -> None:
        self.ms = 0.0

    def __call__(self) -> float:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


def metrics(kind: str, clock: Clock) -> TaskMetrics:
    return TaskMetrics(kind, clock, lambda: 1_700_000_000_000)


def test_a_rate_is_of_the_last_samples_and_no_burst_at_first() -> None:
    sensor = Sensor(Windows(samples=2, window_ms=1000))
    sensor.record(500, 0)
    assert sensor.rate(100) == pytest.approx(500 / 1.1)  # a whole window is taken to have passed before
    sensor.record(500, 1100)
    assert sensor.rate(1500) == pytest.approx(1000 / 1.5)
    assert sensor.rate(4000) == 0  # both samples are too old by then
    assert sensor.total == 1000


def test_averages_and_extremes_forget() -> None:
    sensor = Sensor(Windows(samples=2, window_ms=1000))
    assert sensor.average(0) is None
    assert sensor.largest(0) is None
    assert sensor.smallest(0) is None
    for value in (1, 2, 6):
        sensor.record(value, 10)
    assert (sensor.average(20), sensor.largest(20), sensor.smallest(20)) == (3, 6, 1)
    sensor.record(10, 1500)
    assert (sensor.average(1500), sensor.largest(1500), sensor.smallest(1500)) == (19 / 4, 10, 1)
    assert (sensor.average(3000), sensor.smallest(3000)) == (10, 10)


def test_a_source_counts_what_it_polled_and_what_arrived(clock: Clock) -> None:
    task = metrics(SOURCE, clock)
    task.polled(100, 5.0)
    task.polled(50, 15.0)
    task.written(90, passed_over=10)
    task.transaction(90)
    clock.ms = 30_000
    found = task.values()[SOURCE_TASK]
    assert found["source-record-poll-total"] == 150
    assert found["source-record-poll-rate"] == 5
    assert found["source-record-write-total"] == 90
    assert found["source-record-active-count"] == 50
    assert found["source-record-active-count-max"] == 150
    assert (found["poll-batch-avg-time-ms"], found["poll-batch-max-time-ms"]) == (10, 15)
    assert found["transaction-size-min"] == found["transaction-size-avg"] == found["transaction-size-max"] == 90
    assert task.values()[TASK]["batch-size-avg"] == 75


def test_records_that_arrive_before_their_poll_is_counted(clock: Clock) -> None:
    """A poll that gives an iterator is counted when that has ended."""
    task = metrics(SOURCE, clock)
    task.written(10)
    assert task.values()[SOURCE_TASK]["source-record-active-count"] == 0
    task.polled(10, 1.0)
    assert task.values()[SOURCE_TASK]["source-record-active-count"] == 0


def test_a_sink_counts_what_it_read_put_and_committed(clock: Clock) -> None:
    task = metrics(SINK, clock)
    task.partitions(3)
    task.read(20)
    task.put(18, 4.0)
    task.active(20)
    task.committed(2.0, success=True)
    task.committed(6.0, success=False)
    task.active(0)
    found = task.values()
    assert found[SINK_TASK]["partition-count"] == 3
    assert found[SINK_TASK]["sink-record-read-total"] == 20
    assert found[SINK_TASK]["sink-record-send-total"] == 18
    assert found[SINK_TASK]["sink-record-active-count"] == 0
    assert found[SINK_TASK]["sink-record-active-count-max"] == 20
    assert found[SINK_TASK]["put-batch-max-time-ms"] == 4
    assert found[SINK_TASK]["offset-commit-completion-total"] == 1
    assert found[SINK_TASK]["offset-commit-seq-no"] == 2
    assert found[TASK]["offset-commit-avg-time-ms"] == 4
    assert found[TASK]["offset-commit-success-percentage"] == 0.5  # a share of 1, as in Kafka Connect
    assert found[TASK]["batch-size-max"] == 20


def test_ratios_are_of_the_whole_time(clock: Clock) -> None:
    task = metrics(SINK, clock)
    for state, until_ms in (("RUNNING", 60), ("PAUSED", 80), ("RUNNING", 100)):
        task.state(state)
        clock.ms = until_ms
    found = task.values()[TASK]
    assert (found["running-ratio"], found["pause-ratio"]) == (0.8, 0.2)


@pytest.mark.parametrize("kind", [SOURCE, SINK])
def test_every_value_is_in_the_table_and_every_number_of_the_table_has_a_value(kind: str, clock: Clock) -> None:
    task = metrics(kind, clock)
    for _ in range(2):
        task.polled(1, 1.0)
        task.read(1)
        task.put(1, 1.0)
        task.written(1)
        task.transaction(1)
        task.committed(1.0, success=True)
    found = task.values()
    for group, values in found.items():
        table = {*GROUPS[group].gauges, *GROUPS[group].counters}
        assert values.keys() == table


def tolerance(task: TaskMetrics, **config: Any) -> Tolerance:
    whole = {"errors.retry.timeout": 0, "errors.retry.delay.max.ms": 60_000, "errors.tolerance": "none", **config}
    clock = iter(range(0, 10_000, 100))
    return Tolerance(whole, [], lambda: next(clock), lambda _seconds: False, task)


def raising(error: Exception) -> Callable[[], None]:
    def operation() -> None:
        raise error

    return operation


def errors_of(task: TaskMetrics) -> dict[str, float]:
    return {name: value for name, value in task.values()[ERRORS].items() if value}


def test_errors_are_counted_as_kafka_connect_counts_them(clock: Clock) -> None:
    """As RetryWithToleranceOperator does: `execAndHandleError` for converters, `executeFailed` for the rest."""
    task = metrics(SINK, clock)
    with pytest.raises(Skipped):
        tolerance(task, **{"errors.tolerance": "all"}).run(Stage.VALUE_CONVERTER, "c", None, raising(ValueError("no")))
    seen = {"total-record-failures": 1, "total-records-skipped": 1, "last-error-timestamp": 1_700_000_000_000}
    assert errors_of(task) == seen

    failure = Failure(Stage.TASK_PUT, "c", ValueError("no"), None, 1)
    assert isinstance(tolerance(task, **{"errors.tolerance": "all"}).give_up(failure), Skipped)
    assert errors_of(task) == seen | {"total-record-failures": 2}
    tolerance(task).give_up(failure)
    assert errors_of(task) == seen | {"total-record-failures": 3, "total-record-errors": 1}


def test_each_try_is_a_failure_and_one_more_when_it_is_given_up(clock: Clock) -> None:
    task = metrics(SINK, clock)
    with pytest.raises(Exception, match="Tolerance exceeded"):
        tolerance(task, **{"errors.retry.timeout": 250}).run(
            Stage.VALUE_CONVERTER, "c", None, raising(RetriableError("later"))
        )
    found = errors_of(task)
    assert found["total-record-failures"] == found["total-retries"] + 2
    assert found["total-retries"] >= 1


def test_a_start_counts_once_by_the_first_state_that_says_how_it_went(clock: Clock) -> None:
    worker = WorkerMetrics(clock)
    good, bad = worker.tasks.begun(), worker.tasks.begun()
    worker.tasks.begun()  # nobody knows yet
    for state in ("UNASSIGNED", "RUNNING", "FAILED", "RUNNING"):
        good.state(state)
    bad.state("FAILED")
    assert worker.tasks.values("task") == {
        "task-startup-attempts-total": 3,
        "task-startup-success-total": 1,
        "task-startup-failure-total": 1,
        "task-startup-success-percentage": 0.5,
        "task-startup-failure-percentage": 0.5,
    }


def test_a_rebalance_lasts_until_the_worker_knows_what_to_run(clock: Clock) -> None:
    rebalances = WorkerMetrics(clock).in_group()
    assert rebalances.values() == {"completed-rebalances-total": 0, "rebalancing": 0, "epoch": -1}
    rebalances.begin()
    clock.ms = 100
    rebalances.begin()  # again, for the same one: the member id was missing
    assert rebalances.values()["rebalancing"] == 1
    clock.ms = 400
    rebalances.end(7, "http://a:8083/", "sessioned")
    clock.ms = 1000
    assert rebalances.values() == {
        "completed-rebalances-total": 1,
        "rebalancing": 0,
        "epoch": 7,
        "rebalance-avg-time-ms": 400,
        "rebalance-max-time-ms": 400,
        "time-since-last-rebalance-ms": 600,
    }
    assert rebalances.texts == {"leader-name": "http://a:8083/", "connect-protocol": "sessioned"}


def test_the_text_is_that_of_the_exporters_rules(clock: Clock) -> None:
    task = metrics(SOURCE, clock)
    task.polled(5, 1.5)
    texts = PluginTexts({"task-class": "T", "connector-type": "source"}, (("cut", "Cut", "1"),))
    made = exposition(
        WorkerMetrics(clock),
        [RunningConnector('a"b\\\n', "RUNNING", "C", "source", "1.0")],
        [
            RunningTask('a"b\\\n', 0, "RUNNING", 2, task.values(), texts),
            RunningTask("elsewhere", 1, "FAILED", 0, {}, PluginTexts()),
        ],
    )
    name = 'connector="a\\"b\\\\\\n"'
    lines = made.splitlines()
    for line in (
        "kafka_connect_worker_connector_count 1",
        "kafka_connect_worker_task_count 2",
        f"kafka_connect_worker_connector_running_task_count{{{name}}} 1",
        'kafka_connect_worker_connector_failed_task_count{connector="elsewhere"} 1',
        f'kafka_connect_connector_status{{{name},status="running"}} 1',
        f'kafka_connect_connector_info{{{name},connector_class="C",connector_type="source",connector_version="1.0"}} 1',
        'kafka_connect_connector_task_status{connector="elsewhere",task="1",status="failed"} 1',
        f'kafka_connect_connector_task_info{{{name},task="0",connector_type="source",task_class="T"}} 1',
        f'kafka_connect_connector_transform_info{{{name},task="0",transform="cut",transform_class="Cut",transform_version="1"}} 1',
        "# TYPE kafka_connect_source_task_source_record_poll_total counter",
        f'kafka_connect_source_task_source_record_poll_total{{{name},task="0"}} 5',
        f'kafka_connect_source_task_poll_batch_avg_time_ms{{{name},task="0"}} 1.5',
        f'headwater_connect_task_restarts_total{{{name},task="0"}} 2',
    ):
        assert lines.count(line) == 1, line
    kinds = [line for line in lines if line.startswith("# TYPE")]
    assert len(kinds) == len(set(kinds))
    assert "rebalance" not in made  # of a worker alone


def test_what_a_task_is_made_of_is_told_by_full_names() -> None:
    catalog = Catalog(installed=False)
    props = {
        "value.converter": "JsonConverter",
        "transforms": "cut, gone",
        "transforms.cut.type": "org.apache.kafka.connect.transforms.DropHeaders",
        "transforms.gone.type": "NoSuchThing",
    }
    made = plugin_texts(
        catalog,
        catalog.connector("FileStreamSource"),
        props,
        {"key.converter": "StringConverter", "value.converter": ""},
    )
    assert made.task["connector-class"] == "org.apache.kafka.connect.file.FileStreamSourceConnector"
    assert made.task["key-converter-class"] == "org.apache.kafka.connect.storage.StringConverter"
    assert made.task["value-converter-class"] == "org.apache.kafka.connect.json.JsonConverter"
    assert made.task["header-converter-class"] == "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert [each[:2] for each in made.transforms] == [("cut", "org.apache.kafka.connect.transforms.DropHeaders")]


class MemoryProducer:
    """Delivers at once, by runs too; what is to be lost it never delivers."""

    takes_many = True

    def __call__(self, _settings: object) -> "MemoryProducer":
        return self

    def send(self, _topic: str, value: bytes, *, on_delivery: Callable[..., None], **_rest: object) -> None:
        if value != b"lost":
            on_delivery(None, "metadata")

    def send_many(self, _topic: str, values: list[bytes], **_rest: object) -> "MemoryProducer":
        return self

    def add_done_callback(self, told: Callable[[Any], None]) -> None:
        told(self)

    def exception(self, _timeout: float) -> None:
        return None

    def flush(self, _timeout: float) -> None: ...

    def close(self, _timeout: float) -> None: ...


class Giving(SourceTask):
    """What each poll is to give, or raise, and then the end."""

    def __init__(self, end: Callable[[], None], *polls: Any) -> None:
        self._polls = iter(polls)
        self._end = end

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> Any:
        found = next(self._polls, ())
        if found == ():
            self._end()
            return None
        if isinstance(found, Exception):
            raise found
        return found

    def stop(self) -> None: ...


def lines(count: int) -> list[SourceRecord]:
    partition = {"p": 1}
    return [
        SourceRecord(topic="t", value_schema=STRING, value=str(n), source_partition=partition, source_offset={"n": n})
        for n in range(count)
    ]


def source_task(make: Callable[[SourceWorkerTask], SourceTask], **props: str) -> SourceWorkerTask:
    catalog = Catalog()
    props = {"name": "c", "connector.class": "C", **props}
    config = connector_def(catalog, Kind.SOURCE).parse(props)
    converters = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
    task: SourceWorkerTask = SourceWorkerTask(
        TaskId("c", 0), lambda: make(task), lambda: Pipeline(catalog, props, config, converters), props,
        config, ConnectorOffsets(MemoryOffsetStore(), "c"), {}, {}, flush_interval_s=0.0, flush_timeout_s=1.0,
        topic_creation=False, on_topic=lambda _topic: None,
    )  # fmt: skip
    return task


def test_a_source_task_counts_runs_records_and_iterators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "Producer", MemoryProducer())
    polls = (lines(40), lines(3), iter(lines(5)), None, [], iter([]))
    task = source_task(lambda task: Giving(task.begin_stop, *polls), **{"errors.restart": "false"})
    task.start()
    assert task.join(60)
    found = task.measured()
    assert task.trace is None
    assert found[SOURCE_TASK]["source-record-poll-total"] == found[SOURCE_TASK]["source-record-write-total"] == 48
    assert found[SOURCE_TASK]["source-record-active-count"] == 0
    assert (found[TASK]["batch-size-avg"], found[TASK]["batch-size-max"]) == (16, 40)  # polls without records are none
    assert found[TASK]["offset-commit-success-percentage"] == 1


def test_what_a_source_had_open_when_it_failed_is_not_open_when_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(source, "Producer", MemoryProducer())
    monkeypatch.setattr(task_module, "restart_delay_s", lambda _failures: 0.0)
    lost = SourceRecord(topic="t", value_schema=STRING, value="lost", source_partition={}, source_offset={"n": 1})
    runs = iter([([lost] * 7, RuntimeError("gone")), (lines(2),)])
    task = source_task(lambda task: Giving(task.begin_stop, *next(runs)))
    task.start()
    assert task.join(60)
    found = task.measured()[SOURCE_TASK]
    assert task.restarts == 1
    assert (found["source-record-poll-total"], found["source-record-write-total"]) == (9, 2)
    assert found["source-record-active-count"] == 0


def test_a_sink_that_is_over_has_no_partitions_and_nothing_open(clock: Clock) -> None:
    task = metrics(SINK, clock)
    task.partitions(3)
    task.active(20)
    task.ended()
    found = task.values()[SINK_TASK]
    assert (found["partition-count"], found["sink-record-active-count"]) == (0, 0)
