"""SQLite: one writer, the embedded default, for a driver with its tasks on one machine.

Tasks put their rows aside as Arrow files in the directory `<database>-staged`; the driver alone opens the database to
write, and inserts all rows of a batch with (sink, query id, batch id) in one transaction. The database is in WAL mode,
so dashboards read while batches come in.

    headwater_progress(sink, query_id, batch_id, committed_at)        one line per query
    headwater_bad_rows(sink, query_id, batch_id, row, error)          with the option badRows=store
"""

import contextlib
import os
import socket
import sqlite3
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.spark.sinks.options import FAIL, SinkOptions, on_conflict, quoted
from headwater.spark.sinks.staging import LITTER_KEPT_DAYS, Attempt, Batch, is_done, refuse_skipped

if TYPE_CHECKING:
    import pyarrow

_BUSY_S: Final = 60.0
_NO_QUERY: Final = "batch"
_TYPES: Final = {
    **dict.fromkeys(("boolean", "byte", "short", "integer", "long"), "INTEGER"),
    **dict.fromkeys(("float", "double"), "REAL"),
    "binary": "BLOB",
}
_ROW_ERRORS: Final = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.InterfaceError, OverflowError)
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS headwater_progress(
    sink TEXT, query_id TEXT, batch_id INTEGER NOT NULL, committed_at TEXT NOT NULL, PRIMARY KEY (sink, query_id));
