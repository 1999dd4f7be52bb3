"""The same tables and changes for Debezium and for PostgresCdc, and their records in one shape, times and positions
aside.

`debezium_records.json` has what Debezium 3.6.1 on Apache's Connect 4.3 gave; `python -m compat.support.debezium` in
tests/ makes it again (it needs the jars of tests/compat/debezium/pom.xml), and tests/compat/test_debezium_live.py
compares both live.
"""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from compat.support.java import LIBRARY, java_command
from headwater.base.ids import TopicPartition
from headwater.client import Consumer
from headwater.connect.connectors.postgres_cdc.connector import PostgresCdcConnector
from headwater.connect.converters.basic import SimpleHeaderConverter
from headwater.connect.converters.json_converter import JsonConverter
from headwater.connect.data.record import SourceRecord
from headwater.server.zookeeper.process import free_ports
from headwater.testing import Broker
from headwater.testing.connect import SourceKit
from spark.support.postgres import Postgres, binaries

RECORDED = Path(__file__).parent / "debezium_records.json"
JARS = Path(__file__).parent.parent / "debezium/target/lib"
_PATIENCE_S = 240

SETUP = r"""
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN posint AS integer CHECK (VALUE > 0);
CREATE DOMAIN shorttext AS varchar(10);
CREATE TABLE types (
  id serial PRIMARY KEY, b boolean, b_nn boolean NOT NULL DEFAULT true, i2 smallint, i4 integer DEFAULT 42, i8 bigint, f4 real,
  f8 double precision, n numeric, n102 numeric(10,2) NOT NULL DEFAULT 1.50, n5 numeric(5), m money, t text DEFAULT 'xy',
  v varchar(20), c char(5), c1 "char", by bytea, d date, ti time, ti3 time(3), tz timetz, ts timestamp, ts0 timestamp(0),
  ts3 timestamp(3), ts6 timestamp(6), tstz timestamptz, iv interval, u uuid, j json, jb jsonb, x xml, ip inet, ci cidr,
  ma macaddr, ma8 macaddr8, p point, bi bit(1), bi3 bit(3), bv bit varying(5), bv0 bit varying, r4 int4range, rn numrange,
  rts tsrange, rtstz tstzrange, rd daterange, r8 int8range, e mood, dom posint, sdom shorttext, o oid, ai integer[], at text[],
  an numeric(10,2)[], ab boolean[], ad date[], ats timestamp[], ae mood[], au uuid[], aj jsonb[], aby bytea[], av varchar(4)[],
  a8 bigint[], af real[], atstz timestamptz[], tsv tsvector, ml int4multirange, pl pg_lsn, atm time[], ac char(3)[],
  ai2 smallint[], af8 float8[], tstz0 timestamptz(0), tstz3 timestamptz(3)
);
CREATE TABLE nopk (a int, b text);
CREATE TABLE nopk_full (a int, b text); ALTER TABLE nopk_full REPLICA IDENTITY FULL;
CREATE TABLE composite (a int, b text, c text, d int DEFAULT 7, PRIMARY KEY (b, a)); ALTER TABLE composite REPLICA IDENTITY FULL;
CREATE TABLE big (id int PRIMARY KEY, body text, n int NOT NULL, arr text[], js jsonb);
ALTER TABLE big ALTER body SET STORAGE EXTERNAL; ALTER TABLE big ALTER arr SET STORAGE EXTERNAL;
ALTER TABLE big ALTER js SET STORAGE EXTERNAL;
CREATE TABLE bigfull (id int PRIMARY KEY, body text, n int); ALTER TABLE bigfull REPLICA IDENTITY FULL;
ALTER TABLE bigfull ALTER body SET STORAGE EXTERNAL;
CREATE SCHEMA "Other s"; CREATE TABLE "Other s"."Odd-table" ("Id" int PRIMARY KEY, "a b" text, "$x" int);
CREATE TABLE byindex (k int NOT NULL, v text, w text NOT NULL, UNIQUE (k));
ALTER TABLE byindex REPLICA IDENTITY USING INDEX byindex_k_key;
CREATE TABLE empty (id int PRIMARY KEY);
CREATE TABLE defaults (id int PRIMARY KEY, a int NOT NULL DEFAULT 3, b text NOT NULL DEFAULT 'q', c numeric(5,2) NOT NULL DEFAULT 2.5,
  d date NOT NULL DEFAULT '2020-01-02', e timestamp NOT NULL DEFAULT now(), f bool NOT NULL DEFAULT false, g mood NOT NULL DEFAULT 'ok',
  h bytea NOT NULL DEFAULT '\x01ff', i uuid DEFAULT gen_random_uuid(), j jsonb DEFAULT '{"a": 1}', k int DEFAULT 1+2,
  l text DEFAULT lower('A'), m text DEFAULT NULL, n bigint DEFAULT -5, o real DEFAULT 1.25,
  p timestamp(3) DEFAULT '2020-01-02 03:04:05.678', q timestamptz DEFAULT '2020-01-02 03:04:05+01', r time DEFAULT '03:04:05',
  s int[] DEFAULT '{1,2}', t varchar(3) DEFAULT 'ab', u char(3) DEFAULT 'ab', v interval DEFAULT '1 day', w bit(3) DEFAULT B'101',
  x numeric DEFAULT 3.14, y double precision DEFAULT 1e3, z smallint NOT NULL DEFAULT '7');
INSERT INTO types (id) VALUES (1);
INSERT INTO types VALUES (2, true, false, -32768, 2147483647, 9223372036854775807, 1.5, 2.25, 123.456, 12.34, 99999, 12.34, 'héllo',
  'vv', 'ab', 'c', '\x00ff10', '2020-02-29', '01:02:03.123456', '01:02:03.123', '01:02:03.123456+02', '2020-02-29 01:02:03.123456',
  '2020-02-29 01:02:03', '2020-02-29 01:02:03.123', '2020-02-29 01:02:03.123456', '2020-02-29 01:02:03.123456+00',
  '1 year 2 mons 3 days 04:05:06.789', '0e37df36-f698-11e6-8dd4-cb9ced3df976', '{"a":  1}', '{"b": [1, 2]}', '<a>b</a>',
  '10.0.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '(1.5,2)', B'1', B'101', B'10', B'1100110011',
  '[1,5)', '(1.5,2.5]', '[2020-01-01,2020-02-01)', '[2020-01-01 00:00+00,2020-02-01 00:00+00)', '[2020-01-01,2020-02-01)', '[1,)',
  'happy', 5, 'dd', 12345, '{1,2,NULL}', '{a,"b c",NULL,"q\"x"}', '{1.50,2.25}', '{t,f}', '{2020-01-01}',
  '{"2020-01-01 00:00:00.5"}', '{sad,ok}', '{0e37df36-f698-11e6-8dd4-cb9ced3df976}', ARRAY['{"a":1}'::jsonb], ARRAY['\x01'::bytea],
  '{abcd}', '{1,2}', '{1.5}', '{"2020-01-01 00:00:00.5+00"}', 'a b', '{[1,2)}', '0/16B3748', '{01:02:03}', '{abc}', '{3}', '{2.5}',
  '2020-02-29 01:02:03+00', '2020-02-29 01:02:03.120+00');
INSERT INTO types (id, n, d, ts, ts3, tstz, f4, f8) VALUES (3, 'NaN', '0001-01-01', '1969-12-31 23:59:59.999999',
  '1969-12-31 23:59:59.999', '1900-01-01 00:00:00+00', 'NaN', 'Infinity');
INSERT INTO types (id, tstz, iv, n, m, tz) VALUES (5, '2020-03-15 12:00:00+00', '-1 day -00:00:01.5', '1e-20', '-12345.67', '12:00:00+01');
INSERT INTO nopk VALUES (1, 'one'); INSERT INTO nopk_full VALUES (1, 'one');
INSERT INTO composite VALUES (1, 'x', 'snap', 1);
INSERT INTO big VALUES (1, repeat('s', 3000), 1, ARRAY[repeat('t', 3000)], to_jsonb(repeat('u', 3000)));
INSERT INTO bigfull VALUES (1, repeat('s', 3000), 1);
INSERT INTO "Other s"."Odd-table" VALUES (1, 'y', 2);
INSERT INTO byindex VALUES (1, 'v', 'w'); INSERT INTO defaults (id) VALUES (1);
"""
# after an ALTER, the next waits until its one record has come: defaults and keys are read from the table as it is then
CHANGES = (
    "UPDATE types SET i4 = 7 WHERE id = 1",
    "DO $$ DECLARE r types%ROWTYPE; BEGIN SELECT * INTO r FROM types WHERE id = 2; r.id := 12; INSERT INTO types SELECT r.*; END $$",
    "INSERT INTO types (id, n, d, ts, ts3, tstz, f4, f8) VALUES (13, 'NaN', '0001-01-01', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999', '1900-01-01 00:00:00+00', 'NaN', 'Infinity')",
    "INSERT INTO types (id, tstz, iv, n, m, tz) VALUES (15, '2020-03-15 12:00:00+00', '-1 day -00:00:01.5', '1e-20', '-12345.67', '12:00:00+01')",
    "DELETE FROM types WHERE id = 2",
    "INSERT INTO nopk VALUES (2, 'two')",
    "INSERT INTO nopk_full VALUES (2, 'two')", "UPDATE nopk_full SET b = 'zwei' WHERE a = 2", "DELETE FROM nopk_full WHERE a = 1",
    "UPDATE composite SET c = 'up'", "UPDATE composite SET a = 2 WHERE b = 'x'", "DELETE FROM composite",
    "UPDATE big SET n = 2 WHERE id = 1", "UPDATE big SET body = 'short' WHERE id = 1", "UPDATE big SET id = 3 WHERE id = 1", "DELETE FROM big WHERE id = 3",
    "UPDATE bigfull SET n = 2 WHERE id = 1", "DELETE FROM bigfull",
    "INSERT INTO \"Other s\".\"Odd-table\" VALUES (2, 'z', 3)", "DELETE FROM \"Other s\".\"Odd-table\" WHERE \"Id\" = 1",
    "UPDATE byindex SET v = 'vv'", "UPDATE byindex SET k = 5", "DELETE FROM byindex",
    "BEGIN; INSERT INTO nopk VALUES (3, 'three'); INSERT INTO empty VALUES (1); INSERT INTO empty VALUES (2); COMMIT",
    "BEGIN; INSERT INTO empty VALUES (3); ROLLBACK",
    "ALTER TABLE empty ADD COLUMN extra text DEFAULT 'e'; INSERT INTO empty VALUES (4)",
    "ALTER TABLE empty ADD COLUMN num numeric(4,1) NOT NULL DEFAULT 0.5; UPDATE empty SET extra = 'f' WHERE id = 4",
    "ALTER TABLE empty DROP COLUMN extra; INSERT INTO empty VALUES (5, 1.5)",
    "ALTER TABLE empty RENAME COLUMN num TO renamed; UPDATE empty SET renamed = 2.5 WHERE id = 5",
    "ALTER TABLE empty ALTER renamed TYPE text; UPDATE empty SET renamed = 'three' WHERE id = 5",
    "CREATE TABLE fresh (id bigint PRIMARY KEY, v text); INSERT INTO fresh VALUES (1, 'new')",
    "SELECT pg_logical_emit_message(true, 'pre', 'content')", "SELECT pg_logical_emit_message(false, 'pre2', '\\x00ff'::bytea)",
    "INSERT INTO defaults (id) VALUES (2)",
    "TRUNCATE nopk, empty",
    "INSERT INTO nopk VALUES (99, 'last')",
)  # fmt: skip
MODES: dict[str, dict[str, str]] = {
    "plain": {},
    "transactions": {
        "provide.transaction.metadata": "true",
        "skipped.operations": "none",
        "extended.headers.enabled": "false",
    },
    "text": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "binary.handling.mode": "hex",
        "interval.handling.mode": "string",
        "tombstones.on.delete": "false",
    },
    "double": {
        "decimal.handling.mode": "double",
        "time.precision.mode": "isostring",
        "binary.handling.mode": "base64",
        "schema.name.adjustment.mode": "avro",
        "field.name.adjustment.mode": "avro",
    },
    "chosen": {
        "table.include.list": r"public\.types,public\.composite,public\.nopk,public\.big",
        "column.exclude.list": r"public\.types\.(i2|f4)",
        "column.mask.with.4.chars": r"public\.types\.v",
        "column.truncate.to.3.chars": r"public\.types\.t,public\.composite\.c",
        "column.mask.hash.v2.SHA-256.with.salt.abc": r"public\.types\.sdom",
        "column.propagate.source.type": r"public\.types\.n102",
        "message.key.columns": "public.nopk:a;public.composite:c",
        "publication.autocreate.mode": "filtered",
        "snapshot.mode": "no_data",
        "time.precision.mode": "nanoseconds",
        "include.unknown.datatypes": "true",
    },
}
_TIMES = {"ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "version", "id"}
Shaped = dict[str, Any]


def run_changes(url: str, records: Callable[[], list[Shaped]], alterations_wait: bool) -> list[Shaped]:
    """Makes the changes; `records` reads all that have come. Ends with all of them."""
    deadline = time.monotonic() + _PATIENCE_S

    def until(condition: Callable[[list[Shaped]], bool]) -> list[Shaped]:
        while True:
            found = records()
            if condition(found):
                return found
            assert time.monotonic() < deadline, f"the records did not come, only {len(found)}"

    with psycopg.connect(url, autocommit=True) as connection:
        altered = 2
        for change in CHANGES:
            connection.execute(change)
            if change.startswith("ALTER") and alterations_wait:
                altered += 1
                until(lambda found, altered=altered: len(of_topic(found, "public.empty")) >= altered)  # type: ignore[misc]
        return until(lambda found: any((each["after"] or {}).get("a") == 99 for each in of_topic(found, "public.nopk")))


def of_topic(records: list[Shaped], name: str) -> list[Shaped]:
    return [each for each in records if each["topic"].endswith(f".{name}")]


def shaped(topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]) -> Shaped:
    """Fields of the schemas as lists, so that their order counts too; what differs between two runs is a star."""
    made: Shaped = {"topic": topic, "before": None, "after": None}
    for part, data in (("key", key), ("value", value)):
        told = None if data is None else json.loads(data)
        made[part] = None if told is None else _plain(told["payload"], part == "value")
        made[f"{part}_schema"] = None if told is None else told["schema"]
    fields = {each["field"]: each for each in (made["value_schema"] or {}).get("fields", [])}
    if "before" in fields and fields["before"]["fields"] == fields["after"]["fields"]:
        fields["before"]["fields"] = "those of after"
    if isinstance(made["value"], dict):
        for part in ("before", "after"):
            made[part] = made["value"].pop(part, None)
    if topic.endswith(".transaction"):
        made["key"] = "*"
    made["headers"] = [[name, None if data is None else data.decode()] for name, data in headers if "runId" not in name]
    for row in filter(None, (made["before"], made["after"])):
        for column in ("e", "i") if "defaults" in topic else ():
            row[column] = "*"  # now() and a random uuid
    return made


