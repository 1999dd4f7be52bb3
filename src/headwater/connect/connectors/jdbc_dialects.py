"""Databases behind JdbcSource and JdbcSink, over Python's DB-API: SQLite; `jdbc_postgresql` and `jdbc_mariadb` have the
others.

Identifiers are always quoted, values always bound. A dialect makes connections and SQL; it holds none of them. Its SQL
is executed with parameters, if only with none: drivers whose placeholder is `%s` read a `%` otherwise.
"""

import math
import re
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, NamedTuple

from headwater.connect.data import schema as s
from headwater.connect.data.logical import WIDE, millis_to_time, millis_to_timestamp, scale_of
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConnectError, DataError, RetriableError

# Of a timestamp that is as fine as the database has it; others have milliseconds.
MICROSECONDS: Final[Mapping[str, str]] = {"precision": "microseconds"}


class Column(NamedTuple):
    name: str
    schema: Schema
    primary_key: bool = False
    counts_up: bool = False  # the database numbers its rows by it


class Wanted(NamedTuple):
    """Which tables a source looks for."""

    kinds: frozenset[str] = frozenset({"TABLE"})  # of `Dialect.table_kinds`
    schema_pattern: str | None = None  # as LIKE has it; None: all that are not the database's own
    catalog: str | None = None  # another database, for those in which a connection reaches several
    only_readable: bool = False  # those that the user may read, for databases that list others too


ALL_TABLES: Final = Wanted()


