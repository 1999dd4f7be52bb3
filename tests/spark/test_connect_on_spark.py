"""SparkSource and SparkSink in a worker: real batches of Spark's, a real broker, Connect's converters and transforms
between them.
"""

import json
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.base.ids import TopicPartition
from headwater.client import Admin, Consumer, NewTopic, Producer
from headwater.connect.connectors.spark.source import SparkSourceConnector
from headwater.connect.data.record import SourceRecord
from headwater.connect.runtime.task import State
from headwater.spark.sinks import read_committed_files
from headwater.testing import Broker
from headwater.testing.connect import ConnectWorker, SourceKit

PATIENCE_S = 300.0
JSON = "org.apache.kafka.connect.json.JsonConverter"

pytestmark = pytest.mark.spark


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        admin.create_topics([NewTopic(topic, 2, 1)])
    return topic


def send(broker: Broker, topic: str, values: list[Any]) -> None:
    with Producer({"bootstrap.servers": broker.bootstrap_servers}) as producer:
        for number, value in enumerate(values):
            data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
            producer.send(topic, data, key=str(number).encode(), partition=number % 2)
        producer.flush()


def typed(n: int) -> dict[str, Any]:
    fields = [{"field": "n", "type": "int64"}, {"field": "t", "type": "string", "optional": True}]
    return {"schema": {"type": "struct", "fields": fields}, "payload": {"n": n, "t": f"text {n}"}}


def read_all(broker: Broker, topic: str, count: int) -> list[Any]:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest"}
    with Consumer({**settings, "enable.auto.commit": "false"}) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        found: list[Any] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, f"there are only {len(found)} records"
            found += consumer.poll(10.0)
        return found


def state(worker: ConnectWorker, name: str) -> str:
    tasks = worker.status(name)["tasks"]
    return str(tasks[0]["state"]) if tasks else "none"


def until(worker: ConnectWorker, condition: Callable[[], bool]) -> None:
    worker.until(condition, PATIENCE_S)


