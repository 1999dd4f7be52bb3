"""Databases behind JdbcSource and JdbcSink, over Python's DB-API: SQLite, and PostgreSQL by psycopg; `jdbc_mariadb` has
MariaDB.

Identifiers are always quoted, values always bound. A dialect makes connections and SQL; it holds none of them. Its SQL
is executed with parameters, if only with none: drivers whose placeholder is `%s` read a `%` otherwise.
"""

import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from headwater.connect.data import schema as s
from headwater.connect.data.logical import millis_to_time, millis_to_timestamp, scale_of
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError


class Column(NamedTuple):
    name: str
    schema: Schema
    primary_key: bool = False


class Dialect:
    placeholder: str
    binds_as_is = False  # `cell_parameter` gives values that are neither arrays, maps nor structs as they are
    needs_columns = False  # `cell_parameter` depends on what `columns` has found
    quotation_mark = '"'
    errors: tuple[type[Exception], ...]
    misfits: tuple[type[Exception], ...]  # of `errors`: the value can never be taken
    conflicts: tuple[type[Exception], ...]  # of `errors`: the row does not go with others, which may change
    locking_read = ""  # makes a SELECT see what is committed now, whatever the transaction saw before

    def connect(self) -> Any:
        raise NotImplementedError

    def tables(self, connection: Any) -> list[str]:
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

    def key_type(self, schema: Schema) -> str:
        """Of a column that is part of a primary key."""
        return self.column_type(schema)

    def name_type(self) -> str:
        """Of a key column for names of topics and connectors, which are told apart by case."""
        return "VARCHAR(249)"

    def to_parameter(self, schema: Schema, value: Any) -> Any:
        if value is None or schema.type not in (Type.ARRAY, Type.MAP, Type.STRUCT):
            return value
        raise DataError(f"A {schema.type} has no column type; Flatten, or ReplaceField, may help")

    def cell_parameter(self, table: str, column: str, schema: Schema, value: Any) -> Any:
        """`to_parameter`, of a value for this column."""
        del table, column
        return self.to_parameter(schema, value)

    def quote(self, name: str) -> str:
        """`schema.table` is two names."""
        return ".".join(self.quote_column(part) for part in name.split("."))

    def quote_column(self, name: str) -> str:
        if "\0" in name:
            raise DataError("A name has a null character in it")
        mark = self.quotation_mark
        return self.escaped(mark + name.replace(mark, mark * 2) + mark)

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
    misfits = (sqlite3.DataError,)
    conflicts = (sqlite3.IntegrityError,)

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
        """A file has one schema, `main`. Any other dot is part of the table's name, as topics have them."""
        return self.quote_column(name.removeprefix("main."))

    def refuses_statement(self, error: Exception) -> bool:
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR

    def tables(self, connection: Any) -> list[str]:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        return sorted(name for (name,) in found)

    def columns(self, connection: Any, table: str) -> list[Column]:
        found = connection.execute(f"PRAGMA table_info({self.quote(table)})").fetchall()
        return [
            Column(name, _sqlite_schema(kind, bool(not_null or key)), bool(key))
            for _, name, kind, not_null, _, key in found
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
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
        return str(value) if isinstance(value, date | time | Decimal) else value


def _sqlite_schema(declared: str, required: bool) -> Schema:
    upper = declared.upper()
    found = next((schema for word, schema in _SQLITE_TYPES if word in upper), s.STRING)
    return found if required else found.as_optional()


_POSTGRES_TYPES: Final = {
    "boolean": s.BOOLEAN,
    "smallint": s.INT16,
    "integer": s.INT32,
    "bigint": s.INT64,
    "real": s.FLOAT32,
    "double precision": s.FLOAT64,
    "bytea": s.BYTES,
    "date": s.DATE_SCHEMA,
    "time without time zone": s.TIME_SCHEMA,
    "timestamp without time zone": s.TIMESTAMP_SCHEMA,
    "timestamp with time zone": s.TIMESTAMP_SCHEMA,
}
_POSTGRES_OIDS: Final = {16: s.BOOLEAN, 17: s.BYTES, 20: s.INT64, 21: s.INT16, 23: s.INT32, 700: s.FLOAT32, 701: s.FLOAT64, 1082: s.DATE_SCHEMA, 1083: s.TIME_SCHEMA, 1114: s.TIMESTAMP_SCHEMA, 1184: s.TIMESTAMP_SCHEMA}  # fmt: skip
_NUMERIC_OID: Final = 1700
_UNKNOWN_PARAMETER: Final = re.compile(r'invalid URI query parameter: "([^"]*)"')


def _loader_in(zone: ZoneInfo) -> Any:
    """Reads timestamps of columns without a zone."""
    from psycopg.types.datetime import TimestampLoader

    class InZone(TimestampLoader):
        def load(self, data: Any) -> datetime:
            return super().load(data).replace(tzinfo=zone)

    return InZone


def _check_address(url: str) -> None:
    """Raises ConfigError, without what libpq says of an address that it cannot read: that may show the password."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    told = ""
    try:
        found = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        unknown = _UNKNOWN_PARAMETER.search(str(error))
        told = (
            f"{unknown[1]} is no parameter of libpq" if unknown else "what cannot stand in an address is written as %40"
        )
    else:
        ports = str(found.get("port") or "").split(",")
        if "@" in str(found.get("host"))[1:]:  # in front, it is a socket without a file
            told = "an @ in a user or password is written as %40"
        elif any(each and not (each.isdecimal() and 1 <= int(each) <= 65535) for each in ports):
            told = "the port is a number from 1 to 65535"
    if told:
        raise ConfigError(
            f"connection.url: not an address such as jdbc:postgresql://host:port/database: {told}",
            name="connection.url",
        )


class Postgresql(Dialect):
    placeholder = "%s"
    binds_as_is = True

    def __init__(self, url: str, user: str | None, password: str | None, zone: str = "UTC") -> None:
        """`zone`: of columns without one."""
        try:
            import psycopg
        except ImportError:
            raise ConfigError("PostgreSQL needs the package psycopg: pip install 'headwater[postgres]'") from None
        self._psycopg = psycopg
        _check_address(url)
        self.errors = (psycopg.Error,)
        self.misfits, self.conflicts = (psycopg.DataError,), (psycopg.IntegrityError,)
        self._url, self._zone = url, zone
        self._login: dict[str, Any] = {name: value for name, value in (("user", user), ("password", password)) if value}

    def connect(self) -> Any:
        try:
            connection = self._psycopg.connect(self._url, connect_timeout=10, **self._login)
            # Columns without a zone are compared, and written, as if they were in the session's.
            connection.execute("SELECT set_config('TimeZone', %s, false)", [self._zone])
            connection.commit()
            if self._zone != "UTC":
                connection.adapters.register_loader("timestamp", _loader_in(ZoneInfo(self._zone)))
            return connection
        except self._psycopg.Error as error:
            raise RetriableError(f"Cannot connect to the database: {error}") from None

    def refuses_statement(self, error: Exception) -> bool:
        return isinstance(error, self._psycopg.ProgrammingError)

    def escaped(self, sql: str) -> str:
        return sql.replace("%", "%%")

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(name="headwater_connect")

    def tables(self, connection: Any) -> list[str]:
        sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE'"
        return sorted(name for (name,) in connection.execute(sql).fetchall())

    def columns(self, connection: Any, table: str) -> list[Column]:
        schema, _, name = table.rpartition(".")
        sql = (
            "SELECT c.column_name, c.data_type, c.is_nullable, c.numeric_scale, EXISTS ("
            " SELECT 1 FROM information_schema.table_constraints t JOIN information_schema.key_column_usage k"
            " ON k.constraint_name = t.constraint_name AND k.table_schema = t.table_schema AND k.table_name = t.table_name"
            " WHERE t.constraint_type = 'PRIMARY KEY' AND t.table_schema = c.table_schema AND t.table_name = c.table_name"
            " AND k.column_name = c.column_name)"
            " FROM information_schema.columns c WHERE c.table_name = %s AND c.table_schema = COALESCE(%s, current_schema())"
            " ORDER BY c.ordinal_position"
        )
        made = []
        for column, kind, nullable, scale, key in connection.execute(sql, (name, schema or None)).fetchall():
            found = (
                s.decimal_schema(scale)
                if kind == "numeric" and scale is not None
                else _POSTGRES_TYPES.get(kind, s.STRING)
            )
            made.append(Column(column, found.as_optional() if nullable == "YES" else found, bool(key)))
        return made

    def result_columns(self, description: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Column]:
        del rows
        made = []
        for column in description:
            if column.type_code == _NUMERIC_OID and column.scale is not None:
                found = s.decimal_schema(column.scale)
            else:
                found = _POSTGRES_OIDS.get(column.type_code, s.STRING)
            made.append(Column(column.name, found.as_optional()))
        return made

    def now(self, connection: Any) -> datetime:
        found = connection.execute("SELECT clock_timestamp()").fetchone()[0]
        assert isinstance(found, datetime)
        return found.astimezone(UTC)

    def column_type(self, schema: Schema) -> str:
        if schema.name == s.DECIMAL:
            return f"NUMERIC(38, {scale_of(schema)})"
        if schema.name in (s.DATE, s.TIME, s.TIMESTAMP):
            return {s.DATE: "DATE", s.TIME: "TIME", s.TIMESTAMP: "TIMESTAMP WITH TIME ZONE"}[schema.name or ""]
        return {
            Type.INT8: "SMALLINT",
            Type.INT16: "SMALLINT",
            Type.INT32: "INTEGER",
            Type.INT64: "BIGINT",
            Type.FLOAT32: "REAL",
            Type.FLOAT64: "DOUBLE PRECISION",
            Type.BOOLEAN: "BOOLEAN",
            Type.STRING: "TEXT",
            Type.BYTES: "BYTEA",
        }[schema.type]


def from_database(schema: Schema, value: Any) -> Any:
    """A value of the driver's as Connect has it. SQLite's dates and times that are numbers count milliseconds, as its
    driver for Java writes them. Raises ConnectError for what is no value of this type.
    """
    if value is None:
        return None
    try:
        match schema.name:
            case s.DECIMAL:
                return Decimal(str(value)).quantize(Decimal(1).scaleb(-scale_of(schema)))
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
                return any(value) if isinstance(value, bytes) else bool(value)  # MariaDB's BIT(1) comes as a byte
            case Type.STRING:
                return value if isinstance(value, str) else str(value)
            case Type.BYTES:
                return value.encode() if isinstance(value, str) else bytes(value)
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