CREATE TABLE IF NOT EXISTS headwater_bad_rows(sink TEXT, query_id TEXT, batch_id INTEGER, row TEXT, error TEXT);
"""


class SqliteStore:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._path = os.path.abspath(options.place)
        self._aside = f"{self._path}-staged"
        self._prefix = sha256(options.sink.encode()).hexdigest()[:10]

    def prepare(self) -> None:
        options = self._options
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        with self._open() as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(_TABLES)
            database.execute(create_statement(options))
            there = {row[1].lower() for row in database.execute(f"PRAGMA table_info({quoted(options.table)})")}
        missing = [name for name in options.names if name.lower() not in there]
        if missing:
            raise UserError(
                f"The table {options.table} of {self._path} has no column {missing[0]!r}",
                f"it has {', '.join(sorted(there))}",
                "Select or rename columns, or name another table",
            )

    def last_batch(self, query_id: str) -> int | None:
        if not os.path.exists(self._path):  # or it would be made
            return None
        with self._open() as database:
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'headwater_progress'").fetchone() is None:
                return None
            return self._last_batch(database, query_id)

    def stage(self, batch: Batch | None, attempt: str, rows: Iterator["pyarrow.RecordBatch"]) -> Attempt:
        import pyarrow

        os.makedirs(self._aside, exist_ok=True)
        count = pieces = 0
        with contextlib.ExitStack() as stack:
            writer = None
            for piece in rows:
                if writer is None:
                    sink = stack.enter_context(pyarrow.OSFile(self._staged(batch, attempt), "wb"))
                    writer = stack.enter_context(pyarrow.ipc.new_stream(sink, piece.schema))
                writer.write_batch(piece)
                count += piece.num_rows
                pieces += 1
        return Attempt(batch, attempt, socket.gethostname(), pieces, count)

    def publish(self, batch: Batch | None, attempts: Sequence[Attempt]) -> bool:
        self._refuse_strangers(attempts)
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            done = batch is not None and is_done(self._last_batch(database, batch.query_id), batch.batch_id)
            if not done:
                refuse_skipped(attempts)
                for each in attempts:
                    self._insert_attempt(database, each)
                if batch is not None:
                    database.execute(
                        "INSERT OR REPLACE INTO headwater_progress VALUES (?, ?, ?, datetime('now'))",
                        (self._options.sink, batch.query_id, batch.batch_id),
                    )
                database.execute("COMMIT")
            self._sweep(batch, attempts)
            return not done

    def discard(self, attempts: Sequence[Attempt]) -> None:
        for each in attempts:
            with contextlib.suppress(OSError):
                os.unlink(self._staged(each.batch, each.attempt))

    def _last_batch(self, database: sqlite3.Connection, query_id: str) -> int | None:
        found = database.execute(
            "SELECT batch_id FROM headwater_progress WHERE sink = ? AND query_id = ?", (self._options.sink, query_id)
        ).fetchone()
        return None if found is None else int(found[0])

    def _insert_attempt(self, database: sqlite3.Connection, attempt: Attempt) -> None:
        import pyarrow

        if not attempt.pieces:
            return
        count = 0
        with (
            pyarrow.memory_map(self._staged(attempt.batch, attempt.attempt)) as file,
            pyarrow.ipc.open_stream(file) as reader,
        ):
            for piece in reader:
                self._insert(database, attempt.batch, piece)
                count += piece.num_rows
        assert count == attempt.rows, "what a task has put aside is there, whole"

    def _insert(self, database: sqlite3.Connection, batch: Batch | None, piece: "pyarrow.RecordBatch") -> None:
        from headwater.spark.sinks.values import row_as_json, rows_of, simplified

        statement = insert_statement(self._options)
        rows = rows_of(simplified(piece))
        database.execute("SAVEPOINT piece")
        try:
            database.executemany(statement, rows)
        except _ROW_ERRORS:
            database.execute("ROLLBACK TO piece")
            for number, row in enumerate(rows):
                try:
                    database.execute(statement, row)
                except _ROW_ERRORS as error:
                    self._bad_row(database, batch, row_as_json(piece, number), str(error))
        database.execute("RELEASE piece")

    def _bad_row(self, database: sqlite3.Connection, batch: Batch | None, row: str, error: str) -> None:
        options = self._options
        if options.bad_rows == FAIL:
            raise bad_row(options.table, row, error)
        where: tuple[Any, Any] = (None, None) if batch is None else batch
        database.execute("INSERT INTO headwater_bad_rows VALUES (?, ?, ?, ?, ?)", (options.sink, *where, row, error))

    def _refuse_strangers(self, attempts: Sequence[Attempt]) -> None:
        here = socket.gethostname()
        for each in attempts:
            if each.pieces and each.host != here:
                raise UserError(
                    "SQLite is for a driver with its tasks on one machine",
                    f"a task ran on {each.host}, and the database is on {here}",
                    'Use format("headwater-postgres") on a cluster',
                )

    def _staged(self, batch: Batch | None, attempt: str) -> str:
        return os.path.join(self._aside, f"{self._litter_of(batch)}{attempt}.arrow")

    def _litter_of(self, batch: Batch | None) -> str:
        query_id, batch_id = (_NO_QUERY, 0) if batch is None else batch
        return f"{self._prefix}-{query_id}-{batch_id:010d}-"

    def _sweep(self, batch: Batch | None, attempts: Sequence[Attempt]) -> None:
        """What was published, what tries of this and earlier batches left, and what is old. Another process may do the
        same.
        """
        self.discard(attempts)
        mine = "" if batch is None else f"{self._prefix}-{batch.query_id}-"
        limit = "" if batch is None else self._litter_of(batch) + "~"
        old = time.time() - LITTER_KEPT_DAYS * 86400
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._aside):
                path = os.path.join(self._aside, name)
                with contextlib.suppress(FileNotFoundError):
                    is_mine = name.startswith(mine) and name < limit
                    if is_mine or (name.startswith(f"{self._prefix}-") and os.stat(path).st_mtime < old):
                        os.unlink(path)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Transactions are begun and ended by hand; what is not committed when it closes is rolled back."""
        try:
            database = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
            with contextlib.closing(database):
                yield database
        except sqlite3.OperationalError as error:
            raise UserError(f"SQLite could not write to {self._path}", str(error), _hint(str(error))) from error


def create_statement(options: SinkOptions) -> str:
    """Tables with rowids would take null for a key: as a new row each time, or even as a number of their own making."""
    columns = [f"{quoted(each.name)} {_TYPES.get(each.kind, 'TEXT')}" for each in options.columns]
    if options.keys:
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted, options.keys))})")
    made = f"CREATE TABLE IF NOT EXISTS {quoted(options.table)}({', '.join(columns)})"
    return f"{made} WITHOUT ROWID" if options.keys else made


def insert_statement(options: SinkOptions) -> str:
    names = [quoted(name) for name in options.names]
    statement = f"INSERT INTO {quoted(options.table)}({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    return statement + on_conflict(options)


def bad_row(table: str, row: str, error: str) -> UserError:
    return UserError(
        f"The table {table} does not take a row",
        f"{error}; the row is {row}",
        "Nothing of its batch was written. Mend the table or the query and start it again; or set the option badRows to "
        "store, and such rows go to the table headwater_bad_rows",
    )


def _hint(error: str) -> str:
    if "full" in error:
        return "Make room and start the query again: nothing of the batch was written, and nothing is lost"
    if "locked" in error:
        return "Another process holds the database; the query can be started again when it lets go"
    if "ON CONFLICT" in error:
        return "Make a unique index over the columns named by the option keys"
    return "Nothing of the batch was written; the query can be started again"
