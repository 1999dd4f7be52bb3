"""`headwater.sql.connect()`: the server by Python's database API (PEP 249).

    with connect("http://localhost:8088") as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT total FROM totals WHERE customer = ?", ["ada"])
        cursor.fetchall()

Parameters are written into the statement as literals, between quotes where they are text, so that a value never becomes
part of the statement. A push query is read row by row; closing the cursor ends it. Each statement is carried out when
it is executed: there are no transactions to commit.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import math
import re
import secrets
import ssl
import time as clock
import weakref
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.sql.answered_rows import for_python, type_named
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import substitute
from headwater.sql.language.tokens import Kind, tokenize
from headwater.sql.language.types import DecimalType, Type
from headwater.sql.shell import RefusedError, ServerAwayError, SqlClient, as_table
from headwater.sql.values import EvaluationError
from headwater.web.presented import basic_header

if TYPE_CHECKING:
    import pyarrow as pa

apilevel: Final = "2.0"
threadsafety: Final = 1  # threads may share the module, not connections
paramstyle: Final = "qmark"

_PIECES: Final = re.compile(
    r"\$\$.*?\$\$|'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|\?", re.DOTALL
)
_QUERIES: Final = ("SELECT", "WITH")
_FAILURES: Final = (
    UserError, OSError, http.client.HTTPException, ValueError, ArithmeticError, TypeError, EvaluationError,
)  # fmt: skip


class Warning(Exception):  # noqa: A001  PEP 249 calls it so
    """Something of note that is no error. Nothing here raises it."""


class Error(Exception):
    """Any error of this module. `code` is the error code of the server's answer, ksqlDB's; None: it gave none."""

    code: int | None = None


class InterfaceError(Error):
    """The module was used wrongly: a closed cursor, rows of a statement that gave none, an address that is none."""


class DatabaseError(Error):
    """The server refused a statement, or cannot be reached: one of those below."""


class DataError(DatabaseError):
    """A parameter has a value that no column can hold."""


class OperationalError(DatabaseError):
    """The server cannot be reached, went away, does not know the login, or is too busy."""


class IntegrityError(DatabaseError):
    """A relation between tables is broken. Nothing here raises it: streams and tables have none."""


class InternalError(DatabaseError):
    """The server failed at what it should be able to do."""


class ProgrammingError(DatabaseError):
    """A statement is wrong, names what is not there, may not be carried out, or does not fit its parameters."""


class NotSupportedError(DatabaseError):
    """What neither the server nor this module has."""


# Types of columns, and how values for them are made.


class TypeObject:
    """Equal to the type codes of `description` that are of its kind."""

    def __init__(self, *names: str) -> None:
        self._names = frozenset(names)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return re.split(r"[(<]", other)[0] in self._names
        return self is other

    __hash__ = None  # type: ignore[assignment]  # it is equal to texts that differ


STRING: Final = TypeObject("STRING", "VARCHAR")
BINARY: Final = TypeObject("BYTES")
NUMBER: Final = TypeObject("INTEGER", "INT", "BIGINT", "DOUBLE", "DECIMAL")
DATETIME: Final = TypeObject("DATE", "TIME", "TIMESTAMP")
ROWID: Final = TypeObject()

Date = date
Time = time
Timestamp = datetime
Binary = bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802  PEP 249 calls it so
    return date(*clock.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    return time(*clock.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    return datetime(*clock.localtime(ticks)[:6])  # noqa: DTZ001  as PEP 249: the local time


def connect(
    url: str = "http://localhost:8088",
    *,
    user: str | None = None,
    password: str = "",
    ca_location: str | None = None,
) -> Connection:
    """A login may stand in the address, too. `ca_location`: a file of certificates to trust behind https://. Nothing is
    sent before the first statement. Raises InterfaceError.
    """
    try:
        tls = None if ca_location is None else ssl.create_default_context(cafile=ca_location)
        return Connection(SqlClient(url, "" if user is None else basic_header(f"{user}:{password}"), tls))
    except (UserError, OSError, ValueError) as error:
        raise InterfaceError(str(error)) from None


class Connection:
    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(self, client: SqlClient) -> None:
        self._client = client
        self._cursors: weakref.WeakSet[Cursor] = weakref.WeakSet()
        self._closed = False

    @property
    def autocommit(self) -> bool:
        """Always: a statement is carried out when it is executed."""
        return True

    def cursor(self) -> Cursor:
        self._check()
        made = Cursor(self._client, self)
        self._cursors.add(made)
        return made

    def commit(self) -> None:
        """Statements are carried out when they are executed."""
        self._check()

    def rollback(self) -> None:
        self._check()
        raise NotSupportedError("there are no transactions to roll back")

    def close(self) -> None:
        self._closed = True
        for each in list(self._cursors):
            each.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the connection is closed")

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Cursor:
    """Rows of one statement at a time."""

    def __init__(self, client: SqlClient, connection: Connection | None = None) -> None:
        self._client = client
        self._open = contextlib.ExitStack()
        self._rows: Iterator[Sequence[Any]] | None = None
        self._types: list[Type | None] = []
        self._closed = False
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.rownumber: int | None = None  # of the next row
        self.lastrowid = None  # rows have none
        self.arraysize = 1

    def execute(self, statement: str, parameters: Sequence[Any] = ()) -> Cursor:
        self._check()
        self._forget()
        marked, literals = _marked(statement, parameters)
        text = marked.rstrip().rstrip(";") + "\n;"  # the last line may be a comment
        try:
            if _first_word(text) in _QUERIES:
                text = substitute(text, self._client.variables, literals)
                names, column_types, rows = self._open.enter_context(self._client.typed_query(text))
                self._types = [type_named(each) for each in column_types]
                self._describe(names, [str(each or text) for each, text in zip(self._types, column_types, strict=True)])
                self._rows = _converted(rows, self._types)
            else:
                for each in self._client.statements(text, literals):
                    self._show(self._client.run(each))
                    self._count(each)
        except _FAILURES as error:
            raise _told(error) from None
        return self

    def _forget(self) -> None:
        self._open.close()
        self._rows, self.description, self.rowcount, self.rownumber, self._types = None, None, -1, None, []

    def _describe(self, names: Sequence[str], type_codes: Sequence[str]) -> None:
        self.description = []
        for name, code in zip(names, type_codes, strict=True):
            found = type_named(code)
            digits = (found.precision, found.scale) if isinstance(found, DecimalType) else (None, None)
            self.description.append((name, code, None, None, *digits, True))
        self.rownumber = 0

    def _show(self, entities: Sequence[Mapping[str, Any]]) -> None:
        """What SHOW, LIST, DESCRIBE and EXPLAIN tell are rows; of several statements those of the last."""
        tables = [table for each in entities if (table := as_table(each)) is not None]
        if tables:
            names, rows = tables[-1]
            self._describe(names, [_code_of([row[place] for row in rows]) for place in range(len(names))])
            self._types = []
            self._rows = iter(rows)
            self.rowcount = len(rows)

    def _count(self, text: str) -> None:
        """INSERT VALUES writes a row; how many any other statement concerns is not known."""
        words = [each.text for each in tokenize(text) if each.kind is Kind.NAME]
        if words[:2] == ["INSERT", "INTO"] and "SELECT" not in words:
            self.rowcount = max(self.rowcount, 0) + 1

    def executemany(self, statement: str, parameters: Sequence[Sequence[Any]]) -> Cursor:
        self._check()
        self._forget()
        count = 0
        for each in parameters:
            self.execute(statement, each)
            count = -1 if self.rowcount < 0 or count < 0 else count + self.rowcount
        self.rowcount = count
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self, None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        self._check_rows()
        return list(itertools.islice(self, self.arraysize if size is None else size))

    def fetchall(self) -> list[tuple[Any, ...]]:
        self._check_rows()
        return list(self)

    def __iter__(self) -> Cursor:
        return self

    def __next__(self) -> tuple[Any, ...]:
        rows = self._check_rows()
        try:
            row = tuple(next(rows))
        except Exception as error:
            self._check()  # what http.client says once another thread has closed it, an end or any error, means nothing
            if not isinstance(error, _FAILURES):
                raise
            told = _told(error)
            self._rows = _failing(told)  # a generator that failed would say that the rows are at their end
            raise told from None
        self.rownumber = (self.rownumber or 0) + 1
        return row

    def to_arrow(self) -> pa.Table:
        """All rows that are left as a table, with the types of the columns."""
        import pyarrow as pa

        from headwater.sql.arrow_types import table_of

        rows = self.fetchall()
        names = [str(each[0]) for each in self.description or ()]
        known = [(name, each) for name, each in zip(names, self._types, strict=False) if each is not None]
        if len(known) == len(names):
            return table_of(known, rows)
        return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Without effect, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Without effect, as PEP 249 allows."""

    def close(self) -> None:
        self._closed = True
        self._open.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _check_rows(self) -> Iterator[Sequence[Any]]:
        self._check()
        if self._rows is None:
            raise InterfaceError("the last statement gave no rows")
        return self._rows

    def __enter__(self) -> Cursor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _failing(error: DatabaseError) -> Iterator[Sequence[Any]]:
    while True:
        yield _raise(error)


