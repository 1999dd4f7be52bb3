"""The stores behind the database sinks, without Spark: what retries, zombies, crashes and bad rows do to a table."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow
import pytest

from chaos.support.dice import dice
from compat.support.quick import lasting
from headwater.base.errors import UserError
from headwater.spark.sinks.options import Column, SinkOptions
from headwater.spark.sinks.postgres import PostgresStore
from headwater.spark.sinks.postgres_sql import staged_table
from headwater.spark.sinks.sqlite import SqliteStore
from headwater.spark.sinks.staging import Attempt, Batch, Store, commit_batch, write_task
from spark.support.postgres import Postgres, postgres  # noqa: F401

SCHEMA = (Column("n", "long"), Column("text", "string"))


class Case:
    """One kind of database with a table of its own."""

    def __init__(self, make: Callable[[SinkOptions], Store], options: SinkOptions, ask: Callable[[str], list[Any]]):
        self._make = make
        self.options = options
        self.ask = ask
        self.is_sqlite = make is SqliteStore

    def store(self, **changes: Any) -> Store:
        store = self._make(replace(self.options, **changes))
        store.prepare()
        return store

    def numbers(self) -> list[int]:
        return [row[0] for row in self.ask(f"SELECT n FROM {self.options.table} ORDER BY n")]


@pytest.fixture(params=["sqlite", "postgres"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    if request.param == "sqlite":
        return sqlite_case(tmp_path)
    return postgres_case(request.getfixturevalue("postgres"))


def test_where_nothing_was_ever_written_no_query_has_come_anywhere(
    postgres: Postgres,  # noqa: F811
    tmp_path: Path,
) -> None:
    """Asked by who sets the offsets of a SparkSink whose first batch was begun and not ended; nothing is made."""
    path = tmp_path / "none.db"
    assert SqliteStore(SinkOptions(str(path), "t", ())).last_batch("q") is None
    assert not path.exists()
    sqlite3.connect(path).close()
    assert SqliteStore(SinkOptions(str(path), "t", ())).last_batch("q") is None
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS never_written")
    elsewhere = f"{postgres.url}{'&' if '?' in postgres.url else '?'}options=-csearch_path%3Dnever_written"
    assert PostgresStore(SinkOptions(elsewhere, "t", ())).last_batch("q") is None


def sqlite_case(directory: Path) -> Case:
    path = str(directory / "results.db")

    def ask(question: str) -> list[Any]:
        database = sqlite3.connect(path)
        try:
            return database.execute(question).fetchall()
        finally:
            database.close()

    return Case(SqliteStore, SinkOptions(path, "results", SCHEMA, sink="results"), ask)


def postgres_case(server: Postgres) -> Case:
    table = f"results_{uuid.uuid4().hex[:8]}"

    def ask(question: str) -> list[Any]:
        with psycopg.connect(server.url) as connection:
            return connection.execute(question.encode()).fetchall()

    return Case(PostgresStore, SinkOptions(server.url, table, SCHEMA, sink=table, patience_s=5), ask)


def pieces(numbers: list[int], size: int = 3) -> Iterator[pyarrow.RecordBatch]:
    for start in range(0, len(numbers), size):
        part = numbers[start : start + size]
        yield pyarrow.record_batch({"n": part, "text": [f"text {n}" for n in part]})


def task(store: Store, batch: Batch | None, numbers: list[int]) -> Attempt:
    import socket

    return write_task(store, batch, uuid.uuid4().hex, socket.gethostname(), pieces(numbers))


def test_a_batch_is_visible_when_it_is_committed_and_then_never_again(case: Case) -> None:
    store, batch = case.store(), Batch("q", 0)
    attempts = [task(store, batch, [1, 2, 3, 4]), task(store, batch, []), task(store, batch, [5])]
    assert case.numbers() == []
    assert commit_batch(store, attempts)
    assert case.numbers() == [1, 2, 3, 4, 5]
    assert not commit_batch(store, attempts), "a commit that was answered too late is asked for again"
    again = [task(store, batch, [1, 2, 3, 4, 5])]
    assert again[0].skipped
    assert not commit_batch(store, again)
    assert case.numbers() == [1, 2, 3, 4, 5]


def test_a_batch_that_was_killed_may_come_back_in_other_parts(case: Case) -> None:
    store, batch = case.store(), Batch("q", 7)
    task(store, batch, [1, 2])
    task(store, batch, [3])  # and here the driver dies
    assert commit_batch(case.store(), [task(case.store(), batch, [3, 1, 2])])
    assert case.numbers() == [1, 2, 3]


def test_of_a_task_that_was_tried_twice_one_try_counts(case: Case) -> None:
    store, batch = case.store(), Batch("q", 0)
    task(store, batch, [1, 2])
    assert commit_batch(store, [task(store, batch, [1, 2]), task(store, batch, [3])])
    assert case.numbers() == [1, 2, 3]


def test_a_zombie_driver_comes_too_late(case: Case) -> None:
    zombie, batch = case.store(), Batch("q", 0)
    old = [task(zombie, batch, [1, 2])]
    new = case.store()
    assert commit_batch(new, [task(new, batch, [1, 2])])
    late = task(zombie, Batch("q", 0), [9])
    assert late.skipped
    assert not commit_batch(zombie, old)
    assert case.numbers() == [1, 2]


def test_queries_and_sinks_have_progress_of_their_own(case: Case) -> None:
    store, other = case.store(), case.store(sink="other")
    assert commit_batch(store, [task(store, Batch("q", 3), [1])])
    assert commit_batch(store, [task(store, Batch("p", 0), [2])])
    assert commit_batch(other, [task(other, Batch("q", 3), [3])])
    assert commit_batch(store, [task(store, None, [4])])
    assert commit_batch(store, [task(store, None, [5])])
    assert case.numbers() == [1, 2, 3, 4, 5]
    assert store.last_batch("q") == 3
    assert store.last_batch("p") == 0
    assert store.last_batch("nobody") is None
    assert len(case.ask("SELECT * FROM headwater_progress WHERE query_id LIKE 'batch%'")) == 0


def test_nothing_is_left_lying_about(case: Case) -> None:
    store = case.store()
    task(store, Batch("q", 0), [1])  # a driver died
    failed = task(store, Batch("q", 1), [2])
    store.discard([failed])
    assert commit_batch(store, [task(store, Batch("q", 1), [3])])
    assert lying_about(case) == 0


def test_what_nobody_comes_back_for_goes_after_a_week(case: Case) -> None:
    """What a killed `spark.write`, or a query without its checkpoint, had put aside stayed for ever, and slowed each
    batch.
    """
    store = case.store()
    for batch in (None, Batch("its checkpoint is gone", 5)):
        task(store, batch, [1])
    make_old(case)
    for batch in (None, Batch("it runs elsewhere", 5)):
        task(store, batch, [2])
    assert commit_batch(store, [task(store, None, [3])])
    assert (case.numbers(), lying_about(case)) == ([3], 2)
    make_old(case)
    assert commit_batch(store, [task(store, Batch("q", 0), [4])])
    assert (case.numbers(), lying_about(case)) == ([3, 4], 0)


def make_old(case: Case) -> None:
    """Of what lies aside, by eight days."""
    if case.is_sqlite:
        for each in Path(f"{case.options.place}-staged").iterdir():
            os.utime(each, (time.time() - 8 * 86400,) * 2)
        return
    with psycopg.connect(case.options.place) as connection:
        older = "UPDATE headwater_pieces SET staged_at = staged_at - interval '8 days' WHERE staged = %s"
        connection.execute(older, (staged_table(case.options),))


def lying_about(case: Case) -> int:
    """Pieces of one task each."""
    if case.is_sqlite:
        return len(os.listdir(f"{case.options.place}-staged"))
    staged = staged_table(case.options)
    ((rows, noted),) = case.ask(
        f"SELECT (SELECT count(*) FROM {staged}), (SELECT count(*) FROM headwater_pieces WHERE staged = '{staged}')"
    )
    assert rows == noted
    return int(noted)


def test_pieces_of_an_earlier_version_count_as_put_aside_now(postgres: Postgres) -> None:  # noqa: F811
    case = postgres_case(postgres)
    store = case.store()
    with psycopg.connect(postgres.url) as connection:
        connection.execute("ALTER TABLE headwater_pieces DROP COLUMN staged_at")
    before = task(store, Batch("q", 0), [1])
    assert commit_batch(case.store(), [before])
    assert case.numbers() == [1]


def test_rows_with_keys_replace_each_other(case: Case) -> None:
    store = case.store(keys=("n",))
    assert commit_batch(store, [task(store, Batch("q", 0), [1, 2])])
    changed = pyarrow.record_batch({"n": [2, 3], "text": ["new", "three"]})
    attempt = store.stage(Batch("q", 1), "a1", iter([changed]))
    assert commit_batch(store, [attempt])
    found = case.ask(f"SELECT n, text FROM {case.options.table} ORDER BY n")
    assert found == [(1, "text 1"), (2, "new"), (3, "three")]


@pytest.mark.parametrize("keys", [("n",), ("n", "text")], ids=["a number", "two"])
def test_a_key_that_is_null_is_a_bad_row(case: Case, keys: tuple[str, ...]) -> None:
    """SQLite made a number of its own for it, or added a row each time: counts that are kept up to date were there
    twice.
    """
    store = case.store(keys=keys)
    rows = pyarrow.record_batch({"n": pyarrow.array([None, 2], pyarrow.int64()), "text": ["a", "b"]})
    with pytest.raises(UserError, match="does not take a row"):
        commit_batch(store, [store.stage(Batch("q", 0), "a1", iter([rows]))])
    assert case.numbers() == []


def test_a_database_that_was_set_back_while_a_batch_ran_publishes_no_half_of_it(case: Case) -> None:
    """A task found the batch done and dropped its rows; a standby took over that had not heard of it."""
    store, batch = case.store(), Batch("q", 0)
    attempts = [replace(task(store, batch, []), skipped=True), task(store, batch, [2])]
    with pytest.raises(UserError, match="Nothing of the batch was published"):
        commit_batch(store, attempts)
    assert case.numbers() == []
    assert store.last_batch("q") is None
    assert commit_batch(store, [task(store, batch, [1, 2])])
    assert case.numbers() == [1, 2]


def test_a_bad_row_stops_the_batch_and_is_shown(case: Case) -> None:
    case.store()
    store = _with_check(case, "fail")
    with pytest.raises(UserError, match="does not take a row") as caught:
        commit_batch(store, [task(store, Batch("q", 0), [1, 2, 13, 4, 5])])
    assert '"n": 13' in str(caught.value)
    assert case.numbers() == []
    assert store.last_batch("q") is None


def test_bad_rows_are_stored_once_and_the_others_go_through(case: Case) -> None:
    store = _with_check(case, "store")
    task(store, Batch("q", 0), [13])
    attempts = [task(store, Batch("q", 0), [1, 2, 13, 4, 5]), task(store, Batch("q", 0), [6, 7, 8, 13])]
    assert commit_batch(store, attempts)
    assert not commit_batch(store, attempts)
    assert case.numbers() == [1, 2, 4, 5, 6, 7, 8]
    found = case.ask(f"SELECT row, error FROM headwater_bad_rows WHERE sink = '{case.options.sink}'")
    assert [row[0] for row in found] == ['{"n": 13, "text": "text 13"}'] * 2
    assert "luck" in found[0][1]


def _with_check(case: Case, bad_rows: str) -> Store:
    """A table that takes no 13."""
    case.store()  # the table is there before the rows: with a check of the user's
    if "/" in case.options.place and "://" not in case.options.place:
        database = sqlite3.connect(case.options.place)
        database.executescript("DROP TABLE results; CREATE TABLE results(n, text, CONSTRAINT luck CHECK (n <> 13))")
        database.close()
    else:
        with psycopg.connect(case.options.place) as connection:
            table, staged = case.options.table, staged_table(case.options)
            connection.execute(f"DROP TABLE {table}, {staged}".encode())
            columns = "id serial PRIMARY KEY, n bigint, text text, CONSTRAINT luck CHECK (n <> 13)"
            connection.execute(f"CREATE TABLE {table}({columns})".encode())
    return case.store(bad_rows=bad_rows)


def test_values_of_all_types(case: Case) -> None:
    columns: dict[str, tuple[Column, pyarrow.Array]] = {
        "flag": (Column("flag", "boolean"), pyarrow.array([True, None])),
        "number": (Column("number", "integer"), pyarrow.array([-5, None], pyarrow.int32())),
        "real": (Column("real", "double"), pyarrow.array([0.1, None])),
        "name": (Column("name", "string"), pyarrow.array(['a "quoted"\nword, ü', ""])),
        "bytes": (Column("bytes", "binary"), pyarrow.array([b"\x00\xff\\", None])),
        "day": (Column("day", "date"), pyarrow.array([date(2026, 2, 28), None])),
        "time": (
            Column("time", "timestamp"),
            pyarrow.array(
                [datetime(2026, 2, 28, 23, 59, 59, 123456, UTC), None], pyarrow.timestamp("us", "Asia/Tokyo")
            ),
        ),
        "price": (Column("price", "decimal", (20, 3)), pyarrow.array([Decimal("12345678901234567.125"), None])),
        "list": (Column("list", "nested"), pyarrow.array([["x", None], None])),
    }
    store = case.store(columns=tuple(each[0] for each in columns.values()))
    batch = pyarrow.record_batch({name: each[1] for name, each in columns.items()})
    assert commit_batch(store, [store.stage(None, "a1", iter([batch]))])
    first, second = case.ask(f"SELECT * FROM {case.options.table} ORDER BY name DESC")
    assert second == (None, None, None, "", None, None, None, None, None)
    if isinstance(store, SqliteStore):
        texts = ("2026-02-28", "2026-02-28 23:59:59.123456", "12345678901234567.125", '["x", null]')
        assert first == (1, -5, 0.1, 'a "quoted"\nword, ü', b"\x00\xff\\", *texts)
    else:
        exact = (date(2026, 2, 28), datetime(2026, 2, 28, 23, 59, 59, 123456, UTC), Decimal("12345678901234567.125"))
        assert first == (True, -5, 0.1, 'a "quoted"\nword, ü', b"\x00\xff\\", *exact, ["x", None])


def test_a_table_without_the_column_is_refused_at_once(case: Case) -> None:
    case.store()
    with pytest.raises(UserError, match="no column 'other'"):
        case.store(columns=(*SCHEMA, Column("other", "long")))


def test_a_full_disk_under_sqlite_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = sqlite_case(tmp_path)
    store = case.store()
    really = sqlite3.connect

    def full(*arguments: Any, **more: Any) -> sqlite3.Connection:
        database = really(*arguments, **more)
        database.execute("PRAGMA max_page_count = 12")  # the file may not grow further
        return database

    attempts = [task(store, Batch("q", 0), list(range(5000)))]
    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(UserError, match=r"full.*Make room"):
        commit_batch(store, attempts)
    monkeypatch.undo()
    assert case.numbers() == []
    assert commit_batch(case.store(), [task(case.store(), Batch("q", 0), list(range(5000)))])
    assert case.numbers() == list(range(5000))


def test_sqlite_refuses_tasks_of_other_machines(tmp_path: Path) -> None:
    case = sqlite_case(tmp_path)
    attempt = replace(task(case.store(), Batch("q", 0), [1]), host="elsewhere")
    with pytest.raises(UserError, match="headwater-postgres"):
        commit_batch(case.store(), [attempt])


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """One that a test may stop."""
    from spark.support.postgres import running_postgres

    with running_postgres() as server:
        yield server


def test_postgres_goes_away_and_comes_back(own_postgres: Postgres) -> None:
    """Between two pieces of a task, and before the commit: nothing fails, nothing comes twice."""
    case = postgres_case(own_postgres)
    store = case.store(patience_s=240)

    def back_later() -> threading.Timer:
        own_postgres.stop()
        timer = threading.Timer(0.3, own_postgres.start)
        timer.start()
        return timer

    def with_a_gap() -> Iterator[pyarrow.RecordBatch]:
        yield from pieces([1, 2, 3])
        timer = back_later()
        yield from pieces([4, 5, 6])
        timer.join()

    attempt = store.stage(Batch("q", 0), "a1", with_a_gap())
    timer = back_later()
    assert commit_batch(store, [attempt])
    timer.join()
    assert case.numbers() == [1, 2, 3, 4, 5, 6]


def test_postgres_stays_away_for_longer_than_patience(own_postgres: Postgres) -> None:
    case = postgres_case(own_postgres)
    store = case.store(patience_s=0.2)
    attempt = task(store, Batch("q", 0), [1])
    own_postgres.stop()
    with pytest.raises(UserError, match=r"not there for 0.2 seconds.*nothing is lost"):
        commit_batch(store, [attempt])
    store.discard([attempt])  # what Spark does next must not raise
    own_postgres.start()
    assert commit_batch(store, [task(store, Batch("q", 0), [1])])
    assert case.numbers() == [1]


def test_postgres_crashes_with_rows_put_aside(own_postgres: Postgres) -> None:
    case = postgres_case(own_postgres)
    store = case.store()
    attempt = task(store, Batch("q", 0), [1])
    own_postgres.stop("immediate")
    own_postgres.start()
    with pytest.raises(UserError, match="put aside are gone"):
        commit_batch(store, [attempt])
    assert commit_batch(store, [task(store, Batch("q", 0), [1])])
    assert case.numbers() == [1]


def test_a_table_that_was_mended_takes_what_it_refused(postgres: Postgres) -> None:  # noqa: F811
    """Rows are refused where they are put aside, by types and checks of the table: as it is now, not as it once was."""
    case = postgres_case(postgres)
    narrow = (Column("n", "integer"), Column("text", "string"))
    batch, large = Batch("q", 0), 5_000_000_000

    def alter(change: str) -> Store:
        with psycopg.connect(postgres.url) as connection:
            connection.execute(f"ALTER TABLE {case.options.table} {change}".encode())
        return case.store(columns=narrow)

    store = case.store(columns=narrow)
    with pytest.raises(UserError, match="out of range"):
        task(store, batch, [large])
    aside = task(store, batch, [1])
    store = alter("ALTER n TYPE bigint")
    with pytest.raises(UserError, match="put aside are gone"):
        commit_batch(store, [aside])
    store = alter("ADD CONSTRAINT luck CHECK (n <> 13)")
    with pytest.raises(UserError, match="luck"):
        task(store, batch, [13])
    attempt = task(alter("DROP CONSTRAINT luck"), batch, [large, 13])
    assert commit_batch(case.store(columns=narrow), [attempt])  # as in Spark: prepared again for the commit
    assert case.numbers() == [13, large]


def test_names_that_mean_something_elsewhere(case: Case) -> None:
    names = ("share %", "select", 'a "word"', "x%s")
    store = case.store(columns=tuple(Column(name, "string") for name in names), keys=("share %",))
    for number, text in enumerate("ab"):
        batch = pyarrow.record_batch({name: [f"{name} {text}" if name != "share %" else "1"] for name in names})
        assert commit_batch(store, [store.stage(Batch("q", number), f"{case.options.table}{text}", iter([batch]))])
    assert case.ask(f"SELECT * FROM {case.options.table}") == [("1", "select b", 'a "word" b', "x%s b")]


def test_a_wrong_database_is_told_at_once(postgres: Postgres) -> None:  # noqa: F811
    url = postgres.url.replace("/postgres?", "/nowhere?")
    with pytest.raises(UserError, match='"nowhere" does not exist'):
        PostgresStore(SinkOptions(url, "t", SCHEMA, sink="t", patience_s=3600)).prepare()


WORKER = """
import random, sys, uuid
from spark.support.sink_worker import run
run(sys.argv[1], sys.argv[2], sys.argv[3])
"""


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 1800))
def test_killed_at_random_moments_each_row_is_there_once(case: Case) -> None:
    """A process that writes batches is killed and started again: batches come back in other parts, with other tasks."""
    kind = type(case.store()).__name__
    chance = dice()
    for number in range(lasting(4, 150)):
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, kind, case.options.place, case.options.table],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        )
        assert process.stdout is not None
        process.stdout.readline()  # it has written a batch
        time.sleep(chance.uniform(0.0, 0.25))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        found = case.numbers()
        assert found == list(range(len(found))), f"round {number}"
        assert len(found) % 40 == 0, "a batch is visible as a whole"
    assert case.numbers()
