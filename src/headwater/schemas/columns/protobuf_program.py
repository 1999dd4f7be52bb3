"""A message's shape, compiled to the programs that `native/` runs: bytes into columns, and columns into bytes. Pure.

A program is an array of int32. The node of a message is its column, the number of its fields and of its oneofs, and
then seven numbers for each field, in the order of the fields' numbers: number, kind, label, column, extra (the node of
a message, the kind that a wrapper holds), the oneof that it is of or -1, flags (1 packed, 2 delimited). The node of a
row is at 0, and so is the column of rows.

For decoding, columns are a tree in Arrow's layout (`program.py`). For encoding they are numbered as they are met: a
struct before its fields, a list before its items.
"""

from array import array
from typing import Final

from headwater.schemas.columns.program import Column, ColumnKind, Program
from headwater.schemas.columns.protobuf_shapes import FieldShape, Kind, Label, MessageShape

_WORDS: Final = 7
_HEAD: Final = 3
_WIDE: Final = frozenset((Kind.DOUBLE, Kind.INT64, Kind.UINT64, Kind.SINT64, Kind.FIXED64, Kind.SFIXED64))


def decoding_program(shape: MessageShape) -> Program:
    compiler = _Decoding()
    compiler.message(shape, compiler.add(ColumnKind.STRUCT))
    table = array("i")
    for each in compiler.columns:
        table.extend((each.kind, each.width, len(each.children), *(child.index for child in each.children)))
    return Program(compiler.code.tobytes(), table.tobytes(), compiler.columns, b"")


def encoding_program(shape: MessageShape) -> bytes:
    compiler = _Encoding()
    compiler.message(shape, compiler.next_column())
    return compiler.code.tobytes()


def _flags(each: FieldShape) -> int:
    return each.is_packed | each.is_delimited << 1


class _Decoding:
    def __init__(self) -> None:
        self.code = array("i")
        self.columns: list[Column] = []

    def add(self, kind: ColumnKind, width: int = 0) -> Column:
        made = Column(len(self.columns), kind, width, None)
        self.columns.append(made)
        return made

    def message(self, shape: MessageShape, column: Column) -> int:
        place = len(self.code)
        oneofs = shape.oneofs
        self.code.extend((column.index, len(shape.fields), len(oneofs), *([0] * _WORDS * len(shape.fields))))
        made = {each.number: self._field(each) for each in shape.fields}
        column.children = [made[each.number][0] for each in shape.fields]
        for index, each in enumerate(shape.by_number):
            inner, extra = made[each.number]
            oneof = oneofs.index(each.oneof) if each.oneof else -1
            words = (each.number, each.kind, each.label, inner.index, extra, oneof, _flags(each))
            at = place + _HEAD + index * _WORDS
            self.code[at : at + _WORDS] = array("i", words)
        return place

    def _field(self, each: FieldShape) -> tuple[Column, int]:
        if each.label is Label.REPEATED:
            outer = self.add(ColumnKind.LIST)
            inner, extra = self._value(each)
            outer.children = [inner]
            return outer, extra
        return self._value(each)

    def _value(self, each: FieldShape) -> tuple[Column, int]:
        if each.message is not None:
            column = self.add(ColumnKind.STRUCT)
            return column, self.message(each.message, column)
        kind = each.wrapped if each.wrapped is not None else each.kind
        extra = int(each.wrapped) if each.wrapped is not None else 0
        if kind is Kind.BOOL:
            return self.add(ColumnKind.BOOL), extra
        if kind in (Kind.STRING, Kind.BYTES):
            return self.add(ColumnKind.VARIABLE), extra
        return self.add(ColumnKind.WIDE, 8 if kind in _WIDE or kind in (Kind.TIMESTAMP, Kind.DURATION) else 4), extra


class _Encoding:
    def __init__(self) -> None:
        self.code = array("i")
        self._columns = 0

    def next_column(self) -> int:
        self._columns += 1
        return self._columns - 1

    def message(self, shape: MessageShape, column: int, *, is_entry: bool = False) -> int:
        """An entry of a map has both of its fields, whatever they are."""
        place = len(self.code)
        self.code.extend((column, len(shape.fields), 0, *([0] * _WORDS * len(shape.fields))))
        made: dict[int, tuple[int, int]] = {}
        for each in shape.fields:
            own = self.next_column()
            inner = self.next_column() if each.label is Label.REPEATED else own
            extra = int(each.wrapped) if each.wrapped is not None else 0
            if each.message is not None:
                extra = self.message(each.message, inner, is_entry=each.is_map)
            made[each.number] = own, extra
        for index, each in enumerate(shape.by_number):
            own, extra = made[each.number]
            label = Label.EXPLICIT if is_entry else each.label
            words = (each.number, each.kind, label, own, extra, -1, _flags(each))
            at = place + _HEAD + index * _WORDS
            self.code[at : at + _WORDS] = array("i", words)
        return place
