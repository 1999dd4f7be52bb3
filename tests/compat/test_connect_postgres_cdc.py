"""PostgresCdc against a real PostgreSQL: its records beside those that Debezium made of the same changes, a worker that
is killed under load, and what the server may forget.
"""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from compat.support.debezium import MODES, RECORDED, Ours, expanded, in_topics, make_database, run_changes, url_of
from compat.support.quick import lasting
from headwater.base.ids import TopicPartition
from headwater.client import Consumer
from headwater.connect.connectors.postgres_cdc.pgoutput import lsn_of
from headwater.connect.errors import ConnectError
from spark.support.postgres import Postgres, running_postgres

PATIENCE_S = 240


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running_postgres("wal_level=logical", "max_replication_slots=20", "max_wal_senders=20") as server:
        yield server


@pytest.fixture
def made(database: Postgres) -> Iterator[Callable[..., Ours]]:
    """Connectors that are closed, and databases that are gone, at the end."""
    running: dict[str, Ours] = {}

    def make(name: str, **config: str) -> Ours:
        running[name] = Ours(database, name, {key.replace("_", "."): value for key, value in config.items()})
        return running[name]

    yield make
    for each in running.values():
        each.kit.close()


def create(database: Postgres, name: str, tables: str = "") -> "psycopg.Connection[Any]":
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    connection = psycopg.connect(url_of(database, name), autocommit=True)
    connection.execute(tables)  # type: ignore[call-overload]
    return connection


@pytest.mark.parametrize("mode", list(MODES))
def test_records_are_those_of_debezium_field_by_field(database: Postgres, mode: str) -> None:
    theirs = expanded(json.loads(RECORDED.read_text())[mode])
    name = f"beside_{mode}"
    make_database(database, name)
    ours = Ours(database, name, MODES[mode])
    try:
        ours.until_streaming()
        found = in_topics(run_changes(url_of(database, name), ours.read, mode != "chosen"))
    finally:
        ours.kit.close()
    assert list(found) != []
    assert sorted(found) == sorted(theirs)
    for topic, records in theirs.items():
        for number, (one, other) in enumerate(zip(found[topic], records, strict=True)):
            named = [{**each, **(each["value"] if isinstance(each["value"], dict) else {})} for each in (one, other)]
            for part in named[1]:
                assert _known(named[0][part]) == _known(named[1][part]), f"{topic}, record {number}: {part}"


def _known(part: Any) -> Any:
    """The database's name stands in each source block;
    a message's collection has a Java object's address for a name.
    """
    if isinstance(part, dict):
        return {name: "*" if name in ("db", "data_collection") else _known(each) for name, each in part.items()}
    return [_known(each) for each in part] if isinstance(part, list) else part


def test_a_new_start_goes_on_behind_the_last_commit_and_the_server_forgets_only_what_was_committed(
    database: Postgres, made: Callable[..., Ours]
) -> None:
    with create(
        database, "going_on", "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')"
    ) as db:
        cdc = made("going_on", status_update_interval_ms="1")
        cdc.until_streaming()
        cdc.kit.commit()
        db.execute("BEGIN; INSERT INTO t VALUES (2, 'b'), (3, 'c'); DELETE FROM t WHERE id = 1; COMMIT")
        _until(lambda: len(cdc.read()) == 5)  # one row, two inserts, one deletion with its tombstone
        before = _confirmed(db)
        _until(lambda: bool(cdc.read()) and db.execute("SELECT 1 FROM pg_stat_replication").fetchone() is not None)
        crashed = cdc.kit.task
        cdc.kit.crash()
        crashed._let_go()  # type: ignore[attr-defined]  # what the end of a process closes
        assert _confirmed(db) == before  # nothing of the transaction was committed
        cdc.records.clear()
        _until(lambda: bool(cdc.read()) and len(cdc.records) == 4)
        assert [each.value and each.value["op"] for each in cdc.records] == ["c", "c", "d", None]
        cdc.kit.commit()
        offset = cdc.records[-1].source_offset
        assert offset is not None
        _until(
            lambda: (cdc.read(), _confirmed(db) > offset["lsn"])[1]
        )  # by itself: all is committed, nothing is outstanding
        cdc.kit.restart()
        cdc.records.clear()
        db.execute("UPDATE t SET v = 'bb' WHERE id = 2")
        _until(lambda: bool(cdc.read()) and bool(cdc.records))
        assert [each.value["after"]["v"] for each in cdc.records] == ["bb"]


