"""JdbcSink with a table of progress, on SQLite: each record once, whatever comes again and whoever else writes."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.jdbc_progress import Progress
from headwater.connect.connectors.jdbc_sink import JdbcSinkConnector
from headwater.connect.data import schema as s
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, DataError
from headwater.testing.connect import SinkKit

ROW = s.struct([("n", s.INT64)])


class Database:
    def __init__(self, path: Path) -> None:
        self.config = {"connection.url": f"jdbc:sqlite:{path}", "auto.create": "true", "progress.table": "progress"}
        self._path = path

    def sink(self) -> SinkKit:
        return SinkKit(JdbcSinkConnector, self.config)

    def ask(self, sql: str) -> list[Any]:
        connection = sqlite3.connect(self._path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    def change(self, sql: str) -> None:
        with contextlib.closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(sql)

    @property
    def rows(self) -> list[int]:
        return [number for (number,) in self.ask("SELECT n FROM t ORDER BY rowid")]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "my.db")


def put(sink: SinkKit, *numbers: int) -> None:
    sink.put(*(sink.record(Struct(ROW, {"n": number}), schema=ROW) for number in numbers))


def test_a_sink_goes_on_where_its_rows_end_whatever_the_group_has_committed(database: Database) -> None:
    first = database.sink()
    put(first, 0, 1, 2)
    first.close()
    again = database.sink()
    assert again.next_offset == 3  # it asked for that
    again.next_offset = 1  # the records come again all the same
    put(again, 1, 2, 3)
    again.close()
    assert database.rows == [0, 1, 2, 3]
    assert database.ask("SELECT connector, topic, part, next_offset FROM progress") == [("kit", "t", 0, 4)]


def test_a_task_that_has_lost_its_partition_unawares_writes_nothing_twice(database: Database) -> None:
    old, new = database.sink(), database.sink()
    put(old, 0, 1)
    put(new, 0, 1, 2)
    put(old, 2, 3)
    assert database.rows == [0, 1, 2, 3]
    old.close()
    new.close()


def test_a_transaction_that_fails_leaves_neither_rows_nor_progress(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = database.sink()
    put(sink, 0)

    def flush() -> None:  # behind the rows
        raise ConnectError("no dead letter can be written")

    with monkeypatch.context() as patch:
        patch.setattr(sink.context, "flush_reports", flush)
        with pytest.raises(ConnectError, match="dead letter"):
            put(sink, 1)
    assert database.rows == [0]
    sink.next_offset = 1
    put(sink, 1)
    sink.close()
    assert database.rows == [0, 1]


def test_a_record_that_is_reported_counts_as_done(database: Database) -> None:
    sink = database.sink()
    for _ in range(2):
        sink.next_offset = 0
        sink.put(sink.record(Struct(ROW, {"n": 0}), schema=ROW), sink.record("no row"))
    sink.close()
    assert [(record.offset, type(error)) for record, error in sink.reported] == [(1, DataError)]
    assert database.ask("SELECT next_offset FROM progress") == [(2,)]


def test_offsets_that_somebody_sets_change_the_table_too(database: Database) -> None:
    sink = database.sink()
    put(sink, 0, 1, 2)
    sink.close()
    props = {**database.config, "name": "kit"}
    assert JdbcSinkConnector().alter_offsets(props, {TopicPartition("t", 0): 1})
    assert database.ask("SELECT next_offset FROM progress") == [(1,)]
    assert JdbcSinkConnector().alter_offsets(props, {TopicPartition("t", 0): None})
    fresh = database.sink()
    assert fresh.next_offset == 0
    put(fresh, 7)
    fresh.close()
    assert database.rows == [0, 1, 2, 7]


def test_a_reset_forgets_partitions_too_of_which_the_group_knows_nothing(database: Database) -> None:
    sink = database.sink()
    put(sink, 0, 1, 2)
    sink.close()
    other = {**database.config, "name": "other"}
    JdbcSinkConnector().alter_offsets(other, {TopicPartition("t", 0): 5})
    assert JdbcSinkConnector().reset_offsets({**database.config, "name": "kit"}, [])
    fresh = database.sink()
    assert fresh.next_offset == 0
    fresh.close()
    assert database.ask("SELECT next_offset FROM progress WHERE connector = 'other'") == [(5,)]


def test_offsets_of_a_record_that_cannot_be_a_row_are_written_when_its_dead_letter_is_safe(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that was killed in between went on behind the record, which was nowhere then."""
    sink = database.sink()
    put(sink, 0)
    seen: list[tuple[int, list[Any]]] = []

    def flush() -> None:
        seen.append((len(sink.reported), database.ask("SELECT next_offset FROM progress")))

    monkeypatch.setattr(sink.context, "flush_reports", flush)
    sink.put(sink.record("no row"), sink.record(Struct(ROW, {"n": 2}), schema=ROW))
    assert seen == [(1, [(1,)])]
    assert database.ask("SELECT next_offset FROM progress") == [(3,)]

    def lost() -> None:
        raise ConnectError("the dead letter topic is away")

    monkeypatch.setattr(sink.context, "flush_reports", lost)
    with pytest.raises(ConnectError, match="away"):
        sink.put(sink.record("no row"), sink.record(Struct(ROW, {"n": 4}), schema=ROW))
    assert (database.rows, database.ask("SELECT next_offset FROM progress")) == ([0, 2], [(3,)])
    sink.close()


