"""JdbcSource: rows of tables, or of a query, as records; whole tables again and again, or only what is new.

What a mode can miss is in the docs of `mode`. Offsets and partitions have the names of the connector that this follows:
{"protocol": "1", "table": "schema.table"} or {"query": "query"}; {"incrementing": n, "timestamp": ms,
"timestamp_nanos": n}. Where there is none, one of the table's bare name counts, as older versions of both had it. A
part of a table (table.partitions) has a partition of its own, with "part": "0", and its offset says of how many
("parts") it is one, and by which column ("column"): with other ones, rows are in other parts, so such offsets are
refused.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.api import OffsetReader, SourceConnector, SourceTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyList, listing, long, text, whole
from headwater.connect.connectors.jdbc_dialects import Column, Dialect, Wanted, from_database, moment_of
from headwater.connect.connectors.jdbc_url import CONNECTION_KEYS, check_url, dialect_of, refuse
from headwater.connect.data.logical import millis_to_timestamp, scale_of, timestamp_to_millis
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import DECIMAL, Schema, Type, struct
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, ConnectError, DataError, RetriableError
from headwater.connect.java_regex import compile_java

_TABLES: Final = "tables"  # of a task: names, or names with the part that is read
_NEXT, _PART = "\x1f", "\x1e"
_EPOCH: Final = millis_to_timestamp(0)
_REFUSED: Final = ("numeric.mapping", "numeric.precision.mapping", "query.suffix", "dialect.name", "timestamp.granularity", "transaction.isolation.mode", "date.timezone", "incrementing.column.mapping", "timestamp.columns.mapping", "validate.non.null", "query.masked", "query.retry.attempts", "quote.sql.identifiers", "table.monitoring.startup.polling.limit.ms", "date.calendar.system", "max.buffer.size", "poll.linger.ms")  # fmt: skip


_LISTS: Final = (("table.whitelist", "table.include.list"), ("table.blacklist", "table.exclude.list"))


class _Query:
    """One table or query, where it has got to, and the cursor that is open."""

    def __init__(
        self,
        dialect: Dialect,
        config: Mapping[str, Any],
        table: str | None,
        offset: Mapping[str, Any] | None,
        part: int | None = None,
    ) -> None:
        """`part`: the one of table.partitions that is read."""
        self._dialect, self._config, self.table, self._part = dialect, config, table, part
        names = dialect.parts(table) if table is not None else []
        self._bare = names[-1] if names else None  # what topic and schema are called after
        self.partition = partition_of(".".join(names) or None, part if config["mode"] != "bulk" else None)
        mode = config["mode"]
        self._incrementing = config["incrementing.column.name"] if "incrementing" in mode else None
        self._timestamps: list[str] = config["timestamp.column.name"] if "timestamp" in mode else []
        self._last_number: int = (offset or {}).get("incrementing", -1)
        self._last_moment = _moment_in(offset, config)
        self.due = 0.0

    def rows(self, connection: Any, batch: int) -> Generator[list[SourceRecord], None, None]:
        """Batches of one run of the query. A timestamp counts as read when all its rows are given."""
        dialect = self._dialect
        columns = dialect.columns(connection, self.table) if self.table is not None else None
        if columns is not None and self._part is not None:
            self._check_parts(columns)
        sql, parameters = self._sql(connection)
        cursor = dialect.cursor(connection)
        try:
            cursor.execute(sql, parameters)
            rows = cursor.fetchmany(batch)
            if columns is not None and cursor.description is not None:
                by_name = {each.name: each for each in columns}
                columns = [by_name[column[0]] for column in cursor.description]
            while rows:
                following = cursor.fetchmany(batch)
                if columns is None:
                    columns = dialect.result_columns(cursor.description, rows)
                yield self._records(columns, rows, following)
                rows = following
        finally:
            cursor.close()

    def _sql(self, connection: Any) -> tuple[str, list[Any]]:
        dialect, mark = self._dialect, self._dialect.placeholder
        if self.table is not None:
            base = f"SELECT * FROM {dialect.quote(self.table)}"
        else:
            base = dialect.escaped(self._config["query"])
            if self._incrementing or self._timestamps:
                base = f"SELECT * FROM ({base}) AS given"
        number = dialect.quote_column(self._incrementing) if self._incrementing else ""
        part = self._of_part()
        if not self._timestamps:
            if not number:
                return base + (f" WHERE {part}" if part else ""), []
            of_part = f" AND {part}" if part else ""
            return f"{base} WHERE {number} > {mark}{of_part} ORDER BY {number} ASC", [self._last_number]
        dialect.learn_columns(connection, base)
        when = dialect.timestamp_expression(self._timestamps)
        until = dialect.now(connection) - timedelta(milliseconds=self._config["timestamp.delay.interval.ms"])
        begin = dialect.compared_moment(self._timestamps, self._last_moment)
        end = dialect.compared_moment(self._timestamps, until)
        wanted, parameters, order = f"{when} > {mark} AND {when} < {mark}", [begin, end], when
        if number:
            wanted = f"{when} < {mark} AND (({when} = {mark} AND {number} > {mark}) OR {when} > {mark})"
            parameters, order = [end, begin, self._last_number, begin], f"{when}, {number}"
        unreadable = dialect.unreadable_timestamp(self._timestamps)
        if unreadable:  # the first such row fails the task
            wanted = f"(({wanted}) OR {unreadable})"
        of_part = f"{part} AND " if part else ""
        return f"{base} WHERE {of_part}{wanted} ORDER BY {order} ASC", parameters

    def _of_part(self) -> str:
        """Rows without a number are the first part's."""
        if self._part is None:
            return ""
        column = self._dialect.quote_column(parted_by(self._config)[1])
        rest = self._dialect.escaped(f"% {self._config['table.partitions']}")
        return f"COALESCE(ABS({column} {rest}), 0) = {self._part}"

    def _check_parts(self, columns: Sequence[Column]) -> None:
        """Raises ConnectError if rows could be in no part: the rest of 2.5 is none of their numbers."""
        name = parted_by(self._config)[1]
        for each in columns:
            if each.name.lower() == name.lower() and not is_whole(each.schema):
                raise ConnectError(
                    f"The column {name} of {self.table} has a type with more than whole numbers: rows that have others would be in no "
                    "part. Name a column of whole numbers in table.partition.column"
                )

    def _records(self, columns: Sequence[Column], rows: Sequence[Any], following: Sequence[Any]) -> list[SourceRecord]:
        schema = struct([(each.name, each.schema) for each in columns], name=self._bare)
        topic = self._config["topic.prefix"] + (self._bare or "")
        now_ms = time.time_ns() // 1_000_000
        made = []
        nexts = [*rows[1:], *following[:1], None]
        for row, after in zip(rows, nexts, strict=False):
            value = Struct(schema)
            for column, each in zip(columns, row, strict=True):
                if each is not None:
                    value.put(column.name, self._value(column, each))
            self._advance(columns, row, after)
            made.append(SourceRecord(topic=topic, value_schema=schema, value=value, timestamp_ms=now_ms, source_partition=self.partition, source_offset=self._offset()))  # fmt: skip
        return made

    def _value(self, column: Column, found: Any) -> Any:
        try:
            return from_database(column.schema, found)
        except ConnectError as error:
            raise ConnectError(f"The column {column.name!r} of {self.table or 'the query'}: {error}") from None

    def _advance(self, columns: Sequence[Column], row: Sequence[Any], after: Sequence[Any] | None) -> None:
        names = [each.name for each in columns]
        if self._incrementing:
            self._last_number = self._number(row[place_of(self._incrementing, names)])
        if self._timestamps:
            here = self._when(names, row)
            if self._incrementing or after is None or self._when(names, after) != here:
                self._last_moment = here

    def _when(self, names: Sequence[str], row: Sequence[Any]) -> datetime:
        found = ((each, row[place_of(each, names)]) for each in self._timestamps)
        column, value = next((column, value) for column, value in found if value is not None)
        try:
            return moment_of(value)
        except (ValueError, OverflowError, DataError):
            raise ConnectError(
                f"The column {column!r} of {self.table or 'the query'} has the value {value!r}, which is no timestamp: its row would never "
                "be read. Mend it, or leave it out by a `query`"
            ) from None

    def _number(self, found: Any) -> int:
        try:
            number = int(found)
        except (ValueError, TypeError, ArithmeticError):
            number = None
        if number is None or (isinstance(found, float | Decimal) and number != found):
            raise ConnectError(
                f"The column {self._incrementing!r} of {self.table or 'the query'} has the value {found!r}: "
                "incrementing.column.name is a column of whole numbers"
            )
        return number

    def _offset(self) -> dict[str, Any] | None:
        offset: dict[str, Any] = {}
        if self._incrementing:
            offset["incrementing"] = self._last_number
        if self._timestamps:
            offset["timestamp"] = timestamp_to_millis(self._last_moment)
            offset["timestamp_nanos"] = self._last_moment.microsecond * 1000
        if offset and self._part is not None:
            offset["parts"], offset["column"] = parted_by(self._config)
        return offset or None


