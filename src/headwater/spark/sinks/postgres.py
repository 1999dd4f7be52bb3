"""PostgreSQL: tasks put rows aside in unlogged tables, the driver's transaction moves them and the progress together.

A task writes piece by piece, each with its number in one transaction. So a connection that breaks costs one piece,
which is tried again when the server is back, and a piece whose commit went unanswered is found by its number. Rows go
by COPY as CSV, which Arrow writes. A row that the table would refuse is refused here already, by the types and checks
that the staging table has from it, and found by halving the piece.
"""

import contextlib
import io
import json
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.base.errors import UserError
from headwater.spark.sinks import postgres_sql as sql
from headwater.spark.sinks.options import FAIL, SinkOptions, quoted_table
from headwater.spark.sinks.retries import RetryUntilDeadline
from headwater.spark.sinks.sqlite import bad_row
from headwater.spark.sinks.staging import Attempt, Batch, is_done, refuse_skipped

if TYPE_CHECKING:
    import psycopg
    import pyarrow

T = TypeVar("T")

# Waiting does not help with these; libpq gives no code for what goes wrong while it connects.
_LASTING: Final = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied", "invalid")


class PostgresStore:
    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def prepare(self) -> None:
        with Connection(self._options) as connection:
            connection.run(self._prepare)

    def last_batch(self, query_id: str) -> int | None:
        with Connection(self._options) as connection:
            return connection.run(lambda cursor: self._progress(cursor, query_id))

    def stage(self, batch: Batch | None, attempt: str, rows: Iterator["pyarrow.RecordBatch"]) -> Attempt:
        pieces = count = 0
        with Connection(self._options) as connection:
            for piece in rows:
                self._stage_piece(connection, batch, attempt, pieces, piece)
                pieces += 1
                count += piece.num_rows
        return Attempt(batch, attempt, socket.gethostname(), pieces, count)

    def publish(self, batch: Batch | None, attempts: Sequence[Attempt]) -> bool:
        # Outside of a query there is a mark as well, as long as the commit may go unanswered.
        marked = batch or Batch(f"batch {attempts[0].attempt}", 0)
        with Connection(self._options) as connection:
            try:
                published = connection.run(lambda cursor: self._publish(cursor, marked, attempts))
            except Exception as error:
                raise explained(error, self._options) from error
            if batch is None:
                connection.run(
                    lambda cursor: cursor.execute(sql.FORGET_PROGRESS, (self._options.sink, marked.query_id))
                )
            connection.run(self._tidy)
        return published

    def discard(self, attempts: Sequence[Attempt]) -> None:
        """The failure that led here matters more than one that comes now; `publish` takes away what is left."""
        from dataclasses import replace

        import psycopg

        names = [each.attempt for each in attempts]
        with (
            contextlib.suppress(psycopg.Error, UserError),
            Connection(replace(self._options, patience_s=0)) as connection,
        ):
            connection.run(lambda cursor: cursor.execute(sql.FORGET_PIECES, (names, None, None, None)))
            connection.run(self._tidy)

    def _prepare(self, cursor: "psycopg.Cursor[Any]") -> None:
        options = self._options
        cursor.execute(sql.SET_UP_LOCK)
        cursor.execute(sql.TABLES.encode())
        if cursor.execute(sql.HAS_AGES).fetchone() is None:  # a table of an earlier version; ALTER waits for all others
            cursor.execute(sql.ADD_AGES)
        cursor.execute(sql.create_table(options).encode())
        cursor.execute(f"SELECT * FROM {quoted_table(options.table)} LIMIT 0".encode())
        there = [column.name for column in cursor.description or ()]
        missing = [name for name in options.names if name not in there]
        if missing:
            raise UserError(
                f"The table {options.table} has no column {missing[0]!r}",
                f"it has {', '.join(there)}",
                "Select or rename columns, or name another table",
            )
        self._prepare_staged(cursor, there)

    def _prepare_staged(self, cursor: "psycopg.Cursor[Any]", there: list[str]) -> None:
        options, staged = self._options, sql.staged_table(self._options)
        shape = cursor.execute(sql.SHAPE, {"table": quoted_table(options.table), "names": options.names}).fetchone()
        mark = sql.shape_mark(str(shape))
        found = cursor.execute(sql.STAGED_SHAPE, (staged, staged)).fetchone()
        if found == (mark,):
            return
        if found is not None:  # pieces go with their rows: whoever is about to publish them must notice
            cursor.execute(f"DROP TABLE {staged}".encode())
            cursor.execute(sql.FORGET_STAGED, (staged,))
        for statement in sql.create_staged_table(options, there, mark):
            cursor.execute(statement.encode())

    def _progress(self, cursor: "psycopg.Cursor[Any]", query_id: str) -> int | None:
        if cursor.execute("SELECT to_regclass('headwater_progress')").fetchone() == (None,):
            return None
        return self._last_batch(cursor, sql.LAST_BATCH, query_id)

    def _last_batch(self, cursor: "psycopg.Cursor[Any]", statement: str, query_id: str) -> int | None:
        found = cursor.execute(statement.encode(), (self._options.sink, query_id)).fetchone()
        return None if found is None else int(found[0])

    def _stage_piece(
        self, connection: "Connection", batch: Batch | None, attempt: str, number: int, piece: "pyarrow.RecordBatch"
    ) -> None:
        options = self._options
        query_id, batch_id = (None, None) if batch is None else batch

        def write(cursor: "psycopg.Cursor[Any]") -> None:
            if cursor.execute(sql.HAS_PIECE, (attempt, number)).fetchone():
                return
            bad = self._copy(cursor, attempt, piece)
            described = (sql.staged_table(options), options.sink, query_id, batch_id, piece.num_rows, json.dumps(bad))
            cursor.execute(sql.ADD_PIECE, (attempt, number, *described))

        connection.run(write)

    def _copy(self, cursor: "psycopg.Cursor[Any]", attempt: str, piece: "pyarrow.RecordBatch") -> list[dict[str, str]]:
        """The rows that were not taken."""
        import psycopg

        from headwater.spark.sinks.values import row_as_json

        try:
            with cursor.connection.transaction(), cursor.copy(sql.copy(self._options).encode()) as target:
                target.write(as_csv(attempt, piece))
            return []
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.ProgramLimitExceeded) as error:
            if piece.num_rows == 1:
                row, why = row_as_json(piece, 0), str(error).partition("\n")[0]
                if self._options.bad_rows == FAIL:
                    raise bad_row(self._options.table, row, why) from error
                return [{"row": row, "error": why}]
        half = piece.num_rows // 2
        return self._copy(cursor, attempt, piece.slice(0, half)) + self._copy(cursor, attempt, piece.slice(half))

    def _publish(self, cursor: "psycopg.Cursor[Any]", batch: Batch, attempts: Sequence[Attempt]) -> bool:
        """Safe to repeat: a first try whose commit went unanswered left its progress."""
        whose = (self._options.sink, batch.query_id)
        names = [each.attempt for each in attempts]
        cursor.execute(sql.BEGIN_PROGRESS, whose)
        done = is_done(self._last_batch(cursor, sql.LOCK_PROGRESS, batch.query_id), batch.batch_id)
        if not done:
            refuse_skipped(attempts)
            cursor.execute(f"LOCK TABLE {sql.staged_table(self._options)} IN ACCESS SHARE MODE".encode())
            self._refuse_missing(dict(cursor.execute(sql.COUNT_PIECES, (names,)).fetchall()), attempts)
            cursor.execute(sql.publish(self._options).encode(), (names,))
            cursor.execute(sql.PUBLISH_BAD_ROWS.encode(), (names,))
            cursor.execute(sql.SET_PROGRESS, (batch.batch_id, *whose))
        cursor.execute(sql.FORGET_PIECES, (names, *whose, batch.batch_id))
        return not done

    def _refuse_missing(self, found: dict[str, int], attempts: Sequence[Attempt]) -> None:
        missing = sum(each.pieces - found.get(each.attempt, 0) for each in attempts)
        if missing:
            raise UserError(
                "Rows that were put aside are gone",
                f"{missing} pieces are missing in PostgreSQL; it crashed since the tasks wrote them, or another run of "
                "this query took them away",
                "Start the query again: nothing of the batch was published, and it is written anew",
            )

    def _tidy(self, cursor: "psycopg.Cursor[Any]") -> None:
        """Takes away rows without a piece; by TRUNCATE where nobody else writes, which leaves nothing for VACUUM.

        Only there do old pieces go: whoever publishes has a lock on the table, and must find the rows it has counted.
        """
        import psycopg

        staged = sql.staged_table(self._options)
        try:
            with cursor.connection.transaction():
                cursor.execute(f"LOCK TABLE {staged} IN ACCESS EXCLUSIVE MODE NOWAIT".encode())
                cursor.execute(sql.FORGET_OLD.encode(), (staged,))
                if not cursor.execute("SELECT 1 FROM headwater_pieces WHERE staged = %s LIMIT 1", (staged,)).fetchone():
                    cursor.execute(f"TRUNCATE {staged}".encode())
                    return
        except psycopg.errors.LockNotAvailable:
            pass
        cursor.execute(sql.forget_rows(self._options).encode())


