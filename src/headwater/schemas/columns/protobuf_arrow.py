"""Shapes of messages as Arrow's types, finished columns as arrays, and arrays as the buffers that are encoded. Needs
pyarrow, loaded on first use. No state.

message: struct; repeated: list; map: map; enum: dictionary of its names, where a number without one is its digits;
Timestamp: timestamp in microseconds, UTC; Duration: duration in microseconds; wrappers: their value, null where they
are absent.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.columns.arrow import Finished
from headwater.schemas.columns.encoder import struct_children
from headwater.schemas.columns.program import Column
from headwater.schemas.columns.protobuf_shapes import FieldShape, Kind, Label, MessageShape
from headwater.schemas.model import DataError
from headwater.schemas.protobuf.types import Enum

if TYPE_CHECKING:
    import pyarrow as pa

_TYPES: Final = {
    Kind.DOUBLE: "float64",
    Kind.FLOAT: "float32",
    Kind.INT32: "int32",
    Kind.INT64: "int64",
    Kind.UINT32: "uint32",
    Kind.UINT64: "uint64",
    Kind.SINT32: "int32",
    Kind.SINT64: "int64",
    Kind.FIXED32: "uint32",
    Kind.FIXED64: "uint64",
    Kind.SFIXED32: "int32",
    Kind.SFIXED64: "int64",
    Kind.BOOL: "bool_",
    Kind.STRING: "string",
    Kind.BYTES: "binary",
}


def message_type(shape: MessageShape) -> "pa.DataType":
    import pyarrow as pa

    return pa.struct([(each.name, field_type(each)) for each in shape.fields])


def field_type(each: FieldShape) -> "pa.DataType":
    import pyarrow as pa

    if each.is_map:
        assert each.message is not None
        key, value = each.message.fields
        return pa.map_(value_type(key), value_type(value))
    inner = value_type(each)
    return pa.list_(inner) if each.label is Label.REPEATED else inner


def value_type(each: FieldShape) -> "pa.DataType":
    """Of one value of the field."""
    import pyarrow as pa

    if each.message is not None:
        return message_type(each.message)
    if each.kind is Kind.ENUM:
        return pa.dictionary(pa.int32(), pa.string())
    if each.kind is Kind.TIMESTAMP:
        return pa.timestamp("us", tz="UTC")
    if each.kind is Kind.DURATION:
        return pa.duration("us")
    return getattr(pa, _TYPES[each.wrapped if each.wrapped is not None else each.kind])()


# From columns that were decoded


def assemble_message(shape: MessageShape, column: Column, finished: Sequence[Finished]) -> "pa.Array":
    import pyarrow as pa

    length, nulls, validity, _, _ = finished[column.index]
    children = [
        _assemble_field(each, child, finished) for each, child in zip(shape.fields, column.children, strict=True)
    ]
    return pa.Array.from_buffers(message_type(shape), length, [_buffer(validity)], nulls, children=children)


def _assemble_field(each: FieldShape, column: Column, finished: Sequence[Finished]) -> "pa.Array":
    import pyarrow as pa

    if each.label is not Label.REPEATED:
        return _assemble_value(each, column, finished)
    length, nulls, validity, offsets, _ = finished[column.index]
    inner = column.children[0]
    of_type = field_type(each)
    if each.is_map:
        assert each.message is not None
        entries = finished[inner.index]
        parts = [
            _assemble_value(part, child, finished)
            for part, child in zip(each.message.fields, inner.children, strict=True)
        ]
        items = pa.Array.from_buffers(
            pa.struct([of_type.key_field, of_type.item_field]), entries[0], [None], 0, children=parts
        )
    else:
        items = _assemble_value(each, inner, finished)
    return pa.Array.from_buffers(of_type, length, [_buffer(validity), pa.py_buffer(offsets)], nulls, children=[items])


def _assemble_value(each: FieldShape, column: Column, finished: Sequence[Finished]) -> "pa.Array":
    import pyarrow as pa

    if each.message is not None:
        return assemble_message(each.message, column, finished)
    length, nulls, validity, offsets, values = finished[column.index]
    if each.enum is not None:
        numbers = pa.Array.from_buffers(pa.int32(), length, [_buffer(validity), pa.py_buffer(values)], nulls)
        return _named(numbers, each.enum)
    of_type = value_type(each)
    buffers: list[Any] = [_buffer(validity), pa.py_buffer(values)]
    if pa.types.is_string(of_type) or pa.types.is_binary(of_type):
        buffers.insert(1, pa.py_buffer(offsets))
    return pa.Array.from_buffers(of_type, length, buffers, nulls)


def _buffer(validity: bytes | None) -> Any:
    import pyarrow as pa

    return None if validity is None else pa.py_buffer(validity)


def names_of(enum: Enum) -> dict[int, str]:
    """Of several names for one number, the first counts."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, value.name)
    return names


