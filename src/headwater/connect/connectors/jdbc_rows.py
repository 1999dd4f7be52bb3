"""What a record is in a table: which one, its key, its other columns; and the statement that writes it. No connection
here.

Records of the same schemas have the same statement, and their values in the same places: `RowPlanner` works that out
once for each such shape.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.jdbc_dialects import MICROSECONDS, Dialect
from headwater.connect.data import schema as s
from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_KAFKA_FIELDS: Final = ("__connect_topic", "__connect_partition", "__connect_offset")

_MICROSECONDS: Final = s.TIMESTAMP_SCHEMA.changed(parameters=MICROSECONDS)

Cell = tuple[Schema, Any]


class Row(NamedTuple):
    table: str
    keys: dict[str, Cell]
    others: dict[str, Cell] | None  # None: the row is to be deleted
    fields: tuple[str, ...] = ()  # of the value, in whose order a table is made

    @property
    def cells(self) -> dict[str, Cell]:
        return {**self.keys, **(self.others or {})}


class Statement(NamedTuple):
    sql: str
    values: list[Any]


def row_of(config: Mapping[str, Any], record: SinkRecord) -> Row:
    """Raises DataError for a record that cannot be a row."""
    table = config["table.name.format"].replace("${topic}", record.topic)
    if record.value is None and not config["delete.enabled"]:
        raise DataError("A record without a value: delete.enabled=true makes a deletion of it")
    keys = _timed(config, _keys(config["pk.mode"], config["pk.fields"], record))
    if record.value is None:
        return Row(table, keys, None)
    if isinstance(record.value, str) and record.value_schema is not None:
        return Row(table, keys, _text(config, keys, record.value))
    if not isinstance(record.value, Struct):
        raise DataError("JdbcSink needs values with a schema that are structs (JSON with schemas, or Avro), or texts")
    wanted = set(config["fields.whitelist"])
    value_of = record.value.get if config["replace.null.with.default"] else record.value.get_without_default
    others = {
        field.name: (field.schema, value_of(field.name))
        for field in record.value.schema.fields
        if field.name not in keys and (not wanted or field.name in wanted)
    }
    return Row(table, keys, _timed(config, others), tuple(field.name for field in record.value.schema.fields))


def _timed(config: Mapping[str, Any], cells: dict[str, Cell]) -> dict[str, Cell]:
    """With the fields of timestamp.fields.list as timestamps."""
    named = cells.keys() & set(config["timestamp.fields.list"])
    if not named:
        return cells
    moment = _moment_maker(config)
    made = dict(cells)
    for name in named:
        schema, value = cells[name]
        if schema.type not in (Type.INT64, Type.STRING) or schema.name in s.LOGICAL_NAMES:
            raise DataError(f"timestamp.fields.list: {name!r} is neither an int64 nor a text")
        made[name] = _MICROSECONDS.changed(optional=schema.optional, default=moment(schema.default)), moment(value)
    return made


def _moment_maker(config: Mapping[str, Any]) -> Callable[[Any], datetime | None]:
    """Of what counts microseconds or nanoseconds since 1970."""
    per_microsecond = 1 if config["timestamp.precision.mode"].lower() == "microseconds" else 1000

    def moment(value: Any) -> datetime | None:
        try:
            return None if value is None else millis_to_timestamp(0) + timedelta(microseconds=int(value) // per_microsecond)  # fmt: skip
        except (ValueError, OverflowError):
            raise DataError(f"timestamp.fields.list: {value!r} is no time since 1970") from None

    return moment


def _text(config: Mapping[str, Any], keys: Mapping[str, Cell], value: str) -> dict[str, Cell]:
    """The one column of a value that is a text."""
    name = config["string.output.value.column.name"]
    if config["pk.mode"] == "record_value":
        raise DataError("pk.mode=record_value: a value that is a text has no fields")
    if config["fields.whitelist"]:
        raise DataError("fields.whitelist: a value that is a text has no fields")
    if name in keys:
        raise DataError(f"string.output.value.column.name: {name!r} is a column of the key")
    return {name: (s.OPTIONAL_STRING, value)}


def _keys(mode: str, names: Sequence[str], record: SinkRecord) -> dict[str, Cell]:
    if mode == "none":
        return {}
    if mode == "kafka":
        cells: list[Cell] = [
            (s.STRING, record.topic),
            (s.INT32, record.original_partition),
            (s.INT64, record.offset),
        ]
        return dict(zip(names or _KAFKA_FIELDS, cells, strict=True))
    if mode == "record_header":
        return _header_keys(names, record)
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


def _header_keys(names: Sequence[str], record: SinkRecord) -> dict[str, Cell]:
    found = {each.key: (each.schema, each.value) for each in record.headers}  # of several with one name, the last
    made: dict[str, Cell] = {}
    for name in names or found:
        schema, value = found.get(name, (None, None))
        if schema is None or value is None:
            raise DataError(f"pk.mode=record_header: the record has no header {name!r} with a schema and a value")
        made[name] = schema, value
    if not made:
        raise DataError("pk.mode=record_header: the record has no headers")
    return made


def statement_of(dialect: Dialect, mode: str, row: Row) -> Statement:
    """`mode` is the sink's insert.mode. Raises DataError for a value that no column can have."""
    values = [dialect.cell_parameter(row.table, name, *cell) for name, cell in row.cells.items()]
    keys, others = list(row.keys), list(row.others or {})
    where = " AND ".join(f"{dialect.quote_column(each)} = {dialect.placeholder}" for each in keys)
    if row.others is None:
        return Statement(f"DELETE FROM {dialect.quote(row.table)} WHERE {where}", values)
    if mode == "upsert":
        return Statement(dialect.upsert(row.table, keys, others), values)
    if mode == "insert":
        return Statement(dialect.insert(row.table, [*keys, *others]), values)
    if not others:
        raise DataError("insert.mode=update: the record has no field beside the key")
    changes = ", ".join(f"{dialect.quote_column(each)} = {dialect.placeholder}" for each in others)
    sql = f"UPDATE {dialect.quote(row.table)} SET {changes} WHERE {where}"
    return Statement(sql, values[len(keys) :] + values[: len(keys)])


