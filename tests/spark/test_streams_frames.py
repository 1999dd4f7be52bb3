"""`.df(spark)` and `app.from_df`: DataFrames out of an application and into one, each record once,
with Spark itself.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headwater.base.errors import UserError
from headwater.client import Admin, Consumer, Producer, TopicPartition
from headwater.streams import App, tumbling
from headwater.testing import Broker

pytestmark = pytest.mark.spark

BEGIN = int(time.time()) // 10 * 10_000  # ms, of a window
Create = Callable[..., None]


@dataclass
class Order:
    customer: str
    amount: float
    tags: list[str]
    note: str | None = None


@pytest.fixture
def name(topic: str) -> str:
    return topic.replace(".", "-")[-40:]


@pytest.fixture
def orders(broker: Broker, create_topic: Create, name: str) -> str:
    create_topic(f"{name}-in", 2)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(40):
            text = f'{{"customer":"c{number % 5}","amount":{number},"tags":["t{number % 2}"]}}'
            producer.send(f"{name}-in", text.encode(), key=str(number).encode(), timestamp_ms=BEGIN + number * 1000)
    return f"{name}-in"


def written(broker: Broker, topic: str, count: int) -> list[tuple[Any, Any]]:
    """`count` committed records at least, and whatever is there behind them."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        partitions = range(len(admin.describe_topics([topic])[topic].partitions))
    found: list[tuple[Any, Any]] = []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in partitions])
        while True:
            more = [(record.key, record.value) for record in consumer.poll(0.5)]
            found += more
            if len(found) >= count and not more:
                return found


def until_last(broker: Broker, topic: str, wanted: dict[bytes, bytes]) -> None:
    """Until these are the latest values. Updates before them may have been compacted away."""
    last: dict[Any, Any] = {}
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([TopicPartition(topic, partition) for partition in range(2)])
        while last != wanted:
            last |= {record.key: record.value for record in consumer.poll(0.5)}


def collected(frame: DataFrame, tmp_path: Path, until: int) -> list[Any]:
    """Of a stream, by as many batches as it takes."""
    seen: list[Any] = []
    enough = threading.Event()

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(batch.collect())
        if len(seen) >= until:
            enough.set()

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "read")).start()
    try:
        while not enough.wait(0.25):
            assert query.isActive, query.exception()
    finally:
        query.stop()
    return seen


def test_any_point_is_a_frame(spark: SparkSession, broker: Broker, orders: str, name: str, tmp_path: Path) -> None:
    app = App(name, brokers=broker.bootstrap_servers)
    source = app.stream(orders, value=Order)
    large = source.filter(lambda order: order.amount >= 20, name="large")
    plain = large.map_values(lambda order: {"who": order.customer, "twice": order.amount * 2}, name="twice")
    counts = source.group_by(lambda order: order.customer, name="by").count(store="counts")
    per_minute = source.group_by_key().windowed_by(tumbling("10s")).count(store="windows")
    stream = plain.df(spark, schema="who string, twice double")  # before the application runs: the topic is made
    for each in (large, counts, per_minute):
        each.frame_point()
    assert stream.isStreaming

    with app.run_here(state_dir=tmp_path / "state") as run:
        found = collected(stream, tmp_path, 20)
        assert sorted((row.key, row.value.who, row.value.twice) for row in found) == sorted(
            (str(number), f"c{number % 5}", number * 2.0) for number in range(20, 40)
        )
        with pytest.raises(UserError, match="runs already"):
            source.filter(lambda order: order.amount < 3, name="small").df(spark)
        until_last(broker, f"{name}-{counts.name}-df", {f"c{number}".encode(): (8).to_bytes(8) for number in range(5)})
        table = counts.df(spark, batch=True)  # the sink is there already
        assert sorted((row.key, row.value) for row in table.collect()) == [(f"c{number}", 8) for number in range(5)]
        assert run.running
    again = large.df(spark, batch=True).collect()
    assert len(again) == 20
    assert {row.value.tags[0] for row in again} == {"t0", "t1"}
    assert {row.value.note for row in again} == {None}
    whole = source.df(spark, batch=True)  # a topic of users is read as it is
    assert whole.count() == 40
    assert {row.topic for row in whole.select("topic").distinct().collect()} == {orders}
    windows = per_minute.df(spark, batch=True).select("key.key", "key.start", "key.end", "value").collect()
    assert sorted(tuple(row) for row in windows)[:2] == [
        ("0", BEGIN, BEGIN + 10_000, 1),
        ("1", BEGIN, BEGIN + 10_000, 1),
    ]


