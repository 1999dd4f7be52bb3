"""Which tables and columns are wanted, how columns are masked, and which make the key: the properties that are lists of
patterns. Pure.

Patterns are Java's regular expressions and must match all of a name, in any case of letters: `schema.table` for tables,
`schema.table.column` for columns.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.postgres_cdc.column_types import ColumnType, Types
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConfigError
from headwater.connect.java_regex import compile_java

_TRUNCATE: Final = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_MASK: Final = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_HASH: Final = re.compile(r"column\.mask\.hash\.v2\.([^.]+)\.with\.salt\.(.+)")
_OLD_HASH: Final = re.compile(r"column\.mask\.hash\.(?!v2\.)[^.]+\.with\.salt\..+")
SYSTEM_SCHEMAS: Final = ("pg_catalog", "information_schema", "pg_toast")


class Patterns:
    """A list of patterns, any of which may match."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._compiled = [compile_java(f"(?i){each.strip()}") for each in patterns if each.strip()]

    def __bool__(self) -> bool:
        return bool(self._compiled)

    def match(self, name: str) -> bool:
        return any(each.fullmatch(name) is not None for each in self._compiled)


class TableFilter:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self._tables = Patterns(config["table.include.list"]), Patterns(config["table.exclude.list"])
        self._schemas = Patterns(config["schema.include.list"]), Patterns(config["schema.exclude.list"])
        self._snapshot = Patterns(config["snapshot.include.collection.list"])

    def wanted(self, schema: str, table: str) -> bool:
        if schema in SYSTEM_SCHEMAS or schema.startswith(("pg_temp_", "pg_toast_temp_")):
            return False
        for (include, exclude), name in ((self._schemas, schema), (self._tables, f"{schema}.{table}")):
            if (include and not include.match(name)) or exclude.match(name):
                return False
        return True

    def in_snapshot(self, schema: str, table: str) -> bool:
        return not self._snapshot or self._snapshot.match(f"{schema}.{table}")


class _Change(NamedTuple):
    columns: Patterns
    parameters: dict[str, str]
    of: Callable[[str, int], str]  # the text and the column's greatest length
    of_null: str | None = None


class Rule(NamedTuple):
    schema: Schema
    read: Callable[[str], Any]
    of_null: str | None = None


class ColumnRules:
    def __init__(self, config: Mapping[str, Any], props: Mapping[str, str]) -> None:
        self._include, self._exclude = Patterns(config["column.include.list"]), Patterns(config["column.exclude.list"])
        self._changes = list(_changes(props))
        self._propagated = Patterns(config["column.propagate.source.type"])
        self._propagated_types = Patterns(config["datatype.propagate.source.type"])
        self._keys = _keys(config["message.key.columns"] or "")

    def wanted(self, column: str) -> bool:
        return self._include.match(column) if self._include else not self._exclude.match(column)

    def key_of(self, table: str) -> tuple[str, ...]:
        return next((columns for pattern, columns in self._keys if pattern.match(table)), ())

    def changed(self, column: str, type_oid: int, modifier: int, kind: ColumnType, types: Types) -> Rule:
        """What becomes of a column in rows; keys have it as it is."""
        schema, read = kind.schema, kind.read
        for change in self._changes:
            if schema.type is Type.STRING and change.columns.match(column):
                told = schema.changed(parameters={**(schema.parameters or {}), **change.parameters})
                return Rule(told, _changing(read, change.of, kind.length), change.of_null)
        name = types[type_oid].name if type_oid in types else kind.type_name
        if self._propagated.match(column) or self._propagated_types.match(name):
            known = _source_type(column.rpartition(".")[2], name, modifier, kind.length)
            schema = schema.changed(parameters={**(schema.parameters or {}), **known})
        return Rule(schema, read)


def _changing(read: Callable[[str], Any], of: Callable[[str, int], str], length: int) -> Callable[[str], Any]:
    return lambda text: of(read(text), length)


def _source_type(column: str, name: str, modifier: int, length: int) -> dict[str, str]:
    made = {"__debezium.source.column.type": name.upper()}
    if name == "numeric" and modifier >= 4:
        made["__debezium.source.column.length"] = str((modifier - 4) >> 16)
        made["__debezium.source.column.scale"] = str((modifier - 4) & 0x7FF)
    elif length:
        made["__debezium.source.column.length"] = str(length)
    return made | {"__debezium.source.column.name": column}


def _changes(props: Mapping[str, str]) -> Iterable[_Change]:
    for name, value in props.items():
        columns = Patterns(value.split(","))
        if (found := _TRUNCATE.fullmatch(name)) is not None:
            size = int(found[1])
            yield _Change(columns, {"truncateLength": str(size)}, lambda text, _length, size=size: text[:size])  # type: ignore[misc]
        elif (found := _MASK.fullmatch(name)) is not None:
            stars = "*" * int(found[1])
            yield _Change(columns, {"masked": "true"}, lambda _text, _length, stars=stars: stars, stars)  # type: ignore[misc]
        elif (found := _HASH.fullmatch(name)) is not None:
            yield _Change(columns, {"masked": "true"}, _hashing(found[1], found[2]))
        elif _OLD_HASH.fullmatch(name) is not None:
            raise ConfigError(f"{name} hashes Java's serialized form; use column.mask.hash.v2.*", name=name)


def _hashing(algorithm: str, salt: str) -> Callable[[str, int], str]:
    try:
        hashlib.new(algorithm.replace("-", ""), b"")
    except ValueError:
        raise ConfigError(f"column.mask.hash.v2: the algorithm {algorithm!r} is not known") from None

    def of(text: str, length: int) -> str:
        found = hashlib.new(algorithm.replace("-", ""), salt.encode() + text.encode()).hexdigest()
        return found[:length] if length else found

    return of


def _keys(text: str) -> Sequence[tuple[Patterns, tuple[str, ...]]]:
    """`schema.table:column,column;...`"""
    found = []
    for each in filter(None, (part.strip() for part in text.split(";"))):
        table, colon, columns = each.rpartition(":")
        if not colon or not table or not columns:
            raise ConfigError(f"message.key.columns: {each!r} is not table:column,column", name="message.key.columns")
        found.append((Patterns([table]), tuple(column.strip() for column in columns.split(","))))
    return found