def test_a_snapshot_that_is_interrupted_goes_on_with_its_table_and_no_change_is_missed(
    database: Postgres, made: Callable[..., Ours]
) -> None:
    tables = "".join(
        f"CREATE TABLE {name} (id int PRIMARY KEY, v text); INSERT INTO {name} SELECT n, 'old' FROM generate_series(1, 30) n;"
        for name in ("a", "b", "c")
    )
    with create(database, "interrupted", tables) as db:
        cdc = made("interrupted", max_batch_size="20")
        _until(lambda: len(cdc.read()) == 40)  # all of a, some of b
        cdc.kit.commit()
        crashed = cdc.kit.task
        cdc.kit.crash()
        crashed._let_go()  # type: ignore[attr-defined]  # what the end of a process closes
        for name in ("a", "b", "c"):  # also of the table that is not read again
            db.execute(f"UPDATE {name} SET v = 'new' WHERE id = 1; DELETE FROM {name} WHERE id = 2")  # type: ignore[call-overload]
        cdc.records.clear()
        _until(lambda: bool(cdc.read()) and len([each for each in cdc.records if each.value is None]) == 3)
        seen = [(each.topic[-1], each.value["op"], each.key["id"]) for each in cdc.records if each.value is not None]
        rows = [(name, "r", number) for name in ("b", "c") for number in (1, *range(3, 31))]
        assert sorted(each for each in seen if each[1] == "r") == rows
        assert [each for each in seen if each[1] != "r"] == [
            (name, op, number) for name in ("a", "b", "c") for op, number in (("u", 1), ("d", 2))
        ]


def test_heartbeats_move_the_offset_while_the_wanted_tables_rest(database: Postgres, made: Callable[..., Ours]) -> None:
    with create(database, "resting", "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE other (id int)") as db:
        cdc = made("resting", table_include_list="public.t", heartbeat_interval_ms="1", snapshot_mode="no_data")
        _until(lambda: bool(cdc.read()))
        first = cdc.records[-1]
        assert (first.topic, first.value["ts_ms"] > 0) == ("__debezium-heartbeat.srv", True)
        db.execute("INSERT INTO other VALUES (1)")
        assert first.source_offset is not None
        begun = first.source_offset["lsn"]
        _until(lambda: bool(cdc.read()) and (cdc.records[-1].source_offset or {})["lsn"] > begun)
        db.execute("INSERT INTO t VALUES (7)")
        _until(lambda: bool(cdc.read()) and any(each.topic == "srv.public.t" for each in cdc.records))


def test_tables_get_their_replica_identity(
    database: Postgres, made: Callable[..., Ours], caplog: pytest.LogCaptureFixture
) -> None:
    """It was refused, and updates told nothing of the row before them."""
    tables = "CREATE TABLE a (id int PRIMARY KEY, v text); CREATE TABLE b (id int NOT NULL, CONSTRAINT by_id UNIQUE (id)); CREATE TABLE c (id int)"
    with create(database, "identities", tables) as db:
        db.execute("INSERT INTO a VALUES (1, 'x')")
        cdc = made("identities", replica_identity_autoset_values="public.a:FULL,public.b:INDEX by_id,public.c:INDEX nonesuch")  # fmt: skip
        cdc.until_streaming()
        found = db.execute("SELECT relreplident::text FROM pg_class WHERE relname IN ('a', 'b', 'c') ORDER BY relname")
        assert found.fetchall() == [("f",), ("i",), ("d",)]
        assert "event=replica-identity-not-set table='public.c'" in caplog.text
        db.execute("UPDATE a SET v = 'y'")
        _until(lambda: bool(cdc.read()) and cdc.records[-1].value["op"] == "u")
        assert cdc.records[-1].value["before"]["v"] == "x"


def test_what_is_missing_on_the_server_is_told(database: Postgres, made: Callable[..., Ours]) -> None:
    create(database, "missing").close()
    with pytest.raises(ConnectError, match="There is no publication 'dbz_publication'"):
        made("missing", publication_autocreate_mode="disabled").read()