def test_a_topic_becomes_files_once_though_the_worker_is_another(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    out, dead = str(tmp_path / "out"), f"{made}.dead"
    name = made.replace("_", "-")
    config = {
        "connector.class": "SparkSink",
        "topics": made,
        "format": "parquet",
        "options.path": out,
        "options.compression": "zstd",
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "batch.interval.ms": "0",
        "value.converter": JSON,
        "transforms": "from",
        "transforms.from.type": "InsertField$Value",
        "transforms.from.offset.field": "at",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": dead,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }

    def rows() -> list[tuple[int, str, int]]:
        columns = "n BIGINT, t STRING, at BIGINT"
        return sorted((row["n"], row["t"], row["at"]) for row in read_committed_files(spark, out, columns).collect())

    def expected(count: int) -> list[tuple[int, str, int]]:
        return [(n, f"text {n}", n // 2) for n in range(count)]

    send(broker, made, [typed(n) for n in range(6)])
    with ConnectWorker(broker.bootstrap_servers) as worker:
        worker.create(name, config)
        until(worker, lambda: rows() == expected(6))
        task = worker.status(name)["tasks"][0]
        assert task["state"] == "RUNNING"
        assert task["runs_on"].startswith("spark local[2] ")
        assert worker.herder.topics(name)[name]["topics"] == [made]
        until(worker, lambda: {each["offset"]["kafka_offset"] for each in worker.herder.read_offsets(name)} == {3})
        until(worker, lambda: measured(worker)["sink-record-active-count"] == 0)
        found = measured(worker)
        assert (found["sink-record-read-total"], found["sink-record-send-total"]) == (6, 6)
        assert found["partition-count"] == 2
        assert 1 <= found["offset-commit-completion-total"] <= 6
        assert "offset-commit-max-time-ms" in found
    send(broker, made, [typed(6), typed(7)])
    with ConnectWorker(broker.bootstrap_servers) as worker:  # another one goes on
        worker.create(name, config)
        until(worker, lambda: rows() == expected(8))
        send(broker, made, [b"no JSON"])
        until(worker, lambda: made_dead(broker, dead) == [(made.encode(), b"no JSON")])
        until(worker, lambda: measured(worker)["sink-record-read-total"] == 3)
        assert measured(worker)["total-records-skipped"] == measured(worker)["deadletterqueue-produce-requests"] == 1
        assert state(worker, name) == "RUNNING"
        set_back_and_reset(worker, name, made, lambda again: rows() == sorted(expected(8) + again), expected(8))
    assert spark.streams.active == []


def measured(worker: ConnectWorker) -> dict[str, float]:
    _, (task,) = worker.herder.running_here()
    return {name: value for group in task.values.values() for name, value in group.items()}


def set_back_and_reset(
    worker: ConnectWorker, name: str, topic: str, has: Callable[[list[Any]], bool], rows: list[Any]
) -> None:
    """Where the checkpoint goes on is set as KIP-875 has it; the marks of batches keep no record back."""
    at = [{"kafka_topic": topic, "kafka_partition": number} for number in (0, 1)]
    body: dict[str, Any] = {"offsets": [{"partition": at[1], "offset": {"kafka_offset": 2}}]}
    worker.herder.set_target(name, State.STOPPED)
    until(worker, lambda: not worker.status(name)["tasks"])
    assert "altered successfully" in worker.herder.alter_offsets(name, body)
    found = {each["partition"]["kafka_partition"]: each["offset"] for each in worker.herder.read_offsets(name)}
    assert found[1] == {"kafka_offset": 2}
    worker.herder.set_target(name, State.RUNNING)
    until(worker, lambda: has([rows[5], rows[7]]))
    worker.herder.set_target(name, State.STOPPED)
    until(worker, lambda: not worker.status(name)["tasks"])
    assert "reset successfully" in worker.herder.reset_offsets(name)
    assert worker.herder.read_offsets(name) == []
    body["offsets"][0]["offset"] = {"kafka_offset": 3}
    assert "altered successfully" in worker.herder.alter_offsets(name, body)  # before the new query has begun
    worker.herder.set_target(name, State.RUNNING)
    until(worker, lambda: has([rows[5], rows[7], *rows[::2], rows[7]]))
    worker.herder.set_target(name, State.STOPPED)
    until(worker, lambda: not worker.status(name)["tasks"])
    assert "reset successfully" in worker.herder.reset_offsets(name)
    worker.herder.set_target(name, State.RUNNING)
    until(worker, lambda: has([rows[5], rows[7], *rows[::2], rows[7], *rows]))


def made_dead(broker: Broker, dead: str) -> list[tuple[bytes | None, bytes]]:
    with Admin({"bootstrap.servers": broker.bootstrap_servers}) as admin:
        if dead not in {each.name for each in admin.list_topics()}:
            return []
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
    }
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(dead, 0)])
        return [(each.header("__connect.errors.topic"), each.value) for each in consumer.poll(5.0)]


@pytest.mark.soak(only=True)
def test_values_without_a_schema_into_a_table_and_a_pause(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    database, name = tmp_path / "results.db", made.replace("_", "-")
    config = {
        "connector.class": "SparkSink",
        "topics.regex": f"{made[:-2]}.*",
        "format": "headwater-sqlite",
        "options.path": str(database),
        "options.table": "numbers",
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "batch.interval.ms": "0",
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "value.schema": "n BIGINT, at TIMESTAMP, more STRING",
        "behavior.on.null.values": "ignore",
    }

    def numbers() -> list[int]:
        try:
            with sqlite3.connect(database) as connection:
                return sorted(n for (n,) in connection.execute("SELECT n FROM numbers"))
        except sqlite3.OperationalError:
            return []

    values = [{"n": n, "at": "2026-01-02T03:04:05Z"} for n in range(4)]
    send(broker, made, [*values, None])
    with ConnectWorker(broker.bootstrap_servers) as worker:
        worker.create(name, config)
        until(worker, lambda: numbers() == [0, 1, 2, 3])
        worker.herder.set_target(name, State.PAUSED)
        until(worker, lambda: state(worker, name) == "PAUSED")
        until(worker, lambda: not spark.streams.active)
        send(broker, made, [{"n": 4}, {"n": 5, "more": "x", "other": 1}])
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == [0, 1, 2, 3, 4, 5])
        with sqlite3.connect(database) as connection:
            found = connection.execute("SELECT n, at, more FROM numbers WHERE n IN (3, 5) ORDER BY n").fetchall()
        assert [(n, str(at)[:19], more) for n, at, more in found] == [
            (3, "2026-01-02 03:04:05", None),
            (5, "None", "x"),
        ]
        worker.herder.set_target(name, State.STOPPED)
        until(worker, lambda: not worker.status(name)["tasks"])
        on = {"partition": {"kafka_topic": made, "kafka_partition": 0}, "offset": {"kafka_offset": 5}}
        worker.herder.alter_offsets(name, {"offsets": [on]})
        send(broker, made, [{"n": n} for n in range(6, 12)])  # three each: those of 0 begin at offset 4
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11])


