"""`headwater.sql.connect()`: the server by Python's database API (PEP 249).

    with connect("http://localhost:8088") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT total FROM totals WHERE customer = ?", ["ada"])
        cursor.fetchall()

Parameters are written into the statement as literals, between quotes where they are text, so that a value never becomes
part of the statement. A push query is read row by row; closing the cursor ends it. There are no transactions to commit.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.sql.shell import ServerAwayError, SqlClient, as_tables

if TYPE_CHECKING:
    import pyarrow as pa

apilevel: Final = "2.0"
threadsafety: Final = 1
paramstyle: Final = "qmark"

_PIECES: Final = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL)


class Error(Exception):
    """Any error of this module."""


class InterfaceError(Error):
    """The module was used wrongly."""


class DatabaseError(Error):
    """The server refused a statement, or cannot be reached."""


class OperationalError(DatabaseError):
    """The server cannot be reached, or went away."""


class ProgrammingError(DatabaseError):
    """A statement and its parameters do not fit."""


class NotSupportedError(DatabaseError):
    """What the server has not."""


def connect(url: str = "http://localhost:8088") -> Connection:
    return Connection(SqlClient(url))


class Connection:
    def __init__(self, client: SqlClient) -> None:
        self._client = client
        self._cursors: list[Cursor] = []
        self._closed = False

    def cursor(self) -> Cursor:
        if self._closed:
            raise InterfaceError("the connection is closed")
        made = Cursor(self._client)
        self._cursors.append(made)
        return made

    def commit(self) -> None:
        """Statements are carried out when they are executed."""

    def rollback(self) -> None:
        raise NotSupportedError("there are no transactions to roll back")

    def close(self) -> None:
        self._closed = True
        for each in self._cursors:
            each.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Rows of one statement at a time."""

    def __init__(self, client: SqlClient) -> None:
        self._client = client
        self._open = contextlib.ExitStack()
        self._rows: Iterator[list[Any]] | None = None
        self._closed = False
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.arraysize = 1

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        if self._closed:
            raise InterfaceError("the cursor is closed")
        self._open.close()
        self._rows, self.description = None, None
        text = bind(statement, parameters).rstrip().rstrip(";") + ";"
        try:
            if re.match(r"\s*SELECT\b", text, re.IGNORECASE):
                names, rows = self._open.enter_context(self._client.query(text))
                self.description = [(name, None, None, None, None, None, True) for name in names]
                self._rows = rows
            else:
                for each in self._client.statements(text):
                    self._show(self._client.run(each))
        except UserError as error:
            raise _told(error) from None
        return self

    def _show(self, entities: Sequence[Mapping[str, Any]]) -> None:
        """What SHOW, LIST and DESCRIBE list are rows; of several tables the first, of several statements the last."""
        tables = [each for found in entities for each in as_tables(found) if not isinstance(each, str)]
        if tables:
            names, rows = tables[0]
            self.description = [(name, None, None, None, None, None, True) for name in names]
            self._rows = iter(rows)

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> Cursor:
        for each in parameters:
            self.execute(statement, each)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(iter(self), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        return list(itertools.islice(self, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if self._rows is None:
            raise InterfaceError("the last statement gave no rows")
        try:
            for row in self._rows:
                yield tuple(row)
        except (UserError, OSError, http.client.HTTPException) as error:
            raise _told(error) from None

    def to_arrow(self) -> pa.Table:
        """All rows as a table."""
        import pyarrow as pa

        names = [str(each[0]) for each in self.description or ()]
        rows = self.fetchall()
        return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Without effect, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Without effect, as PEP 249 allows."""

    def close(self) -> None:
        self._closed = True
        self._open.close()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _told(error: Exception) -> DatabaseError:
    is_refusal = isinstance(error, UserError) and not isinstance(error, ServerAwayError)
    return (DatabaseError if is_refusal else OperationalError)(str(error))


def bind(statement: str, parameters: Sequence[Any]) -> str:
    """The statement with a literal in place of each `?` that stands outside of strings, quoted names and comments."""
    given = iter(parameters)

    def replace(found: re.Match[str]) -> str:
        if found.group() != "?":
            return found.group()
        try:
            return literal(next(given))
        except StopIteration:
            raise ProgrammingError(f"the statement has more places than the {len(parameters)} parameters") from None

    text = _PIECES.sub(replace, statement)
    if next(given, None) is not None or (parameters and text == statement):
        raise ProgrammingError(f"{len(parameters)} parameters are more than the statement has places")
    return text


def literal(value: Any) -> str:
    """A value as the language writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"{value!r}E0" if "e" not in repr(value) else repr(value)
        case Decimal() if value.is_finite():
            return format(value, "f")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime() | date() | time():
            return f"'{value.isoformat()}'"
        case list() | tuple():
            return f"ARRAY[{', '.join(map(literal, value))}]"
        case dict():
            return f"MAP({', '.join(f'{literal(key)} := {literal(each)}' for key, each in value.items())})"
        case _:
            raise ProgrammingError(f"{type(value).__name__} has no literal in SQL")
