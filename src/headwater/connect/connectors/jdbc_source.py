"""JdbcSource: rows of tables, or of a query, as records; whole tables again and again, or only what is new.

What a mode can miss is in the docs of `mode`; `jdbc_queries` has the form of offsets.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Final

from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf
from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, NonEmptyList, flag, listing, long, secret, text, whole
from headwater.connect.connectors.jdbc_dialects import Wanted
from headwater.connect.connectors.jdbc_fields import FIELD_KEYS
from headwater.connect.connectors.jdbc_queries import (
    Query,
    begin_of,
    check_offset,
    offsets_by_table,
    query_of,
    stored_of,
)
from headwater.connect.connectors.jdbc_url import CONNECTION_KEYS, check_url, dialect_of, refuse
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import ConfigError, ConnectError, RetriableError
from headwater.connect.java_regex import compile_java

_TABLES: Final = "tables"  # of a task: names, or names with the part that is read
_NEXT, _PART = "\x1f", "\x1e"
_REFUSED: Final = ("transaction.isolation.mode", "date.timezone", "query.retry.attempts", "table.monitoring.startup.polling.limit.ms", "date.calendar.system", "max.buffer.size", "poll.linger.ms")  # fmt: skip


_LISTS: Final = (("table.whitelist", "table.include.list"), ("table.blacklist", "table.exclude.list"))


def wanted_of(config: Mapping[str, Any]) -> Wanted:
    """A table that a list names and the user may not read fails its task; without a list, it is none of ours."""
    kinds = frozenset(each.upper() for each in config["table.types"])
    listed = any(config[name] for name in _LISTS[0])
    return Wanted(kinds, config["schema.pattern"] or None, config["catalog.pattern"] or None, not listed)


def wrong_mapping(name: str, entry: str) -> str | None:
    """What is wrong with an entry of one of the two mappings."""
    pattern, colon, column = (each.strip() for each in entry.partition(":"))
    listed = name.startswith("timestamp")
    names = column[1:-1].split("|") if listed and column.startswith("[") and column.endswith("]") else [column]
    if not colon or ":" in column or not all(each.strip() for each in names) or (listed and names == [column]):
        return f"{entry!r} is not of the form {'pattern:[column|column]' if listed else 'pattern:column'}"
    try:
        compile_java(pattern)
    except ConfigError as error:
        return str(error)
    return None


class _TopicPrefix:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9._-]{0,249}", value.strip()) is None:
            raise ConfigValueError(name, value, "letters, digits, dots, hyphens and underscores, at most 249")

    def __str__(self) -> str:
        return "letters, digits, dots, hyphens and underscores"


class JdbcSourceTask(SourceTask):
    def __init__(self) -> None:
        self._stop = threading.Event()
        self._connection: Any = None
        self._was_connected = False
        self._attempts = 0  # that failed, before there was a connection
        self._attempt_at = 0.0
        self._open: Generator[list[SourceRecord], None, None] | None = None
        self._asked: Query | None = None  # whose rows those are, or were

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = JdbcSourceConnector.config_def.parse(props)
        self._dialect = dialect_of(config)
        names = [each.partition(_PART) for each in props.get(_TABLES, "").split(_NEXT) if each]
        reader = self.context.offset_reader
        stored = offsets_by_table(reader)
        parts = [(name, int(part) if part else None) for name, _, part in names]
        self._queries = [
            Query(self._dialect, config, name, begin_of(stored_of(stored, self._dialect.parts(name)), config, name, part), part)
            for name, part in parts
        ]  # fmt: skip
        if query_of(config):
            self._queries = [Query(self._dialect, config, None, reader.offset({"query": "query"}))]
        if not self._queries:
            raise ConnectError(
                "There is no table to read: none is there that the user may read, or those that the connector is to read are "
                "not in the database as they are named, or of other kinds than table.types. It looks again every table.poll.interval.ms"
            )

    def poll(self) -> list[SourceRecord] | None:
        try:
            if self._connection is None and not self._connect():
                return None
            return self._next()
        except self._dialect.errors as error:
            self.close()
            kind = ConnectError if self._stays_refused(error) else RetriableError
            raise kind(self._told(error)) from None
        except RetriableError:
            self.close()
            raise

    def _told(self, error: Exception) -> str:
        """Databases cite what they do not understand: of a query that nobody is to see, the kind of error has to do."""
        if not self._config["query.masked"]:
            return f"The database said: {self._dialect.message(error)}"
        kind = getattr(error, "sqlite_errorname", None) or type(error).__name__
        return f"The database refused query.masked or its rows ({kind}); what it said is not shown, for it may cite the query"

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
        except self._dialect.errors as again:  # the schema itself may not be looked into
            return self._dialect.refuses_statement(again)

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
        text("incrementing.column.name", "", MEDIUM, "The column that only grows; with tables, if none is given, the one that the database counts up."),
        listing("incrementing.column.mapping", [], MEDIUM, "Such columns by table: pattern:column, where exactly one pattern must match the table's whole name (schema.table)."),
        listing("timestamp.column.name", [], MEDIUM, "The columns with the time of the last change; the first that is not null counts."),
        listing("timestamp.columns.mapping", [], MEDIUM, "Such columns by table: pattern:[column|column]."),
        flag("validate.non.null", True, LOW, "Whether a task fails if the column that grows may be null, or all of those with times: such rows would never be read."),
        long("timestamp.delay.interval.ms", 0, HIGH, "How old a row must be to be read, so that transactions which began earlier can commit before.", AtLeast(0)),
        long("timestamp.initial", None, LOW, "Where timestamps begin (ms); -1: now."),
        listing("table.whitelist", [], MEDIUM, "The tables, by their whole names (schema.table; database.table with MariaDB) or the bare ones; all that the user may read if there is no list."),
        listing("table.blacklist", [], MEDIUM, "Tables that are left out."),
        listing("table.include.list", [], MEDIUM, "The tables by regular expressions (Java's, run by RE2), one of which must match a whole name (schema.table), or a bare one; not beside table.whitelist."),
        listing("table.exclude.list", [], MEDIUM, "Regular expressions of tables that are left out; not beside table.blacklist."),
        whole("table.partitions", 1, MEDIUM, "In how many parts each table is read, at the same time as far as tasks.max allows. With other modes than bulk, each part has an offset of its own: rows of one table come in the order of their part alone, and neither the number nor table.partition.column can change while there are offsets.", AtLeast(1)),
        text("table.partition.column", "", MEDIUM, "The column of whole numbers (an integer type, or a decimal without fractions) whose rest, divided by table.partitions, tells the parts apart, and which does not change; incrementing.column.name if it is not given."),
        text("schema.pattern", None, HIGH, "A pattern, as LIKE has it, of the schemas whose tables are looked for; all but the database's own if there is none. PostgreSQL alone has schemas."),
        text("catalog.pattern", None, MEDIUM, "The database whose tables are looked for; that of connection.url if there is none. Of MariaDB and MySQL."),
        listing("table.types", ["TABLE"], LOW, "Which kinds of tables are looked for: TABLE, VIEW; with PostgreSQL also PARTITIONED TABLE (TABLE has only its partitions), MATERIALIZED VIEW and FOREIGN TABLE.", NonEmptyList()),
        text("query", "", MEDIUM, "A query instead of tables; topic.prefix is then the topic."),
        secret("query.masked", None, MEDIUM, "The same, and nobody is shown it."),
        text("query.suffix", "", LOW, "SQL that stands behind each query, such as LIMIT 1000. With mode=timestamp, rows of one timestamp that a LIMIT parts are missed."),
        *FIELD_KEYS,
        text("topic.prefix", "", HIGH, "The topic of a table is this and its name, without that of its schema.", _TopicPrefix()),
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
        if not query_of(self._config):
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
        if query_of(self._config):
            return [dict(self.props)]
        self._check_topics()
        parts, shares = self._config["table.partitions"], self._tables
        if parts > 1:
            shares = [f"{name}{_PART}{part}" for part in range(parts) for name in self._tables]
        count = max(1, min(max_tasks, len(shares)))
        return [{**self.props, _TABLES: _NEXT.join(shares[at::count])} for at in range(count)]

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        del props
        for partition, offset in offsets:
            if offset is not None:  # of whatever partition: what nobody reads can be taken away
                check_offset(partition, offset)
        return True

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
        _check_modes(found)
        if found["query"].value and found["query.masked"].value:
            found["query.masked"].errors.append("query, or this: not both")
        query = "query.masked" if found["query.masked"].value else "query"
        if found[query].value and any(found[name].value for pair in _LISTS for name in pair):
            found[query].errors.append("A query, or tables: not both")
        if found[query].value and found["topic.prefix"].value == "":
            found["topic.prefix"].errors.append("A query needs it: it is the topic")
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


def _check_modes(found: dict[str, ConfigValue]) -> None:
    mode, query = str(found["mode"].value), bool(found["query"].value or found["query.masked"].value)
    columns = {"incrementing": ("incrementing.column.name", "incrementing.column.mapping"), "timestamp": ("timestamp.column.name", "timestamp.columns.mapping")}  # fmt: skip
    for kind, (name, mapping) in columns.items():
        for entry in found[mapping].value or []:
            wrong = wrong_mapping(mapping, entry)
            if wrong is not None:
                found[mapping].errors.append(wrong)
        if found[name].value and found[mapping].value:
            found[mapping].errors.append(f"{name}, or this: not both")
        if kind in mode and not found[name].value and (query or (kind == "timestamp" and not found[mapping].value)):
            found[name].errors.append(f"mode={mode} needs it")
    parts = found["table.partitions"].value
    if isinstance(parts, int) and parts > 1:
        if query:
            found["table.partitions"].errors.append("Only tables are read in parts, not a query")
        if not found["table.partition.column"].value and not ("incrementing" in mode and found["incrementing.column.name"].value):  # fmt: skip
            found["table.partition.column"].errors.append("table.partitions needs it")
