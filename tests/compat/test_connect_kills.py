"""PostgreSQL to a topic to PostgreSQL, row for row, and its changes to a topic, while workers of the group are killed:
thirty rounds, by chance.

The sources are exactly once by their transactions, the sink by its table of progress, so the copy has neither more rows
nor fewer; it has no primary key that would hide a row that came twice. HEADWATER_CHAOS_SEED draws other kills.
"""

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from compat.support.local_cluster import until
from compat.test_connect_distributed import WorkerProcess, committed
from headwater.client import Admin, NewTopic
from spark.support.postgres import binaries, running_postgres

SEED = int(os.environ.get("HEADWATER_CHAOS_SEED", "1"))
ROUNDS = int(os.environ.get("HEADWATER_CONNECT_ROUNDS", "30"))
JSON = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_rows_are_copied_once_though_workers_are_killed(broker_address: str, topic: str, tmp_path: Path) -> None:
    random = Random(SEED)
    print(f"HEADWATER_CHAOS_SEED={SEED} HEADWATER_CONNECT_ROUNDS={ROUNDS}")
    name = topic.replace("-", "_").replace(".", "_")[:30]
    with Admin({"bootstrap.servers": broker_address}) as admin:
        admin.create_topics([NewTopic(f"pg-{name}", 1)])
    with running_postgres() as server, psycopg.connect(server.url, autocommit=True) as database:

        def ask(sql: str) -> list[Any]:
            found = database.execute(sql)  # type: ignore[call-overload]
            return found.fetchall() if found.description is not None else []

        ask(f"CREATE TABLE {name} (id BIGSERIAL PRIMARY KEY, text TEXT)")
        ask(f"CREATE TABLE {name}_copy (id BIGINT, text TEXT)")
        workers = [WorkerProcess(tmp_path, broker_address, f"kills-{topic}", **JSON) for _ in range(2)]
        try:
            _create(workers[0], name, f"jdbc:{server.url}")
            for turn in range(ROUNDS):
                ask(
                    f"INSERT INTO {name} (text) SELECT 'round {turn}' FROM generate_series(1, {random.randint(1, 400)})"
                )
                wanted = ask(f"SELECT count(*) FROM {name}")[0][0]
                some = random.randint(0, wanted)
                until(lambda some=some: ask(f"SELECT count(*) FROM {name}_copy")[0][0] >= some, f"{some} rows")  # type: ignore[misc]
                workers.pop(random.randrange(2)).kill()
                workers.append(WorkerProcess(tmp_path, broker_address, f"kills-{topic}", **JSON))
            until(lambda: ask(f"SELECT count(*) FROM {name}_copy")[0][0] >= wanted, "all rows")
        finally:
            for worker in workers:
                worker.kill()
        assert len(committed(broker_address, f"pg-{name}")) == wanted
        assert ask(f"SELECT * FROM {name}_copy ORDER BY id") == ask(f"SELECT * FROM {name} ORDER BY id")


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_changes_come_once_and_in_order_though_workers_are_killed(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    random = Random(SEED)
    print(f"HEADWATER_CHAOS_SEED={SEED} HEADWATER_CONNECT_ROUNDS={ROUNDS}")
    name = topic.replace("-", "_").replace(".", "_")[:30]
    changes = f"{name}.public.t"
    with Admin({"bootstrap.servers": broker_address}) as admin:
        admin.create_topics([NewTopic(changes, 1)])
    with running_postgres("wal_level=logical") as server, psycopg.connect(server.url, autocommit=True) as database:
        database.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT NOT NULL)")
        settings = {**JSON, "value.converter.schemas.enable": "false"}
        workers = [WorkerProcess(tmp_path, broker_address, f"changes-{topic}", **settings) for _ in range(2)]

        def seen() -> list[int]:
            return [json.loads(each)["after"]["n"] for each in committed(broker_address, changes)]

        try:
            config = {"connector.class": "PostgresCdc", "database.hostname": str(server.directory), "database.port": "5432", "database.user": "headwater", "database.dbname": "postgres", "topic.prefix": name, "slot.name": name.lower(), "snapshot.mode": "no_data", "plugin.name": "pgoutput"}  # fmt: skip
            assert workers[0].door.ask("PUT", "/connectors/changes/config", config)[0] in (200, 201)
            slots = "SELECT count(*) FROM pg_replication_slots WHERE active"
            until(lambda: database.execute(slots).fetchall() == [(1,)], "the log is read")
            last = 0
            for _ in range(ROUNDS):
                first, last = last + 1, last + random.randint(1, 400)
                sql = "INSERT INTO t SELECT n %% 50, n FROM generate_series(%s::bigint, %s::bigint) n ON CONFLICT (id) DO UPDATE SET n = excluded.n"  # fmt: skip
                for each in range(first, last + 1, 40):  # no row twice in one statement
                    database.execute(sql, (each, min(each + 39, last)))
                some = random.randint(0, last)
                until(lambda some=some: len(seen()) >= some, f"{some} changes")  # type: ignore[misc]
                workers.pop(random.randrange(2)).kill()
                workers.append(WorkerProcess(tmp_path, broker_address, f"changes-{topic}", **settings))
            until(lambda: len(seen()) >= last, "all changes")
        finally:
            for worker in workers:
                worker.kill()
        assert seen() == list(range(1, last + 1))


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_changes_of_a_running_pgbench_come_once_though_workers_are_killed(
    broker_address: str, topic: str, tmp_path: Path
) -> None:
    pgbench = (binaries() or Path()) / "pgbench"
    if not pgbench.exists():
        pytest.skip("pgbench is not installed beside PostgreSQL")
    random = Random(SEED)
    print(f"HEADWATER_CHAOS_SEED={SEED} HEADWATER_CONNECT_ROUNDS={ROUNDS}")
    name = topic.replace("-", "_").replace(".", "_")[:30]
    balances = {"accounts": ("aid", "abalance"), "tellers": ("tid", "tbalance"), "branches": ("bid", "bbalance")}
    with Admin({"bootstrap.servers": broker_address}) as admin:
        admin.create_topics([NewTopic(f"{name}.public.pgbench_{each}", 1) for each in ("history", *balances)])

    def after(table: str) -> list[dict[str, Any]]:
        return [json.loads(each)["after"] for each in committed(broker_address, f"{name}.public.pgbench_{table}")]

    with running_postgres("wal_level=logical") as server, psycopg.connect(server.url, autocommit=True) as database:
        login = ["-h", str(server.directory), "-U", "headwater", "postgres"]
        subprocess.run([pgbench, "-i", "-q", *login], check=True, capture_output=True)
        settings = {**JSON, "value.converter.schemas.enable": "false"}
        workers = [WorkerProcess(tmp_path, broker_address, f"pgbench-{topic}", **settings) for _ in range(2)]
        try:
            config = {"connector.class": "PostgresCdc", "database.hostname": str(server.directory), "database.port": "5432", "database.user": "headwater", "database.dbname": "postgres", "topic.prefix": name, "slot.name": name.lower(), "snapshot.mode": "no_data", "plugin.name": "pgoutput"}  # fmt: skip
            assert workers[0].door.ask("PUT", "/connectors/changes/config", config)[0] in (200, 201)
            slots = "SELECT count(*) FROM pg_replication_slots WHERE active"
            until(lambda: database.execute(slots).fetchall() == [(1,)], "the log is read")
            load = subprocess.Popen([pgbench, "-n", "-c", "4", "-R", "100", "-T", str(2 * ROUNDS), *login], stdout=subprocess.DEVNULL)  # fmt: skip
            try:
                for _ in range(ROUNDS):
                    wanted = len(after("history")) + random.randint(1, 100)
                    until(lambda wanted=wanted: load.poll() is not None or len(after("history")) >= wanted, "more changes")  # type: ignore[misc]  # fmt: skip
                    workers.pop(random.randrange(2)).kill()
                    workers.append(WorkerProcess(tmp_path, broker_address, f"pgbench-{topic}", **settings))
                assert load.wait(600) == 0
            finally:
                load.kill()
                load.wait()
            history = database.execute("SELECT tid, bid, aid, delta FROM pgbench_history").fetchall()
            until(lambda: all(len(after(each)) >= len(history) for each in ("history", *balances)), "all changes")
        finally:
            for worker in workers:
                worker.kill()
        assert history
        assert sorted((e["tid"], e["bid"], e["aid"], e["delta"]) for e in after("history")) == sorted(history)
        for table, (key, balance) in balances.items():
            found = after(table)
            assert len(found) == len(history)
            last = {each[key]: each[balance] for each in found}
            rows = dict(database.execute(f"SELECT {key}, {balance} FROM pgbench_{table}").fetchall())  # type: ignore[call-overload]
            assert last == {each: rows[each] for each in last}


def _create(worker: WorkerProcess, name: str, url: str) -> None:
    source = {"connector.class": "JdbcSource", "connection.url": url, "mode": "incrementing", "incrementing.column.name": "id", "table.whitelist": name, "topic.prefix": "pg-", "poll.interval.ms": "50"}  # fmt: skip
    sink = {"connector.class": "JdbcSink", "connection.url": url, "topics": f"pg-{name}", "table.name.format": f"{name}_copy", "insert.mode": "insert", "progress.table": f"{name}_progress", "consumer.override.isolation.level": "read_committed"}  # fmt: skip
    for kind, config in (("source", source), ("sink", sink)):
        assert worker.door.ask("PUT", f"/connectors/{kind}-{name}/config", config)[0] in (200, 201)
