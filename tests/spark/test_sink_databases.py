"""`format("headwater-sqlite")` and `format("headwater-postgres")` in real queries, from a real broker."""

import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headwater.demo import demo_run
from headwater.spark import sinks
from headwater.testing import Broker
from spark.support.postgres import Postgres, postgres  # noqa: F401


class Table:
    """A table in one of the databases: the options that name it, and what is in it."""

    def __init__(self, form: str, options: dict[str, str], ask: Callable[[str], list[Any]]) -> None:
        self.format = form
        self.options = options
        self.ask = ask

    def rows(self, columns: str = "*") -> list[Any]:
        return sorted(self.ask(f"SELECT {columns} FROM {self.options['table']}"))


@pytest.fixture(params=["sqlite", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "sqlite":
        path = str(tmp_path / "results.db")

        def ask(question: str) -> list[Any]:
            database = sqlite3.connect(path)
            try:
                return database.execute(question).fetchall()
            finally:
                database.close()

        return Table("headwater-sqlite", {"path": path, "table": "results"}, ask)
    url = request.getfixturevalue("postgres").url
    name = f"results_{uuid.uuid4().hex[:8]}"

    def ask_postgres(question: str) -> list[Any]:
        with psycopg.connect(url) as connection:
            return connection.execute(question.encode()).fetchall()

    return Table("headwater-postgres", {"url": url, "table": name}, ask_postgres)


@pytest.fixture
def numbers(
    spark: SparkSession, broker: Broker, topic: str, create_topic: Callable[..., None], produce: Callable[..., None]
) -> DataFrame:
    """A stream of the numbers 0 to 11 from two partitions, five a batch."""
    create_topic(topic, 2)
    produce(topic, [b"%d" % n for n in range(0, 12, 2)], partition=0)
    produce(topic, [b"%d" % n for n in range(1, 12, 2)], partition=1)
    return (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 5)
        .load()
        .select(F.col("value").cast("string").cast("long").alias("n"), "timestamp")
    )


def finish(writer: Any, tmp_path: Path) -> None:
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = demo_run.start(writer.trigger(availableNow=True))
    assert query.awaitTermination(300)


def test_a_stream_into_a_table(numbers: DataFrame, table: Table, tmp_path: Path) -> None:
    writer = numbers.writeStream.format(table.format).options(**table.options)
    finish(writer, tmp_path)
    finish(writer, tmp_path)
    assert table.rows("n") == [(n,) for n in range(12)]
    ((last,),) = table.ask("SELECT max(batch_id) FROM headwater_progress")
    assert last >= 2, "there were three batches"


def test_a_batch_that_failed_after_its_commit_comes_again_in_other_parts(
    numbers: DataFrame, table: Table, tmp_path: Path
) -> None:
    """Inside `foreachBatch` the format knows the query and the batch as well."""
    failures = iter([True, True])

    def write(frame: DataFrame, _: int) -> None:
        first = next(failures, False)
        shuffled = frame.repartition(3 if first else 1)
        shuffled.write.format(table.format).options(**table.options).mode("append").save()
        if first:
            raise OSError("killed here")

    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="killed here"):
            finish(numbers.writeStream.foreachBatch(write), tmp_path)
    finish(numbers.writeStream.foreachBatch(write), tmp_path)
    assert table.rows("n") == [(n,) for n in range(12)]


def test_a_table_of_counts_is_kept_up_to_date(numbers: DataFrame, table: Table, tmp_path: Path) -> None:
    counts = numbers.groupBy((F.col("n") % 3).alias("rest")).agg(F.count("*").alias("count"), F.sum("n").alias("sum"))
    write = sinks.into(table.format, **table.options, keys="rest")
    finish(counts.writeStream.outputMode("update").foreachBatch(write), tmp_path)
    assert table.rows("rest, count, sum") == [(0, 4, 18), (1, 4, 22), (2, 4, 26)]


def test_a_plain_batch(spark: SparkSession, table: Table) -> None:
    for _ in range(2):
        spark.range(3).write.format(table.format).options(**table.options).mode("append").save()
    assert table.rows() == [(0,), (0,), (1,), (1,), (2,), (2,)]


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, table: Table) -> None:
    broken = spark.range(0, 100, 1, 2).select(
        F.when(F.col("id") == 77, F.raise_error(F.lit("a bad record"))).otherwise(F.col("id")).alias("n")
    )
    with pytest.raises(PySparkException, match="a bad record"):
        broken.write.format(table.format).options(**table.options).mode("append").save()
    assert table.rows() == []


def test_mistakes_are_told_in_a_sentence(spark: SparkSession, table: Table) -> None:
    writer = spark.range(3).write.format(table.format)
    with pytest.raises(PySparkException, match="does not overwrite a table"):
        writer.options(**table.options).mode("overwrite").save()
    with pytest.raises(PySparkException, match="The option table is missing"):
        writer.options(**{**table.options, "table": ""}).mode("append").save()
