"""JdbcSink: records as rows: inserted, upserted, updated, and deleted on tombstones; tables made and widened if wished.

Each `put` is one transaction. With `progress.table` it holds the offsets too: exactly once. Without: at least once, and
with `insert.mode=upsert` and keys a repeated record changes nothing.

A record that cannot be a row is reported: it goes to the dead letter topic, or ends the task, by `errors.tolerance`. So
is one whose value the database refuses, at once, and one that conflicts with other rows, after `max.retries`.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

from headwater.base.config.validators import AtLeast, EachOf, OneOf
from headwater.base.ids import TopicPartition
from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, NonEmptyText, flag, listing, long, text, whole
from headwater.connect.connectors.jdbc_progress import Progress
from headwater.connect.connectors.jdbc_rows import Plan, Row, RowPlanner, Shape, add_column, create_table
from headwater.connect.connectors.jdbc_url import CONNECTION_KEYS, check_url, dialect_of, refuse
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, DataError, RetriableError

_REFUSED: Final = ("mssql.use.merge.holdlock", "date.timezone", "trim.sensitive.log", "date.calendar.system")  # fmt: skip


class JdbcSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = JdbcSinkConnector.config_def.parse(props)
        config |= {name: config[name].lower() for name in ("insert.mode", "pk.mode")}
        self._dialect = dialect_of(config)
        self._planner = RowPlanner(self._dialect, config)
        self._connection: Any = None
        self._known: dict[str, set[str]] = {}  # columns by table, as far as they were looked at
        self._failures = 0
        self._connects = 0  # that failed, one after the other
        table = config["progress.table"]
        self._progress = Progress(self._dialect, table, props["name"]) if table else None
        self._reached: dict[TopicPartition, int] = {}  # what the table of progress has said, or was told
        self._generations: dict[TopicPartition, int] = {}  # what it said of each when this task got the partition
        self._reaching: dict[TopicPartition, int] = {}  # what the open transaction tells it

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Where the table says that the rows end is where to go on, whatever the group has committed."""
        if self._progress is None or not partitions:
            return
        try:
            connection = self._dialect.connect()
            try:
                found = self._progress.prepare(connection, partitions)
            finally:
                connection.close()
        except self._dialect.errors as error:
            raise RetriableError(f"The database said: {self._dialect.message(error)}") from None
        self._reached |= {each: max(mark.next_offset, 0) for each, mark in found.items()}
        self._generations |= {each: mark.generation for each, mark in found.items()}
        ends = {each: mark.next_offset for each, mark in found.items() if mark.is_set}
        if ends:
            self.context.offset(ends)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        try:
            try:
                self._transaction(records, by_one=False)
            except self._dialect.misfits:
                self._give_up()
                self._transaction(records, by_one=True)
            except self._dialect.conflicts:
                if self._failures < self._config["max.retries"]:
                    raise
                self._give_up()
                self._transaction(records, by_one=True)
            self._failures = 0
        except self._dialect.errors as error:
            raise self._failed(f"The database said: {self._dialect.message(error)}") from None
        except RetriableError as error:
            raise self._not_connected(str(error)) from None
        except ConnectError:
            self._give_up()
            raise

    def _failed(self, told: str) -> ConnectError:
        """What to raise after a transaction that failed: to try it again, as often as `max.retries` has it."""
        self._give_up()
        self._failures += 1
        if self._failures > self._config["max.retries"]:
            return ConnectError(told)
        self.context.timeout(self._config["retry.backoff.ms"])
        return RetriableError(told)

    def _not_connected(self, told: str) -> ConnectError:
        self._connects += 1
        if self._connects >= self._config["connection.attempts"]:
            self._connects = 0
            return ConnectError(told)
        self.context.timeout(self._config["connection.backoff.ms"])
        return RetriableError(told)

    def _transaction(self, records: Sequence[SinkRecord], *, by_one: bool) -> None:
        """Writes what is new of the records, and reports those that cannot be rows. `by_one`: those too that the
        database refuses.
        """
        if self._connection is None:
            self._connection = self._dialect.connect()
            self._connects = 0
        cursor = self._connection.cursor()
        plans = [self._plan(record) for record in records]
        shapes: dict[int, Shape] = {id(plan.shape): plan.shape for plan in plans if isinstance(plan, Plan)}
        homeless: dict[int, DataError] = {}
        for shape in shapes.values():  # before anything is written: on MariaDB, what makes a table commits
            try:
                self._make_room(cursor, shape.row)
            except DataError as unfit:
                homeless[id(shape)] = unfit
        if homeless:
            plans = [homeless.get(id(each.shape), each) if isinstance(each, Plan) else each for each in plans]
        if self._dialect.needs_columns:  # which are known by now
            plans = [self._plan(record) if isinstance(plan, Plan) else plan for record, plan in zip(records, plans, strict=True)]  # fmt: skip
        begins = self._begin(cursor, records)
        written: list[Plan] = []
        refused: list[tuple[SinkRecord, DataError]] = []
        for record, plan in zip(records, plans, strict=True):
            if begins and record.offset < begins.get(_place(record), 0):
                continue
            if isinstance(plan, DataError):
                refused.append((record, plan))
            elif plan.shape.row.others is None and plan.shape.row.table not in self._known:
                continue  # there is nothing to delete from
            elif by_one:
                error = self._try(cursor, plan)
                if error is not None:
                    refused.append((record, error))
            else:
                written.append(plan)
        for sql, same in groupby(written, key=lambda each: each.shape.sql):
            _execute(cursor, sql, [each.values for each in same])
        cursor.close()
        for record, error in refused:  # once, when nothing else is in the way
            self.context.report(record, error)
        if self._progress is not None:
            self.context.flush_reports()
        self._connection.commit()
        if self._progress is not None:
            self._reached |= self._reaching

    def _plan(self, record: SinkRecord) -> Plan | DataError:
        try:
            return self._planner.plan(record)
        except DataError as error:
            return error

    def _begin(self, cursor: Any, records: Sequence[SinkRecord]) -> dict[TopicPartition, int]:
        """Where what no transaction has written yet begins, in each partition; says in this one how far it goes.
        Raises ConnectError if the table has another generation, or says less than it did: this task was over when
        somebody set the offsets.
        """
        if self._progress is None:
            return {}
        ends: dict[TopicPartition, int] = {}
        for record in records:
            place = _place(record)
            ends[place] = max(ends.get(place, 0), record.offset + 1)
        done: dict[TopicPartition, int] = {}
        for place in sorted(ends):
            done[place], generation = self._progress.lock(cursor, place)
            if generation != self._generations[place] or max(done[place], 0) < self._reached[place]:
                raise ConnectError(
                    f"The offset of {place.topic}-{place.partition} was set while this task had it: it writes nothing"
                )
        self._reaching = {place: max(end, done[place]) for place, end in ends.items()}
        self._progress.write(cursor, {place: end for place, end in ends.items() if end > done[place]})
        return done

    def _try(self, cursor: Any, plan: Plan) -> DataError | None:
        """One row; if the database refuses it, the transaction goes on without it."""
        cursor.execute("SAVEPOINT one_row", ())
        try:
            cursor.execute(plan.shape.sql, plan.values)
        except (*self._dialect.misfits, *self._dialect.conflicts) as error:
            cursor.execute("ROLLBACK TO SAVEPOINT one_row", ())
            return DataError(f"The database refused the row: {self._dialect.message(error)}")
        return None

    def stop(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        """Nothing of an open transaction stays; the next put begins with a new connection."""
        connection, self._connection = getattr(self, "_connection", None), None
        self._known = {}
        if connection is not None:
            with contextlib.suppress(*self._dialect.errors):
                connection.rollback()  # which also ends statements that an exception's frames still hold
            with contextlib.suppress(*self._dialect.errors):
                connection.close()

    def _make_room(self, cursor: Any, row: Row) -> None:
        """The table and its columns are there, or are made if that is wished. A table to delete from may be missing."""
        known = self._known.get(row.table)
        if known is None:
            known = {each.name for each in self._dialect.columns(self._connection, row.table)}
            if not known and row.others is None:
                return
            if not known:
                if not self._config["auto.create"]:
                    raise DataError(f"There is no table {row.table!r}, and auto.create is false")
                cursor.execute(create_table(self._dialect, row), ())
                known = set(row.cells)
            if self._progress is not None and not self._dialect.has_transactions(self._connection, row.table):
                raise ConnectError(f"progress.table: the engine of the table {row.table!r} has no transactions")
            self._known[row.table] = known
        if row.others is None:
            return
        there = {self._dialect.told_apart(name) for name in known}
        missing = [name for name in row.cells if self._dialect.told_apart(name) not in there]
        if missing and not self._config["auto.evolve"]:
            raise DataError(f"The table {row.table!r} has no column {missing[0]!r}, and auto.evolve is false")
        for name in missing:
            schema = row.cells[name][0]
            if not schema.optional and schema.default is None:
                raise DataError(
                    f"The new column {name!r} of {row.table!r} would have to be optional, or have a default"
                )
        for name in missing:
            schema = row.cells[name][0]
            cursor.execute(add_column(self._dialect, row.table, name, schema), ())
            known.add(name)


def _place(record: SinkRecord) -> TopicPartition:
    return TopicPartition(record.original_topic, record.original_partition)


def _execute(cursor: Any, sql: str, rows: list[list[Any]]) -> None:
    if len(rows) == 1 or "%%" in sql:  # which older versions of PyMySQL leave as it is behind ON DUPLICATE KEY
        for values in rows:
            cursor.execute(sql, values)
    else:
        cursor.executemany(sql, rows)


class JdbcSinkConnector(SinkConnector):
    doc = "Records as rows of a database's tables: SQLite, PostgreSQL, MariaDB and MySQL."
    aliases = ("io.confluent.connect.jdbc.JdbcSinkConnector",)
    config_def: ClassVar[ConfigDef] = ConfigDef(
        *CONNECTION_KEYS,
        text("insert.mode", "insert", HIGH, "insert, upsert (by the primary key) or update.", OneOf("insert", "upsert", "update", ignore_case=True)),
        flag("delete.enabled", False, MEDIUM, "Whether a record without a value deletes the row of its key; needs pk.mode=record_key or record_header."),
        text("table.name.format", "${topic}", MEDIUM, "The table's name.", NonEmptyText()),
        text("pk.mode", "none", HIGH, "Where the primary key comes from: none, kafka (topic, partition, offset), record_key, record_value, record_header.", OneOf("none", "kafka", "record_key", "record_value", "record_header", ignore_case=True)),
        listing("pk.fields", [], MEDIUM, "The names of its columns; all fields, or headers, if there is no list."),
        listing("fields.whitelist", [], MEDIUM, "The fields of the value that become columns; all if there is no list."),
        text("progress.table", "", MEDIUM, "A table for the offsets, which is made: they change in one transaction with the rows, so that each record is written exactly once, whatever crashes. Empty: at least once."),
        flag("replace.null.with.default", True, MEDIUM, "Whether a null in a field of the value that has a default value becomes that."),
        text("string.output.value.column.name", "record_value", LOW, "The column of values that are texts (StringConverter).", NonEmptyText()),
        listing("timestamp.fields.list", [], MEDIUM, "Fields, int64 or texts, that count microseconds or nanoseconds since 1970, as Debezium's do: they are written as timestamps."),
        text("timestamp.precision.mode", "microseconds", MEDIUM, "Which of these they count.", OneOf("microseconds", "nanoseconds", ignore_case=True)),
        listing("table.types", ["TABLE"], LOW, "Which kinds of tables are written to: TABLE, PARTITIONED TABLE, VIEW. It need not be said: a view is written to if the database takes that.", EachOf("TABLE", "PARTITIONED TABLE", "VIEW")),
        flag("auto.create", False, MEDIUM, "Whether a missing table is made."),
        flag("auto.evolve", False, MEDIUM, "Whether missing columns are added."),
        whole("batch.size", 3000, MEDIUM, "Taken and not needed: what one poll of the consumer gives is one transaction.", AtLeast(0)),
        whole("connection.attempts", 3, LOW, "How often in a row a connection may fail before the task does (and is started again, by errors.restart).", AtLeast(1)),
        long("connection.backoff.ms", 10_000, LOW, "The pause (ms) between these attempts.", AtLeast(0)),
        whole("max.retries", 10, MEDIUM, "How often in a row a failed transaction is repeated before the task fails.", AtLeast(0)),
        whole("retry.backoff.ms", 3000, MEDIUM, "The pause before each.", AtLeast(0)),
    )  # fmt: skip
    task_class = JdbcSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.props)] * max_tasks

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The table of progress says the same as the group."""
        return self._change(props, lambda progress, connection: progress.alter(connection, offsets))

    def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
        """All that the table has: what the group never came to commit too."""
        del known
        return self._change(props, Progress.reset)

    def _change(self, props: Mapping[str, str], change: Callable[[Progress, Any], None]) -> bool:
        config = self.config_def.parse(props)
        if not config["progress.table"]:
            return False
        dialect = dialect_of(config)
        connection = dialect.connect()
        try:
            change(Progress(dialect, config["progress.table"], props["name"]), connection)
        except dialect.errors as error:
            raise ConnectError(f"The database said: {dialect.message(error)}") from None
        finally:
            connection.close()
        return True

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        refuse(props, found, _REFUSED)
        mode, keys = (str(found[name].value).lower() for name in ("insert.mode", "pk.mode"))
        if mode in ("upsert", "update") and keys == "none":
            found["pk.mode"].errors.append(f"insert.mode={mode} needs a primary key")
        if found["delete.enabled"].value is True and keys not in ("record_key", "record_header"):
            found["delete.enabled"].errors.append("Deletions need pk.mode=record_key or record_header")
        if keys == "kafka" and len(found["pk.fields"].value or []) not in (0, 3):
            found["pk.fields"].errors.append("pk.mode=kafka has three fields: topic, partition, offset")
        check_url(found)
