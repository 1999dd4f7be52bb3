"""A table as records see it: schemas of key, row and envelope, and how the texts of a row become structs. Pure.

Columns come from the replication stream (`Relation`) or from the catalog, whichever the rows come from; what the stream
does not say of them (NOT NULL, defaults, primary key) is the catalog's as it is now.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.postgres_cdc.column_rules import ColumnRules, Rule
from headwater.connect.connectors.postgres_cdc.column_types import ColumnType, Modes, Types, column_type, reading
from headwater.connect.connectors.postgres_cdc.pgoutput import UNCHANGED, Cell
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_LITERAL: Final = re.compile(r"B?'((?:[^']|'')*)'::.*")
_NUMBER: Final = re.compile(r"\(?(-?[0-9.]+(?:[eE][+-]?\d+)?)\)?(?:::.*)?")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]*\(.*\)|CURRENT_\w+(?:\(\d\))?|LOCALTIME\w*(?:\(\d\))?")


class Column(NamedTuple):
    name: str
    type_oid: int
    modifier: int = -1
    required: bool = False
    default: str | None = None  # the expression, as PostgreSQL shows it


class Table(NamedTuple):
    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Naming(NamedTuple):
    """How topics, schemas and fields are named."""

    prefix: str
    delimiter: str = "."
    adjust_schemas: bool = False
    adjust_fields: bool = False

    def topic(self, table: Table) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "_", self.delimiter.join((self.prefix, table.schema, table.name)))

    def schema(self, name: str) -> str:
        return _avro_name(name, dots=True) if self.adjust_schemas else name

    def field(self, name: str) -> str:
        return _avro_name(name) if self.adjust_fields else name


def _avro_name(name: str, *, dots: bool = False) -> str:
    valid = re.sub(r"[^A-Za-z0-9_.]" if dots else r"[^A-Za-z0-9_]", "_", name)
    return f"_{valid}" if valid[:1].isdigit() else valid


def default_of(expression: str | None, kind: ColumnType) -> Any:
    """A default's value if it is a constant; of a function's call the type's zero, as the real one is not known
    before.
    """
    if expression is None or not kind.default_allowed:
        return None
    literal = _LITERAL.fullmatch(expression)
    number = _NUMBER.fullmatch(expression)
    try:
        if literal is not None:
            return kind.read(literal[1].replace("''", "'"))
        if number is not None:
            return kind.read(number[1])
        if expression in ("true", "false"):
            return kind.read(expression[0])
    except (DataError, ValueError):
        return None
    return kind.zero if _CALL.fullmatch(expression) else None


class _Cell(NamedTuple):
    """A column that becomes a field: where it stands in the row, and how it is read."""

    at: int
    name: str
    read: Callable[[str], Any]
    required: bool
    zero: Any
    unavailable: Any
    schema: Schema
    of_null: Any = None


class TableModel:
    def __init__(
        self,
        table: Table,
        types: Types,
        modes: Modes,
        rules: ColumnRules,
        naming: Naming,
        source_schema: Schema,
        transaction_schema: Schema,
    ) -> None:
        self.table, self.topic = table, naming.topic(table)
        self._cells, plain = (
            [
                each
                for at in range(len(table.columns))
                if (each := _cell(at, table, types, modes, rules, naming, masked=masked))
            ]
            for masked in (True, False)
        )
        name = naming.schema(self.topic)
        fields = [(each.name, each.schema) for each in self._cells]
        self.row_schema = s.struct(fields, optional=True, name=f"{name}.Value")
        key = rules.key_of(table.full_name) or table.key
        by_column = {table.columns[each.at].name: each for each in plain}  # a key has no masks
        self._key = [by_column[each] for each in key if each in by_column]
        self.key_schema = s.struct([(e.name, e.schema) for e in self._key], name=f"{name}.Key") if self._key else None
        self.envelope_schema = s.struct(
            [
                ("before", self.row_schema),
                ("after", self.row_schema),
                ("source", source_schema),
                ("transaction", transaction_schema),
                ("op", s.STRING),
                ("ts_ms", s.OPTIONAL_INT64),
                ("ts_us", s.OPTIONAL_INT64),
                ("ts_ns", s.OPTIONAL_INT64),
            ],
            name=f"{name}.Envelope",
            version=2,
        )

    @property
    def columns(self) -> list[Column]:
        """Those that become fields."""
        return [self.table.columns[each.at] for each in self._cells]

    def row(self, cells: Sequence[Cell], old: Sequence[Cell] | None = None) -> Struct:
        """A large value that is not in the log is taken from the old row where that is known."""
        values = []
        for each in self._cells:
            text = cells[each.at]
            if text is UNCHANGED and old is not None:
                text = old[each.at]
            values.append(_value(each, text))
        return Struct.of(self.row_schema, values)

    def key(self, cells: Sequence[Cell]) -> Struct | None:
        if self.key_schema is None:
            return None
        return Struct.of(self.key_schema, [_value(each, cells[each.at]) for each in self._key])


def _value(cell: _Cell, text: Cell) -> Any:
    if isinstance(text, str):
        try:
            value = cell.read(text)
        except ValueError:
            raise DataError(f"The value {text!r} of the column {cell.name!r} cannot be read") from None
        if value is not None or not cell.required:
            return value
    elif text is not None:
        return cell.unavailable if cell.unavailable is not None else cell.zero if cell.required else None
    if not cell.required:
        return cell.of_null
    return cell.zero if cell.schema.default is None else cell.schema.default


def _cell(
    at: int, table: Table, types: Types, modes: Modes, rules: ColumnRules, naming: Naming, *, masked: bool
) -> _Cell | None:
    column = table.columns[at]
    full_name = f"{table.full_name}.{column.name}"
    if column.name not in table.key and not rules.wanted(full_name):
        return None
    kind = column_type(types, column.type_oid, column.modifier, modes)
    if kind is None:
        return None
    required = column.required or column.name in table.key
    rule = rules.changed(full_name, column.type_oid, column.modifier, kind, types) if masked else Rule(*kind[:2])
    schema = rule.schema.changed(optional=not required, default=default_of(column.default, kind))
    read = reading(rule.read, schema)
    return _Cell(at, naming.field(column.name), read, required, kind.zero, kind.unavailable, schema, rule.of_null)