def test_the_rows_of_a_table_are_its_last_changes_also_where_partitions_were_added(
    spark: SparkSession, broker: Broker, create_topic: Create, name: str
) -> None:
    """Within a partition the last offset counts, however old it is; a key that went to another partition is newer
    there.
    """
    create_topic(f"{name}-table", 2)
    changes = [("late", "first", 0, 2000), ("late", "last", 0, 1000), ("gone", "first", 0, 1000)]
    changes += [("moved", "old", 0, 1000), ("moved", "new", 1, 2000), ("gone", None, 1, 2000)]
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value, partition, after in changes:
            cell = None if value is None else value.encode()
            producer.send(f"{name}-table", cell, key=key.encode(), partition=partition, timestamp_ms=BEGIN + after)
    app = App(name, brokers=broker.bootstrap_servers, key="text", value="text")
    for table in (
        app.table(f"{name}-table"),
        App(name, brokers=app.brokers, value="text").global_table(f"{name}-table"),
    ):
        rows = table.df(spark, batch=True).collect()
        assert sorted((row.key, row.value) for row in rows) == [("late", "last"), ("moved", "new")]


def test_frames_are_read_once(
    spark: SparkSession, broker: Broker, create_topic: Create, name: str, tmp_path: Path
) -> None:
    create_topic(f"{name}-src", 2)
    create_topic(f"{name}-out", 1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(f"{name}-src", str(number).encode(), key=b"k")
    prices = spark.range(3).select(
        f.concat(f.lit("p"), "id").alias("product"),
        (f.col("id") * 1.5).alias("price"),
        f.lit(None).cast("string").alias("note"),
        f.lit("2026-01-01 00:00:00.123456").cast("timestamp").alias("at"),
    )
    source = spark.readStream.format("headwater").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    numbers = source.option("subscribe", f"{name}-src").option("startingOffsets", "earliest").load()
    numbers = numbers.selectExpr("cast(key as string) key", "cast(cast(value as string) as bigint) value")

    def make() -> App:
        app = App(name, brokers=broker.bootstrap_servers)
        static = app.from_df(lambda session: prices, "prices", key_column="product", partitions=3)
        static.map_values(lambda row: [row["product"], row["price"], row["note"], row["at"]]).to(f"{name}-out")
        app.from_df(numbers, "numbers", value="long").map_values(lambda number: number + 1).to(f"{name}-out")
        return app

    priced = {f'["p{n}",{1.5 * n},null,"2026-01-01T00:00:00.123456Z"]'.encode() for n in range(3)}
    expected = priced | {str(n).encode() for n in range(1, 11)}
    for _ in range(2):  # the second run finds everything written
        with make().run_here(state_dir=tmp_path / "state"):
            found = written(broker, f"{name}-out", 13)
            assert {value for _, value in found} == expected
            assert len(found) == 13
    assert {key for key, value in found if value.startswith(b"[")} == {b"p0", b"p1", b"p2"}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert len(admin.describe_topics([f"{name}-prices-df"])[f"{name}-prices-df"].partitions) == 3
        while not {each.state for each in admin.list_transactions()} <= {"CompleteCommit", "CompleteAbort", "Empty"}:
            time.sleep(0.1)  # a query that was stopped in mid-batch has its transactions aborted behind it


def test_a_frame_that_fails_ends_the_application(
    spark: SparkSession, broker: Broker, name: str, tmp_path: Path
) -> None:
    app = App(name, brokers=broker.bootstrap_servers)
    app.from_df(spark.range(1).selectExpr("raise_error('no such price') AS x"), "broken").foreach(lambda value: None)
    run = app.run_here(state_dir=tmp_path / "state")
    with pytest.raises(UserError, match="broken could not be written"):
        run.wait(300)


@pytest.fixture(autouse=True)
def no_query_is_left(spark: SparkSession) -> Iterator[None]:
    yield
    assert [query.name for query in spark.streams.active] == []


def test_frames_of_an_application_on_spark(spark: SparkSession, broker: Broker, name: str, tmp_path: Path) -> None:
    """One core is the slot's; the other one writes a frame to the application and reads another from it."""
    app = App(name, brokers=broker.bootstrap_servers, value="long")
    numbers = app.from_df(lambda session: session.range(20).selectExpr("'k' AS key", "id AS value"), "numbers")
    squares = numbers.map_values(lambda number: number * number, name="squares", value="long")
    squares.frame_point()
    with app.run(spark, slots=1, state_dir=tmp_path / "state"):
        found = collected(squares.df(spark), tmp_path, 20)
        assert sorted(row.value for row in found) == [number * number for number in range(20)]
    assert squares.df(spark, batch=True).count() == 20