class Shape(NamedTuple):
    """What records have in common. `row` is that of the first: its names and schemas count, its values do not."""

    row: Row
    sql: str


class Plan(NamedTuple):
    shape: Shape
    values: list[Any]  # of the statement


_SHAPES_MAX: Final = 100
_Read = Callable[[SinkRecord], list[Any]]


class RowPlanner:
    """Of one task. Schemas are told apart by identity, as converters keep them: others are worked out anew."""

    def __init__(self, dialect: Dialect, config: Mapping[str, Any]) -> None:
        self._dialect, self._config = dialect, config
        self._keys_in: str = config["pk.mode"]
        self._known: dict[tuple[str, int, int], tuple[Shape, _Read, Any]] = {}

    def plan(self, record: SinkRecord) -> Plan:
        """Raises DataError for a record that cannot be a row."""
        key = self._shape_key(record)
        if key is None:
            return self._plan(record)
        found = self._known.get(key)
        if found is None:
            made = self._plan(record)
            if len(self._known) >= _SHAPES_MAX:
                self._known.clear()
            kept = (record.key, record.value)  # as long as their schemas are there, no others have their identity
            self._known[key] = made.shape, self._reader(made.shape.row, record), kept
            return made
        shape, read, _ = found
        return Plan(shape, read(record))

    def _plan(self, record: SinkRecord) -> Plan:
        row = row_of(self._config, record)
        statement = statement_of(self._dialect, self._config["insert.mode"], row)
        return Plan(Shape(row, statement.sql), statement.values)

    def _shape_key(self, record: SinkRecord) -> tuple[str, int, int] | None:
        """None: this one is looked at by itself."""
        if type(record.value) is not Struct or record.value_schema is None or self._keys_in == "record_header":
            return None
        if self._keys_in != "record_key":
            return record.topic, id(record.value.schema), 0
        if type(record.key) is not Struct or record.key_schema is None:
            return None
        return record.topic, id(record.value.schema), id(record.key.schema)

    def _reader(self, row: Row, record: SinkRecord) -> _Read:
        """The values of other records of the shape, in the order of the statement's placeholders."""
        keys_in = self._keys_in
        keys = [] if keys_in == "kafka" else _places(record.key if keys_in == "record_key" else record.value, row.keys)
        others = _places(record.value, row.others or {}, self._config["replace.null.with.default"])
        cells = [(name, schema) for name, (schema, _) in row.cells.items()]
        count, table = len(row.keys), row.table
        timed = [at for at, (_, schema) in enumerate(cells) if schema.parameters == _MICROSECONDS.parameters]
        moment = _moment_maker(self._config)
        rotated = self._config["insert.mode"] == "update"
        bind = None if self._dialect.binds_as_is else self._dialect.cell_parameter

        def read(record: SinkRecord) -> list[Any]:
            if keys_in == "kafka":
                values = [record.topic, record.original_partition, record.offset]
            else:
                values = _values(record.key if keys_in == "record_key" else record.value, keys)
            values += _values(record.value, others)
            for at in timed:
                values[at] = moment(values[at])
            if bind is not None:
                values = [bind(table, *cell, value) for cell, value in zip(cells, values, strict=True)]
            return values[count:] + values[:count] if rotated else values

        return read


def _places(struct: Struct, names: Mapping[str, Cell], defaults: bool = True) -> list[tuple[int, Any]]:
    """Of fields, with their defaults if these count."""
    found = [field for name in names if (field := struct.schema.field(name)) is not None]
    return [(field.position, field.schema.default if defaults else None) for field in found]


def _values(struct: Struct, places: list[tuple[int, Any]]) -> list[Any]:
    found = struct.values_without_defaults()
    return [default if (value := found[at]) is None else value for at, default in places]


def create_table(dialect: Dialect, row: Row) -> str:
    """Columns are in the order of the value's fields; others stand before them (pk.mode=kafka) or behind."""
    cells = row.cells
    first = [each for each in _KAFKA_FIELDS if each in cells]
    fields = [each for each in row.fields if each in cells and each not in first]
    lines = [
        f"{dialect.quote_column(name)} {_column(dialect, cells[name][0], key=name in row.keys)}"
        for name in (*first, *fields, *sorted(cells.keys() - {*first, *fields}))
    ]
    if row.keys:
        lines.append(f"PRIMARY KEY ({', '.join(dialect.quote_column(each) for each in row.keys)})")
    return f"CREATE TABLE {dialect.quote(row.table)} ({', '.join(lines)})"


def add_column(dialect: Dialect, table: str, name: str, schema: Schema) -> str:
    return f"ALTER TABLE {dialect.quote(table)} ADD COLUMN {dialect.quote_column(name)} {_column(dialect, schema)}"


def _column(dialect: Dialect, schema: Schema, *, key: bool = False) -> str:
    """Its type, and the default that the schema has, which rows of others get too; else whether it may be null. One
    whose default the database cannot have may, so that it can be added to rows that are there.
    """
    kind = dialect.key_type(schema) if key else dialect.column_type(schema)
    default = None if schema.default is None else dialect.default_value(schema, kind)
    if key or (not schema.optional and schema.default is None):
        kind += " NOT NULL"
    return kind if default is None else f"{kind} DEFAULT {default}"
