"""Protobuf to columns at once, where that comes to exactly what comes of records one by one.

`column_reader` decodes a column of messages with the compiled decoder and gives it the types that `arrow_rows` gives to
Connect's schema. Whatever record by record is told otherwise or refused is `Unfit`: the caller goes on with records
then.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.connect.converters.arrow_values import by_value, check_keys, check_nulls, check_times
from headwater.connect.converters.protobuf.from_protobuf import entry_of
from headwater.connect.converters.protobuf.to_protobuf import is_union
from headwater.connect.converters.registry import ColumnReader, Unfit
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import DataError
from headwater.schemas.model import DataError as SchemaDataError
from headwater.schemas.model import SchemaError
from headwater.schemas.protobuf.types import Enum, Field, Message
from headwater.schemas.protobuf.well_known_values import from_well_known, is_wrapper

if TYPE_CHECKING:
    import pyarrow as pa

_ID_BYTES: Final = 5
_DURATION: Final = "google.protobuf.Duration"  # a time in columns, and a struct one by one


def column_reader(message: Message, schema: Schema) -> ColumnReader | None:
    """None: this message has no columns here. The one that is made raises Unfit."""
    try:
        from headwater.schemas.columns import protobuf
        from headwater.schemas.columns.protobuf_shapes import shape_of

        if not protobuf.COMPILED or _has_none(message):
            return None
        arrow_type(schema)  # there must be one
        decode = protobuf.protobuf_columns(shape_of(message))
    except (ImportError, SchemaError, DataError):
        return None

    def read(column: "pa.Array", prefix: bytes) -> "pa.StructArray":
        import pyarrow as pa

        try:
            return _message(decode(column, _ID_BYTES, prefix[_ID_BYTES:]), schema, message)
        except (SchemaDataError, DataError, pa.ArrowException) as error:
            raise Unfit(str(error)) from None

    return read


def _has_none(message: Message) -> bool:
    """Whether a field here or further inside has no columns.
    No message contains itself: Connect has no schema of it.
    """
    for field in message.fields:
        target = field.target
        if isinstance(target, Message) and (
            target.full_name == _DURATION or entry_of(field) is not None or _has_none(target)
        ):
            return True
    return False


def _message(array: "pa.Array", schema: Schema, message: Message) -> "pa.StructArray":
    """A struct, null where the message is absent."""
    import pyarrow as pa

    columns = {field.name: (field, array.field(number)) for number, field in enumerate(message.fields)}
    made = [
        _union(each.schema, columns) if is_union(each.schema) else _field(columns[each.name], each.schema)
        for each in schema.fields
    ]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(made, fields=list(arrow_type(schema)), mask=mask)


def _union(schema: Schema, columns: "dict[str, tuple[Field, pa.Array]]") -> "pa.StructArray":
    """Null where no choice of the oneof has a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made = [_field(columns[each.name], each.schema) for each in schema.fields]
    mask = made[0].is_null()
    for each in made[1:]:
        mask = pc.and_(mask, each.is_null())
    return pa.StructArray.from_arrays(made, fields=list(arrow_type(schema)), mask=mask)


def _field(column: "tuple[Field, pa.Array]", schema: Schema) -> "pa.Array":
    import pyarrow as pa

    field, array = column
    check_nulls(array, schema)
    wanted = arrow_type(schema)
    if schema.type is Type.MAP:
        assert schema.value_schema is not None
        assert schema.key_schema is not None
        check_keys(array)
        keys, items = (
            _single(array.keys, schema.key_schema, None),
            _single(array.items, schema.value_schema, field.target),
        )
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=wanted)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        items = _single(array.values, schema.value_schema, field.target)
        return pa.ListArray.from_arrays(array.offsets, items, type=wanted)
    return _single(array, schema, field.target)


def _single(array: "pa.Array", schema: Schema, target: Message | Enum | None) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    check_nulls(array, schema)
    wanted: Any = arrow_type(schema)
    if isinstance(target, Message) and schema.name in (s.DATE, s.TIME, s.DECIMAL):
        return by_value(array, schema, lambda value: from_well_known(target, value))
    if schema.name == s.TIMESTAMP:
        whole = pc.floor_temporal(array, unit="millisecond").cast(wanted)
        check_times(whole.cast(pa.int64()), schema)
        return whole
    if schema.type is Type.STRUCT:
        assert isinstance(target, Message)
        if not is_wrapper(target):
            return _message(array, schema, target)
        (inner,) = schema.fields
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([_single(array, inner.schema, None)], fields=list(wanted), mask=mask)
    if schema.type is Type.INT64 and pa.types.is_uint64(array.type):
        return array.view(wanted)  # the same bits, as Java has them
    return array if array.type == wanted else array.cast(wanted)
