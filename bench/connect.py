"""Connect beside Apache's worker: files in and out, PostgreSQL out (JDBC sink) and in (JDBC source, change data
capture), topics into Parquet, the time from a REST call to the first record, and memory.

Both are standalone workers with their defaults on the same broker, one after the other; each row counts what has
arrived: offsets of the topic, bytes of the file, rows of the table. The peer of a row stands in its limit's column.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from bench.brokers import memory_mb, memory_mb_with_children
from bench.connect_workers import CONVERTERS, DEBEZIUM, DEBEZIUM_JDBC, JSON, ConnectProcess, connect_worker, postgres
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken, Calls
from bench.rows import Bench, Figures, Scenario, check
from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer

OURS, APACHES = "headwater", "Kafka Connect"
LINES, LINE_BYTES = 400_000, 100
ROWS = 40_000
CHANGES_TIMED = 150
CONNECTORS = 10
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
SCHEMA = {"type": "struct", "optional": False, "fields": [{"field": "id", "type": "int64", "optional": False}, {"field": "name", "type": "string", "optional": True}]}  # fmt: skip


def rate(worker: ConnectProcess, name: str, arrived: Callable[[], int], total: int) -> float:
    """A second, from the first tenth on: what a worker needs to begin is another row's."""
    worker.until(name, lambda: arrived() > total // 10)
    began, at_first = time.perf_counter(), arrived()
    worker.until(name, lambda: arrived() >= total)
    check(f"what arrived of {name}", arrived(), total)
    return (total - at_first) / max(time.perf_counter() - began, 1e-3)


def brokers(bench: Bench) -> str:
    return f"127.0.0.1:{bench.port()}"


def folder(bench: Bench) -> Path:
    return bench.directory().with_name(f"connect-{bench._used}")


def end_of(bench: Bench, topic: str) -> Callable[[], int]:
    def found() -> int:
        with Calls(bench.port()) as calls:
            return int(sum(calls.end_offsets(topic, 1)))

    return found


def file_source(bench: Bench) -> Figures:
    count = bench.count(LINES)
    given = bench.folder / "lines.txt"
    given.write_bytes(b"".join(b"%0*d\n" % (LINE_BYTES - 1, number) for number in range(count)))

    def one(who: str) -> float:
        with bench.topic(1) as topic, connect_worker(who, brokers(bench), folder(bench), CONVERTERS) as worker:
            worker.create("lines", {"connector.class": FILE_SOURCE, "file": str(given), "topic": topic})
            return rate(worker, "lines", end_of(bench, topic), count) * LINE_BYTES / 1e6

    theirs = one(APACHES)
    return {"connect-file-source": Figure(one(OURS), theirs)}


def produce(bench: Bench, topic: str, values: list[bytes]) -> None:
    with Producer({"bootstrap.servers": brokers(bench)}) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()


def file_sink(bench: Bench) -> Figures:
    count = bench.count(LINES)

    def one(who: str) -> float:
        with bench.topic(1) as topic, connect_worker(who, brokers(bench), folder(bench), CONVERTERS) as worker:
            produce(bench, topic, [b"%0*d" % (LINE_BYTES - 1, number) for number in range(count)])
            out = bench.folder / f"{topic}.out"
            config = {"connector.class": FILE_SINK, "file": str(out), "topics": topic}
            worker.create(topic, {**config, "consumer.override.auto.offset.reset": "earliest"})
            return rate(worker, topic, lambda: out.stat().st_size if out.exists() else 0, count * LINE_BYTES) / 1e6

    theirs = one(APACHES)
    return {"connect-file-sink": Figure(one(OURS), theirs)}


def row(number: int) -> bytes:
    return json.dumps({"schema": SCHEMA, "payload": {"id": number + 1, "name": f"name {number}"}}).encode()


def jdbc_sink(bench: Bench) -> Figures:
    """Upserts by the key of the table; its highest number says how far it is."""
    count = bench.count(ROWS)

    def one(who: str) -> float:
        with (
            postgres() as (server, port),
            psycopg.connect(server.url, autocommit=True) as connection,
            bench.topic(1) as topic,
            connect_worker(who, brokers(bench), folder(bench), JSON, plugin=DEBEZIUM_JDBC) as worker,
        ):
            connection.execute("CREATE TABLE names (id bigint PRIMARY KEY, name text)")
            produce(bench, topic, [row(number) for number in range(count)])

            def highest() -> int:
                found = connection.execute("SELECT max(id) FROM names").fetchone()
                return 0 if found is None or found[0] is None else int(found[0])

            worker.create(
                topic, {"topics": topic, "consumer.override.auto.offset.reset": "earliest", **_sink(who, port)}
            )
            found = rate(worker, topic, highest, count)
            told = connection.execute("SELECT count(*) FROM names").fetchone()
            check("rows", 0 if told is None else told[0], count)
            return found

    theirs = one(APACHES)
    return {"connect-jdbc-sink": Figure(one(OURS), theirs)}


def _sink(who: str, port: int) -> dict[str, str]:
    url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
    if who == OURS:
        return {"connector.class": "JdbcSink", "connection.url": url, "connection.user": "headwater", "table.name.format": "names", "insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}  # fmt: skip
    return {"connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector", "connection.url": url, "connection.username": "headwater", "connection.password": "none", "collection.name.format": "names", "insert.mode": "upsert", "primary.key.mode": "record_value", "primary.key.fields": "id"}  # fmt: skip


def capture(bench: Bench) -> Figures:
    """Changes of one table: as many as there are while nobody read, then one at a time."""
    count = bench.count(ROWS)

    def one(who: str) -> tuple[float, float]:
        prefix = folder(bench).name
        topic = f"{prefix}.public.names"
        config = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "plugin.name": "pgoutput", "database.hostname": "127.0.0.1", "database.user": "headwater", "database.password": "none", "database.dbname": "postgres", "topic.prefix": prefix, "slot.name": "bench", "snapshot.mode": "no_data"}  # fmt: skip
        with (
            postgres() as (server, port),
            psycopg.connect(server.url, autocommit=True) as connection,
            connect_worker(who, brokers(bench), folder(bench), JSON, plugin=DEBEZIUM) as worker,
        ):
            connection.execute("CREATE TABLE names (id bigint PRIMARY KEY, name text, at double precision)")
            with Calls(bench.port()) as calls:
                calls.create_topic(topic, 1, {})
            worker.create("names", {**config, "database.port": str(port)})
            streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
            worker.until("names", lambda: connection.execute(streaming).fetchone() is not None)
            insert = "INSERT INTO names SELECT n, 'name ' || n FROM generate_series({}, {}) n"
            done = threading.Thread(target=lambda: connection.execute(sql.SQL(insert).format(1, count)))  # type: ignore[arg-type]
            done.start()
            try:
                found = rate(worker, "names", end_of(bench, topic), count)
            finally:
                done.join()
            return found, _latency(bench, connection, topic, count)

    theirs, their_ms = one(APACHES)
    ours, our_ms = one(OURS)
    return {"connect-cdc": Figure(ours, theirs), "connect-cdc-latency": Figure(our_ms, their_ms)}


def _latency(bench: Bench, connection: "psycopg.Connection[tuple[object, ...]]", topic: str, count: int) -> float:
    """From the commit of a row to the consumer, the middle of all, in ms."""
    place, found = TopicPartition(topic, 0), []
    with Consumer({"bootstrap.servers": brokers(bench), "fetch.max.wait.ms": "500"}) as consumer:
        consumer.assign([place])
        consumer.seek(place, count)
        for number in range(bench.count(CHANGES_TIMED)):
            began = time.perf_counter()
            connection.execute("INSERT INTO names VALUES (%s, 'one')", [count + 1 + number])
            while not consumer.poll(1.0):
                if time.perf_counter() - began > 60:
                    raise Broken("a change did not come")
            found.append(time.perf_counter() - began)
    return sorted(found)[len(found) // 2] * 1e3


def jdbc_source(bench: Bench) -> Figures:
    count = bench.count(ROWS)
    with (
        postgres() as (server, port),
        psycopg.connect(server.url, autocommit=True) as connection,
        connect_worker(OURS, brokers(bench), folder(bench), JSON) as worker,
    ):
        connection.execute("CREATE TABLE names (id bigint PRIMARY KEY, name text)")
        connection.execute("INSERT INTO names SELECT n, 'name ' || n FROM generate_series(1, %s) n", [count])
        prefix = folder(bench).name
        with Calls(bench.port()) as calls:
            calls.create_topic(f"{prefix}names", 1, {})
        worker.create("names", {"connector.class": "JdbcSource", "connection.url": f"jdbc:postgresql://127.0.0.1:{port}/postgres", "connection.user": "headwater", "mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": "names", "topic.prefix": prefix, "batch.max.rows": "1000"})  # fmt: skip
        return {"connect-jdbc-source": Figure(rate(worker, "names", end_of(bench, f"{prefix}names"), count))}


def parquet(bench: Bench) -> Figures:
    count = bench.count(LINES) // 1000 * 1000
    out = folder(bench)
    with bench.topic(1) as topic, connect_worker(OURS, brokers(bench), folder(bench), JSON) as worker:
        produce(bench, topic, [row(number) for number in range(count)])
        worker.create(topic, {"connector.class": "TopicFiles", "topics": topic, "path": str(out), "flush.size": "1000", "consumer.override.auto.offset.reset": "earliest"})  # fmt: skip
        return {"connect-parquet": Figure(rate(worker, topic, lambda: 1000 * len(list(out.rglob("*.parquet"))), count))}


def ten_sources(bench: Bench, worker: ConnectProcess, place: Path) -> list[float]:
    """Makes connectors that read a file; the milliseconds until the first record of each."""
    given = place / "one.txt"
    given.write_text("a line\n")
    times = []
    for number in range(CONNECTORS):
        topic = f"{place.name}-{number}"
        with Calls(bench.port()) as calls:
            calls.create_topic(topic, 1, {})
        began = time.perf_counter()
        worker.create(topic, {"connector.class": FILE_SOURCE, "file": str(given), "topic": topic})
        arrived = end_of(bench, topic)
        worker.until(topic, lambda arrived=arrived: arrived() > 0)  # type: ignore[misc]
        times.append((time.perf_counter() - began) * 1e3)
    return times


def memory_on_spark(bench: Bench) -> Figures:
    """With slots that Spark supplies: the worker, the JVM and all processes of Python."""
    place = folder(bench)
    with connect_worker(OURS, brokers(bench), place, {**CONVERTERS, "spark.master": "local[2]", "task.slots": "1"}) as worker:  # fmt: skip
        ten_sources(bench, worker, place)
        status = worker.ask("GET", f"/connectors/{place.name}-0/status")
        if not str(status["tasks"][0].get("runs_on", "")).startswith("spark"):
            raise Broken(f"the task is in no slot: {status}")
        return {"connect-memory-spark": Figure(memory_mb_with_children(worker.process.pid))}


def first_record_and_memory(bench: Bench) -> Figures:
    def one(who: str) -> tuple[float, float, float]:
        place = folder(bench)
        with connect_worker(who, brokers(bench), place, CONVERTERS) as worker:
            idle = memory_mb(worker.process.pid)
            times = ten_sources(bench, worker, place)
            return sorted(times)[len(times) // 2], idle, memory_mb(worker.process.pid)

    theirs, ours = one(APACHES), one(OURS)
    rows = ("connect-first-record", "connect-memory-idle", "connect-memory-ten")
    return {name: Figure(mine, other) for name, mine, other in zip(rows, ours, theirs, strict=True)}


def _scenario(measure: Callable[[Bench], Figures], *kinds: Kind) -> Scenario:
    return Scenario(kinds, measure, 2, about_broker=False)


def connect_scenarios() -> list[Scenario]:
    debezium: Mapping[str, str] = {"sink": "Debezium's JDBC sink", "capture": "Debezium"}
    return [
        _scenario(file_source, Kind("connect-file-source", "Connect: file to topic", "MB/s", MORE, APACHES)),
        _scenario(file_sink, Kind("connect-file-sink", "Connect: topic to file", "MB/s", MORE, APACHES)),
        _scenario(jdbc_sink, Kind("connect-jdbc-sink", "Connect: topic to PostgreSQL", "rows/s", MORE, debezium["sink"])),
        _scenario(
            capture,
            Kind("connect-cdc", "Connect: changes of PostgreSQL", "changes/s", MORE, debezium["capture"]),
            Kind("connect-cdc-latency", "Connect: a change to the consumer, p50", "ms", LESS, debezium["capture"]),
        ),
        _scenario(jdbc_source, Kind("connect-jdbc-source", "Connect: table to topic", "rows/s", MORE, "")),
        _scenario(parquet, Kind("connect-parquet", "Connect: topic to Parquet", "records/s", MORE, "")),
        _scenario(
            first_record_and_memory,
            Kind("connect-first-record", "Connect: REST call to first record, p50", "ms", LESS, APACHES),
            Kind("connect-memory-idle", "Connect: memory, idle", "MB", LESS, APACHES, 1.0, of_limit=True),
            Kind("connect-memory-ten", "Connect: memory, ten file connectors", "MB", LESS, APACHES, 1.0, of_limit=True),
        ),
        _scenario(memory_on_spark, Kind("connect-memory-spark", "Connect: memory, ten file connectors in a slot, Spark's JVM included", "MB", LESS, "")),
    ]  # fmt: skip