class Connection:
    """One connection at a time, made when it is needed and again after it broke, as long as patience lasts."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._retries = RetryUntilDeadline(options.patience_s, time.monotonic, time.sleep, is_passing)
        self._current: psycopg.Connection[Any] | None = None

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def run(self, action: "Callable[[psycopg.Cursor[Any]], T]") -> T:
        """One transaction, again as long as errors pass: the action must be safe to repeat."""
        import psycopg

        try:
            return self._retries.call(lambda: self._try(action))
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise explained(error, self._options) from error

    def _try(self, action: "Callable[[psycopg.Cursor[Any]], T]") -> T:
        try:
            current = self._open()
            with current.transaction(), current.cursor() as cursor:
                return action(cursor)
        except Exception:
            self._drop()
            raise

    def _open(self) -> "psycopg.Connection[Any]":
        psycopg = _psycopg()
        if self._current is None or self._current.closed:
            self._current = psycopg.connect(self._options.place, autocommit=True, connect_timeout=10)
        return self._current

    def _drop(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            current.close()


def as_csv(attempt: str, piece: "pyarrow.RecordBatch") -> bytes:
    """Text is in quotes, null is nothing at all: so they differ, as COPY wants it. Bytes are in PostgreSQL's hex."""
    import pyarrow
    import pyarrow.csv

    from headwater.spark.sinks.values import simplified

    plain = simplified(piece, utc_suffix="+00")
    columns = [pyarrow.repeat(attempt, plain.num_rows)]
    for column in plain.columns:
        if pyarrow.types.is_binary(column.type) or pyarrow.types.is_large_binary(column.type):
            texts = (None if value is None else "\\x" + value.hex() for value in column.to_pylist())
            columns.append(pyarrow.array(texts, pyarrow.string()))
        else:
            columns.append(column)
    table = pyarrow.RecordBatch.from_arrays(columns, names=["headwater_attempt", *plain.schema.names])
    target = io.BytesIO()
    pyarrow.csv.write_csv(table, target, pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed"))
    return target.getvalue()


def is_passing(error: Exception) -> bool:
    """Whether the same transaction may succeed later: the server is away, full or busy; not: it refuses us."""
    import psycopg

    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    if isinstance(error, psycopg.errors.ProgramLimitExceeded):  # it counts as the server's state, and is the row's
        return False
    return error.sqlstate is not None or not any(text in str(error) for text in _LASTING)


def explained(error: Exception, options: SinkOptions) -> Exception:
    import psycopg

    if not isinstance(error, psycopg.Error):
        return error
    why = str(error).strip().replace("\n", "; ")
    if isinstance(error, psycopg.errors.UniqueViolation):
        hint = "Give the option keys, and rows replace those with equal keys"
    elif isinstance(error, psycopg.errors.CardinalityViolation):
        hint = "A batch has two rows with equal keys: aggregate by the keys, or drop duplicates"
    elif isinstance(error, psycopg.errors.InvalidColumnReference):
        hint = "Make a unique index over the columns named by the option keys"
    elif isinstance(error, psycopg.errors.ProgramLimitExceeded):
        hint = "A value is larger than PostgreSQL or an index takes: leave it out, or cut it off"
    elif isinstance(error, psycopg.OperationalError):
        hint = (
            "Nothing of the batch was published, and nothing is lost: start the query again when the database is well"
        )
        return UserError(f"PostgreSQL was not there for {options.patience_s:g} seconds", why, hint)
    else:
        hint = "Nothing of the batch was published; mend the table or the query and start it again"
    return UserError(f"PostgreSQL did not take a batch into {options.table}", why, hint)


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise UserError(
            "PostgreSQL cannot be written to", "psycopg is not installed", "pip install 'headwater[postgres]'"
        ) from None
    return psycopg