@pytest.mark.soak
def test_a_worker_that_is_killed_under_load_loses_nothing_and_keeps_the_order(
    database: Postgres, broker_address: str, topic: str, tmp_path: Path
) -> None:
    """Changes of a transaction stand in the topic in their order, repeated after a kill at most; every row ends as it
    is in the table.
    """
    name = "under_load"
    db = create(database, name, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL); INSERT INTO t SELECT n, 0 FROM generate_series(1, 300) n")  # fmt: skip
    db.execute("ALTER TABLE t REPLICA IDENTITY FULL")
    settings = _files(tmp_path, database, name, broker_address, topic)
    ended, dice, offsets = threading.Event(), random.Random(7), tmp_path / "offsets"

    def load() -> None:
        with psycopg.connect(url_of(database, name)) as connection:
            number = 0
            while not ended.is_set():
                number += 1
                row = dice.randrange(1, 400)
                connection.execute("INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET v = excluded.v", (row, number))  # fmt: skip
                if number % 7 == 0:
                    connection.execute("DELETE FROM t WHERE id = %s", (dice.randrange(1, 400),))
                if number % 5 == 0:
                    connection.commit()
                    ended.wait(0.003)  # a load that leaves the machine to others too

    records = _Topic(broker_address, f"{topic}.public.t")
    loading = threading.Thread(target=load)
    try:
        for kill in range(lasting(2, 12)):
            with _worker(settings) as process:
                if kill == 0:
                    loading.start()
                wanted = len(records.found) + 400
                _until(lambda wanted=wanted: records.read() >= wanted)  # type: ignore[misc]
                _until(lambda: offsets.exists() and b"lsn_unit" in offsets.read_bytes())
                process.kill()
        ended.set()
        loading.join()
        with _worker(settings) as process:
            last = db.execute("INSERT INTO t VALUES (1000, -1) RETURNING id").fetchone()
            assert last is not None
            _until(lambda: records.has(last[0]))
            process.terminate()
            assert process.wait(PATIENCE_S) == 0
        rows = dict(db.execute("SELECT id, v FROM t").fetchall())
    finally:
        ended.set()
        if loading.ident is not None:
            loading.join()
        db.close()
        records.close()
    assert records.table() == rows
    records.check_histories()


class _Topic:
    """The changes in a topic, read as they come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"})
        self._topic, self._assigned = topic, False
        self.found: list[tuple[int, Any]] = []

    def read(self) -> int:
        if not self._assigned:
            if self._topic not in self._consumer.list_topics():
                return 0
            partitions = self._consumer.partitions_for(self._topic)
            self._consumer.assign([TopicPartition(self._topic, number) for number in range(len(partitions))])
            self._assigned = True
        for record in self._consumer.poll(0.2):
            assert record.key is not None
            self.found.append(
                (json.loads(record.key)["id"], None if record.value is None else json.loads(record.value))
            )
        return len(self.found)

    def has(self, row: int) -> bool:
        self.read()
        return any(key == row for key, _ in self.found)

    def table(self) -> dict[int, int]:
        rows: dict[int, int] = {}
        for key, change in self.found:
            if change is None or change["after"] is None:
                rows.pop(key, None)
            else:
                rows[key] = change["after"]["v"]
        return rows

    def check_histories(self) -> None:
        """Without repetitions, each change of a row begins with what the one before it ended with."""
        histories: dict[int, dict[tuple[int, int], Any]] = {}
        for key, change in self.found:
            if change is not None:
                source = change["source"]
                histories.setdefault(key, {}).setdefault((source["lsn"], change["op"] == "r"), change)
        for key, changes in histories.items():
            state = None
            for change in changes.values():
                if change["op"] != "r":
                    assert change["before"] == state, f"a change of row {key} is missing before {change}"
                state = change["after"]

    def close(self) -> None:
        self._consumer.close()


def _files(folder: Path, database: Postgres, name: str, bootstrap: str, topic: str) -> list[str]:
    worker, connector = folder / "worker.properties", folder / "connector.properties"
    shared = {
        "bootstrap.servers": bootstrap,
        "key.converter": "JsonConverter",
        "value.converter": "JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "50",
        "listeners": "http://127.0.0.1:0",
        "task.shutdown.graceful.timeout.ms": "60000",
    }
    own = {
        "name": "cdc",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": str(database.directory),
        "database.user": "headwater",
        "database.dbname": name,
        "topic.prefix": topic,
        "slot.name": name,
        "max.batch.size": "100",
        "poll.interval.ms": "20",
    }
    for path, given in ((worker, shared), (connector, own)):
        path.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
    return [str(worker), str(connector)]


@contextlib.contextmanager
def _worker(files: list[str]) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "headwater.cli.main", "connect", "run", *files]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _confirmed(db: "psycopg.Connection[Any]") -> int:
    row = db.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()").fetchone()  # fmt: skip
    assert row is not None
    return lsn_of(row[0])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "what the test waits for did not come"
