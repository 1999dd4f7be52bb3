"""MariaDB and MySQL behind JdbcSource and JdbcSink, by PyMySQL.

Sessions are in UTC and strict: what does not fit is an error, never cut. A primary key of text that we make tells apart
letters and trailing blanks, as Kafka's keys do, whatever the server's collation. DDL commits here, so the sink makes
its tables before it begins to write. A transaction sees what was there when it first read; only a locking read sees
what is committed now.

A DATETIME has no zone: it is in that of the connector (db.timezone), which Python converts, for the server may not know
its name. A TIMESTAMP has one, and comes and goes in the session's UTC.
"""

import math
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote
from zoneinfo import ZoneInfo

from headwater.connect.connectors.jdbc_dialects import ALL_TABLES, MICROSECONDS, Column, Dialect, Wanted, refuse_nested
from headwater.connect.data import schema as s
from headwater.connect.data.logical import scale_of
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError

PORT: Final = 3306
# UTC: timestamps are compared and shown in it. Strict, beside what the server's owner wants.
_SESSION: Final = "SET time_zone = '+00:00', sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')"
# Text that is equal only to itself: each of the two servers reads one of these comments as SQL.
_EXACT: Final = "CHARACTER SET utf8mb4 /*M!100201 COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */"
_KEY_LENGTH: Final = 255  # three such columns are as much as a key of InnoDB's may have
_SSL_MODES: Final = {
    "disable": "disable", "disabled": "disable", "preferred": "disable",
    "trust": "trust", "required": "trust",
    "verify-ca": "verify-ca", "verify_ca": "verify-ca",
    "verify-full": "verify-full", "verify_identity": "verify-full",
}  # fmt: skip
_ZERO_DATES: Final = {"exception": False, "converttonull": True, "convert_to_null": True}
_OPTIONS: Final = (
    "user", "password", "localSocket", "sslMode", "serverSslCert", "connectTimeout", "socketTimeout", "zeroDateTimeBehavior"
)  # fmt: skip


class Options(NamedTuple):
    """What follows the question mark of an address."""

    connection: Mapping[str, Any]  # for the driver
    zero_dates_are_null: bool


