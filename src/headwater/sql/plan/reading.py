"""The first step of a query: a source's topic as rows with its pseudo columns, headers and key columns beside the value
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.sql import values
from headwater.sql.formats.internal import ROWS
from headwater.sql.formats.library import format_named, with_registry
from headwater.sql.formats.port import RowSerde
from headwater.sql.functions.java_dates import parse_moment
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.language.types import Base
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.relations import Errors, KeyColumn, Relation, RowColumn
from headwater.sql.plan.sources import PSEUDO, WINDOW_BOUNDS
from headwater.sql.plan.windowed import bare, bounds, windowed_serde
from headwater.sql.values import EvaluationError
from headwater.streams.model.processor import Processor
from headwater.streams.model.record import InputRecord, Record

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


THROW_ON_INVALID: Final = "ksql.timestamp.throw.on.invalid"
FAIL_ON_BYTES: Final = "ksql.fail.on.deserialization.error"


class NoKey:
    """The serde of sources without key columns: whatever the key is, nobody looks at it."""

    name = "no key"

    def serialize(self, value: Any) -> bytes | None:
        return None if not value else b""

    def deserialize(self, _data: bytes, /) -> None:
        return None


def key_serde(source: SourceInfo) -> Any:
    """The serde of keys: rows of the key columns, within windows if the source is windowed."""
    if not source.key_columns:
        return NoKey()
    plain = plain_key_serde(source)
    return windowed_serde(plain, source.window) if source.window else plain


def plain_key_serde(source: SourceInfo) -> RowSerde:
    """The serde of keys without their windows."""
    return format_named(source.key_format.name).serde(source.key_fields, source.key_format.options)


def value_serde(source: SourceInfo) -> RowSerde:
    return format_named(source.value_format.name).serde(source.value_fields, source.value_format.options)


def writes_null_alone(source: SourceInfo) -> bool:
    """Whether a row is one column without anything around it, so that its NULL is a record without a value."""
    if source.value_format.name == "KAFKA":
        return True
    return with_registry(source.value_format.name) is not None and not source.value_format.options.wrap_single


def asks_registry(source: SourceInfo) -> bool:
    """Whether its serdes may have to ask the schema registry, and so to wait."""
    return any(with_registry(each.name) is not None for each in (source.key_format, source.value_format))


def read_source(
    app: App,
    source: SourceInfo,
    alias: str,
    errors: Errors,
    reset: str | None = None,
    *,
    plain: bool = False,
    throws: bool = False,
) -> Relation:
    """`plain`: nobody asks for pseudo columns, so they are NULL; then records go through the query a run at a time.
    `throws`: see `timestamp_of`.
    """
    extract = timestamp_extractor(source, errors, throws=throws)
    key, value = key_serde(source), value_serde(source)
    start = reset if source.kind is SourceKind.STREAM else "earliest"
    node: Any = app.stream(source.topic, key=key, value=value, timestamp=extract, reset=start)
    if plain and not source.header_columns and source.window is None:
        node = node.map_values(_with_key(len(source.key_columns)), value=ROWS)
    else:
        node = node.process_values(lambda: _AddColumns(source), value=ROWS)
    if source.kind is SourceKind.TABLE:
        # Made of the stream and not of the topic, so that the table keeps each row with its ROWTIME, ROWPARTITION
        # and ROWOFFSET.
        node = node.to_table()
    return Relation(
        node,
        source.kind,
        tuple(KeyColumn(each.name, each.type, frozenset({(alias, each.name)})) for each in source.key_columns),
        tuple(row_columns(source, alias)),
        source.key_format,
        source.value_format,
        source.window,
        source.partitions,
        ((alias, source),),
    )


def row_columns(source: SourceInfo, alias: str) -> list[RowColumn]:
    """The row that a source gives: in the order in which `_AddColumns` puts it together."""
    columns = [RowColumn(alias, each.name, each.type) for each in source.value_columns]
    columns += [RowColumn(alias, each.name, each.type) for each in source.header_columns]
    columns += [RowColumn(alias, name, given, pseudo=True) for name, given in PSEUDO.items()]
    columns += [RowColumn(alias, each.name, each.type) for each in source.key_columns]
    if source.window:
        columns += [RowColumn(alias, name, given, pseudo=True) for name, given in WINDOW_BOUNDS.items()]
    return columns


def _with_key(key_width: int) -> Callable[[Any, Any], Any]:
    """As `_AddColumns`, of keys and values alone."""
    between = [None] * len(PSEUDO)
    no_key = [None] * (len(PSEUDO) + key_width)

    def row(key: list[Any] | None, value: list[Any] | None) -> list[Any] | None:
        if value is None:
            return None
        return value + no_key if key is None else value + between + key

    return row


class _AddColumns(Processor):
    """Puts pseudo columns and key columns into the row."""

    def __init__(self, source: SourceInfo) -> None:
        self._headers = headers_of(source)
        self._key_width = len(source.key_columns)
        self._windowed = source.window is not None

    def process(self, record: Record) -> None:
        if record.value is not None:
            record = record.with_value(self.row(record.key, record.value, record.timestamp, record.headers))
        self.forward(record)

    def row(self, key: Any, value: list[Any], timestamp: int, headers: Any) -> list[Any]:
        where = self.context.record_metadata
        place = (where.partition, where.offset) if where is not None else (None, None)
        plain = bare(key) if self._windowed else key
        row = [
            *value,
            *self._headers(headers),
            timestamp,
            *place,
            *(plain if plain is not None else [None] * self._key_width),
        ]
        return [*row, *bounds(key)] if self._windowed else row


def headers_of(source: SourceInfo) -> Callable[[Any], list[Any]]:
    """The values of its header columns, of the headers of a record."""
    wanted = [(each.role, each.header) for each in source.header_columns]
    return lambda headers: [_header(role, name, headers) for role, name in wanted]


def _header(role: Role, name: str | None, headers: Any) -> Any:
    if role is Role.HEADERS:
        return [{"KEY": key, "VALUE": value} for key, value in headers]
    return next((value for key, value in reversed(list(headers)) if key == name), None)


def is_set(settings: Mapping[str, str], name: str, *, default: bool = False, accepted: bool = False) -> bool:
    """Whether a property is 'true'. Raises SqlError. `accepted`: by an earlier version, perhaps, to which every value
    was the same.
    """
    given = settings.get(name, str(default)).strip().lower()
    if not accepted and given not in ("true", "false"):
        raise SqlError(f"{name} cannot be '{settings[name]}'.", hint="It is 'true' or 'false'.")
    return given == "true"


def timestamp_extractor(
    source: SourceInfo, errors: Errors, *, throws: bool = False
) -> Callable[[Record, InputRecord, int], int] | None:
    """The time of a record out of its TIMESTAMP column; a record without a usable one is left out, and told."""
    name = source.timestamp_column
    if name is None:
        return None
    time_of = timestamp_of(source, errors, throws=throws)
    keys = [each.name for each in source.key_columns]
    fields = [each.name for each in source.value_columns]

    def extract(record: Record, raw: InputRecord, _partition_time: int) -> int:
        holder, place = (bare(record.key), keys.index(name)) if name in keys else (record.value, fields.index(name))
        if holder is None:
            return raw.timestamp
        return time_of(holder[place], f"{raw.topic}-{raw.partition}@{raw.offset}")

    return extract


def timestamp_of(source: SourceInfo, errors: Errors, *, throws: bool = False) -> Callable[[Any, str], int]:
    """Milliseconds out of a value of the TIMESTAMP column; -1 is no time, and `errors` are told why. The second
    argument says which row it is. `throws`: NULL, and text that is no time, are an SqlError, which ends the query; a
    time before 1970 is left out all the same, as Kafka Streams does.
    """
    read, name = _read_timestamp(source), source.timestamp_column

    def time_of(value: Any, row: str) -> int:
        try:
            time = read(value)
            if time >= 0:
                return time
            why, ends = ("it is NULL", throws) if value is None else (f"{value} is before 1970", False)
        except (EvaluationError, OverflowError) as error:
            why, ends = str(error), throws
        done = "ends the query" if ends else "is left out"
        told = SqlError(f"{row} {done}: its TIMESTAMP column {name} says no time: {why}")
        errors.note("timestamp", told)
        if ends:
            raise told
        return -1

    return time_of


def _read_timestamp(source: SourceInfo) -> Callable[[Any], int]:
    column = next(each for each in source.columns if each.name == source.timestamp_column)
    if column.type.base is Base.TIMESTAMP:
        return lambda value: -1 if value is None else values.millis(value)
    if column.type.base is Base.BIGINT:
        return lambda value: -1 if value is None else int(value)
    pattern = source.timestamp_format or ""

    def parse(value: Any) -> int:
        if value is None:
            return -1
        moment = parse_moment(pattern, value)
        if moment.tzinfo is not None:
            offset = moment.utcoffset()
            moment = moment.replace(tzinfo=None)
            moment = moment - offset if offset else moment
        return values.millis(moment)

    return parse
