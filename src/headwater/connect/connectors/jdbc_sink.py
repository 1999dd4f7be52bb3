"""JdbcSink: records as rows: inserted, upserted, updated, and deleted on tombstones; tables made and widened if wished.

Each `put` is one transaction. With `progress.table` it holds the offsets too: exactly once. Without: at least once, and
with `insert.mode=upsert` and keys a repeated record changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.base.ids import TopicPartition
from headwater.connect.api import SinkConnector, SinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, MEDIUM, NonEmptyText, flag, listing, text, whole
from headwater.connect.connectors.jdbc_dialects import dialect_of
from headwater.connect.connectors.jdbc_progress import Progress
from headwater.connect.connectors.jdbc_source import CONNECTION_KEYS, check_url, refuse
from headwater.connect.data import schema as s
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, DataError, RetriableError

_KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")
_REFUSED: Final = ("dialect.name", "table.types", "quote.sql.identifiers", "db.timezone", "mssql.use.merge.holdlock")

Cell = tuple[Schema, Any]


class JdbcSinkTask(SinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = JdbcSinkConnector.config_def.parse(props)
        self._dialect = dialect_of(config)
        self._connection: Any = None
        self._known: dict[str, set[str]] = {}  # columns by table, as far as they were looked at
        self._failures = 0
        table = config["progress.table"]
        self._progress = Progress(self._dialect, table, props["name"]) if table else None

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
            raise RetriableError(f"The database said: {error}") from None
        if found:
            self.context.offset(found)

    def _new(self, cursor: Any, records: Sequence[SinkRecord]) -> Sequence[SinkRecord]:
        """Those that no transaction has written yet; says in this one how far it goes."""
        if self._progress is None:
            return records
        ends: dict[TopicPartition, int] = {}
        for record in records:
            place = TopicPartition(record.original_topic, record.original_partition)
            ends[place] = max(ends.get(place, 0), record.offset + 1)
        done = {place: self._progress.lock(cursor, place) for place in sorted(ends)}
        self._progress.write(cursor, {place: end for place, end in ends.items() if end > done[place]})
        return [
            each
            for each in records
            if each.offset >= done[TopicPartition(each.original_topic, each.original_partition)]
        ]

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        try:
            if self._connection is None:
                self._connection = self._dialect.connect()
            cursor = self._connection.cursor()
            for record in self._new(cursor, records):
                self._write(cursor, record)
            cursor.close()
            self._connection.commit()
            self._failures = 0
        except self._dialect.errors as error:
            self._give_up()
            self._failures += 1
            if self._failures > self._config["max.retries"]:
                raise ConnectError(f"The database said: {error}") from None
            self.context.timeout(self._config["retry.backoff.ms"])
            raise RetriableError(f"The database said: {error}") from None
        except ConnectError:
            self._give_up()
            raise

    def stop(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        """Nothing of an open transaction stays; the next put begins with a new connection."""
        connection, self._connection = getattr(self, "_connection", None), None
        self._known = {}
        if connection is not None:
            connection.close()

    def _write(self, cursor: Any, record: SinkRecord) -> None:
        table = self._config["table.name.format"].replace("${topic}", record.topic)
        keys = self._keys(record)
        if record.value is None:
            self._delete(cursor, table, keys)
            return
        if not isinstance(record.value, Struct):
            raise DataError("JdbcSink needs values with a schema that are structs: JSON with schemas, or Avro")
        wanted = set(self._config["fields.whitelist"])
        others = {
            field.name: (field.schema, record.value.get(field.name))
            for field in record.value.schema.fields
            if field.name not in keys and (not wanted or field.name in wanted)
        }
        self._prepare(cursor, table, keys, others)
        mode = self._config["insert.mode"]
        dialect, mark = self._dialect, self._dialect.placeholder
        cells = {**keys, **others}
        values = [dialect.to_parameter(schema, value) for schema, value in cells.values()]
        if mode == "upsert":
            cursor.execute(dialect.upsert(table, list(keys), list(others)), values)
        elif mode == "insert":
            names = ", ".join(dialect.quote_column(each) for each in cells)
            marks = ", ".join([mark] * len(cells))
            cursor.execute(f"INSERT INTO {dialect.quote(table)} ({names}) VALUES ({marks})", values)
        else:
            changes = ", ".join(f"{dialect.quote_column(each)} = {mark}" for each in others)
            sql = f"UPDATE {dialect.quote(table)} SET {changes} WHERE {self._where(keys)}"
            cursor.execute(sql, values[len(keys) :] + values[: len(keys)])

    def _delete(self, cursor: Any, table: str, keys: dict[str, Cell]) -> None:
        if not self._config["delete.enabled"]:
            raise DataError("A record without a value: delete.enabled=true makes a deletion of it")
        if not self._dialect.columns(self._connection, table):
            return  # there is nothing to delete from
        values = [self._dialect.to_parameter(schema, value) for schema, value in keys.values()]
        cursor.execute(f"DELETE FROM {self._dialect.quote(table)} WHERE {self._where(keys)}", values)

    def _where(self, keys: Mapping[str, Cell]) -> str:
        return " AND ".join(f"{self._dialect.quote_column(each)} = {self._dialect.placeholder}" for each in keys)

    def _keys(self, record: SinkRecord) -> dict[str, Cell]:
        mode, names = self._config["pk.mode"], self._config["pk.fields"]
        if mode == "none":
            return {}
        if mode == "kafka":
            cells: list[Cell] = [
                (s.STRING, record.original_topic),
                (s.INT32, record.original_partition),
                (s.INT64, record.offset),
            ]
            return dict(zip(names or _KAFKA_FIELDS, cells, strict=True))
        schema, value = (record.key_schema, record.key) if mode == "record_key" else (record.value_schema, record.value)
        if schema is None or value is None:
            raise DataError(f"pk.mode={mode}: the record has no {mode.removeprefix('record_')} with a schema")
        if isinstance(value, Struct):
            chosen = names or [field.name for field in value.schema.fields]
            found = {name: value.schema.field(name) for name in chosen}
            missing = [name for name, field in found.items() if field is None]
            if missing:
                raise DataError(f"pk.fields: there is no field {missing[0]!r}")
            return {name: (field.schema, value.get(name)) for name, field in found.items() if field is not None}
        if schema.type in (Type.MAP, Type.ARRAY) or len(names) != 1:
            raise DataError("A key that is not a struct needs exactly one name in pk.fields")
        return {names[0]: (schema, value)}

    def _prepare(self, cursor: Any, table: str, keys: dict[str, Cell], others: dict[str, Cell]) -> None:
        """The table and its columns are there, or are made if that is wished."""
        cells = {**keys, **others}
        known = self._known.get(table)
        if known is None:
            known = {each.name for each in self._dialect.columns(self._connection, table)}
            if not known:
                if not self._config["auto.create"]:
                    raise ConnectError(f"There is no table {table!r}, and auto.create is false")
                self._create(cursor, table, keys, others)
                known = set(cells)
            self._known[table] = known
        missing = [name for name in cells if name not in known]
        if missing and not self._config["auto.evolve"]:
            raise ConnectError(f"The table {table!r} has no column {missing[0]!r}, and auto.evolve is false")
        for name in missing:
            schema = cells[name][0]
            if not schema.optional and schema.default is None:
                raise ConnectError(f"The new column {name!r} of {table!r} would have to be optional, or have a default")
            kind = self._dialect.column_type(_checked(schema))
            cursor.execute(
                f"ALTER TABLE {self._dialect.quote(table)} ADD COLUMN {self._dialect.quote_column(name)} {kind}"
            )
            known.add(name)

    def _create(self, cursor: Any, table: str, keys: dict[str, Cell], others: dict[str, Cell]) -> None:
        rows = []
        for name, (schema, _) in {**keys, **others}.items():
            required = "" if schema.optional and name not in keys else " NOT NULL"
            rows.append(f"{self._dialect.quote_column(name)} {self._dialect.column_type(_checked(schema))}{required}")
        if keys:
            rows.append(f"PRIMARY KEY ({', '.join(self._dialect.quote_column(each) for each in keys)})")
        cursor.execute(f"CREATE TABLE {self._dialect.quote(table)} ({', '.join(rows)})")


def _checked(schema: Schema) -> Schema:
    if schema.type in (Type.ARRAY, Type.MAP, Type.STRUCT):
        raise DataError(f"A {schema.type} has no column type; Flatten, or ReplaceField, may help")
    return schema


class JdbcSinkConnector(SinkConnector):
    doc = "Records as rows of a database's tables: SQLite and PostgreSQL."
    aliases = ("io.confluent.connect.jdbc.JdbcSinkConnector",)
    config_def: ClassVar[ConfigDef] = ConfigDef(
        *CONNECTION_KEYS,
        text("insert.mode", "insert", HIGH, "insert, upsert (by the primary key) or update.", OneOf("insert", "upsert", "update")),
        flag("delete.enabled", False, MEDIUM, "Whether a record without a value deletes the row of its key; needs pk.mode=record_key."),
        text("table.name.format", "${topic}", MEDIUM, "The table's name.", NonEmptyText()),
        text("pk.mode", "none", HIGH, "Where the primary key comes from: none, kafka (topic, partition, offset), record_key, record_value.", OneOf("none", "kafka", "record_key", "record_value")),
        listing("pk.fields", [], MEDIUM, "The names of its columns; all fields if there is no list."),
        listing("fields.whitelist", [], MEDIUM, "The fields of the value that become columns; all if there is no list."),
        text("progress.table", "", MEDIUM, "A table for the offsets, which is made: they change in one transaction with the rows, so that each record is written exactly once, whatever crashes. Empty: at least once."),
        flag("auto.create", False, MEDIUM, "Whether a missing table is made."),
        flag("auto.evolve", False, MEDIUM, "Whether missing columns are added."),
        whole("batch.size", 3000, MEDIUM, "Taken and not needed: what one poll of the consumer gives is one transaction.", AtLeast(0)),
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
            raise ConnectError(f"The database said: {error}") from None
        finally:
            connection.close()
        return True

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        refuse(props, found, _REFUSED)
        mode, keys = found["insert.mode"].value, found["pk.mode"].value
        if mode in ("upsert", "update") and keys == "none":
            found["pk.mode"].errors.append(f"insert.mode={mode} needs a primary key")
        if found["delete.enabled"].value is True and keys != "record_key":
            found["delete.enabled"].errors.append("Deletions need pk.mode=record_key")
        if keys == "kafka" and len(found["pk.fields"].value or []) not in (0, 3):
            found["pk.fields"].errors.append("pk.mode=kafka has three fields: topic, partition, offset")
        check_url(found)
