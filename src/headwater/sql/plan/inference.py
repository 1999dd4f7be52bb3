"""Columns out of the schema registry: CREATE without columns, and the schemas that a new stream or table registers.

A statement is completed before it goes into the server's log: what the registry says later changes nothing about it.
Everything here asks the registry, so it is done when a statement is checked, never when the log is read again.
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from headwater.sql.formats.library import format_named, with_registry
from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.formats.registry.port import AVRO_NAMESPACE, Schemas
from headwater.sql.formats.registry.serde import RegistryFormat, RegistrySerde
from headwater.sql.language import tree, types
from headwater.sql.language.errors import RegistryMissingError, SchemaMissingError, SqlError
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.plan import properties as clauses
from headwater.sql.plan.catalog import Column, RowFormat, SourceInfo, changed_or_missing

_AVRO_NAME: Final = re.compile("[A-Za-z_][A-Za-z0-9_]*")


def placed(source: SourceInfo, schemas: Schemas | None) -> SourceInfo:
    """The source with the subjects of its topic, where its formats have schemas. Raises SqlError where there is no
    registry.
    """
    keys, values = bool(source.key_columns), bool(source.value_columns)
    return replace(
        source,
        key_format=_placed(source.key_format, f"{source.topic}-key", schemas, keys, _record_of_keys(source.name)),
        value_format=_placed(source.value_format, f"{source.topic}-value", schemas, values, None),
    )


def _record_of_keys(source: str) -> str | None:
    """As ksqlDB calls it: classes that are generated of several topics' keys do not have one name. None: Avro has no
    such name, and registries refuse it (a source between quotes may be called anything).
    """
    name = f"{''.join(each.capitalize() for each in source.split('_'))}Key"
    return f"{AVRO_NAMESPACE}.{name}" if _AVRO_NAME.fullmatch(name) else None


def _placed(given: RowFormat, subject: str, schemas: Schemas | None, used: bool, record_name: str | None) -> RowFormat:
    if not used or with_registry(given.name) is None:
        return given
    if schemas is None:
        raise RegistryMissingError(
            f"Cannot create topic using {given.name} format: schema registry not configured.",
            hint="Set ksql.schema.registry.url for the server.",
        )
    return RowFormat(given.name, replace(given.options, subject=subject, schemas=schemas, record_name=record_name))


def inferred(
    statement: tree.CreateSource, schemas: Schemas | None, default_key: str | None, default_value: str | None
) -> tree.CreateSource:
    """The statement with the columns that the registry has for its topic, where it names none. Raises SqlError.

    A statement that was completed before stays as it is: it has both the columns and the id of their schema.
    """
    if statement.is_complete:
        return statement
    given = clauses.read(statement.properties, sink=False)
    key_format = given.key(RowFormat(default_key or clauses.DEFAULT_KEY_FORMAT))
    value_format = given.value(RowFormat(default_value) if default_value else None)
    has_keys = any(each.role in (Role.KEY, Role.PRIMARY_KEY) for each in statement.columns)
    has_values = any(each.role is Role.VALUE for each in statement.columns)
    keys = _asked(key_format, "KEY", statement, has_keys)
    values = _asked(value_format, "VALUE", statement, has_values)
    if (keys is None and values is None) or given.topic is None:
        return statement
    role = Role.KEY if statement.kind is SourceKind.STREAM else Role.PRIMARY_KEY
    columns = [each for each in statement.columns if each.role in (Role.HEADER, Role.HEADERS)]
    if keys is None:
        columns += [each for each in statement.columns if each.role in (Role.KEY, Role.PRIMARY_KEY)]
    else:
        found = _columns(keys, key_format.options, f"{given.topic}-key", schemas, statement, key=True)
        columns += [tree.ColumnDefinition(each.name, each.type, role) for each in found]
    if values is None:
        columns += [each for each in statement.columns if each.role is Role.VALUE]
    else:
        found = _columns(values, value_format.options, f"{given.topic}-value", schemas, statement, key=False)
        columns += [tree.ColumnDefinition(each.name, each.type) for each in found]
    made = replace(statement, columns=tuple(columns), is_complete=True)
    text = _text(made)
    object.__setattr__(made, "position", statement.position)
    object.__setattr__(made, "text", text)
    return made


def _asked(format_: RowFormat, side: str, statement: tree.CreateSource, has_columns: bool) -> RegistryFormat | None:
    """The format, if columns have to be asked for."""
    found = with_registry(format_.name)
    if format_.options.schema_id is not None:
        if found is None:
            raise SqlError(
                f"{side}_FORMAT should support schema inference when {side}_SCHEMA_ID is provided. Current format is {format_.name}.",
                position=statement.position,
            )
        if has_columns:
            raise SqlError(
                f"Table elements and {side}_SCHEMA_ID cannot both exist for create statement.",
                position=statement.position,
            )
        return found
    return None if has_columns else found


def _columns(
    format_: RegistryFormat,
    options: FormatOptions,
    subject: str,
    schemas: Schemas | None,
    statement: tree.CreateSource,
    *,
    key: bool,
) -> list[Field]:
    if schemas is None:
        raise RegistryMissingError(
            f"Cannot create topic using {format_.name} format: schema registry not configured.",
            hint="Set ksql.schema.registry.url for the server.",
        )
    if options.schema_id is not None:
        schema = schemas.by_id(options.schema_id)
    else:
        latest = schemas.latest(subject)
        schema = None if latest is None else latest.schema
    if schema is None:
        what, side = (
            (f"id: {options.schema_id}" if options.schema_id else f"subject: {subject}"),
            "keys" if key else "values",
        )
        raise SchemaMissingError(
            f"Schema for message {side} on topic '{subject.rpartition('-')[0]}' does not exist in the Schema Registry. Subject: {subject}, {what}",
            hint="Name the columns, or register the schema first.",
            position=statement.position,
        )
    return format_.inferred(schema, options, key=key)


def _text(statement: tree.CreateSource) -> str:
    words = ["CREATE"]
    words += ["OR", "REPLACE"] if statement.or_replace else []
    words += ["SOURCE"] if statement.read_only else []
    words.append(statement.kind.value)
    words += ["IF", "NOT", "EXISTS"] if statement.if_not_exists else []
    columns = ", ".join(_definition(each) for each in statement.columns)
    clause = ", ".join(f"{name}={_literal(value)}" for name, value in statement.properties.items() if value is not None)
    return f"{' '.join(words)} {types.quoted(statement.name)} ({columns}) WITH ({clause});"


def _definition(column: tree.ColumnDefinition) -> str:
    if column.role is Role.HEADER:
        return f"{types.quoted(column.name)} {column.type} HEADER({_literal(column.header or '')})"
    return str(Column(column.name, column.type, column.role, column.header))


def _literal(value: bool | int | float | Decimal | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def register(source: SourceInfo) -> None:
    """Registers the schemas that rows of the source will be written with. Raises SqlError where the registry refuses
    one.
    """
    for format_, fields in ((source.key_format, source.key_fields), (source.value_format, source.value_fields)):
        known = with_registry(format_.name)
        if known is None or not fields or format_.options.subject is None:
            continue
        if source.made_by_query is None and known.codec is not None:
            schemas = format_.options.schemas
            if schemas is not None and schemas.latest(format_.options.subject) is not None:
                continue  # the topic has a schema of its own
        serde = format_named(format_.name).serde(fields, format_.options)
        assert isinstance(serde, RegistrySerde)
        serde.prepare()


def subjects(source: SourceInfo) -> list[str]:
    """The subjects of its topic's schemas: of the formats that have some."""
    return [
        f"{source.topic}-{side}"
        for side, format_, fields in (
            ("key", source.key_format, source.key_fields),
            ("value", source.value_format, source.value_fields),
        )
        if fields and with_registry(format_.name) is not None
    ]


