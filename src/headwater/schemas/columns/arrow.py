"""Avro's types as Arrow's, and finished columns as Arrow's arrays. Needs pyarrow, loaded on first use. No state.

record: struct; array: list; map: map; enum: dictionary of strings; `["null", X]`: X, nullable; timestamps in UTC;
decimals of up to 38 digits as decimal128; uuid as text. Every field may be null in Arrow's schema.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.avro.types import Array, AvroType, Enum, Fixed, LogicalType, Map, Record, Union, logical_type
from headwater.schemas.columns.program import DECIMAL_PRECISION_MAX, Column, ColumnKind, NoColumns, without_null

if TYPE_CHECKING:
    import pyarrow as pa

_PRIMITIVES: Final = {
    "null": "null",
    "boolean": "bool_",
    "int": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
    "bytes": "binary",
    "string": "string",
}

Finished = tuple[int, int, bytes | None, bytes, bytes]  # length, nulls, validity, offsets, values


def arrow_type(avro_type: AvroType, outer: tuple[Record, ...] = ()) -> "pa.DataType":
    import pyarrow as pa

    if isinstance(avro_type, Union):
        inner = without_null(avro_type)
        if inner is None:
            raise NoColumns(f"a union of {', '.join(branch.label for branch in avro_type.branches)} has no column")
        return arrow_type(inner, outer)
    if isinstance(avro_type, Record):
        if avro_type in outer:
            raise NoColumns(f"{avro_type.name} contains itself, and so has no columns")
        return pa.struct([(each.name, arrow_type(each.type, (*outer, avro_type))) for each in avro_type.fields])
    if isinstance(avro_type, Array):
        return pa.list_(arrow_type(avro_type.items, outer))
    if isinstance(avro_type, Map):
        return pa.map_(pa.string(), arrow_type(avro_type.values, outer))
    if isinstance(avro_type, Enum):
        return pa.dictionary(pa.int32(), pa.string())
    logical = logical_type(avro_type)
    found = None if logical is None else _logical(logical)
    if found is not None:
        return found
    return pa.binary(avro_type.size) if isinstance(avro_type, Fixed) else getattr(pa, _PRIMITIVES[avro_type.kind])()


def _logical(logical: LogicalType) -> "pa.DataType | None":
    import pyarrow as pa

    match logical.name:
        case "date":
            return pa.date32()
        case "time-millis":
            return pa.time32("ms")
        case "time-micros":
            return pa.time64("us")
        case "decimal" if logical.precision <= DECIMAL_PRECISION_MAX:
            return pa.decimal128(logical.precision, logical.scale)
    if "timestamp" not in logical.name:
        return None
    unit = {"millis": "ms", "micros": "us", "nanos": "ns"}[logical.name.rpartition("-")[2]]
    return pa.timestamp(unit, tz=None if logical.name.startswith("local") else "UTC")


def assemble(column: Column, finished: Sequence[Finished], of_type: "pa.DataType") -> "pa.Array":
    """One Arrow array of a column and those inside it."""
    import pyarrow as pa

    length, nulls, validity_bytes, offsets, values = finished[column.index]
    validity = None if validity_bytes is None else pa.py_buffer(validity_bytes)
    if column.kind is ColumnKind.NULL:
        return pa.nulls(length)
    if column.kind is ColumnKind.STRUCT:
        types = [of_type.field(index).type for index in range(of_type.num_fields)]
        children = [assemble(child, finished, each) for child, each in zip(column.children, types, strict=True)]
        return pa.Array.from_buffers(of_type, length, [validity], nulls, children=children)
    if column.kind is ColumnKind.LIST:
        inner = pa.struct([of_type.key_field, of_type.item_field]) if pa.types.is_map(of_type) else of_type.value_type
        items = assemble(column.children[0], finished, inner)
        return pa.Array.from_buffers(of_type, length, [validity, pa.py_buffer(offsets)], nulls, children=[items])
    if isinstance(column.avro, Enum):
        indexes = pa.Array.from_buffers(pa.int32(), length, [validity, pa.py_buffer(values)], nulls)
        return pa.DictionaryArray.from_arrays(indexes, pa.array(column.avro.symbols, pa.string()))
    buffers: list[Any] = [validity, pa.py_buffer(values)]
    if column.kind is ColumnKind.VARIABLE:
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(of_type, length, buffers, nulls)