def options_of(url: SplitResult) -> Options:
    """Names and values are those of MariaDB's and MySQL's drivers for Java; what is not known is refused."""
    given: dict[str, Any] = {"host": url.hostname or "localhost", "port": url.port or PORT, "connect_timeout": 10}
    if "," in url.netloc:
        raise ConfigError("connection.url: one host; lists of hosts are not supported", name="connection.url")
    database = unquote(url.path.removeprefix("/"))
    if not database or "/" in database:
        raise ConfigError("connection.url: a database is needed, as in jdbc:mariadb://host/shop", name="connection.url")
    given["database"] = database
    for name, value in (("user", url.username), ("password", url.password)):
        if value is not None:
            given[name] = unquote(value)
    query = dict(parse_qsl(url.query, keep_blank_values=True))
    unknown = [name for name in query if name not in _OPTIONS]
    if unknown:
        raise ConfigError(f"connection.url: {unknown[0]} is not supported; known are {', '.join(_OPTIONS)}", name="connection.url")  # fmt: skip
    given |= {name: query[name] for name in ("user", "password") if name in query}
    if "localSocket" in query:
        given["unix_socket"] = query["localSocket"]
    if "connectTimeout" in query:
        given["connect_timeout"] = max(1, _milliseconds(query, "connectTimeout") // 1000)
    if _milliseconds(query, "socketTimeout"):
        given["read_timeout"] = given["write_timeout"] = max(1, _milliseconds(query, "socketTimeout") // 1000)
    mode = _one_of(query, "sslMode", _SSL_MODES, "disable")
    given["ssl"] = _tls(mode, query.get("serverSslCert")) if mode != "disable" else None
    return Options(given, _one_of(query, "zeroDateTimeBehavior", _ZERO_DATES, "exception"))


def _one_of(query: Mapping[str, str], name: str, known: Mapping[str, Any], default: str) -> Any:
    found = query.get(name, default).lower()
    if found not in known:
        raise ConfigError(f"connection.url: {name} is one of {', '.join(known)}", name="connection.url")
    return known[found]


def _milliseconds(query: Mapping[str, str], name: str) -> int:
    found = query.get(name, "0")
    if not found.isdecimal():
        raise ConfigError(f"connection.url: {name} is a number of milliseconds", name="connection.url")
    return int(found)


def _tls(mode: str, authority: str | None) -> ssl.SSLContext:
    try:
        made = ssl.create_default_context(cafile=authority)
    except OSError as error:
        raise ConfigError(f"connection.url: serverSslCert: {error}", name="connection.url") from None
    made.check_hostname = mode == "verify-full"
    if mode == "trust":
        made.verify_mode = ssl.CERT_NONE
    return made


_TYPES: Final = {
    "tinyint": s.INT8, "smallint": s.INT16, "mediumint": s.INT32, "int": s.INT32, "bigint": s.INT64, "year": s.INT16,
    "float": s.FLOAT32, "double": s.FLOAT64, "date": s.DATE_SCHEMA, "time": s.TIME_SCHEMA, "datetime": s.TIMESTAMP_SCHEMA,
    "timestamp": s.TIMESTAMP_SCHEMA, "bit": s.BYTES, "geometry": s.BYTES,
}  # fmt: skip
_UNSIGNED: Final = {"tinyint": s.INT16, "smallint": s.INT32, "int": s.INT64}
_BINARY: Final = ("binary", "blob")  # the ends of names
# Of results: numbers of the protocol's column types.
# Whether one is unsigned is not told, so the next wider type is taken.
_TYPE_CODES: Final = {
    1: s.INT16, 2: s.INT32, 3: s.INT64, 4: s.FLOAT32, 5: s.FLOAT64, 7: s.TIMESTAMP_SCHEMA, 8: s.INT64, 9: s.INT32,
    10: s.DATE_SCHEMA, 11: s.TIME_SCHEMA, 12: s.TIMESTAMP_SCHEMA, 13: s.INT16, 14: s.DATE_SCHEMA, 16: s.BYTES,
}  # fmt: skip
# What PyMySQL has among the errors of an operation: a column that is not there, no right to a table, or to a column.
_WRONG_STATEMENTS: Final = ((1054,), (1142,), (1143,))
_DECIMAL_CODES: Final = (0, 246)


def schema_of(kind: str, whole_type: str, scale: int | None, precision: int | None = None) -> Schema:
    """Of a column: `kind` and `whole_type` as information_schema has them, `int` and `int(10) unsigned`."""
    if kind == "decimal":
        return s.decimal_schema(scale or 0, precision=precision)
    if kind == "bit" and whole_type == "bit(1)":
        return s.BOOLEAN
    if "unsigned" in whole_type and kind in _UNSIGNED:
        return _UNSIGNED[kind]
    return s.BYTES if kind.endswith(_BINARY) else _TYPES.get(kind, s.STRING)


class Mariadb(Dialect):
    placeholder = "%s"
    quotation_mark = "`"
    locking_read = " FOR UPDATE"
    java_name = "MySqlDatabaseDialect"
    narrowed_by = "catalog.pattern"
    table_kinds: Mapping[str, Any] = {"TABLE": "BASE TABLE", "VIEW": "VIEW"}

    def __init__(self, url: SplitResult, user: str | None, password: str | None, zone: str = "UTC") -> None:
        """`zone`: of columns without one."""
        options = options_of(url)
        self._zone = ZoneInfo(zone) if zone != "UTC" else None
        self.needs_columns = self._zone is not None
        self.zone = self._zone or UTC
        self._zoned: dict[str, set[str]] = {}  # by table: the columns that are TIMESTAMP
        self._compared_zoned: set[str] = set()  # of what is read
        self._options = dict(options.connection)
        self._options |= {name: value for name, value in (("user", user), ("password", password)) if value}
        try:
            import pymysql
        except ImportError:
            raise ConfigError("MariaDB needs the package PyMySQL: pip install 'headwater[mariadb]'") from None
        self._pymysql = pymysql
        self._cursor = _abandonable(pymysql.cursors.SSCursor)
        self.errors = (pymysql.Error,)
        self.misfits, self.conflicts = (pymysql.DataError, UnicodeEncodeError), (pymysql.IntegrityError,)
        codes, known = pymysql.constants.FIELD_TYPE, pymysql.converters.conversions
        read = {code: known[code] for code in (codes.DATE, codes.DATETIME, codes.TIMESTAMP)}
        if options.zero_dates_are_null:
            read = {code: _null_unless_date(convert) for code, convert in read.items()}
        if self._zone is not None:
            read[codes.DATETIME] = _in_zone(read[codes.DATETIME], self._zone)
        self._options["conv"] = {**known, **read}

    def connect(self) -> Any:
        try:
            return self._pymysql.connect(charset="utf8mb4", init_command=_SESSION, **self._options)
        except (self._pymysql.Error, RuntimeError) as error:  # the latter names a package that a way to log in needs
            raise RetriableError(f"Cannot connect to the database: {self.message(error)}") from None

    def message(self, error: Exception) -> str:
        match error.args:
            case (int(code), str(text)):
                return f"{text} ({code})"
        return str(error) or "The connection was lost"

    def refuses_statement(self, error: Exception) -> bool:
        return isinstance(error, self._pymysql.ProgrammingError) or error.args[:1] in _WRONG_STATEMENTS

    def escaped(self, sql: str) -> str:
        return sql.replace("%", "%%")

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(self._cursor)

    def tables(self, connection: Any, wanted: Wanted = ALL_TABLES) -> list[str]:
        sql = "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = COALESCE(%s, DATABASE())"
        kinds = {self.table_kinds[each] for each in wanted.kinds}
        found = self._ask(connection, sql, wanted.catalog or None)
        return sorted(self.whole_name(database, name) for database, name, kind in found if kind in kinds)

    def columns(self, connection: Any, table: str) -> list[Column]:
        sql = (
            "SELECT column_name, data_type, column_type, numeric_scale, numeric_precision, is_nullable, column_key, extra"
            " FROM information_schema.columns"
            " WHERE table_name = %s AND table_schema = COALESCE(%s, DATABASE()) ORDER BY ordinal_position"
        )
        made = []
        for column, kind, whole_type, scale, digits, nullable, key, extra in self._ask(connection, sql, *self._names(table)):  # fmt: skip
            found = schema_of(kind, whole_type, scale, digits)
            if kind == "timestamp":
                self._zoned.setdefault(table, set()).add(column.casefold())
            schema, counts_up = found.as_optional() if nullable == "YES" else found, "auto_increment" in extra.lower()
            made.append(Column(column, schema, key == "PRI", counts_up))
        return made

    def has_transactions(self, connection: Any, table: str) -> bool:
        sql = (
            "SELECT e.transactions FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine"
            " WHERE t.table_name = %s AND t.table_schema = COALESCE(%s, DATABASE())"
        )
        return all(answer == "YES" for (answer,) in self._ask(connection, sql, *self._names(table)))

    def result_columns(self, description: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Column]:
        made = []
        for at, (name, code, _, _, _, scale, _) in enumerate(description):
            if code in _DECIMAL_CODES:
                found = s.decimal_schema(scale or 0)
            elif code in _TYPE_CODES:
                found = _TYPE_CODES[code]
            else:  # text and bytes have the same codes
                found = s.BYTES if any(isinstance(row[at], bytes) for row in rows) else s.STRING
            made.append(Column(name, found.as_optional()))
        return made

    def now(self, connection: Any) -> datetime:
        found = self._ask(connection, "SELECT UTC_TIMESTAMP(6)")[0][0]
        assert isinstance(found, datetime)
        return found.replace(tzinfo=UTC)

    def timestamp_parameter(self, moment: datetime) -> datetime:
        return moment.astimezone(UTC).replace(tzinfo=None)

    def learn_columns(self, connection: Any, base: str) -> None:
        if self._zone is None:
            return
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM ({base}) AS given LIMIT 0", ())
            code = self._pymysql.constants.FIELD_TYPE.TIMESTAMP
            self._compared_zoned = {column[0].casefold() for column in cursor.description if column[1] == code}

    def compared_moment(self, columns: Sequence[str], moment: datetime) -> datetime:
        zoned = {each.casefold() in self._compared_zoned for each in columns}
        if self._zone is None or zoned == {True}:
            return self.timestamp_parameter(moment)
        if len(zoned) > 1:
            raise ConnectError("timestamp.column.name: with db.timezone, all are TIMESTAMP or all are DATETIME")
        return self._bare(moment)

    def cell_parameter(self, table: str, column: str, schema: Schema, value: Any) -> Any:
        if isinstance(value, datetime) and column.casefold() not in self._zoned.get(table, ()):
            return self._bare(value)
        return self.to_parameter(schema, value)

    def _bare(self, moment: datetime) -> datetime:
        return moment.astimezone(self._zone or UTC).replace(tzinfo=None)

    def column_type(self, schema: Schema) -> str:
        refuse_nested(schema)
        if schema.name == s.DECIMAL:
            return f"DECIMAL(65, {scale_of(schema)})"
        if schema.name in (s.DATE, s.TIME, s.TIMESTAMP):
            digits = 6 if schema.parameters == MICROSECONDS else 3
            return {s.DATE: "DATE", s.TIME: "TIME(3)", s.TIMESTAMP: f"DATETIME({digits})"}[schema.name or ""]
        return {
            Type.INT8: "TINYINT",
            Type.INT16: "SMALLINT",
            Type.INT32: "INT",
            Type.INT64: "BIGINT",
            Type.FLOAT32: "FLOAT",
            Type.FLOAT64: "DOUBLE",
            Type.BOOLEAN: "BOOLEAN",
            Type.STRING: "LONGTEXT CHARACTER SET utf8mb4",
            Type.BYTES: "LONGBLOB",
        }[schema.type]

    def default_value(self, schema: Schema, kind: str) -> str | None:
        """MySQL has none of texts and bytes without a limit."""
        return None if kind.startswith("LONG") else super().default_value(schema, kind)

    def _text(self, value: str) -> str | None:
        return super()._text(value.replace("\\", "\\\\"))

    def key_type(self, schema: Schema) -> str:
        if schema.type is Type.STRING:
            return f"VARCHAR({_KEY_LENGTH}) {_EXACT}"
        if schema.type is Type.BYTES and schema.name != s.DECIMAL:
            return f"VARBINARY({_KEY_LENGTH})"
        return self.column_type(schema)

    def name_type(self) -> str:
        return f"VARCHAR(249) {_EXACT}"

    def to_parameter(self, schema: Schema, value: Any) -> Any:
        value = super().to_parameter(schema, value)
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"MariaDB has no {value}; a number is needed")
        return self.timestamp_parameter(value) if isinstance(value, datetime) else value

    def upsert(self, table: str, keys: Sequence[str], others: Sequence[str]) -> str:
        changes = ", ".join(f"{name} = VALUES({name})" for name in map(self.quote_column, others))
        return self._on_duplicate(table, keys, others, changes)

    def insert_if_absent(self, table: str, keys: Sequence[str], others: Sequence[str]) -> str:
        return self._on_duplicate(table, keys, others, "")

    def _on_duplicate(self, table: str, keys: Sequence[str], others: Sequence[str], changes: str) -> str:
        first = self.quote_column(keys[0])
        return f"{self.insert(table, [*keys, *others])} ON DUPLICATE KEY UPDATE {changes or f'{first} = {first}'}"

    def _names(self, table: str) -> tuple[str, str | None]:
        *databases, name = self.parts(table)
        return name, databases[-1] if databases else None

    @staticmethod
    def _ask(connection: Any, sql: str, *parameters: Any) -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())


def _null_unless_date(convert: Any) -> Any:
    """The driver gives the text of what is no date: of 0000-00-00."""

    def read(text: Any) -> Any:
        found = convert(text)
        return found if isinstance(found, date) else None

    return read


def _in_zone(convert: Any, zone: ZoneInfo) -> Any:
    def read(text: Any) -> Any:
        found = convert(text)
        return found.replace(tzinfo=zone) if isinstance(found, datetime) else found

    return read


def _abandonable(streaming: Any) -> Any:
    """A cursor that can be closed in the middle of a result. The driver's own reads everything that is left, however
    much; this one lets the connection go instead.
    """

    class AbandonableCursor(streaming):  # type: ignore[misc]
        def close(self) -> None:
            connection, result = self.connection, self._result
            if connection is None or result is None or not result.unbuffered_active:
                super().close()
                return
            result.unbuffered_active, result.connection = False, None
            self.connection: Any = None
            if connection.open:
                connection.close()

        __del__ = close

    return AbandonableCursor
