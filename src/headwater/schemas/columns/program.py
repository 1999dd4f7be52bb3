"""Two Avro schemas, compiled to a program that turns the writer's bytes into the reader's columns. Pure; `native/` runs
it.

A program is an array of int32. A node is an operation's number and its arguments: columns, counts, places of other
nodes. The node of a row is at 0, and so is the column of rows. Every operation consumes what the writer wrote; those
that emit append one value to a column. Columns are a tree in Arrow's layout: a struct has one column for each field, a
list one for its items, a map one of entries with two in it.

A recursive type, or a union of more than null and one other, has no columns: `NoColumns`.
"""

from array import array
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headwater.schemas.avro.compatibility import PROMOTIONS
from headwater.schemas.avro.encoding import encoded_default
from headwater.schemas.avro.resolution import Resolution
from headwater.schemas.avro.types import Array, AvroType, Enum, Field, Fixed, Map, Record, Union, logical_type
from headwater.schemas.model import SchemaError

DECIMAL_PRECISION_MAX: Final = 38


class NoColumns(SchemaError):
    """A schema that has no columns in Arrow's sense."""


class Op(IntEnum):
    """The numbers are those of native/decoder.c."""

    NULL = 0
    BOOL = 1
    INTEGER = 2
    FLOAT = 3
    DOUBLE = 4
    BYTES = 5
    STRING = 6
    FIXED = 7
    ENUM = 8
    DECIMAL = 9
    STRUCT = 10
    UNION = 11
    EMIT_NULL = 12
    LIST = 13
    MAP = 14
    DEFAULT = 15
    REFUSE = 16
    SKIP_NOTHING = 17
    SKIP_LONG = 18
    SKIP_FIXED = 19
    SKIP_BYTES = 20
    SKIP_RECORD = 21
    SKIP_ARRAY = 22
    SKIP_MAP = 23


class ColumnKind(IntEnum):
    NULL = 0
    BOOL = 1
    WIDE = 2
    VARIABLE = 3
    STRUCT = 4
    LIST = 5