def _raise(error: DatabaseError) -> Sequence[Any]:
    raise error


def _first_word(text: str) -> str:
    """In capitals; comments before it do not count."""
    try:
        return next((each.text.upper() for each in tokenize(text) if each.kind is Kind.NAME), "")
    except SqlError:  # the server may know better
        found = re.search(r"\w+", text)
        return found.group().upper() if found else ""


def _code_of(column: Sequence[Any]) -> str:
    """The type of a column that the server did not name."""
    kinds = {type(each) for each in column if each is not None}
    return {frozenset({bool}): "BOOLEAN", frozenset({int}): "BIGINT"}.get(frozenset(kinds), "STRING")


def _converted(rows: Iterator[list[Any]], column_types: Sequence[Type | None]) -> Iterator[Sequence[Any]]:
    changes = [(place, change) for place, each in enumerate(column_types) if (change := for_python(each)) is not None]
    for row in rows:
        for place, change in changes:
            row[place] = change(row[place])
        yield row


def _told(error: Exception) -> DatabaseError:
    """What went wrong as PEP 249 sorts it, by the server's error code: ksqlDB's are statuses of HTTP with two more
    digits.
    """
    if isinstance(error, RefusedError):
        told = _kind_of(error.code // 100)(str(error))
        told.code = error.code
        return told
    if isinstance(error, UserError) and not isinstance(error, ServerAwayError):  # found here, before it was sent
        return ProgrammingError(str(error))
    if isinstance(error, EvaluationError) or (
        isinstance(error, ValueError | ArithmeticError | TypeError) and not isinstance(error, json.JSONDecodeError)
    ):
        return DataError(f"a value of the answer is none of Python's: {error}")
    return OperationalError(str(error))


def _kind_of(status: int) -> type[DatabaseError]:
    if status in (401, 407, 408, 429, 502, 503, 504):
        return OperationalError
    if status in (405, 406, 415, 501):
        return NotSupportedError
    return InternalError if status >= 500 else ProgrammingError


def _marked(statement: str, parameters: Sequence[Any]) -> tuple[str, dict[str, str]]:
    """The statement with a variable in place of each `?` that stands outside of strings, quoted names, comments and the
    code of functions; and their literals. So variables of the user's are replaced in what he wrote, and never within a
    parameter.
    """
    if isinstance(parameters, str | bytes | Mapping):
        raise ProgrammingError("parameters are a list or a tuple, a value for each ?")
    given = list(parameters)
    literals: dict[str, str] = {}
    places = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal places
        if found.group() != "?":
            return found.group()
        places += 1
        if places > len(given):
            return ""
        text = literal(given[places - 1])
        literals[f"{mark}{places}"] = text
        return f"{' ' * text.startswith('-')}${{{mark}{places}}}"  # behind another - it would begin a comment

    mark = f"_p{secrets.token_hex(8)}_"
    text = _PIECES.sub(replace, statement)
    if places != len(given):
        raise ProgrammingError(f"the statement has {places} places for {len(given)} parameters")
    return text, literals


def literal(value: Any) -> str:
    """A value as the language writes it."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return int.__repr__(value)  # an enum or a number of numpy's has words of its own
        case float() if math.isfinite(value):
            text = float.__repr__(value)
            return text if "e" in text else f"{text}E0"
        case Decimal() if value.is_finite():
            text = format(value, "f")
            return text if "." in text else f"{text}."  # without a point it would be a whole number
        case float() | Decimal():
            raise DataError(f"{value} has no literal in SQL")
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes() | bytearray() | memoryview():
            return f"TO_BYTES('{bytes(value).hex()}', 'hex')"
        case datetime():  # the language's have no zone, and milliseconds
            plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
            return f"'{plain.isoformat(timespec='milliseconds')}'"
        case time() if value.tzinfo is not None:
            raise DataError(f"{value} has a zone, and a TIME has none: leave it out with replace(tzinfo=None)")
        case time():
            return f"'{value.isoformat(timespec='milliseconds')}'"
        case date():
            return f"'{value.isoformat()}'"
        case list() | tuple():
            return f"ARRAY[{', '.join(map(literal, value))}]"
        case dict():
            return f"MAP({', '.join(f'{literal(key)} := {literal(each)}' for key, each in value.items())})"
        case _ if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            return literal(value.item())
        case _:
            raise ProgrammingError(f"{type(value).__name__} has no literal in SQL")
