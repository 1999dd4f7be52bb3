"""JdbcSource and JdbcSink on a real MariaDB, whose server, database and sessions have other zones and character sets
than ours.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from compat.support.mariadb import PASSWORD, MariaDb, running_mariadb
from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_progress import Progress
from headwater.connect.connectors.jdbc_sink import JdbcSinkConnector
from headwater.connect.connectors.jdbc_source import JdbcSourceConnector
from headwater.connect.connectors.jdbc_url import dialect_of
from headwater.connect.data import schema as s
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, RetriableError
from headwater.testing.connect import ConnectWorker, SinkKit, SourceKit


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with running_mariadb() as made:
        yield made


@pytest.fixture
def database(server: MariaDb) -> MariaDb:
    """Empty for each test."""
    server.empty()
    return server


def source(database: MariaDb, **config: str) -> SourceKit:
    named = {name.replace("_", "."): value for name, value in config.items()}
    quick = {"poll.interval.ms": "1", "table.poll.interval.ms": "1000000", "topic.prefix": "db-"}
    return SourceKit(JdbcSourceConnector, {**database.login, **quick, **named})


def end(kit: SourceKit) -> None:
    kit.close()
    kit.connector.stop()


def sink(database: MariaDb, **config: str) -> SinkKit:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return SinkKit(JdbcSinkConnector, {**database.login, "auto.create": "true", "retry.backoff.ms": "1", **named})


ROW = s.struct([("id", s.INT64), ("name", s.OPTIONAL_STRING)])


def put(kit: SinkKit, *rows: tuple[int, str | None]) -> None:
    kit.put(*(kit.record(Struct(ROW, {"id": number, "name": name}), schema=ROW) for number, name in rows))


def test_rows_go_from_a_table_through_a_topic_into_another(database: MariaDb, broker_address: str, topic: str) -> None:
    """With a restart of the connector, a change of a row, and the server gone and back."""
    database("""CREATE TABLE goods (id SERIAL PRIMARY KEY, name TEXT CHARACTER SET utf8mb4, price DECIMAL(10, 2) NOT NULL, day DATE,
        moment DATETIME(3) NOT NULL DEFAULT UTC_TIMESTAMP(3), data VARBINARY(9), small SMALLINT UNSIGNED, hour TIME(3))""")  # fmt: skip
    insert = """INSERT INTO goods (name, price, day, data, small, hour) SELECT CONCAT('n 🌊', seq), seq / 4, '2020-02-29', x'00ff', seq,
        '01:02:03.004' FROM seq_1_to_250"""  # fmt: skip
    database(insert)
    reading = {
        **database.login,
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "moment",
        "incrementing.column.name": "id",
        "table.whitelist": "goods",
        "topic.prefix": f"{topic}-",
        "poll.interval.ms": "50",
    }
    writing = {
        **database.login,
        "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
        "topics": f"{topic}-goods",
        "table.name.format": "goods_copy",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "progress.table": "progress",
        "max.retries": "1000",
        "retry.backoff.ms": "100",
    }
    columns = "id, name, price, day, moment, data, small, hour"

    def same() -> bool:
        made = database("SELECT 1 FROM information_schema.tables WHERE table_name = 'goods_copy'")
        rows = [
            database(f"SELECT {columns} FROM {table} ORDER BY id") for table in ("goods", "goods_copy")[: 1 + len(made)]
        ]
        return len(rows) == 2 and rows[0] == rows[1]

    converters = {"key.converter": "JsonConverter", "value.converter": "JsonConverter"}
    with ConnectWorker(broker_address, settings=converters) as worker:
        worker.create(f"{topic}-source", reading)
        worker.create(f"{topic}-sink", writing)
        worker.until(same)
        worker.herder.restart(f"{topic}-source", include_tasks=True, only_failed=False)
        database(insert)
        database("UPDATE goods SET name = 'changed', moment = UTC_TIMESTAMP(3) WHERE id = 7")
        worker.until(same)
        database.stop()
        database.start()
        database(insert)
        worker.until(same)
        assert worker.status(f"{topic}-sink")["tasks"][0]["state"] == "RUNNING"
        assert PASSWORD not in str(worker.herder.info(f"{topic}-sink"))
    assert database("SELECT COUNT(*) FROM goods_copy") == [(750,)]
    assert database("SELECT next_offset FROM progress")[0][0] >= 751  # 750 rows and a change of one


def test_types_are_those_of_the_columns(database: MariaDb) -> None:
    database("""CREATE TABLE t (i8 TINYINT, u8 TINYINT UNSIGNED, i16 SMALLINT, u16 SMALLINT UNSIGNED, i24 MEDIUMINT, i32 INT, u32 INT UNSIGNED,
        i64 BIGINT NOT NULL, f FLOAT, d DOUBLE, n DECIMAL(10, 3), b BIT(1), bits BIT(10), y YEAR, da DATE, ti TIME(6), dt DATETIME(6),
        ts TIMESTAMP(6) NULL, c CHAR(3), v VARCHAR(9), e ENUM('x', 'y'), j JSON, bi BINARY(2), bl BLOB)""")  # fmt: skip
    database("""INSERT INTO t VALUES (-128, 255, -1, 65535, -2, -3, 4294967295, 9223372036854775807, 0.5, 0.1, 1.5, 1, b'1000000001', 2020,
        '2020-02-29', '23:59:59.999999', '2020-02-29 01:02:03.123456', '2020-02-29 01:02:03.5', 'a', 'é', 'y', '[1]', x'00ff', x'ff')""")  # fmt: skip
    database("INSERT INTO t (i64) VALUES (0)")
    database("INSERT INTO t (i64, b) VALUES (1, b'0')")
    kit = source(database)
    rows = [record.value.as_dict() for record in kit.poll()]
    end(kit)
    assert rows[0] == {
        "i8": -128, "u8": 255, "i16": -1, "u16": 65535, "i24": -2, "i32": -3, "u32": 4294967295, "i64": 2**63 - 1, "f": 0.5, "d": 0.1,
        "n": Decimal("1.500"), "b": True, "bits": b"\x02\x01", "y": 2020, "da": date(2020, 2, 29), "ti": time(23, 59, 59, 999000),
        "dt": datetime(2020, 2, 29, 1, 2, 3, 123456, UTC), "ts": datetime(2020, 2, 29, 1, 2, 3, 500000, UTC), "c": "a", "v": "é",
        "e": "y", "j": "[1]", "bi": b"\x00\xff", "bl": b"\xff",
    }  # fmt: skip
    assert {name for name, value in rows[1].items() if value is not None} == {"i64"}
    assert rows[2]["b"] is False
    asked = source(
        database, query="SELECT v, bl, n, i32 + 1 AS more, '50%' AS share FROM t WHERE v LIKE '%' ORDER BY i64 DESC"
    )
    assert [each.value.as_dict() for each in asked.poll()] == [
        {"v": "é", "bl": b"\xff", "n": Decimal("1.500"), "more": -2, "share": "50%"}
    ]
    end(asked)


def test_timestamps_are_compared_in_utc_whatever_the_server_has(database: MariaDb) -> None:
    database("CREATE TABLE t (id INT PRIMARY KEY, changed TIMESTAMP(6) NULL)")
    database(
        "INSERT INTO t VALUES (1, UTC_TIMESTAMP(6) - INTERVAL 1 SECOND), (2, UTC_TIMESTAMP() + INTERVAL 1 HOUR), (3, NULL)"
    )
    kit = source(database, mode="timestamp", timestamp_column_name="changed", validate_non_null="false")
    assert [record.value["id"] for record in kit.poll()] == [1]
    end(kit)


def test_dates_of_zeros_are_an_error_or_null(database: MariaDb) -> None:
    database("CREATE TABLE t (id INT, day DATE)")
    database("INSERT INTO t VALUES (1, '0000-00-00')")
    kit = source(database)
    with pytest.raises(ConnectError, match="0000-00-00"):
        kit.poll()
    end(kit)
    kit = source(database, connection_url=f"{database.url}?zeroDateTimeBehavior=convertToNull")
    assert kit.poll()[0].value.as_dict() == {"id": 1, "day": None}
    end(kit)


def test_a_result_is_not_read_to_its_end_when_nobody_wants_it(database: MariaDb) -> None:
    dialect = dialect_of(database.login)
    connection = dialect.connect()
    cursor = dialect.cursor(connection)
    cursor.execute("SELECT a.seq FROM seq_1_to_1000000 a JOIN seq_1_to_1000000 b", ())
    assert len(cursor.fetchmany(2)) == 2
    cursor.close()
    assert not connection.open


def test_keys_differ_by_case_and_blanks_and_values_may_be_any_text(database: MariaDb) -> None:
    kit = sink(database, insert_mode="upsert", pk_mode="record_key", pk_fields="k", delete_enabled="true")
    text = s.struct([("v", s.STRING), ("at", s.TIMESTAMP_SCHEMA)])
    moment = datetime(2020, 1, 1, 12, tzinfo=UTC)
    for key in ("a", "A", "a ", "ä", "🌊"):
        kit.put(kit.record(Struct(text, {"v": f"'{key}🌊\\", "at": moment}), schema=text, key=key, key_schema=s.STRING))
    kit.put(kit.record(None, key="A", key_schema=s.STRING))
    kit.close()
    assert database("SELECT k, v FROM t ORDER BY k") == [
        ("a", "'a🌊\\"), ("a ", "'a 🌊\\"), ("ä", "'ä🌊\\"), ("🌊", "'🌊🌊\\")
    ]  # fmt: skip
    assert database("SELECT DISTINCT at FROM t") == [(moment.replace(tzinfo=None),)]


def test_names_are_quoted_and_columns_are_added(database: MariaDb) -> None:
    evil = "x`; DROP TABLE t; -- %s"
    names = {
        "table_name_format": evil,
        "auto_evolve": "true",
        "insert_mode": "upsert",
        "pk_mode": "record_value",
        "pk_fields": "id",
    }
    kit = sink(database, **names)
    schema = s.struct([("id", s.INT64), (evil, s.OPTIONAL_STRING)])
    put(kit, (1, "a"))
    rows = [Struct(schema, {"id": number, evil: "'); DROP TABLE t; --"}) for number in (1, 2)]
    kit.put(*(kit.record(row, schema=schema) for row in rows))
    kit.close()
    read = source(database, mode="incrementing", incrementing_column_name="id")
    found = [record.value.as_dict() for record in read.poll()]
    end(read)
    assert found == [
        {"id": 1, "name": "a", evil: "'); DROP TABLE t; --"},
        {"id": 2, "name": None, evil: "'); DROP TABLE t; --"},
    ]


def test_a_row_that_does_not_fit_is_reported_and_the_others_are_written(database: MariaDb) -> None:
    database("CREATE TABLE t (id TINYINT PRIMARY KEY, name VARCHAR(3))")
    kit = sink(database, max_retries="1", progress_table="progress")
    put(kit, (1, "abc"), (2, "abcd"), (300, None), (3, "c"))
    assert [(record.offset, str(error)) for record, error in kit.reported] == [
        (1, "The database refused the row: Data too long for column 'name' at row 1 (1406)"),
        (2, "The database refused the row: Out of range value for column 'id' at row 1 (1264)"),
    ]
    with pytest.raises(RetriableError, match="Duplicate entry '1'"):
        put(kit, (4, "d"), (1, "e"))
    kit.next_offset = 4
    put(kit, (4, "d"), (1, "e"))
    kit.close()
    assert "Duplicate entry '1'" in str(kit.reported[2][1])
    assert database("SELECT id FROM t ORDER BY id") == [(1,), (3,), (4,)]
    assert database("SELECT next_offset FROM progress") == [(6,)]


def test_a_table_that_is_made_commits_no_offset(database: MariaDb) -> None:
    """CREATE TABLE commits what its transaction has done so far."""
    kit = sink(database, progress_table="progress", pk_mode="record_value", pk_fields="id")
    with pytest.raises(RetriableError, match="Duplicate entry"):
        put(kit, (1, "a"), (1, "b"))
    kit.close()
    assert database("SELECT * FROM t") == []
    assert database("SELECT next_offset FROM progress") == [(-1,)]


def test_a_task_that_has_lost_its_partition_sees_what_the_other_has_committed(database: MariaDb) -> None:
    """A transaction of MariaDB reads what was there when it began to read."""
    dialect = dialect_of(database.login)
    progress = Progress(dialect, "progress", "c")
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    old, new = dialect.connect(), dialect.connect()
    progress.prepare(old, [first, second])
    with old.cursor() as mine, new.cursor() as theirs:
        assert progress.lock(mine, first) == (-1, 0)
        mine.execute("SELECT COUNT(*) FROM progress")  # from now on it sees this moment
        progress.lock(theirs, second)
        progress.write(theirs, {second: 5})
        new.commit()
        assert progress.lock(mine, second) == (5, 0)
    old.close()
    new.close()


def test_an_engine_without_transactions_is_refused_where_each_record_counts_once(database: MariaDb) -> None:
    database("CREATE TABLE t (id BIGINT, name TEXT) ENGINE=Aria")
    kit = sink(database, progress_table="progress")
    with pytest.raises(ConnectError, match="no transactions"):
        put(kit, (1, "a"))
    kit.close()
    assert database("SELECT * FROM t") == []
    database("DROP TABLE progress")
    database("CREATE TABLE progress (connector VARCHAR(9), topic VARCHAR(9), part INT, next_offset BIGINT, PRIMARY KEY (connector, topic, part)) ENGINE=Aria")  # fmt: skip
    with pytest.raises(ConnectError, match="without transactions"):
        sink(database, progress_table="progress")


def test_a_table_of_an_earlier_version_gets_a_generation_and_fences_a_task_that_slept(database: MariaDb) -> None:
    database("CREATE TABLE progress (connector VARCHAR(99), topic VARCHAR(99), part INT, next_offset BIGINT NOT NULL, PRIMARY KEY (connector, topic, part)) ENGINE=InnoDB")  # fmt: skip
    asleep = sink(database, progress_table="progress")
    asleep.next_offset = 5
    progress, connection = Progress(dialect_of(database.login), "progress", "kit"), dialect_of(database.login).connect()
    progress.alter(connection, {TopicPartition("t", 0): 3})
    with pytest.raises(ConnectError, match="was set while this task had it"):
        put(asleep, (1, "a"))
    asleep.close()
    assert database("SELECT next_offset, generation FROM progress") == [(3, 1)]
    progress.reset(connection)
    connection.close()
    assert database("SELECT next_offset, generation FROM progress") == [(-1, 2)]


def test_a_wrong_password_is_told_without_it(database: MariaDb) -> None:
    config: dict[str, Any] = {**database.login, "connection.password": "wrong-one"}
    with pytest.raises(RetriableError, match="Access denied for user 'headwater'") as caught:
        dialect_of(config).connect()
    assert "wrong-one" not in str(caught.value)


@pytest.mark.parametrize("column", ["bare", "zoned"])
def test_columns_without_a_zone_are_in_that_of_the_database(database: MariaDb, column: str) -> None:
    """The server's zone is another, and that of TIMESTAMP columns does not count: they have one."""
    database("CREATE TABLE t (id INT PRIMARY KEY, bare DATETIME(3), zoned TIMESTAMP(3) NULL)")
    database("SET time_zone = '+00:00'")
    database("INSERT INTO t VALUES (1, '2020-07-01 12:00', '2020-07-01 12:00')")
    zone = {"db.timezone": "Europe/Berlin"}
    kit = source(database, **zone, mode="timestamp", table_whitelist="t", timestamp_column_name=column, validate_non_null="false")  # fmt: skip
    (record,) = kit.poll()
    found = record.value.as_dict()
    assert found["bare"] == datetime(2020, 7, 1, 10, tzinfo=UTC)  # noon in Berlin, in summer
    assert found["zoned"] == datetime(2020, 7, 1, 12, tzinfo=UTC)
    database("SET time_zone = '+00:00'")
    database("INSERT INTO t VALUES (2, '2020-07-01 12:30', '2020-07-01 12:30')")  # compared in the same zone: younger
    later: list[Any] = []
    while not later:
        later = kit.poll()
    assert [each.value.get("id") for each in later] == [2]
    end(kit)
    schema = s.struct([("id", s.INT32), ("bare", s.TIMESTAMP_SCHEMA), ("zoned", s.TIMESTAMP_SCHEMA)])
    moment = datetime(2020, 7, 1, 10, tzinfo=UTC)
    writing = sink(database, **zone, table_name_format="t")
    writing.put(writing.record(Struct(schema, {"id": 3, "bare": moment, "zoned": moment}), schema=schema))
    writing.close()
    (row,) = database("SELECT CAST(bare AS CHAR), UNIX_TIMESTAMP(zoned) FROM t WHERE id = 3")
    assert (row[0], int(row[1])) == ("2020-07-01 12:00:00.000", int(moment.timestamp()))