def _plain(value: Any, starred: bool) -> Any:
    if isinstance(value, dict):
        return {
            name: each
            if name in ("before", "after")
            else "*"
            if starred and name in _TIMES and each is not None and not isinstance(each, dict | list)
            else _plain(each, starred)
            for name, each in value.items()
        }
    return [_plain(each, starred) for each in value] if isinstance(value, list) else value


class Ours:
    """PostgresCdc without a worker; its records go through Connect's JSON converter, with schemas."""

    def __init__(self, database: Postgres, name: str, config: dict[str, str]) -> None:
        self.kit = SourceKit(
            PostgresCdcConnector,
            {
                "database.hostname": str(database.directory),
                "database.user": "headwater",
                "database.dbname": name,
                "topic.prefix": "srv",
                "slot.name": f"slot_{name}",
                "poll.interval.ms": "50",
                **config,
            },
        )
        self._key, self._value, self._header = JsonConverter(), JsonConverter(), SimpleHeaderConverter()
        self._key.configure({"schemas.enable": "true", "converter.type": "key"})
        self._value.configure({"schemas.enable": "true", "converter.type": "value"})
        self._header.configure({"converter.type": "header"})
        self._read: list[Shaped] = []
        self.records: list[SourceRecord] = []

    def read(self) -> list[Shaped]:
        found = self.kit.poll()
        self.records += found
        for each in found:
            key = self._key.from_connect(each.topic, each.key_schema, each.key)
            value = self._value.from_connect(each.topic, each.value_schema, each.value)
            headers = [(h.key, self._header.from_connect(each.topic, h.schema, h.value)) for h in each.headers]
            self._read.append(shaped(each.topic, key, value, headers))
        return self._read

    def until_streaming(self) -> None:
        while self.kit.task._stream is None:  # type: ignore[attr-defined]
            self.read()