@pytest.mark.soak(only=True)
def test_offsets_that_are_set_behind_a_crash_within_a_batch_lose_and_repeat_nothing_of_other_partitions(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    """The worker was killed between a batch's offsets and its commit: once with the batch in the target, once
    without."""
    out, checkpoint, name = str(tmp_path / "out"), tmp_path / "checkpoint", made.replace("_", "-")
    config = {
        "connector.class": "SparkSink",
        "topics": made,
        "format": "parquet",
        "options.path": out,
        "checkpoint.location": str(checkpoint),
        "batch.interval.ms": "0",
        "value.converter": JSON,
    }

    def numbers() -> list[int]:
        return sorted(row["n"] for row in read_committed_files(spark, out, "n BIGINT, t STRING").collect())

    def last_batch() -> int:
        return max(int(each.name) for each in (checkpoint / "commits").iterdir() if each.name.isdigit())

    def forget(batch: int, *, target: bool) -> None:
        (checkpoint / "commits" / str(batch)).unlink()
        (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
        if target:
            for path in (tmp_path / "out").glob(f"{batch:010d}-*"):
                shutil.rmtree(path)
            for path in (tmp_path / "out" / "_manifests").glob(f"*{batch:010d}-*"):
                path.unlink()

    def stopped(worker: ConnectWorker) -> None:
        worker.herder.set_target(name, State.STOPPED)
        until(worker, lambda: not worker.status(name)["tasks"])

    one = {"kafka_topic": made, "kafka_partition": 1}
    send(broker, made, [typed(n) for n in range(4)])
    with ConnectWorker(broker.bootstrap_servers) as worker:
        worker.create(name, config)
        until(worker, lambda: numbers() == [0, 1, 2, 3])
        worker.herder.set_target(name, State.PAUSED)
        until(worker, lambda: not spark.streams.active)
        send(broker, made, [typed(n) for n in range(4, 8)])
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == list(range(8)))
        stopped(worker)
        forget(last_batch(), target=False)
        worker.herder.alter_offsets(name, {"offsets": [{"partition": one, "offset": {"kafka_offset": 3}}]})
        worker.herder.set_target(name, State.RUNNING)
        until(
            worker, lambda: numbers() == [0, 1, 2, 3, 4, 5, 6, 7, 7]
        )  # partition 1 from offset 3 on, and nothing of 0
        worker.herder.set_target(name, State.PAUSED)
        until(worker, lambda: not spark.streams.active)
        send(broker, made, [typed(n) for n in range(8, 12)])
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == [0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11])
        stopped(worker)
        lost = last_batch()
        there = numbers()
        forget(lost, target=True)
        gone = [n for n in set(there) if numbers().count(n) < there.count(n)]
        assert gone != []
        worker.herder.alter_offsets(name, {"offsets": [{"partition": one, "offset": {"kafka_offset": 6}}]})
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: {8, 10} <= set(numbers()))  # partition 0: what the lost batch had comes again
        assert numbers() == sorted([0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 10, *(n for n in (9, 11) if n not in gone)])


