"""The WITH clauses: which properties there are, what their values may be, and what is taken where none is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headwater.sql.formats.delimited import delimiter
from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import FormatOptions
from headwater.sql.language.errors import Position, SqlError, did_you_mean, placed_at
from headwater.sql.language.token_reader import UNITS_MS
from headwater.sql.language.tree import Properties, WindowKind
from headwater.sql.plan.catalog import RowFormat, SourceWindow

_BOTH: Final = (
    "KAFKA_TOPIC",
    "FORMAT",
    "KEY_FORMAT",
    "VALUE_FORMAT",
    "KEY_DELIMITER",
    "VALUE_DELIMITER",
    "PARTITIONS",
    "REPLICAS",
    "RETENTION_MS",
    "CLEANUP_POLICY",
    "TIMESTAMP",
    "TIMESTAMP_FORMAT",
    "WRAP_SINGLE_VALUE",
    "KEY_SCHEMA_ID",
    "VALUE_SCHEMA_ID",
    "KEY_SCHEMA_FULL_NAME",
    "VALUE_SCHEMA_FULL_NAME",
    "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_PROTOBUF_NULLABLE_REPRESENTATION",
    "VALUE_AVRO_SCHEMA_FULL_NAME",
)
_SOURCE_ONLY: Final = ("WINDOW_TYPE", "WINDOW_SIZE", "SOURCED_BY_CONNECTOR", "KEY")
DEFAULT_KEY_FORMAT: Final = "KAFKA"


@dataclass(frozen=True, slots=True)
class Schema:
    """What a clause says about the schema of keys or values."""

    id: int | None = None
    full_name: str | None = None
    nullable: str | None = None  # OPTIONAL or WRAPPER


@dataclass(frozen=True, slots=True)
class With:
    """A WITH clause, checked. What was not given is None."""

    topic: str | None
    key_format: str | None
    value_format: str | None
    key_delimiter: str | None
    value_delimiter: str | None
    partitions: int | None
    replicas: int | None
    timestamp: str | None
    timestamp_format: str | None
    wrap_single: bool | None
    window: SourceWindow | None
    key_schema: Schema
    value_schema: Schema
    retention_ms: int | None
    cleanup_policy: str | None
    clause: Properties

    def place(self, *names: str) -> Position | None:
        """Where the first of these properties stands that was given."""
        return self.clause.place(*names)

    def key(self, default: RowFormat) -> RowFormat:
        options = FormatOptions(
            False,
            self.key_delimiter or default.options.delimiter,
            schema_id=self.key_schema.id,
            full_name=self.key_schema.full_name,
            nullable=self.key_schema.nullable,
        )
        return RowFormat(self.key_format or default.name, options)

    def value(self, default: RowFormat | None, *, wraps: bool = True) -> RowFormat:
        """`wraps`: what ksql.persistence.wrap.single.values says, where the clause says nothing."""
        name = self.value_format or (default.name if default else None)
        if name is None:
            raise SqlError(
                "Statement is missing the 'VALUE_FORMAT' property from the WITH clause.",
                hint="WITH (VALUE_FORMAT='JSON').",
            )
        inherited = default.options.delimiter if default else ","
        wrap_place = self.place("WRAP_SINGLE_VALUE")
        if self.wrap_single and name in ("DELIMITED", "KAFKA", "NONE"):
            raise SqlError(f"Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to 'true'.", position=wrap_place)
        if self.wrap_single is False and name in ("PROTOBUF", "PROTOBUF_NOSR"):
            raise SqlError(f"Format '{name}' does not support 'WRAP_SINGLE_VALUE' set to 'false'.", position=wrap_place)
        always = name in ("PROTOBUF", "PROTOBUF_NOSR")
        wrap = (
            (always or (wraps and name not in ("KAFKA", "DELIMITED"))) if self.wrap_single is None else self.wrap_single
        )
        schema = self.value_schema
        options = FormatOptions(
            wrap,
            self.value_delimiter or inherited,
            schema_id=schema.id,
            full_name=schema.full_name,
            nullable=schema.nullable,
        )
        return RowFormat(name, options)


def read(properties: Properties, *, sink: bool) -> With:
    """The clause of CREATE (source) or of CREATE ... AS (sink)."""
    known = [*_BOTH, *(() if sink else _SOURCE_ONLY)]
    for name in properties:
        if name not in known:
            raise SqlError(
                f"Invalid config variable(s) in the WITH clause: {name}",
                hint=did_you_mean(name, known),
                position=properties.place(name),
            )
        if name == "KEY":
            raise SqlError(
                "Invalid config variable in the WITH clause: KEY",
                hint="Mark the column itself: (id INT KEY, ...) or PRIMARY KEY for tables.",
                position=properties.place(name),
            )
    both = _text(properties, "FORMAT")
    key_format, value_format = _text(properties, "KEY_FORMAT"), _text(properties, "VALUE_FORMAT")
    if both and (key_format or value_format):
        other = "KEY_FORMAT" if key_format else "VALUE_FORMAT"
        raise SqlError(
            f"Cannot supply both '{other}' and 'FORMAT' properties, as 'FORMAT' sets both key and value formats.",
            position=properties.place(other),
        )
    for name, given in (("FORMAT", both), ("KEY_FORMAT", key_format), ("VALUE_FORMAT", value_format)):
        if given:
            with placed_at(properties.place(name)):
                format_named(given)
    return With(
        topic=_text(properties, "KAFKA_TOPIC"),
        key_format=_upper(both or key_format),
        value_format=_upper(both or value_format),
        key_delimiter=_delimiter(properties, "KEY_DELIMITER", _upper(both or key_format)),
        value_delimiter=_delimiter(properties, "VALUE_DELIMITER", _upper(both or value_format)),
        partitions=_count(properties, "PARTITIONS"),
        replicas=_count(properties, "REPLICAS"),
        timestamp=_name(_text(properties, "TIMESTAMP")),
        timestamp_format=_text(properties, "TIMESTAMP_FORMAT"),
        wrap_single=_boolean(properties, "WRAP_SINGLE_VALUE"),
        window=None if sink else _window(properties),
        key_schema=_schema(properties, "KEY", _upper(both or key_format)),
        value_schema=_schema(properties, "VALUE", _upper(both or value_format)),
        retention_ms=_count(properties, "RETENTION_MS"),
        cleanup_policy=_cleanup_policy(properties),
        clause=properties,
    )


def _schema(properties: Properties, side: str, format_name: str | None) -> Schema:
    nullable = _text(properties, f"{side}_PROTOBUF_NULLABLE_REPRESENTATION")
    if nullable is not None and nullable.upper() not in ("OPTIONAL", "WRAPPER"):
        raise SqlError(
            f"Invalid value {nullable} for property {side}_PROTOBUF_NULLABLE_REPRESENTATION: it must be OPTIONAL or WRAPPER.",
            position=properties.place(f"{side}_PROTOBUF_NULLABLE_REPRESENTATION"),
        )
    full_name = _text(properties, f"{side}_SCHEMA_FULL_NAME")
    place = properties.place(f"{side}_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME")
    older = _text(properties, "VALUE_AVRO_SCHEMA_FULL_NAME") if side == "VALUE" else None
    if full_name and older:
        raise SqlError(
            "Cannot supply both 'VALUE_AVRO_SCHEMA_FULL_NAME' and 'VALUE_SCHEMA_FULL_NAME' properties.", position=place
        )
    name = full_name or older
    if name is not None and not name.strip():
        raise SqlError(f"{side}_SCHEMA_FULL_NAME cannot be empty. Format configuration: schemaFullName", position=place)
    if name is not None and format_name in ("JSON", "DELIMITED", "KAFKA", "NONE", "PROTOBUF_NOSR"):
        raise SqlError(f"{format_name} does not support the following configs: [fullSchemaName]", position=place)
    return Schema(
        _count(properties, f"{side}_SCHEMA_ID"), name.strip() if name else None, nullable.upper() if nullable else None
    )


def _cleanup_policy(properties: Properties) -> str | None:
    given = _text(properties, "CLEANUP_POLICY")
    if given is not None and given.lower() not in ("compact", "delete", "compact,delete"):
        raise SqlError(
            f"Invalid value {given} for property CLEANUP_POLICY: it must be compact, delete or compact,delete.",
            position=properties.place("CLEANUP_POLICY"),
        )
    return None if given is None else given.lower()


def _upper(name: str | None) -> str | None:
    return None if name is None else name.upper()


def _text(properties: Properties, name: str) -> str | None:
    value = properties.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise SqlError(
            f"Invalid value {value} for property {name}: it must be text in quotes.", position=properties.place(name)
        )
    return value


def _name(text: str | None) -> str | None:
    """The name of a column in text: upper-cased unless it is in backquotes."""
    if text is None:
        return None
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "`" else text.upper()


def _count(properties: Properties, name: str) -> int | None:
    value = properties.get(name)
    if value is None:
        return None
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SqlError(
            f"Invalid value {value} for property {name}: it must be a whole number of at least 1.",
            position=properties.place(name),
        )
    return value


def _boolean(properties: Properties, name: str) -> bool | None:
    value = properties.get(name)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise SqlError(
        f"Invalid value {value} for property {name}: it must be true or false.", position=properties.place(name)
    )


def _delimiter(properties: Properties, name: str, format_name: str | None) -> str | None:
    given = _text(properties, name)
    if given is None:
        return None
    place = properties.place(name)
    if format_name not in (None, "DELIMITED"):
        raise SqlError(f"Delimiter only supported with DELIMITED format, not {format_name}: {name}", position=place)
    with placed_at(place):
        return delimiter(given)


def _window(properties: Properties) -> SourceWindow | None:
    kind = _text(properties, "WINDOW_TYPE")
    size = _text(properties, "WINDOW_SIZE")
    kind_place, size_place = properties.place("WINDOW_TYPE"), properties.place("WINDOW_SIZE")
    if kind is None:
        if size is not None:
            raise SqlError("WINDOW_SIZE needs WINDOW_TYPE.", position=size_place)
        return None
    try:
        found = WindowKind(kind.upper())
    except ValueError:
        raise SqlError(
            f"Invalid value {kind} for property WINDOW_TYPE: it must be TUMBLING, HOPPING or SESSION.",
            position=kind_place,
        ) from None
    if found is WindowKind.SESSION:
        if size is not None:
            raise SqlError("'WINDOW_SIZE' should not be set for SESSION windows.", position=size_place)
        return SourceWindow(found, None)
    if size is None:
        raise SqlError(
            f"{found.value} windows require 'WINDOW_SIZE' to be provided in the WITH clause. For example: 'WINDOW_SIZE'='10 SECONDS'",
            position=kind_place,
        )
    words = size.split()
    unit = words[1].upper().removesuffix("S") if len(words) == 2 else ""
    if not (len(words) == 2 and words[0].isdigit() and unit in UNITS_MS):
        raise SqlError(
            f"Configuration WINDOW_SIZE is invalid. Invalid duration: '{size}'. For example: '10 SECONDS'",
            position=size_place,
        )
    return SourceWindow(found, int(words[0]) * UNITS_MS[unit])