def in_topics(records: list[Shaped]) -> dict[str, list[Shaped]]:
    found: dict[str, list[Shaped]] = {}
    for each in records:
        found.setdefault(each["topic"], []).append({name: part for name, part in each.items() if name != "topic"})
    return found


def compact(records: list[Shaped]) -> dict[str, Any]:
    """Each schema once."""
    schemas: list[Any] = []
    topics: dict[str, list[Any]] = {}
    for topic, each_topic in sorted(in_topics(records).items()):
        for each in each_topic:
            for part in ("key_schema", "value_schema"):
                if each[part] is not None:
                    if each[part] not in schemas:
                        schemas.append(each[part])
                    each[part] = schemas.index(each[part])
            topics.setdefault(topic, []).append(each)
    return {"schemas": schemas, "topics": topics}


def expanded(stored: dict[str, Any]) -> dict[str, list[Shaped]]:
    for records in stored["topics"].values():
        for each in records:
            for part in ("key_schema", "value_schema"):
                if each[part] is not None:
                    each[part] = stored["schemas"][each[part]]
    topics: dict[str, list[Shaped]] = stored["topics"]
    return topics


# Debezium itself


def free_port() -> int:
    """None of those that the system hands out by itself: a JVM takes its time to listen there."""
    return free_ports(1)[0]