@pytest.mark.soak(only=True)
def test_a_sink_that_begins_at_the_end_loses_nothing_that_comes_behind_it(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    """Its first query ended before it had a batch, and another one within the first: both begin where the first one
    did. A partition that no call names goes on there, too."""
    out, checkpoint, name = tmp_path / "out", tmp_path / "checkpoint", made.replace("_", "-")
    config = {
        "connector.class": "SparkSink",
        "topics": made,
        "format": "parquet",
        "options.path": str(out),
        "checkpoint.location": str(checkpoint),
        "batch.interval.ms": "0",
        "value.converter": JSON,
        "consumer.override.auto.offset.reset": "latest",
    }

    def numbers() -> list[int]:
        return sorted(row["n"] for row in read_committed_files(spark, str(out), "n BIGINT, t STRING").collect())

    def sleep(worker: ConnectWorker, target: State) -> None:
        worker.herder.set_target(name, target)
        until(worker, lambda: not spark.streams.active)

    def die_within_the_batches() -> None:
        for batch in sorted(int(each.name) for each in (checkpoint / "offsets").iterdir() if each.name.isdigit())[1:]:
            (checkpoint / "commits" / str(batch)).unlink()
            (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)
        shutil.rmtree(out)

    send(broker, made, [typed(n) for n in range(4)])
    with ConnectWorker(broker.bootstrap_servers) as worker:
        worker.create(name, config)
        until(worker, lambda: len(spark.streams.active) == 1)
        sleep(worker, State.PAUSED)
        send(broker, made, [typed(n) for n in range(4, 8)])
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == [4, 5, 6, 7])
        sleep(worker, State.STOPPED)
        die_within_the_batches()
        send(broker, made, [typed(n) for n in range(8, 12)])
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == list(range(4, 12)))
        sleep(worker, State.STOPPED)
        assert "reset successfully" in worker.herder.reset_offsets(name)
        one = {"kafka_topic": made, "kafka_partition": 1}
        worker.herder.set_target(name, State.RUNNING)  # at the end again
        until(worker, lambda: len(spark.streams.active) == 1)
        sleep(worker, State.STOPPED)
        send(broker, made, [typed(n) for n in range(12, 16)])
        worker.herder.alter_offsets(name, {"offsets": [{"partition": one, "offset": {"kafka_offset": 7}}]})
        worker.herder.set_target(name, State.RUNNING)
        until(worker, lambda: numbers() == [*range(4, 13), 14, 15])


