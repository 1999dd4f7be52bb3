"""JSON of a JSON Schema to columns at once, where that comes to exactly what comes of records one by one.

`column_reader` reads a column of JSON objects with Arrow's reader, in types that the schema says for certain, and gives
them those that `arrow_rows` gives to Connect's schema. A record by itself is read leniently (text where a number should
be is 0) and may have more fields than the schema; all of that, and what is refused or filled with a default, is
`Unfit`: the caller goes on with records then.
"""

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

from headwater.connect.converters.arrow_values import by_value, check_nulls, check_times
from headwater.connect.converters.jsonschema.schemas import ONE_OF
from headwater.connect.converters.registry import ColumnReader, Unfit
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_TINY: Final = "[eE]-[0-9]{5,}"  # exponents that Arrow takes for 0, and that Python may refuse
_BLOCK_BYTES: Final = 1 << 20


def column_reader(schema: Schema | None) -> ColumnReader | None:
    """None: values of this schema have no columns here. The one that is made raises Unfit."""
    try:
        import pyarrow as pa
        import pyarrow.json

        if schema is None or schema.type is not Type.STRUCT:
            return None
        arrow_type(schema)  # there must be one
        types = pa.schema(list(_read_type(schema)))
    except (ImportError, DataError):
        return None

    def read(column: "pa.Array", prefix: bytes) -> "pa.StructArray":
        import pyarrow.compute as pc

        try:
            texts = pc.binary_replace_slice(column, start=0, stop=len(prefix), replacement=b"")
            return _Fitting(texts).struct(_objects(texts, types), schema)
        except (DataError, pa.ArrowException) as error:
            raise Unfit(str(error)) from None

    return read


def _read_type(schema: Schema) -> "pa.DataType":
    """What Arrow's reader is told to read; DataError where that does not depend on the schema alone."""
    import pyarrow as pa

    if schema.name == s.DECIMAL:
        raise DataError("A decimal may be a number or text")
    match schema.type:
        case Type.STRUCT if schema.name != ONE_OF:
            return pa.struct([(each.name, _read_type(each.schema)) for each in schema.fields])
        case Type.ARRAY:
            assert schema.value_schema is not None
            return pa.list_(_read_type(schema.value_schema))
        case Type.BOOLEAN:
            return pa.bool_()
        case Type.STRING | Type.BYTES:
            return pa.string()
        case Type.FLOAT32 | Type.FLOAT64:
            return pa.float64()
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return pa.int64()
    raise DataError(f"Arrow's reader has no such type: {schema}")


def _objects(texts: "pa.Array", types: "pa.Schema") -> "pa.StructArray":
    """Each text is one object: it begins and ends as one, on a line of its own, and there are as many as texts."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json

    texts.cast(pa.string())  # they are UTF-8
    is_object = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    if not pc.all(is_object).as_py() or pc.any(pc.match_substring(texts, "\n")).as_py():
        raise Unfit("a text that is not an object on one line")
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), b"\n")[0].as_buffer()
    table = pyarrow.json.read_json(
        pa.BufferReader(lines),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(lines.size + 1, _BLOCK_BYTES)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=types, unexpected_field_behavior="error"),
    )
    if table.num_rows != len(texts):
        raise Unfit("a text that is several objects")
    columns = [pa.concat_arrays(each.chunks) for each in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(types))


def _without_nulls(array: "pa.Array") -> "pa.Array":
    """With something in the place of those that nobody sees: a column that has no nulls may not have these either."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nothing: dict[Any, Any] = {pa.string(): "", pa.bool_(): False, pa.float64(): 0.0, pa.int64(): 0}
    if array.type not in nothing:
        raise Unfit("lists or structs within structs that are null")
    return pc.fill_null(array, nothing[array.type])


class _Fitting:
    """The same values in the types of their schemas."""

    def __init__(self, texts: "pa.Array") -> None:
        self._texts = texts
        self._is_checked = False

    def struct(self, array: "pa.StructArray", schema: Schema) -> "pa.StructArray":
        import pyarrow as pa

        hidden = array.null_count
        children = [
            self._fitted(child, field.schema, hidden)
            for child, field in zip(array.flatten(), schema.fields, strict=True)
        ]
        mask = array.is_null() if hidden else None
        return pa.StructArray.from_arrays(children, fields=list(arrow_type(schema)), mask=mask)

    def _fitted(self, array: "pa.Array", schema: Schema, hidden: int) -> "pa.Array":
        """`hidden` of its nulls are within structs that are null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if array.null_count > hidden:
            check_nulls(array, schema)
        elif hidden and not schema.optional:
            array = _without_nulls(array)
        wanted: Any = arrow_type(schema)
        if schema.name in s.LOGICAL_NAMES:
            check_times(array, schema)
            return array.cast(wanted) if schema.name == s.TIMESTAMP else array.cast(pa.int32()).cast(wanted)
        match schema.type:
            case Type.STRUCT:
                return self.struct(array, schema)
            case Type.ARRAY:
                assert schema.value_schema is not None
                items = self._fitted(array.values, schema.value_schema, 0)
                mask = array.is_null() if array.null_count else None
                return pa.ListArray.from_arrays(array.offsets, items, type=wanted, mask=mask)
            case Type.BYTES:
                return by_value(array, schema, lambda text: b64decode(text, validate=True))
            case Type.FLOAT32 | Type.FLOAT64:
                self._check_floats(array)
                return pc.add(array, 0.0).cast(wanted, safe=False)  # one by one, there is no negative zero
        return array if array.type == wanted else array.cast(wanted)

    def _check_floats(self, array: "pa.Array") -> None:
        import pyarrow.compute as pc

        if not pc.all(pc.is_finite(array), min_count=0).as_py():
            raise Unfit("a number that is none, or too large")
        if not self._is_checked and pc.any(pc.equal(array, 0.0)).as_py():
            self._is_checked = True
            if pc.any(pc.match_substring_regex(self._texts, _TINY)).as_py():
                raise Unfit("a number that is very small")
