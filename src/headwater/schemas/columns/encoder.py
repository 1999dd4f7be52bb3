"""Arrow's columns to Avro's bytes: compiled where it could be, else row by row. The way back of `columns`.

A column is cast to the schema's types first, so that what runs over its buffers knows their layout; an enum becomes the
indexes of its symbols. The program is like that of decoding, an array of int32 with the row's node at 0; columns are
numbered as they are met: a struct before its fields, a list before its items, a map before keys and values.
"""

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.avro.types import Array, AvroType, Enum, Fixed, Map, Record, Union
from headwater.schemas.columns.arrow import arrow_type
from headwater.schemas.columns.program import decimal_digits, without_null
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa

Encode = Callable[["pa.Array", bytes], "pa.Array"]


class Op(IntEnum):
    """The numbers are those of native/encoder.c."""

    NULL = 0
    BOOL = 1
    INT32 = 2
    INT64 = 3
    FIXED = 4
    VARIABLE = 5
    DECIMAL = 6
    STRUCT = 7
    NULLABLE = 8
    LIST = 9
    MAP = 10


_REASONS: Final = {
    9: "a decimal does not fit its bytes",
    12: "the column is too large: encode fewer rows at once",
    14: "there is a null where the schema has none",
}
_PRIMITIVES: Final[dict[str, tuple[int, ...]]] = {
    "null": (Op.NULL,),
    "boolean": (Op.BOOL,),
    "int": (Op.INT32,),
    "long": (Op.INT64,),
    "float": (Op.FIXED, 4),
    "double": (Op.FIXED, 8),
    "bytes": (Op.VARIABLE,),
    "string": (Op.VARIABLE,),
}


class _Compiler:
    def __init__(self) -> None:
        self.code = array("i")
        self._columns = 0

    def _emit(self, *words: int) -> int:
        place = len(self.code)
        self.code.extend(words)
        return place

    def node(self, avro_type: AvroType, column: int | None = None) -> int:
        if column is None:
            column = self._columns
            self._columns += 1
        if isinstance(avro_type, Union):
            inner = without_null(avro_type)
            assert inner is not None  # it has a column
            value = avro_type.branches.index(inner)
            if len(avro_type.branches) == 1:
                place = self._emit(Op.NULLABLE, column, 0, 0, 0)
            else:
                place = self._emit(Op.NULLABLE, column, 1 - value, value, 0)
            self.code[place + 4] = self.node(inner, column)
            return place
        if isinstance(avro_type, Record):
            place = self._emit(Op.STRUCT, column, len(avro_type.fields), *([0] * len(avro_type.fields)))
            for index, each in enumerate(avro_type.fields):
                self.code[place + 3 + index] = self.node(each.type)
            return place
        if isinstance(avro_type, Array):
            place = self._emit(Op.LIST, column, 0)
            self.code[place + 2] = self.node(avro_type.items)
            return place
        if isinstance(avro_type, Map):
            place = self._emit(Op.MAP, column, self._columns, 0)
            self._columns += 1
            self.code[place + 3] = self.node(avro_type.values)
            return place
        return self._leaf(avro_type, column)

    def _leaf(self, avro_type: AvroType, column: int) -> int:
        if decimal_digits(avro_type) is not None:
            return self._emit(Op.DECIMAL, column, avro_type.size if isinstance(avro_type, Fixed) else -1)
        if isinstance(avro_type, Fixed):
            return self._emit(Op.FIXED, column, avro_type.size)
        if isinstance(avro_type, Enum):
            return self._emit(Op.INT32, column)
        op, *more = _PRIMITIVES[avro_type.kind]
        return self._emit(op, column, *more)


