"""Avro to columns at once, where that comes to exactly what comes of records one by one.

`column_reader` decodes a column of Avro with the compiled decoder and gives it the types that `arrow_rows` gives to
Connect's schema. Whatever record by record is told otherwise, refused, or filled with a default is `Unfit`: the caller
goes on with records then.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwater.connect.converters.arrow_values import check_nulls, check_times
from headwater.connect.converters.registry import ColumnReader, Unfit
from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import DataError
from headwater.schemas.avro.types import Array, AvroType, Map, Record, Union
from headwater.schemas.model import DataError as SchemaDataError
from headwater.schemas.model import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def column_reader(
    writer: AvroType, reader: AvroType, schema: Schema | None, decode_one: Callable[[bytes], Any]
) -> ColumnReader | None:
    """None: values of this schema have no columns here. The one that is made raises Unfit. `decode_one` is the way of
    single records.
    """
    try:
        from headwater.schemas.columns import COMPILED, avro_columns

        if not COMPILED or schema is None or schema.type is not Type.STRUCT or _has_uuid(reader):
            return None
        arrow_type(schema)  # there must be one
        decode = avro_columns(writer, reader)
    except (ImportError, SchemaError, DataError):
        return None

    def read(column: "pa.Array", prefix: bytes) -> "pa.StructArray":
        import pyarrow as pa

        try:
            found = decode(column, len(prefix))
            for row in _rows_with_zeros(found, schema):
                decode_one(column[row].as_py()[len(prefix) :])
            return _fitted(found, schema)
        except (SchemaDataError, DataError, pa.ArrowException) as error:
            raise Unfit(str(error)) from None

    return read


def _has_uuid(avro_type: AvroType, outer: tuple[Record, ...] = ()) -> bool:
    """One by one, its text is taken as it stands."""
    if isinstance(avro_type, Union):
        return any(_has_uuid(each, outer) for each in avro_type.branches)
    if isinstance(avro_type, Record):
        return avro_type not in outer and any(_has_uuid(each.type, (*outer, avro_type)) for each in avro_type.fields)
    if isinstance(avro_type, Array):
        return _has_uuid(avro_type.items, outer)
    if isinstance(avro_type, Map):
        return _has_uuid(avro_type.values, outer)
    return avro_type.properties.get("logicalType") == "uuid"


def _rows_with_zeros(array: "pa.Array", schema: Schema) -> list[int]:
    """Those with a decimal of 0. It may have been no bytes at all, which one by one is refused."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_struct(array.type) or array.type.num_fields != len(schema.fields):
        return []
    rows: set[int] = set()
    for number, field in enumerate(schema.fields):
        child = array.field(number)
        if field.schema.name == s.DECIMAL and pa.types.is_decimal128(child.type):
            zeros = pc.equal(child, pa.scalar(0, child.type)).fill_null(False)
            rows.update(pc.indices_nonzero(zeros).to_pylist())
    return sorted(rows)


def _fitted(array: "pa.Array", schema: Schema, *, outermost: bool = True) -> Any:
    """The same values in the type of the schema."""
    import pyarrow as pa

    check_nulls(array, schema)
    wanted, given = arrow_type(schema), array.type
    if schema.name == s.DECIMAL:
        return _decimals(array, schema, wanted)
    if schema.name in s.LOGICAL_NAMES:
        return _times(array, schema, wanted)
    match schema.type:
        case Type.STRUCT:
            if not outermost and any(field.schema.name == s.DECIMAL for field in schema.fields):
                raise Unfit("decimals further inside: what is no number there is not found")
            return _struct(array, schema, wanted)
        case Type.ARRAY if pa.types.is_list(given):
            assert schema.value_schema is not None
            if schema.value_schema.name == s.DECIMAL:
                raise Unfit("decimals further inside: what is no number there is not found")
            items = _fitted(array.values, schema.value_schema, outermost=False)
            mask = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=mask)
        case Type.INT64 if pa.types.is_timestamp(given) or pa.types.is_time64(given):
            return array.cast(wanted)
        case Type.INT8 | Type.INT16 if pa.types.is_int32(given):
            return array.cast(wanted)
        case Type.STRING if pa.types.is_dictionary(given):
            return array.cast(wanted)
        case Type.BYTES if pa.types.is_fixed_size_binary(given):
            return array.cast(wanted)
        case Type.MAP:
            raise Unfit("a map may have a key twice, of which one by one the last counts")
    if given != wanted:
        raise Unfit(f"{given} is no {wanted}")
    return array


def _struct(array: "pa.Array", schema: Schema, wanted: "pa.DataType") -> "pa.StructArray":
    import pyarrow as pa

    if not pa.types.is_struct(array.type) or [each.name for each in array.type] != [each.name for each in wanted]:
        raise Unfit("other fields than the schema's")
    if array.null_count:
        raise Unfit("structs that are null")
    children = [
        _fitted(array.field(number), field.schema, outermost=False) for number, field in enumerate(schema.fields)
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted))


def _decimals(array: "pa.Array", schema: Schema, wanted: "pa.DataType") -> "pa.Array":
    import pyarrow as pa

    if not pa.types.is_decimal128(array.type) or array.type.scale != logical.scale_of(schema):
        raise Unfit("a decimal of another scale")
    return array.cast(wanted)


def _times(array: "pa.Array", schema: Schema, wanted: "pa.DataType") -> "pa.Array":
    import pyarrow as pa

    if array.type != wanted:
        raise Unfit(f"{array.type} is no {wanted}")
    check_times(array.cast(pa.int32() if schema.name in (s.DATE, s.TIME) else pa.int64()), schema)
    return array