def run_debezium(
    bootstrap: str, database: Postgres, port: int, name: str, folder: Path, config: dict[str, str]
) -> list[Shaped]:
    """The records that Debezium on Apache's standalone worker makes of the changes."""
    prefix = f"srv-{name}"
    worker = folder / "worker.properties"
    settings = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": f"{folder}/offsets",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "plugin.discovery": "service_load",
    }
    worker.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    given = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": "headwater",
        "database.password": "none",
        "database.dbname": name,
        "topic.prefix": prefix,
        "slot.name": f"debezium_{name}",
        **config,
    }
    connector = folder / "connector.json"
    connector.write_text(json.dumps({"name": name, "config": given}))
    there = {each.name for each in LIBRARY.glob("*.jar")}
    more = [str(each) for each in JARS.glob("*.jar") if each.name not in there and not each.name.startswith("slf4j")]
    command = [*java_command("512m"), "-cp", ":".join([f"{LIBRARY}/*", *more]), "org.apache.kafka.connect.cli.ConnectStandalone", str(worker), str(connector)]  # fmt: skip
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = url_of(database, name)
    try:
        _wait_for_stream(url, process)
        return run_changes(url, lambda: _read_topics(bootstrap, prefix), "table.include.list" not in config)
    finally:
        process.kill()
        process.wait()