def _gather(column: "pa.Array", avro_type: AvroType, sources: list[Any]) -> None:
    """The buffers of a column and those inside it, in the order of the program's columns."""
    if isinstance(avro_type, Union):
        inner = without_null(avro_type)
        assert inner is not None
        _gather(column, inner, sources)
        return
    if isinstance(avro_type, Enum):
        column = _symbols(column, avro_type)
    buffers = column.buffers()
    validity = buffers[0] if column.null_count else None
    if isinstance(avro_type, Record):
        sources.append((column.offset, validity, None, None))
        for child, each in zip(struct_children(column), avro_type.fields, strict=True):
            _gather(child, each.type, sources)
    elif isinstance(avro_type, Array):
        sources.append((column.offset, validity, buffers[1], None))
        _gather(column.values, avro_type.items, sources)
    elif isinstance(avro_type, Map):
        sources.append((column.offset, validity, buffers[1], None))
        keys = column.keys
        sources.append((keys.offset, None, keys.buffers()[1], keys.buffers()[2]))
        _gather(column.items, avro_type.values, sources)
    elif avro_type.kind == "null":
        sources.append((0, None, None, None))
    elif len(buffers) == 3:
        sources.append((column.offset, validity, buffers[1], buffers[2]))
    else:
        sources.append((column.offset, validity, None, buffers[1]))


def struct_children(column: "pa.Array") -> "list[pa.Array]":
    """The fields of a struct, null where the struct is: what stands there else is nobody's value."""
    if column.null_count:
        return list(column.flatten())
    return [column.field(index) for index in range(column.type.num_fields)]


def _symbols(column: "pa.Array", enum: Enum) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.string())
    found = pc.index_in(text, value_set=pa.array(enum.symbols, pa.string()))
    if found.null_count > text.null_count:
        wrong = text.filter(pc.and_(text.is_valid(), pc.invert(found.is_valid())))
        raise DataError(f"{wrong[0].as_py()!r} is not a symbol of {enum.name}")
    return found


def compiled_encoder(native: Any, avro_type: AvroType) -> Encode:
    of_type = arrow_type(avro_type)
    compiler = _Compiler()
    compiler.node(avro_type)
    code = compiler.code.tobytes()

    def encode(column: "pa.Array", prefix: bytes) -> "pa.Array":
        import pyarrow as pa

        fitting = cast_column(column, of_type)
        sources: list[Any] = []
        _gather(fitting, avro_type, sources)
        rows, reason, offsets, data = native.encode(code, sources, len(fitting), prefix)
        if reason == 1:
            raise MemoryError
        if reason:
            raise DataError(f"row {rows}: {_REASONS[reason]}")
        made = pa.Array.from_buffers(
            pa.binary(), len(fitting), [None, pa.py_buffer(bytes(4) + offsets), pa.py_buffer(data)]
        )
        return with_nulls(made, fitting)

    return encode


def with_nulls(made: "pa.Array", column: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(column.is_valid(), made, pa.scalar(None, pa.binary())) if column.null_count else made


def row_encoder(avro_type: AvroType) -> Encode:
    """The twin in Python."""
    of_type = arrow_type(avro_type)
    write = compile_writer(avro_type)

    def encode(column: "pa.Array", prefix: bytes) -> "pa.Array":
        import pyarrow as pa

        rows = []
        for number, value in enumerate(cast_column(column, of_type).to_pylist()):
            try:
                rows.append(None if value is None else prefix + write(_plain(value, avro_type)))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from error
        return pa.array(rows, pa.binary())

    return encode


def _plain(value: Any, avro_type: AvroType) -> Any:
    """Arrow gives maps as lists of pairs."""
    if value is None:
        return None
    if isinstance(avro_type, Union):
        inner = without_null(avro_type)
        return value if inner is None else _plain(value, inner)
    if isinstance(avro_type, Record):
        return {each.name: _plain(value[each.name], each.type) for each in avro_type.fields}
    if isinstance(avro_type, Array):
        return [_plain(item, avro_type.items) for item in value]
    if isinstance(avro_type, Map):
        return {key: _plain(item, avro_type.values) for key, item in value}
    return value


def cast_column(column: "pa.Array", of_type: "pa.DataType") -> "pa.Array":
    """The column in the schema's types: numbers may widen, text may be large; fields go by their names."""
    import pyarrow as pa

    if column.type == of_type:
        return column
    try:
        return column.cast(of_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(f"the column, of the type {column.type}, does not fit the schema: {error}") from error