def _named(numbers: "pa.Array", enum: Enum) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    names = names_of(enum)
    places = pc.index_in(numbers, value_set=pa.array(list(names), pa.int32()))
    if places.null_count > numbers.null_count:  # numbers without a name
        for number in pc.unique(numbers.drop_null()).to_pylist():
            names.setdefault(number, str(number))
        places = pc.index_in(numbers, value_set=pa.array(list(names), pa.int32()))
    return pa.DictionaryArray.from_arrays(places, pa.array(list(names.values()), pa.string()))


# Into columns that are to be encoded


def gather_message(column: "pa.Array", shape: MessageShape, sources: list[Any]) -> None:
    """The buffers of a struct and of what is inside it, in the order of the program's columns."""
    sources.append((column.offset, column.buffers()[0] if column.null_count else None, None, None))
    _gather_fields(column, shape, sources)


def _gather_fields(column: "pa.Array", shape: MessageShape, sources: list[Any]) -> None:
    children = struct_children(column)
    _check_oneofs(children, shape)
    for child, each in zip(children, shape.fields, strict=True):
        _gather_field(child, each, sources)


def _gather_field(column: "pa.Array", each: FieldShape, sources: list[Any]) -> None:
    if each.label is not Label.REPEATED:
        _gather_value(column, each, sources)
        return
    buffers = column.buffers()
    sources.append((column.offset, buffers[0] if column.null_count else None, buffers[1], None))
    if not each.is_map:
        _gather_value(column.values, each, sources)
        return
    assert each.message is not None
    sources.append((0, None, None, None))  # entries are never null
    key, value = each.message.fields
    if column.items.null_count:
        raise DataError(f"the map {each.name} has a null, which Protobuf has no way to write")
    _gather_value(column.keys, key, sources)
    _gather_value(column.items, value, sources)


def _gather_value(column: "pa.Array", each: FieldShape, sources: list[Any]) -> None:
    if each.message is not None:
        gather_message(column, each.message, sources)
        return
    if each.enum is not None:
        column = _numbered(column, each.enum)
    buffers = column.buffers()
    validity = buffers[0] if column.null_count else None
    if len(buffers) == 3:
        sources.append((column.offset, validity, buffers[1], buffers[2]))
    else:
        sources.append((column.offset, validity, None, buffers[1]))


def _check_oneofs(children: "list[pa.Array]", shape: MessageShape) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    for oneof in shape.oneofs:
        members = [index for index, each in enumerate(shape.fields) if each.oneof == oneof]
        present = [children[index].is_valid().cast(pa.int32()) for index in members]
        total = present[0]
        for other in present[1:]:
            total = pc.add(total, other)
        if len(total) and (pc.max(total).as_py() or 0) > 1:
            row = pc.index(pc.greater(total, 1), True).as_py()
            raise DataError(f"row {row}: several fields of the oneof {oneof} have a value, and only one may")


def _numbered(column: "pa.Array", enum: Enum) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    text = column.cast(pa.string())
    numbers = {value.name: value.number for value in enum.values}
    places = pc.index_in(text, value_set=pa.array(list(numbers), pa.string()))
    if places.null_count > text.null_count:
        for name in pc.unique(text.drop_null()).to_pylist():
            if name not in numbers:
                numbers[name] = digits(name, enum)
        places = pc.index_in(text, value_set=pa.array(list(numbers), pa.string()))
    return pa.array(list(numbers.values()), pa.int32()).take(places)


def digits(name: str, enum: Enum) -> int:
    if name.removeprefix("-").isascii() and name.removeprefix("-").isdigit() and -(1 << 31) <= int(name) < 1 << 31:
        return int(name)
    raise DataError(f"{name!r} is not a name of the enum {enum.full_name}")
