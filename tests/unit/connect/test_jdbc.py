"""JdbcSource and JdbcSink on SQLite, without Kafka."""

import dataclasses
import math
import sqlite3
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.connect.connector_config.validation import validate
from headwater.connect.connectors.jdbc_dialects import Sqlite
from headwater.connect.connectors.jdbc_queries import is_whole, offsets_by_table, stored_of
from headwater.connect.connectors.jdbc_sink import JdbcSinkConnector
from headwater.connect.connectors.jdbc_source import (
    JdbcSourceConnector,
    JdbcSourceTask,
)
from headwater.connect.connectors.jdbc_url import dialect_of
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.plugins import Catalog
from headwater.testing.connect import SinkKit, SourceKit


class Database:
    def __init__(self, path: Path) -> None:
        self.url = f"jdbc:sqlite:{path}"
        self._connection = sqlite3.connect(path, isolation_level=None)

    def __call__(self, sql: str, *parameters: Any) -> list[Any]:
        return self._connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "my.db")
    yield made
    made.close()


class Source(SourceKit):
    def __init__(self, database: Database, **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        super().__init__(
            JdbcSourceConnector,
            {
                "connection.url": database.url,
                "topic.prefix": "db-",
                "poll.interval.ms": "1",
                "table.poll.interval.ms": "1000000",
                "validate.non.null": "false",
                **named,
            },
        )

    def rows(self) -> list[dict[str, Any]]:
        """All that one run of the query has to give, once more than enough."""
        found = []
        for _ in range(5):
            for query in self.task._queries:  # type: ignore[attr-defined]
                query.due = 0
            found += [record.value.as_dict() for record in self.poll()]
        return found

    def end(self) -> None:
        self.task.close()  # type: ignore[attr-defined]
        self.connector.stop()


@pytest.fixture
def sources() -> Iterator[list[Source]]:
    made: list[Source] = []
    yield made
    for each in made:
        each.end()


def test_incrementing_gives_each_row_once_and_goes_on_after_a_restart(
    database: Database, sources: list[Source]
) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    database("INSERT INTO t (name) VALUES ('a'), ('b'), (NULL)")
    source = Source(database, mode="incrementing", incrementing_column_name="id", batch_max_rows="2")
    sources.append(source)
    assert source.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": None}]
    source.commit()
    assert source.offsets.all() == [({"protocol": "1", "table": "t"}, {"incrementing": 3})]
    database("INSERT INTO t (name) VALUES ('d')")
    source.task.close()  # type: ignore[attr-defined]
    source.restart()
    assert source.rows() == [{"id": 4, "name": "d"}]


def test_columns_are_found_in_other_letters_or_told(database: Database, sources: list[Source]) -> None:
    """SQLite took the query, and the task failed with "'ID' is not in list"."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)")
    database("INSERT INTO t (changed) VALUES ('2020-01-01 00:00:00')")
    columns = {"incrementing_column_name": "ID", "timestamp_column_name": "Changed"}
    sources.append(Source(database, mode="timestamp+incrementing", **columns))
    assert [row["id"] for row in sources[0].rows()] == [1]
    sources.append(Source(database, mode="incrementing", incrementing_column_name="number"))
    with pytest.raises(ConnectError, match="no column 'number' in what is read; there are id, changed"):
        sources[1].rows()


def test_timestamps_give_new_and_changed_rows(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)")
    for moment in ("2020-01-01 00:00:00.001", "2020-01-01 00:00:00.001", "2020-01-01 00:00:00.002"):
        database("INSERT INTO t (changed) VALUES (?)", moment)
    source = Source(database, mode="timestamp", timestamp_column_name="changed", batch_max_rows="1")
    sources.append(source)
    assert [row["id"] for row in source.rows()] == [1, 2, 3]
    assert source.rows() == []
    database("UPDATE t SET changed = '2021-01-01 00:00:00' WHERE id = 2")
    assert source.rows() == [{"id": 2, "changed": datetime(2021, 1, 1, tzinfo=UTC)}]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_within_one_millisecond_are_each_given_once(database: Database, sources: list[Source], mode: str) -> None:
    """SQLite's own functions round to milliseconds: such a row came for ever, and another of its millisecond never."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP)")
    database("INSERT INTO t VALUES (1, '2024-01-01 00:00:10.123900'), (2, NULL), (4, 1577836800000)")
    source = Source(database, mode=mode, timestamp_column_name="changed", incrementing_column_name="id")
    sources.append(source)
    assert [row["id"] for row in source.rows()] == [4, 1]
    source.commit()
    source.task.close()  # type: ignore[attr-defined]
    source.restart()
    assert source.rows() == []
    database("INSERT INTO t VALUES (5, '2024-01-01T00:00:10.123901Z')")
    assert [row["id"] for row in source.rows()] == [5]


def test_a_timestamp_counts_as_read_when_all_its_rows_are(database: Database, sources: list[Source]) -> None:
    """A worker that dies between two rows of the same time gives both again, and loses none."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)")
    for _ in range(2):
        database("INSERT INTO t (changed) VALUES ('2020-01-01 00:00:00.001')")
    source = Source(database, mode="timestamp", timestamp_column_name="changed", batch_max_rows="1")
    sources.append(source)
    assert len(source.poll()) == 1
    source.commit()
    source.task.close()  # type: ignore[attr-defined]
    source.crash()
    assert [row["id"] for row in source.rows()] == [1, 2]


def test_rows_that_are_too_young_wait(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL)")
    database("INSERT INTO t (changed) VALUES ('2020-01-01 00:00:00'), (datetime('now'))")
    source = Source(
        database,
        mode="timestamp+incrementing",
        timestamp_column_name="changed",
        incrementing_column_name="id",
        timestamp_delay_interval_ms="3600000",
    )
    sources.append(source)
    assert [row["id"] for row in source.rows()] == [1]


def test_a_query_and_bulk(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER, amount REAL)")
    database("INSERT INTO t VALUES (1, 1.5), (2, 2.5)")
    source = Source(database, query="SELECT SUM(amount) AS total, '50%' AS share FROM t")
    sources.append(source)
    assert source.poll()[0].topic == "db-"
    assert source.rows()[0] == {"total": 4.0, "share": "50%"}


def test_parts_of_a_table_are_shared_out_and_each_row_is_in_one(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE a (n INTEGER)")
    database("CREATE TABLE b (n INTEGER)")
    for number in (None, -4, -1, 0, 1, 2, 3, 7, 8):
        database("INSERT INTO a VALUES (?)", number)
    config = {"mode": "bulk", "table.partitions": "3", "table.partition.column": "n", "poll.interval.ms": "1000000"}
    sources.append(Source(database, **config))
    connector = sources[0].connector
    assert isinstance(connector, JdbcSourceConnector)
    assert [len(connector.task_configs(most)) for most in (1, 4, 100)] == [1, 4, 6]
    found: list[Any] = []
    for props in connector.task_configs(4):
        task = JdbcSourceTask()
        task.context = sources[0].task.context  # type: ignore[assignment]
        task.start(props)
        while any(query.due == 0 for query in task._queries) or task._open is not None:
            found += [record.value.get("n") for record in task.poll() or []]
        task.close()
    assert sorted(found, key=str) == sorted([None, -4, -1, 0, 1, 2, 3, 7, 8], key=str)


def all_rows(kit: Source, most: int) -> list[int]:
    """Of all tasks, one after the other, committed."""
    found: list[int] = []
    for props in kit.connector.task_configs(most):
        task = JdbcSourceTask()
        task.context = kit.task.context
        task.start(props)
        while any(query.due == 0 for query in task._queries) or task._open is not None:
            for record in task.poll() or []:
                assert record.source_partition is not None
                found.append(record.value.get("n"))
                kit.offsets.write([(record.source_partition, record.source_offset)])
        task.close()
    return found


@pytest.mark.parametrize("mode", ["incrementing", "timestamp", "timestamp+incrementing"])
def test_parts_of_a_table_have_offsets_of_their_own(database: Database, sources: list[Source], mode: str) -> None:
    database("CREATE TABLE a (n INTEGER PRIMARY KEY, at TIMESTAMP)")

    def add(*numbers: int) -> None:
        for number in numbers:
            database("INSERT INTO a VALUES (?, ?)", number, f"2020-01-01 00:00:{number:02}")

    columns = {"incrementing.column.name": "n", "timestamp.column.name": "at", "table.partition.column": "n"}
    config = {"mode": mode, "poll.interval.ms": "1000000", **columns}
    add(1, 2)
    sources.append(Source(database, **config))
    assert sorted(all_rows(sources[0], 1)) == [1, 2]  # as a whole
    sources.append(Source(database, **config, **{"table.partitions": "3"}))
    for source in sources[1:]:
        source.offsets = sources[0].offsets
        source.task.context.offset_reader = sources[0].offsets  # type: ignore[attr-defined]
    add(3, 4, 7, 8)
    assert len(sources[1].connector.task_configs(5)) == 3
    assert sorted(all_rows(sources[1], 3)) == [3, 4, 7, 8]  # on from where the whole table was
    assert all_rows(sources[1], 2) == []
    add(9, 10, 11)
    assert sorted(all_rows(sources[1], 1)) == [9, 10, 11]
    assert sources[0].offsets.offset({"protocol": "1", "table": "a", "part": "1"}) is not None
    sources.append(Source(database, **config, **{"table.partitions": "2"}))
    sources[2].task.context.offset_reader = sources[0].offsets  # type: ignore[attr-defined]
    for other in (sources[0], sources[2]):
        with pytest.raises(ConnectError, match="another number of parts"):
            all_rows(other, 1)


def test_parts_by_another_column_are_refused(database: Database, sources: list[Source]) -> None:
    """A row that was in a part which has not been read is by the other column in one that is beyond it."""
    database("CREATE TABLE a (n INTEGER PRIMARY KEY, shop INTEGER)")
    for number in range(1, 21):
        database("INSERT INTO a VALUES (?, ?)", number, number // 3)
    config = {"mode": "incrementing", "incrementing.column.name": "n", "table.partitions": "2"}
    for column in ("", "n", "shop"):
        sources.append(Source(database, **config, **{"table.partition.column": column, "poll.interval.ms": "1000000"}))
        sources[-1].task.context.offset_reader = sources[0].offsets  # type: ignore[attr-defined]
    by_default, by_number, by_shop = sources
    assert len(all_rows(by_default, 1)) == 20
    assert all_rows(by_number, 1) == []  # it is the same column, by its name
    with pytest.raises(ConnectError, match="by another column"):
        all_rows(by_shop, 1)


def test_an_offset_of_any_part_is_seen(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE a (n INTEGER PRIMARY KEY)")
    database("INSERT INTO a VALUES (199)")
    config = {"mode": "incrementing", "incrementing.column.name": "n", "poll.interval.ms": "1000000"}
    sources.append(Source(database, **config, **{"table.partitions": "200"}))
    assert all_rows(sources[0], 1) == [199]
    sources.append(Source(database, **config, **{"table.partitions": "3"}))
    sources[1].task.context.offset_reader = sources[0].offsets  # type: ignore[attr-defined]
    with pytest.raises(ConnectError, match="another number of parts"):
        all_rows(sources[1], 1)


def test_the_least_number_is_in_a_part(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE a (n INTEGER)")
    database("INSERT INTO a VALUES (?), (?)", -(2**63), 2**63 - 1)
    config = {"mode": "bulk", "table.partitions": "3", "table.partition.column": "n", "poll.interval.ms": "1000000"}
    sources.append(Source(database, **config))
    found = []
    for props in sources[0].connector.task_configs(1):
        task = JdbcSourceTask()
        task.context = sources[0].task.context  # type: ignore[assignment]
        task.start(props)
        while any(query.due == 0 for query in task._queries) or task._open is not None:
            found += [record.value.get("n") for record in task.poll() or []]
        task.close()
    assert sorted(found) == [-(2**63), 2**63 - 1]


def test_parts_by_a_column_with_fractions_are_refused(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE a (n INTEGER PRIMARY KEY, price DECIMAL(9, 2))")
    config = {"mode": "bulk", "table.partitions": "3", "table.partition.column": "price"}
    sources.append(Source(database, **config))
    with pytest.raises(ConnectError, match="whole numbers"):
        sources[0].task.poll()


@pytest.mark.parametrize(
    ("schema", "whole"),
    [(s.INT16, True), (s.INT64, True), (s.decimal_schema(0), True), (s.decimal_schema(2), False), (s.FLOAT64, False)],
)
def test_which_columns_have_whole_numbers_alone(schema: s.Schema, whole: bool) -> None:
    assert is_whole(schema) is whole


def test_types_and_tables_are_those_of_the_database(database: Database, sources: list[Source]) -> None:
    database('CREATE TABLE "odd name" (i INT NOT NULL, b BOOLEAN, d DATE, x BLOB, f REAL)')
    database("""INSERT INTO "odd name" VALUES (1, 1, '2020-02-29', x'00ff', 0.5)""")
    database("CREATE TABLE other (i INT)")
    source = Source(database, table_blacklist="other", tasks_max="4")
    sources.append(source)
    record = source.poll()[0]
    assert record.topic == "db-odd name"
    assert record.value.as_dict() == {"i": 1, "b": True, "d": date(2020, 2, 29), "x": b"\x00\xff", "f": 0.5}
    assert record.value_schema is not None
    assert [field.schema.optional for field in record.value_schema.fields] == [False, True, True, True, True]
    assert len(source.task_configs) == 1


def test_tables_are_chosen_by_patterns_of_their_whole_names(database: Database, sources: list[Source]) -> None:
    for name in ("orders_1", "orders_2", "orders_old", "my_orders_1", "other"):
        database(f"CREATE TABLE {name} (i INT)")
        database(f"INSERT INTO {name} VALUES (1)")
    source = Source(database, table_include_list="orders_.*,oth[a-z]r", table_exclude_list=".*_old")
    sources.append(source)
    topics = set()
    for _ in range(6):
        topics |= {record.topic for record in source.poll()}
    assert topics == {"db-orders_1", "db-orders_2", "db-other"}


def test_new_and_deleted_tables_are_noticed(database: Database) -> None:
    class Context:
        def __init__(self) -> None:
            self.asked = threading.Semaphore(0)

        def request_task_reconfiguration(self) -> None:
            self.asked.release()

        def raise_error(self, error: Exception) -> None:
            raise error

    database("CREATE TABLE a (i INT)")
    connector, context = JdbcSourceConnector(), Context()
    connector.context = context
    connector.start(
        {"name": "c", "connection.url": database.url, "topic.prefix": "p", "table.poll.interval.ms": "1", "table.blacklist": "c"}
    )  # fmt: skip
    try:
        assert len(connector.task_configs(4)) == 1
        database("CREATE TABLE c (i INT)")  # which nobody wants
        database("CREATE TABLE b (i INT)")
        assert context.asked.acquire(timeout=60)
        assert len(connector.task_configs(4)) == 2
        database("DROP TABLE a")
        assert context.asked.acquire(timeout=60)
        (left,) = connector.task_configs(4)
        assert "b" in left.values()
    finally:
        connector.stop()
    assert not context.asked.acquire(blocking=False)


def test_a_column_that_may_be_null_fails_the_task_unless_it_is_allowed(
    database: Database, sources: list[Source]
) -> None:
    """Rows with a null there were never read, and nobody said so."""
    database("CREATE TABLE t (id INTEGER, at TIMESTAMP, other TIMESTAMP NOT NULL)")
    database("INSERT INTO t VALUES (1, NULL, '2020-01-01')")
    modes = [("incrementing", "ID", "", True), ("timestamp", "", "at", True), ("timestamp", "", "at,other", False)]
    for mode, number, times, refused in modes:
        kit = Source(database, mode=mode, incrementing_column_name=number, timestamp_column_name=times, validate_non_null="true")  # fmt: skip
        sources.append(kit)
        if not refused:
            assert len(kit.rows()) == 1
            continue
        with pytest.raises(
            ConnectError, match=r"Rows of t with a null in .* declare NOT NULL, or set validate\.non\.null"
        ):
            kit.rows()


def test_the_column_that_the_database_counts_up_is_found(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (name TEXT, id INTEGER PRIMARY KEY AUTOINCREMENT)")
    database("INSERT INTO t (name) VALUES ('a')")
    database("CREATE TABLE u (id INTEGER PRIMARY KEY)")
    sources += [Source(database, mode="incrementing", table_whitelist=each) for each in "tu"]
    assert sources[0].rows() == [{"name": "a", "id": 1}]
    sources[0].commit()
    assert sources[0].offsets.all() == [({"protocol": "1", "table": "t"}, {"incrementing": 1})]
    with pytest.raises(ConnectError, match="u has no column that the database counts up"):
        sources[1].rows()


def test_columns_of_modes_by_table(database: Database, sources: list[Source]) -> None:
    for table, column in (("orders", "n"), ("users", "at")):
        database(f"CREATE TABLE {table} (n INTEGER NOT NULL, at TIMESTAMP NOT NULL, {column}2 INT)")
        database(f"INSERT INTO {table} (n, at) VALUES (1, '2020-01-01')")
    mapping = {"incrementing_column_mapping": "ord.*:n, us.*:n", "timestamp_columns_mapping": "users:[at|n],o.*: [at]"}
    for table in ("orders", "users"):
        sources.append(Source(database, mode="timestamp+incrementing", table_include_list=f"{table}.*", **mapping))
        assert len(sources[-1].rows()) == 1
        assert sources[-1].rows() == []
    mapping["incrementing_column_mapping"] = "o.*:n,.*:n"
    with pytest.raises(ConnectError, match="2 of the patterns match the table orders; it needs exactly one"):
        Source(database, mode="incrementing", table_include_list="orders", **mapping)


def test_a_suffix_stands_behind_each_query(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER NOT NULL)")
    database("INSERT INTO t VALUES (1), (2), (3)")
    for config in ({"mode": "incrementing", "incrementing_column_name": "id"}, {"query_masked": "SELECT * FROM t WHERE id % 2 < 2"}):  # fmt: skip
        kit = Source(database, query_suffix=" LIMIT 1 ", poll_interval_ms="1000000", **config)
        sources.append(kit)
        assert [record.value.get("id") for record in kit.task.poll()] == [1]
        assert kit.task.poll() is None
    assert sources[0].rows()[0] == {"id": 2}


def test_generated_columns_are_read(database: Database, sources: list[Source]) -> None:
    """The task failed with a KeyError."""
    database("CREATE TABLE t (a INTEGER NOT NULL, b INTEGER AS (a * 2), c INTEGER AS (a * 3) STORED)")
    database("CREATE VIRTUAL TABLE words USING fts5(word)")
    database("INSERT INTO t VALUES (1)")
    database("INSERT INTO words VALUES ('x')")
    for table, expected in (("t", {"a": 1, "b": 2, "c": 3}), ("words", {"word": "x"})):
        sources.append(Source(database, table_whitelist=table))
        assert sources[-1].rows()[0] == expected


def test_what_the_database_says_of_a_masked_query_is_not_shown(database: Database, sources: list[Source]) -> None:
    sources.append(Source(database, query_masked="SELECT 1 FROM t WHERE token = 'hunter2' AND"))
    with pytest.raises(ConnectError) as told:
        sources[0].task.poll()
    assert str(told.value) == (
        "The database refused query.masked or its rows (SQLITE_ERROR); what it said is not shown, for it may cite the query"
    )
    sources.append(Source(database, query_masked="SELECT hunter2"))
    with pytest.raises(ConnectError, match="SQLITE_ERROR") as told:
        sources[1].task.poll()
    assert "hunter2" not in str(told.value)


def test_a_number_that_comes_as_text_may_have_zeros_behind_its_point(database: Database, sources: list[Source]) -> None:
    """PostgreSQL's NUMERIC(10, 2) does, and failed the task."""
    database("CREATE TABLE t (id TEXT NOT NULL)")
    database("INSERT INTO t VALUES ('5.00')")
    sources.append(Source(database, mode="incrementing", incrementing_column_name="id"))
    assert sources[0].task.poll()[0].source_offset == {"incrementing": 5}
    database("UPDATE t SET id = '5.5'")
    sources.append(Source(database, mode="incrementing", incrementing_column_name="id"))
    with pytest.raises(ConnectError, match="a column of whole numbers"):
        sources[1].task.poll()


def test_offsets_under_the_bare_name_of_a_table_count_where_its_whole_name_has_none() -> None:
    reader: Any = SimpleNamespace(
        all=lambda: [
            ({"table": "a"}, {"incrementing": 1}),
            ({"protocol": "1", "table": "b"}, {"incrementing": 2}),
            ({"protocol": "1", "table": "public.b"}, {"incrementing": 3}),
            ({"file": "x"}, {"position": 4}),
        ]
    )
    found = offsets_by_table(reader)
    assert stored_of(found, ["public", "a"]) == {None: {"incrementing": 1}}
    assert stored_of(found, ["public", "b"]) == {None: {"incrementing": 3}}
    assert stored_of(found, ["public", "c"]) == {}


HERE = {"protocol": "1", "table": "t"}


@pytest.mark.parametrize(
    ("partition", "offset", "why"),
    [
        (HERE, {"incrementing": "42"}, "'42'"),
        (HERE, {"incrementing": True}, "True"),
        (HERE, {"timestamp": "2020-01-01"}, "'2020-01-01'"),
        (HERE, {"timestamp": 1.5}, "1.5"),
        (HERE, {"timestamp": 1 << 62}, "years 1 and 9999"),
        (HERE, {"timestamp": 1, "timestamp_nanos": -1}, "timestamp_nanos"),
        ({"tables": "t"}, {"incrementing": 1}, "partition of JdbcSource"),
        ({"protocol": "1", "table": 5}, {"incrementing": 1}, "partition of JdbcSource"),
        ({}, {"incrementing": 1}, "partition of JdbcSource"),
    ],
)
def test_an_offset_of_another_form_is_refused_where_it_is_set_and_told_where_it_is_read(
    database: Database, sources: list[Source], partition: dict[str, Any], offset: dict[str, Any], why: str
) -> None:
    """It was taken. Then the task ended in a TypeError, read nothing any more, or went on as before."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP)")
    source = Source(database, mode="timestamp+incrementing", incrementing_column_name="id", timestamp_column_name="at")
    sources.append(source)
    with pytest.raises(ConnectError, match=why):
        source.connector.alter_offsets({}, [(partition, offset)])
    source.offsets.write([(partition, offset)])
    source.task.close()  # type: ignore[attr-defined]
    if partition == HERE:
        with pytest.raises(ConnectError, match=why):
            source.restart()


def test_offsets_of_all_forms_that_there_are_may_be_set(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    database("INSERT INTO t VALUES (-1), (1)")
    source = Source(database, mode="incrementing", incrementing_column_name="id")
    sources.append(source)
    good: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        (HERE, {"incrementing": 1, "timestamp": 5, "timestamp_nanos": 5_000_000}),
        ({**HERE, "part": "0"}, {"incrementing": -3, "parts": 2, "column": "id"}),
        ({"table": "t"}, {"timestamp": None}), ({"query": "query"}, {"timestamp": -1}), ({"anything": 1}, None),
    ]  # fmt: skip
    assert source.connector.alter_offsets({}, good)
    source.offsets.write([(HERE, {"incrementing": None})])  # nothing was read any more: no number is above null
    source.restart()
    assert source.rows() == [{"id": 1}]


def test_a_table_that_changes_while_it_is_looked_at_is_read_again(
    database: Database, sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ended in a KeyError."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    database("INSERT INTO t VALUES (1, 'a')")
    source = Source(database)
    sources.append(source)
    look = Sqlite.columns
    monkeypatch.setattr(Sqlite, "columns", lambda self, *asked: look(self, *asked)[:1])
    with pytest.raises(RetriableError, match="has other columns by now"):
        source.poll()
    monkeypatch.undo()
    assert source.rows()[0] == {"id": 1, "name": "a"}


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a", ["a"]),
        ("a.b", ["a", "b"]),
        ('"a.b"', ["a.b"]),
        ('s."a.b"', ["s", "a.b"]),
        ('"s"."t"', ["s", "t"]),
        ('"a""."', ['a".']),
        ('a"b', ['a"b']),
        ('"a', ['"a']),
    ],
)
def test_a_name_has_parts_which_may_be_quoted(name: str, parts: list[str]) -> None:
    pytest.importorskip("psycopg")
    dialect = dialect_of(JdbcSinkConnector.config_def.parse({"connection.url": "jdbc:postgresql://h/x"}))
    assert dialect.parts(name) == parts
    assert dialect.parts(dialect.whole_name(*parts)) == parts


def test_queries_without_rows_end_a_poll_each(database: Database, sources: list[Source]) -> None:
    """One of many tables without rows ended in "maximum recursion depth exceeded", and held up a stop before."""
    for number in range(3):
        database(f"CREATE TABLE t{number} (i INT)")
    sources.append(Source(database, poll_interval_ms="1"))
    asked = []

    def rows(*_: Any) -> Iterator[Any]:
        asked.append(1)
        yield from ()

    for query in sources[0].task._queries:  # type: ignore[attr-defined]
        query.rows = rows
    assert sources[0].task.poll() is None
    assert len(asked) == 1


def test_a_database_that_is_away_is_asked_again(database: Database, sources: list[Source]) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    source = Source(database, mode="incrementing", incrementing_column_name="id")
    sources.append(source)
    database("DROP TABLE t")
    with pytest.raises(RetriableError, match="no such table"):
        source.poll()
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    database("INSERT INTO t VALUES (7)")
    assert source.rows() == [{"id": 7}]


def test_a_database_that_is_away_at_the_start_fails_the_task_after_some_attempts(
    database: Database, sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong password was told by the log alone, and the status said RUNNING."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    database("INSERT INTO t VALUES (7)")
    source = Source(database, connection_backoff_ms="0")
    sources.append(source)
    there = source.task._dialect.connect  # type: ignore[attr-defined]

    def away() -> Any:
        raise RetriableError("Cannot connect to the database: password authentication failed")

    monkeypatch.setattr(source.task._dialect, "connect", away)  # type: ignore[attr-defined]
    for _ in range(2):
        with pytest.raises(RetriableError):
            source.task.poll()
    with pytest.raises(ConnectError, match="password authentication failed") as told:
        source.task.poll()
    assert not isinstance(told.value, RetriableError)
    monkeypatch.setattr(source.task._dialect, "connect", there)  # type: ignore[attr-defined]
    assert source.rows()[0] == {"id": 7}
    source.task.close()
    monkeypatch.setattr(source.task._dialect, "connect", away)  # type: ignore[attr-defined]
    for _ in range(5):
        with pytest.raises(RetriableError):  # it was there: it comes back
            source.task.poll()


def test_attempts_to_connect_have_pauses_between_them(
    database: Database, sources: list[Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    source = Source(database, connection_backoff_ms="1000000")
    sources.append(source)
    asked = []

    def away() -> Any:
        asked.append(1)
        raise RetriableError("away")

    monkeypatch.setattr(source.task._dialect, "connect", away)  # type: ignore[attr-defined]
    with pytest.raises(RetriableError):
        source.task.poll()
    source.task.stop()  # so that nothing waits here
    assert source.task.poll() is None
    assert len(asked) == 1


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TEXT"])
@pytest.mark.parametrize("value", ["yesterday", "", "2020-13-01", b"2020-01-01"])
def test_a_timestamp_that_is_none_is_told_with_its_column_and_value(
    database: Database, sources: list[Source], mode: str, kind: str, value: Any
) -> None:
    """The row was never read, and nobody said so."""
    database(f"CREATE TABLE t (id INTEGER PRIMARY KEY, changed {kind}, made {kind})")
    database("INSERT INTO t VALUES (1, '2020-01-01', NULL), (2, NULL, NULL), (3, NULL, '2020-01-02')")
    columns = {"timestamp_column_name": "changed,made", "incrementing_column_name": "id"}
    sources.append(Source(database, mode=mode, table_whitelist="t", **columns))
    assert [row["id"] for row in sources[0].rows()] == [1, 3]
    assert sources[0].rows() == []
    database("INSERT INTO t VALUES (4, ?, '2020-01-03')", value)
    with pytest.raises(ConnectError, match="'changed'") as told:
        sources[0].rows()
    assert repr(value) in str(told.value)
    assert not isinstance(told.value, RetriableError)


def test_a_column_of_timestamps_that_does_not_count_for_a_row_is_not_looked_at(
    database: Database, sources: list[Source]
) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, changed TEXT, made TEXT)")
    database("INSERT INTO t VALUES (1, '2020-01-01', 'once')")
    sources.append(Source(database, mode="timestamp", timestamp_column_name="changed,made"))
    assert [row["id"] for row in sources[0].rows()] == [1]
    assert sources[0].rows() == []


def test_a_query_that_the_database_refuses_fails_its_task(database: Database, sources: list[Source]) -> None:
    """The task asked again and again, and its status said RUNNING."""
    sources.append(Source(database, query="SELECT * FROM nonesuch"))
    with pytest.raises(ConnectError, match="no such table: nonesuch") as told:
        sources[0].poll()
    assert not isinstance(told.value, RetriableError)
    database("CREATE TABLE nonesuch (i INT)")
    database("INSERT INTO nonesuch VALUES (1)")
    assert sources[0].rows()[0] == {"i": 1}


def test_which_errors_of_the_drivers_are_a_wrong_statement() -> None:
    psycopg, pymysql = pytest.importorskip("psycopg"), pytest.importorskip("pymysql")
    postgres, mariadb = (
        dialect_of({"connection.url": url, "connection.user": None, "connection.password": None, "db.timezone": "UTC"})
        for url in ("jdbc:postgresql://host/shop", "jdbc:mariadb://host/shop")
    )
    assert postgres.refuses_statement(psycopg.errors.UndefinedTable("no such table"))
    assert not postgres.refuses_statement(psycopg.OperationalError("the connection is lost"))
    assert mariadb.refuses_statement(pymysql.err.ProgrammingError(1146, "no such table"))
    assert mariadb.refuses_statement(pymysql.err.OperationalError(1054, "no such column"))
    assert not mariadb.refuses_statement(pymysql.err.OperationalError(2013, "the connection is lost"))


def test_a_value_that_is_not_of_its_columns_type_is_told_with_the_column(
    database: Database, sources: list[Source]
) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, amount INTEGER)")
    database("INSERT INTO t VALUES (1, 'seven')")
    sources.append(Source(database))
    with pytest.raises(ConnectError, match=r"^The column 'amount' of t: the value 'seven' is not of type int64$"):
        sources[0].rows()


@pytest.mark.parametrize(("declared", "value"), [("TEXT", "a"), ("REAL", 1.5)])
def test_an_incrementing_column_of_other_than_whole_numbers_is_told(
    database: Database, sources: list[Source], declared: str, value: object
) -> None:
    """A text was Python's "invalid literal for int()", and a row with 1.5 came again and again."""
    database(f"CREATE TABLE t (id {declared})")
    database("INSERT INTO t VALUES (?)", value)
    sources.append(Source(database, mode="incrementing", incrementing_column_name="id"))
    with pytest.raises(ConnectError, match=r"The column 'id' of t has the value .* is a column of whole numbers"):
        sources[0].rows()


def test_a_number_in_a_column_of_bytes_is_its_text(database: Database, sources: list[Source]) -> None:
    """It was as many zeros: a large one took all memory."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, b BLOB)")
    database("INSERT INTO t VALUES (1, 5), (2, 1.5), (3, 'é'), (4, x'00ff')")
    sources.append(Source(database))
    assert [row["b"] for row in sources[0].rows()][:4] == [b"5", b"1.5", "é".encode(), b"\x00\xff"]


def test_sqlite_columns_of_other_types_than_sqlites_own(database: Database, sources: list[Source]) -> None:
    """JSON, UUID and the TIME that JdbcSink makes were taken for numbers, which their values are not; and SQLite's
    driver for Java writes dates and times as milliseconds.
    """
    database("CREATE TABLE t (j JSON, u UUID, t TIME, t2 TIME, d DATE, n NUMERIC(8, 2))")
    database("""INSERT INTO t VALUES ('{"a": 1}', 'f47ac10b', '12:34:56.000000', 1000, 1704164645000, 1.25)""")
    sources.append(Source(database))
    assert sources[0].rows()[0] == {
        "j": '{"a": 1}',
        "u": "f47ac10b",
        "t": time(12, 34, 56),
        "t2": time(0, 0, 1),
        "d": date(2024, 1, 2),
        "n": 1.25,
    }


# The sink

ROW = s.struct([("id", s.INT64), ("name", s.OPTIONAL_STRING), ("at", s.TIMESTAMP_SCHEMA.as_optional())])


def row(number: int, name: str | None = None) -> Struct:
    return Struct(ROW, {"id": number, "name": name, "at": datetime(2020, 1, 1, tzinfo=UTC)})


def sink(database: Database, **config: str) -> SinkKit:
    named = {name.replace("_", "."): value for name, value in config.items()}
    return SinkKit(JdbcSinkConnector, {"connection.url": database.url, **named}, topic="t")


def put(kit: SinkKit, *values: Struct | None, key: Any = None) -> None:
    kit.put(
        *(kit.record(each, schema=ROW if each is not None else None, key=key, key_schema=s.INT64) for each in values)
    )


def test_a_table_is_made_and_records_are_inserted(database: Database) -> None:
    kit = sink(database, auto_create="true", pk_mode="kafka")
    put(kit, row(1, "a"), row(2))
    kit.close()
    assert database("SELECT * FROM t") == [
        ("t", 0, 0, 1, "a", "2020-01-01 00:00:00.000"),
        ("t", 0, 1, 2, None, "2020-01-01 00:00:00.000"),
    ]


def test_an_upsert_repeated_changes_nothing(database: Database) -> None:
    kit = sink(database, auto_create="true", insert_mode="upsert", pk_mode="record_value", pk_fields="id")
    for _ in range(2):
        put(kit, row(1, "a"), row(1, "b"), row(2, "c"))
    kit.close()
    assert database("SELECT id, name FROM t ORDER BY id") == [(1, "b"), (2, "c")]


def test_a_tombstone_deletes(database: Database) -> None:
    kit = sink(
        database, auto_create="true", insert_mode="upsert", pk_mode="record_key", pk_fields="key", delete_enabled="true"
    )
    put(kit, None, key=3)
    put(kit, row(1, "a"), key=3)
    put(kit, None, key=3)
    kit.close()
    assert database("SELECT * FROM t") == []


def test_keys_from_headers(database: Database) -> None:
    kit = sink(database, auto_create="true", insert_mode="upsert", pk_mode="record_header", pk_fields="n,part", delete_enabled="true")  # fmt: skip

    def headed(value: Struct | None, *headers: Header) -> SinkRecord:
        return dataclasses.replace(kit.record(value, schema=ROW if value is not None else None), headers=headers)

    n, part = Header("n", s.INT64, 5), Header("part", s.STRING, "p")
    kit.put(headed(row(1, "a"), n, part, Header("other", s.STRING, "x")), headed(row(2, "b"), part, n))
    assert database("SELECT n, part, id, name FROM t") == [(5, "p", 2, "b")]
    kit.put(headed(row(3, "c"), n), headed(row(4, "d"), n, Header("part", None, "p")), headed(None, n, part))
    kit.close()
    assert database("SELECT * FROM t") == []
    assert [str(error) for _, error in kit.reported] == ["pk.mode=record_header: the record has no header 'part' with a schema and a value"] * 2  # fmt: skip


def test_updates_and_evolution(database: Database) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    database("INSERT INTO t VALUES (1)")
    kit = sink(database, auto_evolve="true", insert_mode="update", pk_mode="record_value", pk_fields="id")
    put(kit, row(1, "a"), row(9, "nobody"))
    kit.close()
    assert database("SELECT id, name FROM t") == [(1, "a")]


def test_an_update_of_nothing_but_the_key_is_reported(database: Database) -> None:
    """SQL without a column to set was tried again for half a minute, and then ended the task."""
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    database("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    kit = sink(database, insert_mode="update", pk_mode="record_value", pk_fields="id")
    only, more = s.struct([("id", s.INT64)]), s.struct([("id", s.INT64), ("name", s.STRING)])
    kit.put(
        kit.record(Struct(only, {"id": 1}), schema=only), kit.record(Struct(more, {"id": 2, "name": "c"}), schema=more)
    )
    kit.close()
    assert [str(error) for _, error in kit.reported] == ["insert.mode=update: the record has no field beside the key"]
    assert database("SELECT id, name FROM t") == [(1, "a"), (2, "c")]


def test_a_put_that_fails_leaves_nothing_behind(database: Database) -> None:
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, at TEXT)")
    kit = sink(database, retry_backoff_ms="7", max_retries="1")
    with pytest.raises(RetriableError, match="UNIQUE"):
        put(kit, row(1), row(2), row(1))
    assert database("SELECT * FROM t") == []
    assert kit.context.timeout_ms == 7
    kit.next_offset = 0
    put(kit, row(1), row(2), row(1))  # more retries are not allowed: all but the one that conflicts
    kit.close()
    assert [(record.offset, str(error)) for record, error in kit.reported] == [
        (2, "The database refused the row: UNIQUE constraint failed: t.id")
    ]
    assert database("SELECT id FROM t") == [(1,), (2,)]


def test_a_text_that_is_no_unicode_is_reported_and_the_others_are_written(database: Database) -> None:
    """Half of an emoji, as JSON can have it (backslash, ud83d): its task failed, and could not get past it."""
    kit = sink(database, auto_create="true")
    put(kit, row(1, "a"), row(2, "\ud83d"), row(3, "c"))
    kit.close()
    assert [record.offset for record, _ in kit.reported] == [1]
    assert "surrogates not allowed" in str(kit.reported[0][1])
    assert database("SELECT id, name FROM t") == [(1, "a"), (3, "c")]


def test_a_database_that_stays_away_ends_the_task_after_its_retries(database: Database) -> None:
    kit = sink(database, max_retries="1")
    database("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, at TEXT, CHECK (abs(id) >= 0))")
    for kind in (RetriableError, ConnectError):
        with pytest.raises(kind, match="integer overflow"):
            put(kit, row(-(2**63)))
    kit.close()


def test_a_database_that_cannot_be_connected_ends_the_task_after_its_attempts(tmp_path: Path) -> None:
    """The task tried for ever, and its status said RUNNING."""
    kit = SinkKit(
        JdbcSinkConnector, {"connection.url": f"jdbc:sqlite:{tmp_path}/gone/my.db", "connection.attempts": "2"}
    )
    with pytest.raises(RetriableError, match="Cannot open the database"):
        put(kit, row(1))
    with pytest.raises(ConnectError, match="Cannot open the database") as told:
        put(kit, row(1))
    assert not isinstance(told.value, RetriableError)
    kit.close()


@pytest.mark.parametrize(("named", "table"), [("shop.orders", "shop.orders"), ("main.orders", "orders")])
def test_a_dot_in_the_name_of_a_sqlite_table(database: Database, sources: list[Source], named: str, table: str) -> None:
    """The database said "unknown database shop" to records of a topic `shop.orders`, and a table that is there in
    `main` was said to be missing.
    """
    kit = sink(database, table_name_format=named, auto_create="true")
    put(kit, row(1, "a"))
    kit.close()
    kit = sink(database, table_name_format=named)
    put(kit, row(2, "b"))
    kit.close()
    assert database(f'SELECT id, name FROM "{table}"') == [(1, "a"), (2, "b")]
    sources.append(Source(database, table_whitelist=table))
    assert [each["id"] for each in sources[0].rows()][:2] == [1, 2]


def test_names_are_quoted_and_values_bound(database: Database) -> None:
    evil = 'x"; DROP TABLE t; --'
    schema = s.struct([(evil, s.STRING)])
    kit = sink(database, auto_create="true", table_name_format=evil)
    kit.put(kit.record(Struct(schema, {evil: "'); DROP TABLE t; --"}), schema=schema))
    kit.close()
    assert database("SELECT COUNT(*) FROM sqlite_master WHERE type = 'table'") == [(1,)]


def test_what_has_no_schema_or_no_table_is_told(database: Database) -> None:
    kit = sink(database)
    kit.put({"id": 1})
    assert "structs" in str(kit.reported[0][1])
    put(kit, row(1))
    assert str(kit.reported[1][1]) == "There is no table 't', and auto.create is false"
    kit.close()


def test_a_column_whose_default_no_sql_has_is_added_to_rows_that_are_there(database: Database) -> None:
    """NOT NULL, the database refused it."""
    database("CREATE TABLE t (id INTEGER)")
    database("INSERT INTO t VALUES (1)")
    old = s.TIMESTAMP_SCHEMA.changed(default=datetime(900, 1, 1, tzinfo=UTC))
    schema = s.struct([("id", s.INT64), ("x", s.FLOAT64.changed(default=math.inf)), ("at", old)])
    kit = sink(database, auto_evolve="true")
    kit.put(kit.record(Struct(schema, {"id": 2}), schema=schema))
    kit.close()
    moment = "0900-01-01 00:00:00.000"
    assert database("SELECT * FROM t") == [(1, None, moment), (2, math.inf, moment)]


def test_a_record_whose_fields_the_table_has_not_is_reported_and_the_others_are_written(database: Database) -> None:
    """It failed the task, whatever errors.tolerance said."""
    database("CREATE TABLE t (ID INTEGER, name TEXT, at TEXT)")
    kit = sink(database)
    wider, strict = (s.struct([("id", s.INT64), ("more", each)]) for each in (s.OPTIONAL_STRING, s.STRING))
    records = [kit.record(Struct(each, {"id": 2, "more": "x"}), schema=each) for each in (wider, strict)]
    kit.put(kit.record(row(1), schema=ROW), records[0], kit.record(row(3), schema=ROW))
    kit.close()
    assert database("SELECT id FROM t") == [(1,), (3,)]  # ID is found in other letters
    assert [str(error) for _, error in kit.reported] == ["The table 't' has no column 'more', and auto.evolve is false"]
    kit = sink(database, auto_evolve="true")
    kit.put(records[1])
    assert str(kit.reported[0][1]) == "The new column 'more' of 't' would have to be optional, or have a default"
    kit.put(records[0])
    kit.close()
    assert database("SELECT id, more FROM t") == [(1, None), (3, None), (2, "x")]


def test_columns_have_the_order_and_the_defaults_of_the_fields(database: Database) -> None:
    """Rows that were there had nulls in a new column, whatever the default of its field."""
    database("CREATE TABLE u (id INTEGER)")
    database("INSERT INTO u VALUES (1)")
    fields = [
        ("name", s.STRING.changed(default="it's %s")), ("id", s.INT64), ("flag", s.BOOLEAN.changed(default=True)),
        ("five", s.OPTIONAL_INT32.changed(default=5)), ("day", s.DATE_SCHEMA.changed(default=date(2020, 2, 29))),
        ("at", s.TIMESTAMP_SCHEMA.changed(default=datetime(2020, 1, 1, tzinfo=UTC))), ("share", s.FLOAT64.changed(default=0.5)),
        ("price", s.decimal_schema(2).changed(default=Decimal("1E+2"))), ("raw", s.BYTES.changed(default=b"\x00\xff")), ("no", s.OPTIONAL_STRING),
    ]  # fmt: skip
    schema = s.struct(fields)
    for table in "tu":
        kit = sink(database, auto_create="true", auto_evolve="true", table_name_format=table, pk_mode="RECORD_VALUE", pk_fields="id", insert_mode="INSERT")  # fmt: skip
        value = Struct(schema, {"id": 7})
        kit.put(kit.record(value, schema=schema))
        kit.close()
    rest = (1, 5, "2020-02-29", "2020-01-01 00:00:00.000", 0.5, 100, b"\x00\xff", None)
    assert database("SELECT * FROM t") == [("it's %s", 7, *rest)]
    assert database("SELECT * FROM u WHERE id = 1") == [(1, "it's %s", *rest)]


def test_a_null_stays_one_if_defaults_are_not_to_replace_it(database: Database) -> None:
    schema = s.struct([("id", s.INT64), ("five", s.OPTIONAL_INT32.changed(default=5))])
    kit = sink(database, auto_create="true", replace_null_with_default="false")
    kit.put(*(kit.record(Struct(schema, {"id": each}), schema=schema) for each in (1, 2)))
    kit.close()
    assert database("SELECT * FROM t") == [(1, None), (2, None)]


def test_numbers_and_texts_are_times_if_that_is_said(database: Database) -> None:
    schema = s.struct([("id", s.INT64), ("at", s.OPTIONAL_INT64), ("text", s.OPTIONAL_STRING)])
    for mode, factor in (("MICROSECONDS", 1), ("nanoseconds", 1000)):
        kit = sink(database, auto_create="true", table_name_format=mode, timestamp_fields_list="at,text", timestamp_precision_mode=mode, insert_mode="upsert", pk_mode="record_value", pk_fields="at")  # fmt: skip
        moment = 1_577_836_800_123_000 * factor
        rows = [
            {"id": each, "at": moment + each * 1000 * factor, "text": str(moment) if each else None} for each in (0, 1)
        ]
        kit.put(*(kit.record(Struct(schema, each), schema=schema) for each in rows))  # the second by the first's shape
        assert database(f"SELECT * FROM {mode} ORDER BY id") == [
            (0, "2020-01-01 00:00:00.123", None),
            (1, "2020-01-01 00:00:00.124", "2020-01-01 00:00:00.123"),
        ]
        kit.put(kit.record(Struct(schema, {"id": 2, "at": moment, "text": "soon"}), schema=schema))
        assert "'soon' is no time since 1970" in str(kit.reported[0][1])
        kit.close()


def test_a_value_that_is_a_text_has_a_column_of_its_own(database: Database) -> None:
    kit = sink(database, auto_create="true", pk_mode="kafka", insert_mode="upsert")
    kit.put(kit.record("one", schema=s.STRING), dataclasses.replace(kit.record("two", schema=s.STRING), topic="t"))
    kit.close()
    assert database("SELECT __connect_offset, record_value FROM t") == [(0, "one"), (1, "two")]
    kit = sink(database, fields_whitelist="a")
    kit.put(kit.record("one", schema=s.STRING))
    assert "a text has no fields" in str(kit.reported[0][1])
    kit.close()


def test_the_topic_of_a_key_is_the_one_that_transforms_made_of_it(database: Database) -> None:
    kit = sink(database, auto_create="true", pk_mode="kafka")
    for number in (1, 2):  # the second goes by the shape of the first
        routed = dataclasses.replace(kit.record(row(number), schema=ROW), topic="routed")
        kit.put(routed)
    kit.close()
    assert database("SELECT __connect_topic, id FROM routed") == [("routed", 1), ("routed", 2)]


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        (
            {"connector.class": "JdbcSource", "topic.prefix": "p", "mode": "incrementing", "query": "SELECT 1"},
            "incrementing.column.name",
        ),
        ({"connector.class": "JdbcSource", "query": "SELECT 1"}, "topic.prefix"),
        ({"connector.class": "JdbcSource", "topic.prefix": "a b"}, "topic.prefix"),
        ({"connector.class": "JdbcSource", "incrementing.column.mapping": "a.*:id,b"}, "incrementing.column.mapping"),
        (
            {"connector.class": "JdbcSource", "mode": "timestamp", "timestamp.columns.mapping": "a.*:at"},
            "timestamp.columns.mapping",
        ),
        ({"connector.class": "JdbcSource", "dialect.name": "PostgreSqlDatabaseDialect"}, "dialect.name"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "mode": "timestamp"}, "timestamp.column.name"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "query": "q", "table.whitelist": "t"}, "query"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "numeric.mapping": "worst_fit"}, "numeric.mapping"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "connection.url": "jdbc:oracle:x"}, "connection.url"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "db.timezone": "Europe/Berlin"}, "db.timezone"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "db.timezone": "Middle/Earth"}, "db.timezone"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "table.partitions": "2"}, "table.partition.column"),
        (
            {
                "connector.class": "JdbcSource",
                "topic.prefix": "p",
                "table.partitions": "2",
                "table.partition.column": "n",
                "query": "SELECT 1 AS n",
            },
            "table.partitions",
        ),
        (
            {"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": "t", "insert.mode": "upsert"},
            "pk.mode",
        ),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "table.types": "view,synonym"}, "table.types"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "schema.pattern": "s"}, "schema.pattern"),
        ({"connector.class": "JdbcSink", "topics": "t", "delete.enabled": "true"}, "delete.enabled"),
        ({"connector.class": "JdbcSource", "topic.prefix": "p", "table.include.list": "a(?=b)"}, "table.include.list"),
        (
            {"connector.class": "JdbcSource", "topic.prefix": "p", "table.include.list": "a", "table.whitelist": "b"},
            "table.include.list",
        ),
    ],
)
def test_wrong_configs_are_told_at_their_property(config: dict[str, str], wrong: str) -> None:
    checked = validate(Catalog(installed=False), {"name": "c", "connection.url": "jdbc:sqlite:/x.db", **config})
    assert [name for name, each in checked.values.items() if each.errors] == [wrong]


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("host/shop?currentSchema=x", "currentSchema is no parameter of libpq"),
        ("me:sec@ret@host/shop", "an @ in a user or password is written as %40"),
        ("me:secret%zz@host/shop", "what cannot stand in an address is written as %40"),
        ("me:secret@host:many/shop", "the port is a number from 1 to 65535"),
        ("me:secret@host:99999999/shop", "the port is a number from 1 to 65535"),
    ],
)
def test_a_wrong_address_of_postgresql_is_told_before_anything_starts_and_without_its_password(
    address: str, told: str
) -> None:
    """The connector was made, and its status showed a part of the password."""
    pytest.importorskip("psycopg")
    given = {"connector.class": "JdbcSink", "topics": "t", "connection.url": f"jdbc:postgresql://{address}"}
    checked = validate(Catalog(installed=False), {"name": "c", **given})
    assert checked.errors == [f"connection.url: not an address such as jdbc:postgresql://host:port/database: {told}"]


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"connection.ssl": "on"}, True),  # of Java's driver
        ({"date.timezone": "Europe/Berlin"}, True),
        ({"date.timezone": "UTC"}, False),
        ({"quote.sql.identifiers": "NEVER"}, False),
        ({"dialect.name": "SqliteDatabaseDialect"}, False),
        ({"quote.sql.identifiers": "always"}, False),
        ({"connection.user": "me", "connection.password": "secret"}, False),
    ],
)
@pytest.mark.parametrize("kind", ["JdbcSource", "JdbcSink"])
def test_properties_of_the_originals_are_honoured_or_refused_by_name(
    kind: str, properties: dict[str, str], refused: bool
) -> None:
    given = {"name": "c", "connector.class": kind, "connection.url": "jdbc:sqlite:/x.db", "topics" if kind == "JdbcSink" else "topic.prefix": "t"}  # fmt: skip
    errors = validate(Catalog(installed=False), {**given, **properties}).values["connection.url"].errors
    assert errors == [f"{name} is not supported here; remove it" for name in properties if refused]