class Dialect:
    placeholder: str
    binds_as_is = False  # `cell_parameter` gives values that are neither arrays, maps nor structs as they are
    needs_columns = False  # `cell_parameter` depends on what `columns` has found
    quotation_mark = '"'
    errors: tuple[type[Exception], ...]
    misfits: tuple[type[Exception], ...]  # the value can never be taken: of `errors`, or a text that no driver can send
    conflicts: tuple[type[Exception], ...]  # of `errors`: the row does not go with others, which may change
    locking_read = ""  # makes a SELECT see what is committed now, whatever the transaction saw before
    zone: tzinfo = UTC  # of what is written into columns without one
    java_name: str  # of the original's class
    folds_names = False  # quote.sql.identifiers=never
    maps_numerics = False  # whether numeric.mapping is for its decimals
    narrowed_by = ""  # which of schema.pattern and catalog.pattern counts
    table_kinds: Mapping[str, Any] = {}  # by the names of JDBC's drivers: what the database calls them

    def connect(self) -> Any:
        raise NotImplementedError

    def tables(self, connection: Any, wanted: Wanted = ALL_TABLES) -> list[str]:
        """Whole names, as `parts` reads them."""
        raise NotImplementedError

    def columns(self, connection: Any, table: str) -> list[Column]:
        """None there: the table does not exist."""
        raise NotImplementedError

    def has_transactions(self, connection: Any, table: str) -> bool:
        """Whether rows of this table change with the transaction, or at once."""
        del connection, table
        return True

    def result_columns(self, description: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Column]:
        """Of a query's result: what the database says of it, else what its values are."""
        raise NotImplementedError

    def escaped(self, sql: str) -> str:
        """SQL that is somebody else's, beside our parameters."""
        return sql

    def message(self, error: Exception) -> str:
        """What the database said, for people."""
        return str(error)

    def refuses_statement(self, error: Exception) -> bool:
        """Whether the SQL is wrong for the database as it is: a slip, a name that is not there, a missing right."""
        raise NotImplementedError

    def cursor(self, connection: Any) -> Any:
        """One that does not fetch everything at once, where that can be chosen."""
        return connection.cursor()

    def now(self, connection: Any) -> datetime:
        raise NotImplementedError

    def timestamp_expression(self, columns: Sequence[str]) -> str:
        """What stands in SQL for timestamp columns, of which the first that is not null counts, to be compared with
        `timestamp_parameter`.
        """
        quoted = [self.quote_column(each) for each in columns]
        return quoted[0] if len(quoted) == 1 else f"COALESCE({', '.join(quoted)})"

    def unreadable_timestamp(self, columns: Sequence[str]) -> str:
        """A condition that finds rows whose timestamp is there and none, so that they can be told; empty: such values
        cannot be in the columns.
        """
        del columns
        return ""

    def timestamp_parameter(self, moment: datetime) -> Any:
        return moment

    def compared_moment(self, columns: Sequence[str], moment: datetime) -> Any:
        """`timestamp_parameter`, to be compared with these columns, of which the first that is not null counts."""
        del columns
        return self.timestamp_parameter(moment)

    def learn_columns(self, connection: Any, base: str) -> None:
        """Before timestamps of what `base`, a SELECT, gives are compared:
        for who must know the types of its columns.
        """

    def column_type(self, schema: Schema) -> str:
        raise NotImplementedError

    def default_value(self, schema: Schema, kind: str) -> str | None:
        """SQL for the default of a column of this type, which is not null; None: none can stand there."""
        del kind
        value = schema.default
        match value:
            case bool():
                return self._truth(value)
            case int() | Decimal():
                return f"{value:f}" if isinstance(value, Decimal) else str(value)
            case float():
                return repr(value) if math.isfinite(value) else None
            case bytes():
                return self._bytes(value)
            case str():
                return self._text(value)
            case date() | time():  # datetime is a date
                return self._text(self._moment(value))
        return None

    def _truth(self, value: bool) -> str:
        return "1" if value else "0"

    def _bytes(self, value: bytes) -> str:
        return f"x'{value.hex()}'"

    def _text(self, value: str) -> str | None:
        return None if "\0" in value else self.escaped("'" + value.replace("'", "''") + "'")

    def _moment(self, value: date | time) -> str:
        if isinstance(value, datetime):
            return value.astimezone(self.zone).replace(tzinfo=None).isoformat(" ", "milliseconds")
        return value.isoformat("milliseconds") if isinstance(value, time) else value.isoformat()

    def key_type(self, schema: Schema) -> str:
        """Of a column that is part of a primary key."""
        return self.column_type(schema)

    def name_type(self) -> str:
        """Of a key column for names of topics and connectors, which are told apart by case."""
        return "VARCHAR(249)"

    def to_parameter(self, schema: Schema, value: Any) -> Any:
        if value is not None:
            refuse_nested(schema)
        return value

    def cell_parameter(self, table: str, column: str, schema: Schema, value: Any) -> Any:
        """`to_parameter`, of a value for this column."""
        del table, column
        return self.to_parameter(schema, value)

    def quote(self, name: str) -> str:
        return ".".join(self.quote_column(part) for part in self.parts(name))

    def parts(self, name: str) -> list[str]:
        """`schema.table` is two names; what stands between quotation marks is one, with its dots."""
        mark, found, at = self.quotation_mark, [], 0
        quoted = re.compile(f"{mark}((?:[^{mark}]|{mark}{mark})+){mark}(\\.|$)")
        while True:
            match = quoted.match(name, at)
            if match is not None:
                part, dot, at = match[1].replace(mark * 2, mark), match[2], match.end()
            else:
                part, dot, _ = name[at:].partition(".")
                at += len(part) + 1
            found.append(part)
            if not dot:
                return found

    def whole_name(self, *parts: str) -> str:
        """What `parts` makes these of."""
        mark = self.quotation_mark
        return ".".join(mark + each.replace(mark, mark * 2) + mark if "." in each or mark in each else each for each in parts)  # fmt: skip

    def quote_column(self, name: str) -> str:
        if "\0" in name:
            raise DataError("A name has a null character in it")
        mark = self.quotation_mark
        return self.escaped(mark + name.replace(mark, mark * 2) + mark)

    def told_apart(self, column: str) -> str:
        """The same for two names that are one column to the database."""
        return column.casefold()

    def insert(self, table: str, columns: Sequence[str]) -> str:
        names = ", ".join(self.quote_column(each) for each in columns)
        values = ", ".join([self.placeholder] * len(columns))
        return f"INSERT INTO {self.quote(table)} ({names}) VALUES ({values})"

    def upsert(self, table: str, keys: Sequence[str], others: Sequence[str]) -> str:
        changes = ", ".join(f"{name} = excluded.{name}" for name in map(self.quote_column, others))
        return self._on_conflict(table, keys, others, f"DO UPDATE SET {changes}" if changes else "DO NOTHING")

    def insert_if_absent(self, table: str, keys: Sequence[str], others: Sequence[str]) -> str:
        """A row with this key that is there already stays as it is."""
        return self._on_conflict(table, keys, others, "DO NOTHING")

    def _on_conflict(self, table: str, keys: Sequence[str], others: Sequence[str], action: str) -> str:
        target = ", ".join(self.quote_column(each) for each in keys)
        return f"{self.insert(table, [*keys, *others])} ON CONFLICT ({target}) {action}"