def check_schema_ids(sink: SourceInfo) -> None:
    """KEY_SCHEMA_ID and VALUE_SCHEMA_ID of CREATE ... AS: the schema must begin with the columns of the query."""
    for format_, fields, key in ((sink.key_format, sink.key_fields, True), (sink.value_format, sink.value_fields, False)):  # fmt: skip
        options = format_.options
        if options.schema_id is None or not fields:
            continue
        known, side = with_registry(format_.name), "key" if key else "value"
        if known is None:
            raise SqlError(
                f"{side.upper()}_FORMAT should support schema inference when {side.upper()}_SCHEMA_ID is provided. "
                f"Current format is {format_.name}."
            )
        schema = options.schemas.by_id(options.schema_id) if options.schemas is not None else None
        if schema is None:
            raise SqlError(f"There is no schema with the id {options.schema_id}.")
        theirs = known.inferred(schema, options, key=key)
        missing = changed_or_missing(fields, theirs)
        if missing and not (key and known.codec.can_unwrap and [each.type for each in fields] == [each.type for each in theirs]):  # fmt: skip
            lacked, found = (types.listed((each.name, each.type) for each in some) for some in (missing, theirs))
            raise SqlError(
                f"The following {side} columns are changed, missing or reordered: [{lacked}].",
                why=f"Schema from schema registry is [{found}]",
            )