def test_what_a_sink_cannot_write_is_in_its_status(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    send(broker, made, [{"n": 1}])
    name = made.replace("_", "-")
    config = {
        "connector.class": "SparkSink",
        "topics": made,
        "format": "parquet",
        "options.path": str(tmp_path / "out"),
        "checkpoint.location": str(tmp_path / "checkpoint"),
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "errors.restart": "false",
    }
    with ConnectWorker(broker.bootstrap_servers) as worker:
        worker.create(name, config)
        until(worker, lambda: state(worker, name) == "FAILED")
        trace = worker.status(name)["tasks"][0]["trace"]
        assert "value.schema says which there are" in trace
        assert "\tat org.apache" not in trace
        worker.herder.create(name, {**config, "value.schema": "n INT", "format": "no-such-format"}, replace=True)
        until(
            worker,
            lambda: state(worker, name) == "FAILED" and "no-such-format" in worker.status(name)["tasks"][0]["trace"],
        )
        worker.herder.delete(name)
    assert spark.streams.active == []


def source_config(topic: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "SparkSource",
        "topic": topic,
        "format": "json",
        "options.path": str(folder / "in"),
        "schema": "n INT, price DECIMAL(6,2), at TIMESTAMP, tags ARRAY<STRING>",
        "checkpoint.location": str(folder / "checkpoint"),
        "key.columns": "n",
        "batch.interval.ms": "0",
        **more,
    }


def put(folder: Path, name: str, *numbers: int) -> None:
    """A file appears whole, as whatever feeds a stream of files has to make it."""
    lines = [f'{{"n": {n}, "price": {n}.5, "at": "2026-01-02T03:04:05.678Z", "tags": ["a", null]}}' for n in numbers]
    (folder / "in").mkdir(exist_ok=True)
    aside = folder / f"_{name}"
    aside.write_text("\n".join(lines) + "\n")
    aside.rename(folder / "in" / name)


def test_a_stream_of_files_becomes_records_though_the_worker_is_another(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path
) -> None:
    put(tmp_path, "1.json", 1, 2, 3)
    config = source_config(made, tmp_path, **{"value.converter": JSON, "value.converter.schemas.enable": "false"})
    settings = {"offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "60000"}
    with ConnectWorker(broker.bootstrap_servers, settings=settings) as worker:
        worker.create("files", config)
        assert {each.key for each in read_all(broker, made, 3)} == {b"1", b"2", b"3"}
        put(tmp_path, "2.json", 4)
        read_all(broker, made, 4)
        assert worker.status("files")["tasks"][0]["runs_on"].startswith("spark local[2] ")
    put(tmp_path, "3.json", 5, 6)
    with ConnectWorker(broker.bootstrap_servers, settings=settings) as worker:
        worker.create("files", config)
        found = read_all(broker, made, 6)
        (offset,) = worker.herder.read_offsets("files")
        assert offset["partition"] == {"format": "json"}
        assert offset["offset"]["batch"] >= 1
        worker.herder.create("files", {**config, "key.columns": "none", "errors.restart": "false"}, replace=True)
        until(worker, lambda: state(worker, "files") == "FAILED")
        assert "no column of what was read" in worker.status("files")["tasks"][0]["trace"]
    assert sorted(int(each.key) for each in found) == [1, 2, 3, 4, 5, 6]
    value = json.loads(next(each.value for each in found if each.key == b"5"))
    assert value == {"n": 5, "price": "AiY=", "at": 1767323045678, "tags": ["a", None]}
    assert spark.streams.active == []


SOURCE_OF_ONES_OWN = """
from pyspark.sql.datasource import DataSource, DataSourceReader

def make():  # so that it travels to the executors as it is: there is no package there
    class Squares(DataSource):
        @classmethod
        def name(cls):
            return "squares"

        def schema(self):
            return "n INT, square INT"

        def reader(self, schema):
            return Reader(int(self.options["last"]))

    class Reader(DataSourceReader):
        def __init__(self, last):
            self.last = last

        def read(self, partition):
            return ((n, n * n) for n in range(1, self.last + 1))

    return Squares

Squares = make()
"""


def test_a_data_source_of_an_installed_package_is_a_connector(
    spark: SparkSession, broker: Broker, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "my_squares-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-squares\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[headwater.connect.data_sources]\nSquares = my_squares:Squares\n")
    (tmp_path / "my_squares.py").write_text(SOURCE_OF_ONES_OWN)
    monkeypatch.syspath_prepend(tmp_path)
    config = {
        "connector.class": "SparkSource", "topic": made, "format": "squares", "options.last": "4", "read.mode": "batch",
        "key.columns": "n", "value.converter": JSON, "value.converter.schemas.enable": "false",
    }  # fmt: skip
    settings = {"offset.storage.file.filename": str(tmp_path / "offsets")}
    with ConnectWorker(broker.bootstrap_servers, settings=settings) as worker:
        worker.create("squares", config)
        found = read_all(broker, made, 4)
    assert sorted(json.loads(each.value)["square"] for each in found) == [1, 4, 9, 16]
    assert spark.streams.active == []


def test_a_batch_that_is_in_the_topic_is_passed_over_when_spark_gives_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    put(tmp_path, "1.json", 1, 2)
    kit = SourceKit(SparkSourceConnector, source_config("t", tmp_path), spark=spark)
    first = polled(kit)
    assert [each.value["n"] for each in first] == [1, 2]
    assert [each.source_offset and each.source_offset["batch"] for each in first] == [None, 0]
    last = first[-1]
    assert last.source_partition is not None
    kit.offsets.write(
        [(last.source_partition, last.source_offset)]
    )  # in the topic, and the worker dies before Spark hears of it
    put(tmp_path, "2.json", 3)
    kit.restart()
    assert [each.value["n"] for each in polled(kit)] == [3]
    kit.commit()
    kit.close()


def test_a_batch_that_is_not_in_the_topic_comes_again(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path, "1.json", 1, 2)
    kit = SourceKit(SparkSourceConnector, source_config("t", tmp_path), spark=spark)
    assert len(polled(kit)) == 2
    kit.restart()
    assert [each.value["n"] for each in polled(kit)] == [1, 2]
    kit.close()
    once = source_config("t", tmp_path, **{"read.mode": "batch", "key.columns": "n,price"})
    kit = SourceKit(SparkSourceConnector, once, spark=spark)
    (one, two) = polled(kit)
    assert (one.key["n"], str(two.key["price"]), two.source_offset and two.source_offset["reads"]) == (1, "2.50", 1)
    kit.commit()
    assert kit.poll() == []
    kit.restart()
    assert kit.poll() == []
    kit.close()


def polled(kit: SourceKit) -> list[SourceRecord]:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := kit.poll()):
        assert time.monotonic() < deadline, "the batch did not come"
    return found