def test_a_record_is_reported_once_though_the_database_refuses_another_one(database: Database) -> None:
    database.ask("CREATE TABLE t (n INTEGER CHECK (n < 10))")
    database.config["max.retries"] = "0"
    sink = database.sink()
    sink.put(*(sink.record(each if isinstance(each, str) else Struct(ROW, {"n": each}), schema=None if isinstance(each, str) else ROW) for each in (1, "no row", 99, 2)))  # fmt: skip
    assert [record.offset for record, _ in sink.reported] == [1, 2]
    assert database.rows == [1, 2]
    sink.close()


def test_a_task_that_was_asleep_while_its_offsets_were_set_writes_nothing(database: Database) -> None:
    """It set them to what it had in its hands, and what was to be written again was not."""
    asleep = database.sink()
    put(asleep, 0, 1, 2)
    asleep.connector.alter_offsets({"name": "kit", **database.config}, {TopicPartition("t", 0): 1})
    with pytest.raises(ConnectError, match="was set while this task had it"):
        put(asleep, 3)
    asleep.close()
    assert database.ask("SELECT next_offset FROM progress") == [(1,)]
    again = database.sink()
    assert again.next_offset == 1
    put(again, 1, 2, 3)
    again.close()
    assert database.rows == [0, 1, 2, 1, 2, 3]


def test_a_task_goes_on_behind_what_another_one_has_written(database: Database) -> None:
    first, second = database.sink(), database.sink()
    put(first, 0, 1, 2)
    put(second, 0, 1)
    second.next_offset = 3
    put(second, 3)
    put(first, 3, 4)
    assert database.rows == [0, 1, 2, 3, 4]
    for each in (first, second):
        each.close()


@pytest.mark.parametrize("moved_to", [3, 9, None])
def test_a_task_that_was_asleep_in_its_first_batch_while_its_offsets_were_set_writes_nothing(
    database: Database, moved_to: int | None
) -> None:
    """The table had no offset that it could have gone back from: the task took what was set for a beginning."""
    props = {"name": "kit", **database.config}
    asleep = database.sink()
    asleep.next_offset = 5  # where the group begins
    asleep.connector.alter_offsets(props, {TopicPartition("t", 0): moved_to})
    with pytest.raises(ConnectError, match="was set while this task had it"):
        put(asleep, *range(5, 12))
    asleep.close()
    assert database.ask("SELECT next_offset FROM progress") == [(-1 if moved_to is None else moved_to,)]
    again = database.sink()
    assert again.next_offset == (moved_to or 0)
    put(again, 7)
    again.close()
    assert database.rows == [7]


def test_a_task_that_was_asleep_in_its_first_batch_while_all_offsets_were_reset_writes_nothing(
    database: Database,
) -> None:
    asleep = database.sink()
    asleep.next_offset = 5
    other = {**database.config, "name": "other"}
    JdbcSinkConnector().alter_offsets(other, {TopicPartition("t", 0): 5})
    asleep.connector.reset_offsets({"name": "kit", **database.config}, [])
    with pytest.raises(ConnectError, match="was set while this task had it"):
        put(asleep, 5, 6)
    asleep.close()
    assert database.ask("SELECT connector, next_offset, generation FROM progress ORDER BY connector") == [
        ("kit", -1, 1),
        ("other", 5, 1),
    ]


OLD_TABLE = "CREATE TABLE progress (connector VARCHAR(249), topic VARCHAR(249), part INTEGER, next_offset BIGINT NOT NULL, PRIMARY KEY (connector, topic, part))"


def test_a_table_of_an_earlier_version_keeps_its_offsets_and_gets_the_column(database: Database) -> None:
    database.ask(OLD_TABLE)
    database.change("INSERT INTO progress VALUES ('kit', 't', 0, 4)")
    sink = database.sink()
    assert sink.next_offset == 4
    put(sink, 4)
    # a task of that version, on another worker, knows nothing of the column
    database.change("INSERT INTO progress (connector, topic, part, next_offset) VALUES ('kit', 't', 1, 8)")
    database.change("UPDATE progress SET next_offset = 6 WHERE part = 0")
    sink.next_offset = 5
    put(sink, 5, 6)
    sink.close()
    assert database.rows == [4, 6]
    assert database.ask("SELECT part, next_offset, generation FROM progress ORDER BY part") == [(0, 7, 0), (1, 8, 0)]


def test_two_tasks_may_add_the_column_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    database.ask(OLD_TABLE)
    look = Progress._has_generation
    looks: list[bool] = []

    def looked(progress: Progress, connection: Any) -> bool:
        looks.append(look(progress, connection))
        if len(looks) == 1:  # and right behind the look, another one adds it
            database.ask("ALTER TABLE progress ADD COLUMN generation BIGINT DEFAULT 0 NOT NULL")
        return looks[-1]

    monkeypatch.setattr(Progress, "_has_generation", looked)
    sink = database.sink()
    put(sink, 0)
    sink.close()
    assert (looks, database.rows) == ([False, True], [0])


def test_a_column_that_cannot_be_added_is_told_with_what_to_do(database: Database) -> None:
    database.ask("CREATE TABLE whole (connector, topic, part, next_offset)")
    database.ask("CREATE VIEW progress AS SELECT * FROM whole")
    with pytest.raises(ConnectError, match=r"'progress' has no column generation, and .*ALTER TABLE progress ADD COLUMN"):  # fmt: skip
        database.sink()