def _wait_for_stream(url: str, process: "subprocess.Popen[bytes]") -> None:
    """Changes before that may come as rows of the snapshot."""
    deadline = time.monotonic() + _PATIENCE_S
    with psycopg.connect(url, autocommit=True) as connection:
        while not connection.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'").fetchall():
            assert process.poll() is None, "Apache's worker ended"
            assert time.monotonic() < deadline, "Debezium does not stream"
            time.sleep(0.2)


def _read_topics(bootstrap: str, prefix: str) -> list[Shaped]:
    found = []
    time.sleep(0.5)
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer:
        topics = [each for each in consumer.list_topics() if each.startswith(f"{prefix}.")]
        partitions = [TopicPartition(topic, 0) for topic in topics]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(each) < ends[each] for each in partitions):
            for record in consumer.poll(1.0):
                topic = record.topic.replace(prefix, "srv", 1)
                found.append(shaped(topic, _renamed(record.key, prefix), _renamed(record.value, prefix), [(name, _renamed(data, prefix)) for name, data in record.headers]))  # fmt: skip
    return found


def make_database(database: Postgres, name: str) -> None:
    """The tables, in a database of their own. The server must have wal_level=logical."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    with psycopg.connect(url_of(database, name), autocommit=True) as connection:
        connection.execute(SETUP)


def url_of(database: Postgres, name: str) -> str:
    return database.url.replace("/postgres?", f"/{name}?")


def debezium_records(folder: Path, modes: list[str]) -> dict[str, list[Shaped]]:
    """What Debezium gives now, by mode."""
    where, port = binaries(), free_port()
    assert where is not None
    server = Postgres(where, "wal_level=logical", "listen_addresses='127.0.0.1'", f"port={port}")
    server.url += f"&port={port}"
    found = {}
    try:
        server.start()
        with Broker(num_partitions=1) as broker:
            for mode in modes:
                make_database(server, f"{mode}_tables")
                (folder / mode).mkdir()
                found[mode] = run_debezium(broker.bootstrap_servers, server, port, f"{mode}_tables", folder / mode, MODES[mode])  # fmt: skip
    finally:
        server.close()
    return found


def _renamed(data: bytes | None, prefix: str) -> bytes | None:
    return None if data is None else data.replace(prefix.encode(), b"srv")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        records = debezium_records(Path(aside), list(MODES))
    stored = {mode: compact(each) for mode, each in records.items()}
    RECORDED.write_text(
        json.dumps(stored, ensure_ascii=False, separators=(",", ":")).replace('},{"before"', '},\n{"before"') + "\n"
    )
