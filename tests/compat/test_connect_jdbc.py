"""PostgreSQL to a topic and back into PostgreSQL, row for row, with a restart in between."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_sink import JdbcSinkConnector
from headwater.connect.connectors.jdbc_source import JdbcSourceConnector
from headwater.connect.data import schema as s
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import ConnectWorker, SinkKit, SourceKit
from spark.support.postgres import Postgres, running_postgres


@pytest.fixture
def database() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


def rows(database: Postgres, sql: str) -> list[Any]:
    with psycopg.connect(database.url) as connection:
        found = connection.execute(sql)
        return found.fetchall() if found.description is not None else []


def test_rows_go_from_a_table_through_a_topic_into_another(database: Postgres, broker_address: str, topic: str) -> None:
    name = topic.replace(".", "_")[:40]
    columns = "id, name, price, day, moment, flag, data, small"
    rows(database, f"""CREATE TABLE {name} (id BIGSERIAL PRIMARY KEY, name TEXT, price NUMERIC(10, 2) NOT NULL, day DATE,
         moment TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), flag BOOLEAN, data BYTEA, small SMALLINT)""")  # fmt: skip
    insert = f"""INSERT INTO {name} (name, price, day, flag, data, small) SELECT 'n' || n, n / 4.0, '2020-02-29', n % 2 = 0,
         decode('00ff', 'hex'), n FROM generate_series(1, 250) n"""  # fmt: skip
    rows(database, insert)
    url = f"jdbc:{database.url}"
    source = {
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": url,
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "moment",
        "incrementing.column.name": "id",
        "table.whitelist": name,
        "topic.prefix": "pg-",
        "poll.interval.ms": "50",
    }
    sink = {
        "connector.class": "JdbcSink",
        "connection.url": url,
        "topics": f"pg-{name}",
        "table.name.format": f"{name}_copy",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "progress.table": f"{name}_progress",
    }
    settings = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}
    here = f"SELECT {columns} FROM {name} ORDER BY id"
    there = here.replace("moment", "moment AT TIME ZONE 'UTC'").replace(name, f"{name}_copy")

    def same() -> bool:
        made = rows(database, f"SELECT to_regclass('{name}_copy') IS NOT NULL")[0][0]
        return bool(made) and _millis(rows(database, here)) == _millis(rows(database, there))

    with ConnectWorker(broker_address, settings=settings) as worker:
        worker.create(f"{name}-source", source)
        worker.create(f"{name}-sink", sink)
        worker.until(same)
        worker.herder.restart(f"{name}-source", include_tasks=True, only_failed=False)
        rows(database, insert)
        rows(database, f"UPDATE {name} SET name = 'changed', moment = clock_timestamp() WHERE id = 7")
        worker.until(same)
        assert worker.status(f"{name}-sink")["tasks"][0]["state"] == "RUNNING"
    assert rows(database, f"SELECT sum(next_offset) FROM {name}_progress")[0][0] >= 501  # 500 rows and a change of one


def _millis(found: list[Any]) -> list[Any]:
    """Connect's timestamps have milliseconds."""
    return [(*row[:4], row[4].replace(microsecond=row[4].microsecond // 1000 * 1000), *row[5:]) for row in found]


def test_columns_without_a_zone_are_in_that_of_the_database(database: Postgres) -> None:
    rows(database, "CREATE TABLE t (id INT PRIMARY KEY, bare TIMESTAMP, zoned TIMESTAMPTZ)")
    rows(database, "INSERT INTO t VALUES (1, '2020-07-01 12:00', '2020-07-01 12:00+00')")
    url = f"jdbc:{database.url}"
    config = {"connection.url": url, "db.timezone": "Europe/Berlin", "topic.prefix": "p-", "mode": "timestamp", "poll.interval.ms": "1", "validate.non.null": "false"}  # fmt: skip
    source = SourceKit(JdbcSourceConnector, {**config, "table.whitelist": "t", "timestamp.column.name": "bare"})
    try:
        (record,) = source.poll()
        found = record.value.as_dict()
        assert found["bare"] == datetime(2020, 7, 1, 10, tzinfo=UTC)  # noon in Berlin, in summer
        assert found["zoned"] == datetime(2020, 7, 1, 12, tzinfo=UTC)
        rows(database, "INSERT INTO t VALUES (2, '2020-07-01 12:30', NULL)")  # compared in the same zone: younger
        later: list[Any] = []
        while not later:
            later = source.poll()
        assert [each.value.get("id") for each in later] == [2]
    finally:
        source.task.close()  # type: ignore[attr-defined]
        source.connector.stop()
    sink = SinkKit(JdbcSinkConnector, {"connection.url": url, "db.timezone": "Europe/Berlin", "table.name.format": "t"})
    schema = s.struct([("id", s.INT32), ("bare", s.TIMESTAMP_SCHEMA), ("zoned", s.TIMESTAMP_SCHEMA)])
    moment = datetime(2020, 7, 1, 10, tzinfo=UTC)
    sink.put(sink.record(Struct(schema, {"id": 3, "bare": moment, "zoned": moment}), schema=schema))
    sink.commit()
    sink.close()
    assert rows(database, "SELECT bare::text, zoned FROM t WHERE id = 3") == [("2020-07-01 12:00:00", moment)]


def test_a_database_that_is_full_restarted_or_slow_has_each_row_once(database: Postgres) -> None:
    """A full one answers with the code that PostgreSQL has for it, from a trigger."""
    rows(database, "CREATE TABLE t (id BIGINT)")
    rows(database, "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.id % 10 = 7 THEN RAISE EXCEPTION 'No space left on device' USING ERRCODE = '53100'; END IF; RETURN NEW; END $$")  # fmt: skip
    rows(database, "CREATE TRIGGER full_disk BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION full_disk()")
    sink = SinkKit(JdbcSinkConnector, {"connection.url": f"jdbc:{database.url}", "progress.table": "p", "table.name.format": "t", "retry.backoff.ms": "5"})  # fmt: skip
    sink.task.open([sink.partition])
    schema = s.struct([("id", s.INT64)])

    def records(first: int) -> list[Any]:
        return [sink.record(Struct(schema, {"id": n}), schema=schema) for n in range(first, first + 10)]

    full = records(0)
    for _ in range(2):
        with pytest.raises(RetriableError, match="No space left on device"):
            sink.put(*full)
    assert rows(database, "SELECT count(*) FROM t") == [(0,)]
    rows(database, "DROP TRIGGER full_disk ON t")
    sink.put(*full)

    restarted = records(10)
    database.stop("immediate")
    with pytest.raises(RetriableError, match=r"The database said|Cannot connect"):
        sink.put(*restarted)
    database.start()
    sink.put(*restarted)

    slow, writing = records(20), threading.Event()

    def put() -> None:
        writing.set()
        sink.put(*slow)

    with psycopg.connect(database.url) as other:
        other.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        thread = threading.Thread(target=put)
        thread.start()
        assert writing.wait(60)
        waits = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        with psycopg.connect(database.url, autocommit=True) as looking:
            while looking.execute(waits).fetchall() == [(0,)]:
                assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive()
    sink.close()
    assert rows(database, "SELECT id FROM t ORDER BY id") == [(n,) for n in range(30)]
    assert sink.reported == []


def test_a_task_asleep_in_its_first_batch_does_not_write_over_an_offset_that_was_set(database: Postgres) -> None:
    """Over a table of progress that an earlier version has made."""
    rows(database, "CREATE TABLE t (id BIGINT)")
    rows(database, "CREATE TABLE p (connector VARCHAR(249), topic VARCHAR(249), part INTEGER, next_offset BIGINT NOT NULL, PRIMARY KEY (connector, topic, part))")  # fmt: skip
    rows(database, "INSERT INTO p VALUES ('other', 't', 0, 4)")
    config = {"connection.url": f"jdbc:{database.url}", "progress.table": "p", "table.name.format": "t"}
    asleep = SinkKit(JdbcSinkConnector, config)
    schema = s.struct([("id", s.INT64)])
    asleep.next_offset = 5
    asleep.connector.alter_offsets({"name": "kit", **config}, {TopicPartition("t", 0): 3})
    with pytest.raises(ConnectError, match="was set while this task had it"):
        asleep.put(asleep.record(Struct(schema, {"id": 5}), schema=schema))
    asleep.close()
    again = SinkKit(JdbcSinkConnector, config)
    assert again.next_offset == 3
    again.put(again.record(Struct(schema, {"id": 3}), schema=schema))
    again.close()
    assert rows(database, "SELECT id FROM t") == [(3,)]
    assert rows(database, "SELECT connector, next_offset, generation FROM p ORDER BY 1") == [("kit", 4, 1), ("other", 4, 0)]  # fmt: skip


def source(database: Postgres, **config: str) -> SourceKit:
    named = {name.replace("_", "."): value for name, value in config.items()}
    quick = {"topic.prefix": "p-", "poll.interval.ms": "1", "table.poll.interval.ms": "1000000"}
    return SourceKit(JdbcSourceConnector, {"connection.url": f"jdbc:{database.url}", **quick, **named})


def first_of(database: Postgres, **config: str) -> SourceRecord:
    kit = source(database, **config)
    try:
        return kit.poll()[0]
    finally:
        kit.task.close()  # type: ignore[attr-defined]
        kit.connector.stop()


def test_tables_of_every_schema_are_found_by_whole_and_bare_names(database: Postgres) -> None:
    """Those of other schemas than the first one were not there, and `public.users` was no name."""
    rows(database, "CREATE SCHEMA sales; CREATE TABLE users (id INT); CREATE TABLE sales.\"a.b\" (id INT NOT NULL); CREATE VIEW all_users AS TABLE users")  # fmt: skip
    rows(database, "CREATE TABLE days (d DATE) PARTITION BY RANGE (d)")
    rows(database, "CREATE TABLE day1 PARTITION OF days FOR VALUES FROM ('2020-01-01') TO ('2020-01-02')")
    rows(database, "INSERT INTO users VALUES (1); INSERT INTO sales.\"a.b\" VALUES (2); INSERT INTO days VALUES ('2020-01-01')")  # fmt: skip
    chosen: list[dict[str, str]] = [
        {"table_whitelist": "sales.a.b"}, {"table_whitelist": '"sales"."a.b"'}, {"table_whitelist": "a.b"},
        {"schema_pattern": "sal%"}, {"table_include_list": r"sales\..*"}, {"table_blacklist": "public.users,day1"},
    ]  # fmt: skip
    for each in chosen:
        record = first_of(database, mode="incrementing", incrementing_column_name="id", **each)
        assert record.source_partition == {"protocol": "1", "table": "sales.a.b"}
        assert (record.topic, record.value.schema.name, record.value.get("id")) == ("p-a.b", "a.b", 2)
    assert first_of(database, table_types="VIEW").topic == "p-all_users"
    assert first_of(database, table_types="partitioned table").topic == "p-days"
    rows(database, "CREATE TABLE sales.users (id INT)")
    with pytest.raises(ConnectError, match=r"would be in one: public\.users, sales\.users"):
        source(database)
    with pytest.raises(ConnectError, match="no table to read"):
        source(database, table_whitelist="nonesuch")


def test_names_without_quotation_marks_are_in_small_letters(database: Postgres) -> None:
    rows(database, "CREATE TABLE users (id SERIAL PRIMARY KEY); INSERT INTO users DEFAULT VALUES")
    for column in ("ID", ""):  # the second is found
        record = first_of(database, quote_sql_identifiers="never", mode="incrementing", incrementing_column_name=column)
        assert record.source_offset == {"incrementing": 1}
    with pytest.raises(ConnectError, match='column "ID" does not exist'):
        first_of(database, mode="incrementing", incrementing_column_name="ID")
    sink = SinkKit(JdbcSinkConnector, {"connection.url": f"jdbc:{database.url}", "quote.sql.identifiers": "never", "table.name.format": "Users"})  # fmt: skip
    schema = s.struct([("ID", s.INT32)])
    sink.put(sink.record(Struct(schema, {"ID": 7}), schema=schema))
    sink.close()
    assert rows(database, "SELECT id FROM users ORDER BY id") == [(1,), (7,)]


def test_a_table_that_is_made_has_the_originals_types_defaults_and_arrays(database: Postgres) -> None:
    """Arrays were refused, and a decimal of more than 38 digits."""
    given: list[tuple[str, Schema, Any]] = [
        ("id", s.INT64, 1), ("at", s.TIMESTAMP_SCHEMA, datetime(2020, 1, 1, 12, tzinfo=UTC)), ("digits", s.decimal_schema(2), Decimal("1" * 40 + ".25")),
        ("names", s.array(s.OPTIONAL_STRING), ["a", None, "b'"]), ("numbers", s.array(s.INT32), [1, 70000]), ("none", s.array(s.FLOAT64), []),
        ("grid", s.array(s.array(s.INT16)), [[1], [2]]), ("name", s.STRING.changed(default="it's 5%"), "x"), ("flag", s.BOOLEAN.changed(default=True), False),
        ("raw", s.BYTES.changed(default=b"\x00\xff"), b"1"), ("soon", s.TIMESTAMP_SCHEMA.changed(default=datetime(2021, 1, 1, tzinfo=UTC)), None),
    ]  # fmt: skip
    rows(database, "CREATE TABLE old (id BIGINT); INSERT INTO old VALUES (0)")
    common = {"connection.url": f"jdbc:{database.url}", "auto.create": "true", "auto.evolve": "true", "db.timezone": "Europe/Berlin"}  # fmt: skip
    for table, fields in (("made", given), ("old", [given[0], *given[7:]])):
        schema = s.struct([(name, each) for name, each, _ in fields])
        row = Struct(schema, {name: value for name, _, value in fields if value is not None})
        sink = SinkKit(JdbcSinkConnector, {**common, "table.name.format": f"public.{table}"})
        sink.put(*(sink.record(row, schema=schema) for _ in range(2)))
        sink.close()
        assert sink.reported == []
    found = rows(database, "SELECT id, at::text, digits, names, numbers, none, grid FROM made")[1]
    assert found[:3] == (1, "2020-01-01 13:00:00", Decimal("1" * 40 + ".25"))  # noon in UTC is one o'clock in Berlin
    assert found[3:] == (["a", None, "b'"], [1, 70000], [], [[1], [2]])
    here = rows(database, "SELECT name, flag, raw, soon::text FROM old WHERE id = 0")
    assert here == [("it's 5%", True, b"\x00\xff", "2021-01-01 01:00:00")]
    asked = "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'made'::regclass AND attnum > 0 ORDER BY attnum"  # fmt: skip
    assert ",".join(each for (each,) in rows(database, asked)) == (
        "bigint,timestamp without time zone,numeric,text[],integer[],double precision[],smallint[],text,boolean,bytea,"
        "timestamp without time zone"
    )


def test_types_without_one_of_connects_are_text_as_the_database_writes_it(database: Postgres) -> None:
    """JSON and arrays were as Python writes them: {'a': True}."""
    rows(database, """CREATE TABLE t (a JSONB, b TEXT[], c INTERVAL, d INT4RANGE, e NUMERIC, f UUID[], g BIT(1), h OID, i NUMERIC(38, 10))""")  # fmt: skip
    rows(database, """INSERT INTO t VALUES ('{"a": true}', '{x,NULL}', '1 mon 03:00', '[1,5)', 0.0000001, '{}', B'0', 7, 1234567890123456789012345678.5)""")  # fmt: skip
    record = first_of(database, table_whitelist="t")
    digits = record.value.as_dict().pop("i")
    assert [*record.value.as_dict().values()][:8] == ['{"a": true}', "{x,NULL}", "1 mon 03:00:00", "[1,5)", "0.0000001", "{}", False, 7]  # fmt: skip
    assert str(digits) == "1234567890123456789012345678.5000000000"
    assert record.value.schema.field("i").schema.parameters == {"scale": "10", "connect.decimal.precision": "38"}


@pytest.mark.parametrize("missing", ["USAGE ON SCHEMA sales", "SELECT ON sales.t"])
def test_a_missing_right_fails_the_task(database: Postgres, missing: str) -> None:
    """The table was asked for again and again, and the status said RUNNING."""
    rows(database, "CREATE SCHEMA sales; CREATE TABLE sales.t (id INT); CREATE ROLE reader LOGIN")
    rows(database, "GRANT USAGE ON SCHEMA sales TO reader; GRANT SELECT ON sales.t TO reader")
    rows(database, f"REVOKE {missing} FROM reader")
    with pytest.raises(ConnectError, match="permission denied") as told:
        first_of(database, connection_user="reader", table_whitelist="t")
    assert not isinstance(told.value, RetriableError)


def test_tables_that_the_user_may_not_read_are_none_unless_a_list_names_them(database: Postgres) -> None:
    """With those of every schema, they failed the task of a connector that had worked."""
    rows(
        database,
        "CREATE SCHEMA hidden; CREATE TABLE hidden.u (id INT); CREATE TABLE t (id INT); CREATE TABLE v (id INT)",
    )
    rows(database, "CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader; GRANT SELECT ON hidden.u TO reader")
    rows(database, "INSERT INTO t VALUES (1)")
    for config in ({}, {"table_blacklist": "w"}):
        kit = source(database, connection_user="reader", **config)
        assert kit.connector.task_configs(9)[0]["tables"] == "public.t"  # type: ignore[attr-defined]
        kit.connector.stop()
    with pytest.raises(ConnectError, match="permission denied"):
        first_of(database, connection_user="reader", table_include_list="public.v")


def test_columns_in_other_letters_are_others_and_are_added(database: Postgres) -> None:
    """The column was taken for the one that is there, and the database refused each row."""
    rows(database, 'CREATE TABLE t (id INT, "Name" TEXT)')
    schema = s.struct([("id", s.INT32), ("name", s.OPTIONAL_STRING)])
    for evolve, expected in (("false", "The table 't' has no column 'name', and auto.evolve is false"), ("true", "")):
        sink = SinkKit(JdbcSinkConnector, {"connection.url": f"jdbc:{database.url}", "table.name.format": "t", "auto.evolve": evolve})  # fmt: skip
        sink.put(sink.record(Struct(schema, {"id": 1, "name": "x"}), schema=schema))
        sink.close()
        assert "".join(str(error) for _, error in sink.reported) == expected
    assert rows(database, 'SELECT id, "Name", name FROM t') == [(1, None, "x")]


def test_a_value_that_cannot_be_read_fails_the_task(database: Postgres) -> None:
    rows(database, "CREATE TABLE t (at TIMESTAMPTZ); INSERT INTO t VALUES ('infinity')")
    with pytest.raises(ConnectError, match="infinity") as told:
        first_of(database)
    assert not isinstance(told.value, RetriableError)
