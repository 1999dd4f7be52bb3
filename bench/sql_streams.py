"""SQL queries beside Kafka Streams (Java), which does the same by hand: the same records of JSON, on one broker, in one
run, exactly once. ksqlDB itself, which compiles to such topologies, is not on Maven Central.

Each runs in a process of its own (`sql_apps`, `StreamsPeer.java`) over topics of its own, one after the other; the pace
is taken from the group's committed offsets (`streams.pace`). Both must have written as many results.
"""

import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from bench.brokers import JARS, ROOT
from bench.report import MORE, Figure, Kind
from bench.requests import Calls
from bench.rows import Bench, Figures, Scenario, check
from bench.sql_apps import STATEMENTS, make
from bench.streams import COMMIT_MS, FIRST_MS, PARTITIONS, TOPIC_CONFIGS, count_records, key_numbers, pace, running
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.producer.producer import Producer

ROWS = 300_000
KEYS = 10_000
TITLES = {
    "sql-filter-project": "filter and project",
    "sql-windowed-count": "windowed count",
    "sql-stream-table-join": "stream-table join",
}


def _fill(brokers: str, topic: str, numbers: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", form: str) -> None:
    """A record each millisecond: keys of four bytes, values of JSON."""
    raw = numbers.astype(">i4").tobytes()
    keys = pa.array([raw[at : at + 4] for at in range(0, len(raw), 4)], pa.binary())
    texts = [form.format(name=number % 100, amount=number % 10) for number in range(len(numbers))]
    values = pa.array(texts, pa.string()).cast(pa.binary())
    times = pa.array(np.arange(FIRST_MS, FIRST_MS + len(numbers)), pa.int64())
    with Producer(bootstrap_servers=brokers) as producer:
        table = pa.table({"key": keys, "value": values, "timestamp": times})
        producer.send_arrow(table, topic, key="key", timestamp="timestamp")
        producer.flush()


def _measure_one(bench: Bench, who: str, scenario: str, rows: int) -> tuple[float, int]:
    """Rows a second, and how many results."""
    bench._used += 1
    application, brokers = f"bench-{scenario}-{bench._used}", f"127.0.0.1:{bench.port()}"
    inputs = [f"{application}.in"] + [f"{application}.other"] * (scenario == "sql-stream-table-join")
    topics = [*inputs, f"{application}.out"]
    common = [scenario, brokers, application, str(bench.folder / application), str(COMMIT_MS)]
    if who == "headwater":
        group, command = (
            make(scenario, brokers, application).app.name,
            [sys.executable, "-m", "bench.sql_apps", *common],
        )
    else:
        group, source = application, str(ROOT / "bench/StreamsPeer.java")
        command = ["java", "-Xmx2g", "-cp", f"{JARS}/*", source, *common, "0", "2"]
    with Calls(bench.port()) as calls:
        for topic in topics:
            calls.create_topic(topic, PARTITIONS, TOPIC_CONFIGS)
    try:
        if len(inputs) > 1:
            _fill(brokers, inputs[1], np.arange(KEYS), '{{"WHO": "who{name}"}}')
        _fill(brokers, inputs[0], key_numbers(rows, KEYS), '{{"NAME": "name{name}", "AMOUNT": {amount}}}')
        with Admin(bootstrap_servers=brokers) as admin:
            places = [TopicPartition(topic, partition) for topic in inputs for partition in range(PARTITIONS)]
            with running(command, bench.folder / f"{application}.said") as process:
                found = pace(admin, process, group, places)
            changelogs = [each.name for each in admin.list_topics() if f"{group}-" in each.name]
            topics += changelogs
        return found, count_records(brokers, f"{application}.out", PARTITIONS)
    finally:
        with Calls(bench.port()) as calls:
            for topic in topics:
                calls.delete_topic(topic)


def _beside_kafka_streams(scenario: str) -> Callable[[Bench], Figures]:
    def measure(bench: Bench) -> Figures:
        rows = bench.count(ROWS)
        theirs, expected = _measure_one(bench, "Kafka Streams", scenario, rows)
        ours, results = _measure_one(bench, "headwater", scenario, rows)
        check("results", results, expected)
        return {scenario: Figure(ours, theirs, f"{results:,} results, as Kafka Streams")}

    return measure


def sql_streams_scenarios() -> list[Scenario]:
    return [
        Scenario(
            (Kind(name, f"SQL: {TITLES[name]}", "rows/s", MORE, "Kafka Streams"),),
            _beside_kafka_streams(name),
            2,
            about_broker=False,
        )
        for name in STATEMENTS
    ]
