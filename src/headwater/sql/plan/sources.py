"""CREATE STREAM and CREATE TABLE: what a statement defines, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headwater.base.names import topic_name_problem
from headwater.sql.formats.library import format_named
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError, placed_at
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.language.types import Base
from headwater.sql.plan import properties as clauses
from headwater.sql.plan.catalog import Column, RowFormat, SourceInfo

PSEUDO: Final[dict[str, types.Type]] = {
    "ROWTIME": types.BIGINT,
    "ROWPARTITION": types.INTEGER,
    "ROWOFFSET": types.BIGINT,
}
WINDOW_BOUNDS: Final[dict[str, types.Type]] = {"WINDOWSTART": types.BIGINT, "WINDOWEND": types.BIGINT}
RESERVED: Final = frozenset([*PSEUDO, *WINDOW_BOUNDS])
HEADERS_TYPE: Final = types.array(types.struct(("KEY", types.STRING), ("VALUE", types.BYTES)))


def source_of(
    statement: tree.CreateSource,
    default_key: str | None = None,
    default_value: str | None = None,
    *,
    wraps: bool = True,
) -> SourceInfo:
    """The stream or table that a CREATE statement defines. The defaults are those of the properties
    `ksql.persistence.default.format.key` and `.value`."""
    given = clauses.read(statement.properties, sink=False)
    columns = tuple(Column(each.name, each.type, each.role, each.header) for each in statement.columns)
    _check_columns(statement, columns)
    if given.window is not None and not any(each.is_key for each in columns):
        raise SqlError("Windowed sources require a key column.", position=statement.position)
    if given.wrap_single is not None and sum(each.role is Role.VALUE for each in columns) != 1:
        raise SqlError(
            "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
            position=given.place("WRAP_SINGLE_VALUE"),
        )
    if given.topic is None:
        raise SqlError(
            'Missing required property "KAFKA_TOPIC" which has no default value.', position=statement.position
        )
    with placed_at(given.place("KAFKA_TOPIC")):
        check_topic(given.topic)
    key_default = RowFormat(default_key or clauses.DEFAULT_KEY_FORMAT)
    source = SourceInfo(
        statement.name,
        statement.kind,
        given.topic,
        columns,
        given.key(key_default),
        given.value(
            RowFormat(default_value) if default_value else None,
            wraps=wraps or sum(each.role is Role.VALUE for each in columns) != 1,
        ),
        given.window,
        given.timestamp,
        given.timestamp_format,
        given.partitions or 1,
        given.replicas or 1,
        statement.read_only,
        statement.text,
    )
    check_formats(source)
    with placed_at(given.place("TIMESTAMP", "TIMESTAMP_FORMAT")):
        check_timestamp(source)
    return source


def check_topic(name: str) -> None:
    """Raises SqlError for what cannot be the name of a topic."""
    problem = topic_name_problem(name)
    if problem is not None:
        raise SqlError(
            f"'{name}' cannot be the name of a topic.",
            why=problem,
            hint="Name another with KAFKA_TOPIC in the WITH clause.",
        )


_OF_CONNECT: Final = ("connect-configs", "connect-offsets", "connect-status", "connect-statuses")


def is_internal(topic: str) -> bool:
    """What brokers, registries and SQL servers keep for themselves."""
    return topic.startswith(("__", "_confluent-ksql-")) or topic == "_schemas"


def is_hidden(topic: str) -> bool:
    """What SHOW TOPICS does not list, without ALL: what is internal, also to Connect and to others' products."""
    return is_internal(topic) or topic.startswith("_confluent") or topic in _OF_CONNECT


def check_writable(topic: str) -> None:
    """What is internal is read, never written or deleted."""
    if is_internal(topic):
        raise SqlError(f"The topic {topic} is internal: it can be read, not written or deleted.")


def check_formats(source: SourceInfo) -> None:
    if source.key_format.name == "NONE" and source.key_columns:
        raise SqlError(_not_none(source.key_columns))
    for column in source.key_columns:
        if _has_map(column.type):
            raise SqlError(
                f"Map keys, including types that contain maps, are not supported as they may lead to unexpected behavior "
                f"due to inconsistent serialization. Key column name: {types.quoted(column.name)}. Column type: {column.type}."
            )
    if source.key_columns:
        format_named(source.key_format.name).check(source.key_fields)
    if source.value_format.name == "NONE" and source.value_columns:
        raise SqlError(_not_none(source.value_columns))
    if source.value_columns or source.value_format.name != "NONE":
        format_named(source.value_format.name).check(source.value_fields)
    if (
        not source.value_format.options.wrap_single
        and len(source.value_columns) != 1
        and source.value_format.name not in ("KAFKA", "DELIMITED", "NONE")
    ):
        raise SqlError("'WRAP_SINGLE_VALUE' is only valid for single-field value schemas.")