def refuse_nested(schema: Schema) -> None:
    if schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataError(f"A {schema.type} has no column type; Flatten, or ReplaceField, may help")


_SQLITE_TYPES: Final = (  # the first word that is in the declared type; of one that has none of them, values are text
    ("BOOL", s.BOOLEAN),
    ("INT", s.INT64),
    ("DATETIME", s.TIMESTAMP_SCHEMA),
    ("TIMESTAMP", s.TIMESTAMP_SCHEMA),
    ("DATE", s.DATE_SCHEMA),
    ("TIME", s.TIME_SCHEMA),
    ("CHAR", s.STRING),
    ("CLOB", s.STRING),
    ("TEXT", s.STRING),
    ("BLOB", s.BYTES),
    ("REAL", s.FLOAT64),
    ("FLOA", s.FLOAT64),
    ("DOUB", s.FLOAT64),
    ("NUM", s.FLOAT64),
    ("DEC", s.FLOAT64),
)
_MICROSECONDS: Final = "headwater_microseconds"  # a function that each connection gets
_PLAIN: Final[dict[type, Schema]] = {bool: s.BOOLEAN, int: s.INT64, float: s.FLOAT64, bytes: s.BYTES}


class Sqlite(Dialect):
    placeholder = "?"
    errors = (sqlite3.Error,)
    misfits = (sqlite3.DataError, UnicodeEncodeError)
    conflicts = (sqlite3.IntegrityError,)
    java_name = "SqliteDatabaseDialect"
    table_kinds: Mapping[str, Any] = {"TABLE": "table", "VIEW": "view"}

    def __init__(self, path: str) -> None:
        self._path = path

    def connect(self) -> sqlite3.Connection:
        try:
            made = sqlite3.connect(self._path, timeout=10)
            made.create_function(_MICROSECONDS, 1, _microseconds, deterministic=True)
            return made
        except sqlite3.Error as error:
            raise RetriableError(f"Cannot open the database: {error}") from None

    def quote(self, name: str) -> str:
        return self.quote_column(self.parts(name)[0])

    def parts(self, name: str) -> list[str]:
        """A file has one schema, `main`. Any other dot is part of the table's name, as topics have them."""
        return [name.removeprefix("main.")]

    def whole_name(self, *parts: str) -> str:
        return parts[-1]

    def refuses_statement(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR

    def tables(self, connection: Any, wanted: Wanted = ALL_TABLES) -> list[str]:
        found = connection.execute("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
        kinds = {self.table_kinds[each] for each in wanted.kinds}
        return sorted(name for name, kind in found if kind in kinds)

    def columns(self, connection: Any, table: str) -> list[Column]:
        found = connection.execute(f"PRAGMA table_xinfo({self.quote(table)})").fetchall()
        made_by = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", self.parts(table)).fetchone()
        counts_up = (
            made_by is not None and "AUTOINCREMENT" in str(made_by[0]).upper()
        )  # of the key then, and of no other
        return [
            Column(name, _sqlite_schema(kind, bool(not_null or key)), bool(key), counts_up and bool(key))
            for _, name, kind, not_null, _, key, hidden in found
            if hidden != 1  # of a virtual table; generated ones have other numbers
        ]

    def result_columns(self, description: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Column]:
        made = []
        for at, column in enumerate(description):
            value = next((row[at] for row in rows if row[at] is not None), None)
            made.append(Column(column[0], _PLAIN.get(type(value), s.STRING).as_optional()))
        return made

    def now(self, connection: Any) -> datetime:
        del connection
        return datetime.now(UTC)

    def timestamp_expression(self, columns: Sequence[str]) -> str:
        """Microseconds, whether the column has text or numbers: by the function that reads a row's offset too, for what
        SQLite's own functions know is rounded to milliseconds."""
        return f"{_MICROSECONDS}({super().timestamp_expression(columns)})"

    def unreadable_timestamp(self, columns: Sequence[str]) -> str:
        return f"({super().timestamp_expression(columns)} IS NOT NULL AND {self.timestamp_expression(columns)} IS NULL)"

    def timestamp_parameter(self, moment: datetime) -> int | None:
        return _microseconds(moment)

    def column_type(self, schema: Schema) -> str:
        refuse_nested(schema)
        if schema.name in (s.DATE, s.TIME, s.TIMESTAMP):
            return {s.DATE: "DATE", s.TIME: "TIME", s.TIMESTAMP: "TIMESTAMP"}[schema.name or ""]
        if schema.name == s.DECIMAL:
            return "NUMERIC"
        kinds = {
            Type.BOOLEAN: "BOOLEAN",
            Type.STRING: "TEXT",
            Type.BYTES: "BLOB",
            Type.FLOAT32: "REAL",
            Type.FLOAT64: "REAL",
        }
        return kinds.get(schema.type, "INTEGER")

    def to_parameter(self, schema: Schema, value: Any) -> Any:
        value = super().to_parameter(schema, value)
        if isinstance(value, datetime):
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")
        return str(value) if isinstance(value, date | time | Decimal) else value


def _sqlite_schema(declared: str, required: bool) -> Schema:
    upper = declared.upper()
    found = next((schema for word, schema in _SQLITE_TYPES if word in upper), s.STRING)
    return found if required else found.as_optional()


def from_database(schema: Schema, value: Any) -> Any:
    """A value of the driver's as Connect has it. SQLite's dates and times that are numbers count milliseconds, as its
    driver for Java writes them. Raises ConnectError for what is no value of this type.
    """
    if value is None:
        return None
    try:
        match schema.name:
            case s.DECIMAL:
                return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale_of(schema)), context=WIDE)
            case s.DATE:
                if isinstance(value, int | float):
                    return moment_of(value).date()
                return value if isinstance(value, date) else date.fromisoformat(str(value)[:10])
            case s.TIME:
                if isinstance(value, int | float):
                    return moment_of(value).time()
                if isinstance(value, timedelta):  # as MariaDB has it
                    return millis_to_time(value // timedelta(milliseconds=1))
                found = value if isinstance(value, time) else time.fromisoformat(str(value))
                return found.replace(tzinfo=None, microsecond=found.microsecond // 1000 * 1000)
            case s.TIMESTAMP:
                return moment_of(value)
        match schema.type:
            case Type.BOOLEAN:
                if value == "0":  # PostgreSQL's BIT(1) comes as text
                    return False
                return any(value) if isinstance(value, bytes) else bool(value)  # MariaDB's BIT(1) comes as a byte
            case Type.STRING:
                return value if isinstance(value, str) else str(value)
            case Type.BYTES:
                return str(value).encode() if isinstance(value, str | int | float) else bytes(value)
            case Type.FLOAT32 | Type.FLOAT64:
                return float(value)
        return int(value)
    except (ValueError, TypeError, ArithmeticError, DataError):
        raise ConnectError(f"the value {value!r} is not of type {schema.name or schema.type}") from None


def _microseconds(value: Any) -> int | None:
    """A timestamp as a number since 1970; None: it has none, or is no timestamp."""
    if value is None:
        return None
    try:
        return (moment_of(value) - millis_to_timestamp(0)) // timedelta(microseconds=1)
    except (ValueError, OverflowError, DataError):
        return None


def moment_of(value: Any) -> datetime:
    """A timestamp: what has no zone is UTC, a number counts milliseconds."""
    if isinstance(value, int | float):
        return millis_to_timestamp(int(value))
    found = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return found.astimezone(UTC) if found.tzinfo is not None else found.replace(tzinfo=UTC)
