"""PostgreSQL behind JdbcSource and JdbcSink, by psycopg."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from headwater.connect.connectors.jdbc_dialects import ALL_TABLES, Column, Dialect, Wanted, refuse_nested
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConfigError, RetriableError

_TYPES: Final = {  # by the names of pg_type
    "bool": s.BOOLEAN,
    "int2": s.INT16,
    "int4": s.INT32,
    "int8": s.INT64,
    "oid": s.INT64,
    "float4": s.FLOAT32,
    "float8": s.FLOAT64,
    "bytea": s.BYTES,
    "date": s.DATE_SCHEMA,
    "time": s.TIME_SCHEMA,
    "timestamp": s.TIMESTAMP_SCHEMA,
    "timestamptz": s.TIMESTAMP_SCHEMA,
}
_OIDS: Final = {16: "bool", 17: "bytea", 20: "int8", 21: "int2", 23: "int4", 26: "oid", 700: "float4", 701: "float8", 1082: "date", 1083: "time", 1114: "timestamp", 1184: "timestamptz"}  # fmt: skip
_BIT_OID: Final = 1560
_NUMERIC_OID: Final = 1700
_UNKNOWN_PARAMETER: Final = re.compile(r'invalid URI query parameter: "([^"]*)"')
_SYSTEM: Final = "n.nspname ~ '^pg_' OR n.nspname = 'information_schema'"
_COLUMNS: Final = """
    SELECT a.attname, coalesce(b.typname, t.typname), CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END,
        a.attnotnull OR t.typnotnull,
        EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = a.attrelid AND i.indisprimary AND a.attnum = ANY (i.indkey)),
        a.attidentity <> '' OR coalesce(pg_get_expr(d.adbin, d.adrelid) LIKE 'nextval(%%', false)
    FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
        LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""


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


def _schema_of(kind: str, modifier: int) -> Schema:
    """Of a column: the name of its type, and what stands in parentheses behind it, as pg_attribute has that."""
    if kind == "numeric" and modifier >= 4:
        precision, scale = (modifier - 4) >> 16 & 0xFFFF, ((modifier - 4 & 0x7FF) ^ 0x400) - 0x400
        return s.decimal_schema(scale, precision=precision)
    if kind == "bit" and modifier == 1:
        return s.BOOLEAN
    return _TYPES.get(kind, s.STRING)


def _items(schema: Schema) -> Schema:
    """Of an array of whatever depth: arrays have any number of dimensions."""
    return _items(schema.value_schema) if schema.type is Type.ARRAY and schema.value_schema is not None else schema


class Postgresql(Dialect):
    placeholder = "%s"
    binds_as_is = True
    java_name = "PostgreSqlDatabaseDialect"
    maps_numerics = True
    narrowed_by = "schema.pattern"
    table_kinds: Mapping[str, Any] = {
        "TABLE": "r", "PARTITIONED TABLE": "p", "VIEW": "v", "MATERIALIZED VIEW": "m", "FOREIGN TABLE": "f"
    }  # fmt: skip

    def __init__(self, url: str, user: str | None, password: str | None, zone: str = "UTC") -> None:
        """`zone`: of columns without one."""
        try:
            import psycopg
        except ImportError:
            raise ConfigError("PostgreSQL needs the package psycopg: pip install 'headwater[postgres]'") from None
        self._psycopg = psycopg
        _check_address(url)
        self.errors = (psycopg.Error,)
        self.misfits, self.conflicts = (psycopg.DataError, UnicodeEncodeError), (psycopg.IntegrityError,)
        self._url, self._zone = url, zone
        self.zone = ZoneInfo(zone)
        self._login: dict[str, Any] = {name: value for name, value in (("user", user), ("password", password)) if value}

    def connect(self) -> Any:
        try:
            connection = self._psycopg.connect(self._url, connect_timeout=10, **self._login)
            # Columns without a zone are compared, and written, as if they were in the session's.
            connection.execute("SELECT set_config('TimeZone', %s, false)", [self._zone])
            connection.commit()
            self._read_as_text(connection)
            if self._zone != "UTC":
                connection.adapters.register_loader("timestamp", _loader_in(ZoneInfo(self._zone)))
            return connection
        except self._psycopg.Error as error:
            raise RetriableError(f"Cannot connect to the database: {error}") from None

    def _read_as_text(self, connection: Any) -> None:
        """What is text in records comes as PostgreSQL writes it, not as the driver's objects for JSON, arrays, ..."""
        from psycopg.types.string import TextLoader

        for each in self._psycopg.adapters.types:
            for oid in (each.oid, each.array_oid):
                if oid and oid not in _OIDS:
                    connection.adapters.register_loader(oid, TextLoader)

    def refuses_statement(self, error: Exception) -> bool:
        return isinstance(error, self._psycopg.ProgrammingError)

    def escaped(self, sql: str) -> str:
        return sql.replace("%", "%%")

    def quote_column(self, name: str) -> str:
        return super().quote_column(name.lower() if self.folds_names else name)

    def told_apart(self, column: str) -> str:
        """Quoted names have their letters."""
        return column.lower() if self.folds_names else column

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(name="headwater_connect")

    def tables(self, connection: Any, wanted: Wanted = ALL_TABLES) -> list[str]:
        kinds = [self.table_kinds[each] for each in wanted.kinds]
        schemas = [wanted.schema_pattern or "%"]
        sql = (
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE c.relkind::text = ANY (%s) AND n.nspname LIKE %s AND NOT ({_SYSTEM})"
        )
        if wanted.only_readable:
            sql += " AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')"
        found = connection.execute(sql, (kinds, *schemas)).fetchall()
        return sorted(self.whole_name(schema, name) for schema, name in found)

    def columns(self, connection: Any, table: str) -> list[Column]:
        asked = self.quote(table).replace("%%", "%")
        made = []
        for name, kind, modifier, required, key, counts_up in connection.execute(_COLUMNS, (asked,)).fetchall():
            found = _schema_of(kind, modifier)
            made.append(Column(name, found if required else found.as_optional(), key, counts_up))
        return made

    def result_columns(self, description: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[Column]:
        del rows
        made = []
        for column in description:
            if column.type_code == _NUMERIC_OID and column.scale is not None:
                found = s.decimal_schema(column.scale, precision=column.precision)
            elif column.type_code == _BIT_OID and column.display_size == 1:
                found = s.BOOLEAN
            else:
                found = _TYPES.get(_OIDS.get(column.type_code, ""), s.STRING)
            made.append(Column(column.name, found.as_optional()))
        return made

    def now(self, connection: Any) -> datetime:
        found = connection.execute("SELECT clock_timestamp()").fetchone()[0]
        assert isinstance(found, datetime)
        return found.astimezone(UTC)

    def to_parameter(self, schema: Schema, value: Any) -> Any:
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            refuse_nested(_items(schema))
            return value
        return super().to_parameter(schema, value)

    def _truth(self, value: bool) -> str:
        return "TRUE" if value else "FALSE"

    def _bytes(self, value: bytes) -> str:
        return f"'\\x{value.hex()}'"

    def column_type(self, schema: Schema) -> str:
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            return f"{self.column_type(schema.value_schema)}[]"
        refuse_nested(schema)
        if schema.name == s.DECIMAL:
            return "DECIMAL"
        if schema.name in (s.DATE, s.TIME, s.TIMESTAMP):
            return {s.DATE: "DATE", s.TIME: "TIME", s.TIMESTAMP: "TIMESTAMP"}[schema.name or ""]
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