def _not_none(columns: list[Column]) -> str:
    shown = ", ".join(map(str, columns))
    return f"The 'NONE' format can only be used when no columns are defined. Got: [{shown}]"


def _has_map(given: types.Type) -> bool:
    if isinstance(given, types.ArrayType):
        return _has_map(given.item)
    if isinstance(given, types.StructType):
        return any(_has_map(each) for _, each in given.fields)
    return given.base is Base.MAP


def check_timestamp(source: SourceInfo) -> None:
    """TIMESTAMP names a column that has a time."""
    name = source.timestamp_column
    if name is None:
        if source.timestamp_format is not None:
            raise SqlError("TIMESTAMP_FORMAT needs TIMESTAMP, the column that it is for.")
        return
    column = next((each for each in source.columns if each.name == name), None)
    if column is None:
        raise SqlError(f"The TIMESTAMP column set in the WITH clause does not exist in the schema: '{name}'")
    if column.type.base is Base.STRING:
        if source.timestamp_format is None:
            raise SqlError(
                f"A String timestamp field has been specified without also specifying the TIMESTAMP_FORMAT: '{name}'"
            )
    elif column.type.base not in (Base.BIGINT, Base.TIMESTAMP):
        raise SqlError(
            f"Timestamp column, '{name}', should be LONG(INT64), TIMESTAMP, or a String with a TIMESTAMP_FORMAT specified."
        )
    elif source.timestamp_format is not None:
        raise SqlError(f"TIMESTAMP_FORMAT is set, but the column '{name}' is no text.")


def _check_columns(statement: tree.CreateSource, columns: Sequence[Column]) -> None:
    if not columns:
        raise SqlError(
            "The statement does not define any columns.",
            hint="Name the columns: (id INT KEY, name STRING). Formats with a schema registry take them from there.",
            position=statement.position,
        )
    seen: set[str] = set()
    for each, definition in zip(columns, statement.columns, strict=True):
        if each.name in RESERVED:
            raise SqlError(
                f"'{each.name}' is a reserved column name. You cannot use it as a name for a column.",
                position=definition.position,
            )
        if each.name in seen:
            raise SqlError(f"Duplicate column names: {each.name}", position=definition.position)
        seen.add(each.name)
        _check_role(statement.kind, each, definition)
    if statement.kind is SourceKind.TABLE and not any(each.is_key for each in columns):
        raise SqlError(
            "Tables require a PRIMARY KEY. Please define the PRIMARY KEY.",
            hint="For example: (id INT PRIMARY KEY, ...).",
        )


def _check_role(kind: SourceKind, column: Column, definition: tree.ColumnDefinition) -> None:
    shown = types.quoted(column.name)
    if kind is SourceKind.STREAM and column.role is Role.PRIMARY_KEY:
        raise SqlError(
            f"Column {shown} is a 'PRIMARY KEY' column: please use 'KEY' for streams.",
            why="Tables have PRIMARY KEYs, which are unique and NON NULL. Streams have KEYs, which have no uniqueness "
            "or NON NULL constraints",
            position=definition.position,
        )
    if kind is SourceKind.TABLE and column.role is Role.KEY:
        raise SqlError(
            f"Column {shown} is a 'KEY' column: please use 'PRIMARY KEY' for tables.",
            why="Tables have PRIMARY KEYs, which are unique and NON NULL. Streams have KEYs, which have no uniqueness "
            "or NON NULL constraints",
            position=definition.position,
        )
    if column.role is Role.HEADERS and column.type != HEADERS_TYPE:
        raise SqlError(
            f"Invalid type for HEADERS column: expected ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>>, got {column.type}",
            position=definition.position,
        )
    if column.role is Role.HEADER and column.type != types.BYTES:
        raise SqlError(
            f"Invalid type for HEADER('{column.header}') column: expected BYTES, got {column.type}",
            position=definition.position,
        )