def partition_of(table: str | None, part: int | None = None) -> dict[str, Any]:
    """The source partition of a table or of one of its parts; of the query."""
    if table is None:
        return {"query": "query"}
    named = {"protocol": "1", "table": table}
    return named if part is None else {**named, "part": str(part)}


def parted_by(config: Mapping[str, Any]) -> tuple[int, str]:
    """What decides which part a row is in: their number, and the column."""
    return config["table.partitions"], config["table.partition.column"] or config["incrementing.column.name"]


def is_whole(schema: Schema) -> bool:
    if schema.name == DECIMAL:
        return scale_of(schema) == 0
    return schema.type in (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def offsets_by_table(reader: OffsetReader) -> dict[str, dict[str | None, dict[str, Any]]]:
    """All that is stored: of each table, the offsets of its parts; None is the whole table."""
    found: dict[str, dict[str | None, dict[str, Any]]] = {}
    for partition, offset in reader.all():
        table, part = partition.get("table"), partition.get("part")
        if not isinstance(table, str):
            continue
        if partition in ({"table": table}, partition_of(table), {**partition_of(table), "part": part}):
            found.setdefault(table, {})[None if part is None else str(part)] = offset
    return found


def stored_of(
    offsets: Mapping[str, dict[str | None, dict[str, Any]]], parts: Sequence[str]
) -> dict[str | None, dict[str, Any]]:
    """Those of one table, whose whole name has these parts. What stands under its bare name is older."""
    return {**offsets.get(parts[-1], {}), **offsets.get(".".join(parts), {})}


def begin_of(
    stored: Mapping[str | None, dict[str, Any]], config: Mapping[str, Any], table: str, part: int | None
) -> dict[str, Any] | None:
    """Where a table, or a part of it, goes on; `stored` are the table's offsets. A part that has no offset yet goes on
    where the whole table was before it was read in parts. Raises ConnectError if offsets are of another number of
    parts, or by another column.
    """
    whole_table = stored.get(None)
    if config["mode"] == "bulk":
        return whole_table
    parts, column = parted_by(config)
    for of_part, offset in stored.items():
        if of_part is not None and (part is None or (offset.get("parts"), offset.get("column")) != (parts, column)):
            raise ConnectError(
                f"The table {table} was read in another number of parts, or by another column, than table.partitions={parts} by the "
                f"column {column or '(none)'}: its offsets are of {offset.get('parts')} parts by {offset.get('column')}. Rows would be "
                "missed or read again. Put the number and the column back, or reset the connector's offsets, which reads all tables again"
            )
    return whole_table if part is None else stored.get(str(part), whole_table)


def place_of(column: str, names: Sequence[str]) -> int:
    """Also in other letters, as SQLite and MariaDB have it. Raises ConnectError: SQLite takes a quoted name that it
    does not know for a text, and says nothing.
    """
    if column in names:
        return names.index(column)
    found = next((at for at, name in enumerate(names) if name.lower() == column.lower()), None)
    if found is None:
        raise ConnectError(f"There is no column {column!r} in what is read; there are {', '.join(names)}")
    return found


def wanted_of(config: Mapping[str, Any]) -> Wanted:
    kinds = frozenset(each.upper() for each in config["table.types"])
    return Wanted(kinds, config["schema.pattern"] or None, config["catalog.pattern"] or None)


def _moment_in(offset: Mapping[str, Any] | None, config: Mapping[str, Any]) -> datetime:
    if offset is not None and "timestamp" in offset:
        whole_second = millis_to_timestamp(offset["timestamp"] // 1000 * 1000)
        nanos = offset.get("timestamp_nanos", offset["timestamp"] % 1000 * 1_000_000)
        return whole_second + timedelta(microseconds=nanos // 1000)
    initial = config["timestamp.initial"]
    return _EPOCH if initial is None else millis_to_timestamp(initial if initial >= 0 else time.time_ns() // 1_000_000)


class JdbcSourceTask(SourceTask):
    def __init__(self) -> None:
        self._stop = threading.Event()
        self._connection: Any = None
        self._was_connected = False
        self._attempts = 0  # that failed, before there was a connection
        self._attempt_at = 0.0
        self._open: Generator[list[SourceRecord], None, None] | None = None
        self._asked: _Query | None = None  # whose rows those are, or were

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = JdbcSourceConnector.config_def.parse(props)
        self._dialect = dialect_of(config)
        names = [each.partition(_PART) for each in props.get(_TABLES, "").split(_NEXT) if each]
        reader = self.context.offset_reader
        stored = offsets_by_table(reader)
        parts = [(name, int(part) if part else None) for name, _, part in names]
        self._queries = [
            _Query(self._dialect, config, name, begin_of(stored_of(stored, self._dialect.parts(name)), config, name, part), part)
            for name, part in parts
        ]  # fmt: skip
        if config["query"]:
            self._queries = [_Query(self._dialect, config, None, reader.offset({"query": "query"}))]
        if not self._queries:
            raise ConnectError(
                "There is no table to read: none is there, or those that the connector is to read are not in the database as "
                "they are named. It looks again every table.poll.interval.ms"
            )

    def poll(self) -> list[SourceRecord] | None:
        try:
            if self._connection is None and not self._connect():
                return None
            return self._next()
        except self._dialect.errors as error:
            self.close()
            kind = ConnectError if self._stays_refused(error) else RetriableError
            raise kind(f"The database said: {self._dialect.message(error)}") from None
        except RetriableError:
            self.close()
            raise

    def _connect(self) -> bool:
        """False: the pause before the next attempt is not over. A database that was there is asked again for ever; one
        that never was, or refuses the login, is not (ConnectError), so that the status says it.
        """
        wait = self._attempt_at - time.monotonic()
        if wait > 0:
            self._stop.wait(min(wait, 0.5))
            return False
        try:
            self._connection = self._dialect.connect()
        except RetriableError as error:
            if self._was_connected:
                raise
            self._attempts += 1
            if self._attempts >= self._config["connection.attempts"]:
                raise ConnectError(str(error)) from None
            self._attempt_at = time.monotonic() + self._config["connection.backoff.ms"] / 1000
            raise
        self._was_connected = True
        return True

    def _stays_refused(self, error: Exception) -> bool:
        """Whether to ask again does not help, so that the status has to say it. A table that is gone is left to the
        connector, which looks for new and deleted ones.
        """
        if self._asked is None:
            return False
        if isinstance(error, self._dialect.misfits):  # a value that Python has not, such as the year 12000
            return True
        if not self._dialect.refuses_statement(error):
            return False
        if self._asked.table is None:
            return True
        try:
            with contextlib.closing(self._dialect.connect()) as connection:
                return bool(self._dialect.columns(connection, self._asked.table))
        except RetriableError:
            return False
        except self._dialect.errors:
            return False

    def _next(self) -> list[SourceRecord] | None:
        """None: a query has ended, or it is not time for the next one."""
        if self._open is None:
            query = min(self._queries, key=lambda each: each.due)
            wait = query.due - time.monotonic()
            if wait > 0:
                self._stop.wait(min(wait, 0.5))
                return None
            query.due = time.monotonic() + self._config["poll.interval.ms"] / 1000
            self._asked = query
            self._open = query.rows(self._connection, self._config["batch.max.rows"])
        found = next(self._open, None)
        if found is None:
            self._open = None
            self._connection.rollback()
        return found

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """By the task's own thread. What a query had given counts only as far as offsets were committed."""
        if self._connection is None:
            return
        rows, self._open = self._open, None
        with contextlib.suppress(*self._dialect.errors):  # a cursor of a connection that is gone
            if rows is not None:
                rows.close()
        connection, self._connection = self._connection, None
        with contextlib.suppress(*self._dialect.errors):  # it may have gone with its cursor
            connection.close()


class JdbcSourceConnector(SourceConnector):
    doc = "Rows of a database's tables, or of a query, as records: SQLite, PostgreSQL, MariaDB and MySQL."
    aliases = ("io.confluent.connect.jdbc.JdbcSourceConnector",)
    config_def: ClassVar[ConfigDef] = ConfigDef(
        *CONNECTION_KEYS,
        whole("connection.attempts", 3, LOW, "How often a task that begins tries to connect before it fails (and is started again, by errors.restart). A database that goes away later is asked until it is back.", AtLeast(1)),
        long("connection.backoff.ms", 10_000, LOW, "The pause (ms) between these attempts.", AtLeast(0)),
        text("mode", "bulk", HIGH, "bulk: everything, at every poll. incrementing: rows whose number is higher than the last; changed rows, and rows that commit after one with a higher number, are missed. timestamp: rows that are younger than the last; of rows that commit late, those older than timestamp.delay.interval.ms are missed; rows of one timestamp that are more than batch.max.rows may come again after a crash or a lost connection. timestamp+incrementing: both, for rows with the same timestamp.", OneOf("bulk", "incrementing", "timestamp", "timestamp+incrementing")),
        text("incrementing.column.name", "", MEDIUM, "The column that only grows."),
        listing("timestamp.column.name", [], MEDIUM, "The columns with the time of the last change; the first that is not null counts."),
        long("timestamp.delay.interval.ms", 0, HIGH, "How old a row must be to be read, so that transactions which began earlier can commit before.", AtLeast(0)),
        long("timestamp.initial", None, LOW, "Where timestamps begin (ms); -1: now."),
        listing("table.whitelist", [], MEDIUM, "The tables, by their whole names (schema.table; database.table with MariaDB) or the bare ones; all of them if there is no list."),
        listing("table.blacklist", [], MEDIUM, "Tables that are left out."),
        listing("table.include.list", [], MEDIUM, "The tables by regular expressions (Java's, run by RE2), one of which must match a whole name (schema.table), or a bare one; not beside table.whitelist."),
        listing("table.exclude.list", [], MEDIUM, "Regular expressions of tables that are left out; not beside table.blacklist."),
        whole("table.partitions", 1, MEDIUM, "In how many parts each table is read, at the same time as far as tasks.max allows. With other modes than bulk, each part has an offset of its own: rows of one table come in the order of their part alone, and neither the number nor table.partition.column can change while there are offsets.", AtLeast(1)),
        text("table.partition.column", "", MEDIUM, "The column of whole numbers (an integer type, or a decimal without fractions) whose rest, divided by table.partitions, tells the parts apart, and which does not change; incrementing.column.name if it is not given."),
        text("schema.pattern", None, HIGH, "A pattern, as LIKE has it, of the schemas whose tables are looked for; all but the database's own if there is none. PostgreSQL alone has schemas."),
        text("catalog.pattern", None, MEDIUM, "The database whose tables are looked for; that of connection.url if there is none. Of MariaDB and MySQL."),
        listing("table.types", ["TABLE"], LOW, "Which kinds of tables are looked for: TABLE, VIEW; with PostgreSQL also PARTITIONED TABLE, MATERIALIZED VIEW and FOREIGN TABLE.", NonEmptyList()),
        text("query", "", MEDIUM, "A query instead of tables; topic.prefix is then the topic."),
        text("topic.prefix", REQUIRED, HIGH, "The topic of a table is this and its name, without that of its schema."),
        whole("poll.interval.ms", 5000, HIGH, "How often a table is asked.", AtLeast(1)),
        whole("batch.max.rows", 100, LOW, "Rows that one poll gives at most.", AtLeast(1)),
        long("table.poll.interval.ms", 60_000, LOW, "How often new and deleted tables are looked for.", AtLeast(1)),
    )  # fmt: skip
    task_class = JdbcSourceTask

    def start(self, props: Mapping[str, str]) -> None:
        self.props = props
        self._config = self.config_def.parse(props)
        self._dialect = dialect_of(self._config)
        self._stop = threading.Event()
        self._tables: list[str] = []
        self._watcher: threading.Thread | None = None
        if not self._config["query"]:
            self._tables = self._find()
            self._watcher = threading.Thread(target=self._watch, name="connect-jdbc-tables", daemon=True)
            self._watcher.start()

    def _find(self) -> list[str]:
        connection = self._dialect.connect()
        try:
            found = self._dialect.tables(connection, wanted_of(self._config))
        except self._dialect.errors as error:
            raise ConnectError(f"The tables cannot be listed: {self._dialect.message(error)}") from None
        finally:
            connection.close()
        included, excluded = (self._chosen(*each) for each in _LISTS)
        return [each for each in found if (included is None or included(each)) and not (excluded and excluded(each))]

    def _chosen(self, names: str, patterns: str) -> Callable[[str], bool] | None:
        """Whether a table is in one of the two lists, by its whole name or the bare one; None: there is neither."""
        given, compiled = set(self._config[names]), [compile_java(each) for each in self._config[patterns]]
        if not given and not compiled:
            return None

        def chosen(table: str) -> bool:
            parts = self._dialect.parts(table)
            quoted = ".".join(f"{mark}{each}{mark}" for mark in (self._dialect.quotation_mark,) for each in parts)
            known = (".".join(parts), parts[-1])
            return any(each in given for each in (*known, quoted)) or any(
                each.fullmatch(name) is not None for each in compiled for name in known
            )

        return chosen

    def _watch(self) -> None:
        while not self._stop.wait(self._config["table.poll.interval.ms"] / 1000):
            try:
                found = self._find()
            except ConnectError:
                continue  # it may be back by the next time
            if found != self._tables:
                self._tables = found
                self.context.request_task_reconfiguration()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self._config["query"]:
            return [dict(self.props)]
        self._check_topics()
        parts, shares = self._config["table.partitions"], self._tables
        if parts > 1:
            shares = [f"{name}{_PART}{part}" for part in range(parts) for name in self._tables]
        count = max(1, min(max_tasks, len(shares)))
        return [{**self.props, _TABLES: _NEXT.join(shares[at::count])} for at in range(count)]

    def _check_topics(self) -> None:
        """Raises ConnectError if rows of two tables would be in one topic."""
        by_topic: dict[str, list[str]] = {}
        for each in self._tables:
            by_topic.setdefault(self._dialect.parts(each)[-1], []).append(each)
        twice = [", ".join(names) for names in by_topic.values() if len(names) > 1]
        if twice:
            raise ConnectError(
                f"A topic has the name of its table without that of the schema, so rows of several tables would be in one: {'; '.join(twice)}. "
                "Choose by table.whitelist, table.blacklist or schema.pattern so that there is one of each name"
            )

    def stop(self) -> None:
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop.set()
        if getattr(self, "_watcher", None) is not None:
            assert self._watcher is not None
            self._watcher.join(5)

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        refuse(props, found, _REFUSED)
        mode = found["mode"].value
        if isinstance(mode, str) and "incrementing" in mode and not found["incrementing.column.name"].value:
            found["incrementing.column.name"].errors.append(f"mode={mode} needs it")
        if isinstance(mode, str) and "timestamp" in mode and not found["timestamp.column.name"].value:
            found["timestamp.column.name"].errors.append(f"mode={mode} needs it")
        parts = found["table.partitions"].value
        if isinstance(parts, int) and parts > 1:
            if found["query"].value:
                found["table.partitions"].errors.append("Only tables are read in parts, not a query")
            if not found["table.partition.column"].value and "incrementing" not in str(mode):
                found["table.partition.column"].errors.append("table.partitions needs it")
        if found["query"].value and any(found[name].value for pair in _LISTS for name in pair):
            found["query"].errors.append("A query, or tables: not both")
        for names, patterns in _LISTS:
            if found[names].value and found[patterns].value:
                found[patterns].errors.append(f"{names}, or this: not both")
            try:
                for each in found[patterns].value or []:
                    compile_java(each)
            except ConfigError as error:
                found[patterns].errors.append(str(error))
        check_url(found)
        if not found["connection.url"].errors and not found["db.timezone"].errors:
            dialect = dialect_of({name: each.value for name, each in found.items()})
            unknown = [each for each in found["table.types"].value or [] if each.upper() not in dialect.table_kinds]
            if unknown:
                known = ", ".join(dialect.table_kinds)
                found["table.types"].errors.append(f"{unknown[0]} is none of this database's: {known}")
            for name in ("schema.pattern", "catalog.pattern"):
                if found[name].value and name != dialect.narrowed_by:
                    found[name].errors.append("It has no effect with this database; remove it")