@dataclass(eq=False, slots=True)
class Column:
    index: int
    kind: ColumnKind
    width: int
    avro: AvroType | None  # None: the entries of a map
    children: list["Column"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Program:
    code: bytes
    table: bytes  # kind, width, number of children and the children of each column
    columns: list[Column]
    defaults: bytes


_WIDTHS: Final = {"int": 4, "long": 8, "float": 4, "double": 8}
_FORMS: Final = {"int": 0, "long": 1, "float": 2, "double": 3}


def compile_program(writer: AvroType, reader: AvroType) -> Program:
    compiler = _Compiler()
    root = compiler.column(reader, [])
    compiler.node(writer, reader, root)
    table = array("i")
    for each in compiler.columns:
        table.extend((each.kind, each.width, len(each.children), *(child.index for child in each.children)))
    return Program(compiler.code.tobytes(), table.tobytes(), compiler.columns, bytes(compiler.defaults))


def without_null(union: Union) -> AvroType | None:
    """What a union is beside null; None if that is nothing or several things."""
    others = [branch for branch in union.branches if branch.kind != "null"]
    return others[0] if len(others) == 1 else None


class _Compiler:
    def __init__(self) -> None:
        self.code = array("i")
        self.columns: list[Column] = []
        self.defaults = bytearray()
        self._skips: dict[int, int] = {}
        self._resolution = Resolution()

    # --- columns of the reader's schema

    def column(self, reader: AvroType, outer: list[Record]) -> Column:
        if isinstance(reader, Union):
            inner = without_null(reader)
            if inner is None:
                raise NoColumns(f"a union of {', '.join(branch.label for branch in reader.branches)} has no column")
            return self.column(inner, outer)
        if isinstance(reader, Record):
            if reader in outer:
                raise NoColumns(f"{reader.name} contains itself, and so has no columns")
            made = self._add(ColumnKind.STRUCT, 0, reader)
            made.children = [self.column(each.type, [*outer, reader]) for each in reader.fields]
            return made
        if isinstance(reader, Array):
            made = self._add(ColumnKind.LIST, 0, reader)
            made.children = [self.column(reader.items, outer)]
            return made
        if isinstance(reader, Map):
            made = self._add(ColumnKind.LIST, 0, reader)
            entries = self._add(ColumnKind.STRUCT, 0, None)
            made.children = [entries]
            entries.children = [self._add(ColumnKind.VARIABLE, 0, None), self.column(reader.values, outer)]
            return made
        return self._leaf(reader)

    def _leaf(self, reader: AvroType) -> Column:
        if decimal_digits(reader) is not None:
            return self._add(ColumnKind.WIDE, 16, reader)
        if isinstance(reader, Fixed):
            return self._add(ColumnKind.WIDE, reader.size, reader)
        if isinstance(reader, Enum):
            return self._add(ColumnKind.WIDE, 4, reader)
        kinds = {
            "null": ColumnKind.NULL,
            "boolean": ColumnKind.BOOL,
            "bytes": ColumnKind.VARIABLE,
            "string": ColumnKind.VARIABLE,
        }
        return self._add(kinds.get(reader.kind, ColumnKind.WIDE), _WIDTHS.get(reader.kind, 0), reader)

    def _add(self, kind: ColumnKind, width: int, avro: AvroType | None) -> Column:
        made = Column(len(self.columns), kind, width, avro)
        self.columns.append(made)
        return made

    # --- nodes

    def _emit(self, *words: int) -> int:
        place = len(self.code)
        self.code.extend(words)
        return place

    def node(self, writer: AvroType, reader: AvroType, column: Column) -> int:
        """A node that reads what was written and appends it to the column."""
        if isinstance(writer, Union):
            place = self._emit(Op.UNION, len(writer.branches), *([0] * len(writer.branches)))
            for index, branch in enumerate(writer.branches):
                self.code[place + 2 + index] = self.node(branch, reader, column)
            return place
        if isinstance(reader, Union):
            if writer.kind == "null" and any(branch.kind == "null" for branch in reader.branches):
                return self._emit(Op.EMIT_NULL, column.index)
            inner = without_null(reader)
            assert inner is not None  # it has a column
            return self.node(writer, inner, column)
        if not self._resolution.reads_some(reader, writer):
            return self._emit(Op.REFUSE)
        if isinstance(writer, Record) and isinstance(reader, Record):
            return self._record(writer, reader, column)
        if isinstance(writer, Array) and isinstance(reader, Array):
            place = self._emit(Op.LIST, column.index, 0)
            self.code[place + 2] = self.node(writer.items, reader.items, column.children[0])
            return place
        if isinstance(writer, Map) and isinstance(reader, Map):
            entries = column.children[0]
            key, value = entries.children
            place = self._emit(Op.MAP, column.index, entries.index, key.index, 0)
            self.code[place + 4] = self.node(writer.values, reader.values, value)
            return place
        return self._leaf_node(writer, reader, column)

    def _leaf_node(self, writer: AvroType, reader: AvroType, column: Column) -> int:
        precision = decimal_digits(reader)
        if precision is not None:
            return self._emit(Op.DECIMAL, column.index, writer.size if isinstance(writer, Fixed) else -1, precision)
        if isinstance(writer, Fixed):
            return self._emit(Op.FIXED, column.index, writer.size)
        if isinstance(writer, Enum) and isinstance(reader, Enum):
            default = reader.symbols.index(reader.default) if reader.default is not None else -1
            indexes = {symbol: index for index, symbol in enumerate(reader.symbols)}
            return self._emit(
                Op.ENUM, column.index, len(writer.symbols), *(indexes.get(each, default) for each in writer.symbols)
            )
        assert writer.kind == reader.kind or writer.kind in PROMOTIONS[reader.kind]
        match writer.kind:
            case "null":
                return self._emit(Op.NULL, column.index)
            case "boolean":
                return self._emit(Op.BOOL, column.index)
            case "int" | "long":
                return self._emit(Op.INTEGER, column.index, 32 if writer.kind == "int" else 64, _FORMS[reader.kind])
            case "float":
                return self._emit(Op.FLOAT, column.index, _FORMS[reader.kind])
            case "double":
                return self._emit(Op.DOUBLE, column.index)
        return self._emit(Op.STRING if reader.kind == "string" else Op.BYTES, column.index)

    def _record(self, writer: Record, reader: Record, column: Column) -> int:
        targets: dict[str, int] = {}
        for index, each in enumerate(reader.fields):
            name = next((name for name in (each.name, *each.aliases) if name in writer.by_name), None)
            if name is not None:
                targets[name] = index
        missing = [index for index in range(len(reader.fields)) if index not in targets.values()]
        steps = len(writer.fields) + len(missing)
        place = self._emit(Op.STRUCT, column.index, steps, *([0] * steps))
        for step, each in enumerate(writer.fields):
            target = targets.get(each.name)
            if target is None:
                self.code[place + 3 + step] = self.skip(each.type)
            else:
                self.code[place + 3 + step] = self.node(each.type, reader.fields[target].type, column.children[target])
        for step, index in enumerate(missing, len(writer.fields)):
            self.code[place + 3 + step] = self._default(reader.fields[index], column.children[index])
        return place

    def _default(self, missing: Field, column: Column) -> int:
        encoded = encoded_default(missing)
        start = len(self.defaults)
        self.defaults += encoded
        place = self._emit(Op.DEFAULT, 0, start, len(encoded))
        self.code[place + 1] = self.node(missing.type, missing.type, column)
        return place

    def skip(self, writer: AvroType) -> int:
        """A node that passes over what was written; a recursive type leads back to its own node."""
        known = self._skips.get(id(writer))
        if known is not None:
            return known
        if isinstance(writer, Union | Record):
            inner = writer.branches if isinstance(writer, Union) else tuple(each.type for each in writer.fields)
            op = Op.UNION if isinstance(writer, Union) else Op.SKIP_RECORD
            place = self._skips[id(writer)] = self._emit(op, len(inner), *([0] * len(inner)))
            for index, each in enumerate(inner):
                self.code[place + 2 + index] = self.skip(each)
            return place
        if isinstance(writer, Array | Map):
            is_array = isinstance(writer, Array)
            place = self._skips[id(writer)] = self._emit(Op.SKIP_ARRAY if is_array else Op.SKIP_MAP, 0)
            self.code[place + 1] = self.skip(writer.items if isinstance(writer, Array) else writer.values)
            return place
        if isinstance(writer, Fixed):
            return self._emit(Op.SKIP_FIXED, writer.size)
        sizes = {"boolean": 1, "float": 4, "double": 8}
        if writer.kind in sizes:
            return self._emit(Op.SKIP_FIXED, sizes[writer.kind])
        if writer.kind in ("bytes", "string"):
            return self._emit(Op.SKIP_BYTES)
        return self._emit(Op.SKIP_NOTHING if writer.kind == "null" else Op.SKIP_LONG)


def decimal_digits(avro_type: AvroType) -> int | None:
    """The precision of a decimal that a column holds as such; a longer one stays bytes."""
    logical = logical_type(avro_type)
    if logical is None or logical.name != "decimal" or logical.precision > DECIMAL_PRECISION_MAX:
        return None
    return logical.precision
