"""Columns to bytes, on the way into records: JSON, text, numbers as Java's serializers have them, Avro.

JSON is put together column by column: names and punctuation are constants, numbers and text are cast and escaped by
Arrow, and Arrow joins them; so a struct of some fields costs about as much as a few string operations per field, around
a microsecond per row, and no Python object. A type that has no such way (a list, a map, a duration) is written value by
value with Python's `json`, at ten times that. Avro is always written value by value (fastavro, the extra `avro`).
No state.
"""

import io
import json
import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBERS: Final = {"short": ">h", "int": ">i", "integer": ">i", "long": ">q", "float": ">f", "double": ">d"}
_ESCAPES: Final = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"))
_CONTROL: Final = r"[\x00-\x1f]"


class AvroEncoding(NamedTuple):
    """`schema` as a dictionary or as JSON; `header` comes before each value, as schema registries want it."""

    schema: Any
    header: bytes = b""


Encode = Any  # "json", "string", "short" to "double", AvroEncoding, or a function of the column


def encode_column(column: "pa.Array", form: Encode) -> "pa.Array":
    """The column as binary or string. Nulls stay null: a record without that part."""
    if form == "json":
        return json_column(column)
    if form == "string":
        import pyarrow as pa

        return column.cast(pa.string())
    if isinstance(form, str) and form in _NUMBERS:
        return _numbers(column, struct.Struct(_NUMBERS[form]))
    if isinstance(form, AvroEncoding) or hasattr(form, "schema"):
        return _avro(column, form)
    if callable(form):
        return form(column)
    raise UserError(
        f"encode cannot be {form!r}",
        "",
        f"It is json, string, {', '.join(_NUMBERS)}, AvroEncoding(schema) or a function",
    )


def json_column(column: "pa.Array") -> "pa.Array":
    """Each value as JSON text. A null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _json(column)
    if text.null_count or not column.null_count:
        return text
    return pc.if_else(column.is_valid(), text, pa.scalar(None, text.type))


def _json(column: "pa.Array") -> "pa.Array":
    """As `json_column`, but a null may come out as the word null: then the caller does not care."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    kinds = pa.types
    if kinds.is_dictionary(kind):
        return _json(column.dictionary_decode())
    if kinds.is_struct(kind):
        return _struct(column)
    if kinds.is_boolean(kind):
        text = pc.if_else(column, "true", "false")
    elif kinds.is_integer(kind) or kinds.is_decimal(kind):
        text = column.cast(pa.string())
    elif kinds.is_floating(kind):
        finite = pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))  # JSON has no other numbers
        text = finite.cast(pa.string())
    elif kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        text = _quoted(column.cast(pa.string()))
    elif kinds.is_binary(kind) or kinds.is_large_binary(kind):
        text = _quoted(_text(column))
    elif kinds.is_temporal(kind) and not kinds.is_duration(kind) and not kinds.is_interval(kind):
        text = _quoted(_iso(column))
    elif kinds.is_null(kind):
        text = pa.nulls(len(column), pa.string())
    else:
        text = pa.array(
            [None if value is None else json.dumps(value, default=_plain) for value in column.to_pylist()], pa.string()
        )
    return text


def _struct(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type.num_fields == 0:
        return pc.if_else(column.is_valid(), "{}", pa.scalar(None, pa.string()))
    pieces: list[Any] = []
    for at, (field, child) in enumerate(zip(column.type, column.flatten(), strict=True)):
        pieces.append(("," if at else "{") + json.dumps(field.name) + ":")
        pieces.append(pc.fill_null(_json(child), "null"))
    pieces.append("}")
    text = pc.binary_join_element_wise(*pieces, "")
    return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text


def _quoted(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    risky = pc.match_substring_regex(column, r'["\\\x00-\x1f]')
    if pc.any(risky).as_py():
        for character, escaped in _ESCAPES:
            column = pc.replace_substring(column, character, escaped)
        if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():  # rare ones: value by value
            column = pa.array([value if value is None else _escape_control(value) for value in column.to_pylist()])
    return pc.binary_join_element_wise('"', column, '"', "")


def _text(column: "pa.Array") -> "pa.Array":
    """Binary as the UTF-8 that it most likely is; what is not is replaced."""
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        values = column.to_pylist()
        return pa.array([None if value is None else value.decode("utf-8", "replace") for value in values], pa.string())


def _escape_control(text: str) -> str:
    return "".join(character if character >= " " else f"\\u{ord(character):04x}" for character in text)


def _iso(column: "pa.Array") -> "pa.Array":
    """ISO 8601, with a T and, in UTC, a Z."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_timestamp(column.type):
        return column.cast(pa.string())
    zoned = column.type.tz is not None
    plain = column.cast(pa.timestamp(column.type.unit, "UTC" if zoned else None))
    text = plain.cast(pa.timestamp(column.type.unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    return pc.binary_join_element_wise(text, "Z", "") if zoned else text


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _numbers(column: "pa.Array", form: struct.Struct) -> "pa.Array":
    """Big-endian, as Java writes them: the bytes of the column, turned around by numpy."""
    import numpy as np
    import pyarrow as pa

    kind = {"h": "i2", "i": "i4", "q": "i8", "f": "f4", "d": "f8"}[form.format[-1]]
    native = column.cast(pa.from_numpy_dtype(np.dtype(kind))).fill_null(0).to_numpy(zero_copy_only=False)
    data = pa.py_buffer(native.astype(">" + kind).tobytes())
    array = pa.Array.from_buffers(pa.binary(form.size), len(column), [None, data])
    if column.null_count:
        import pyarrow.compute as pc

        array = pc.if_else(column.is_valid(), array, pa.scalar(None, array.type))
    return array.cast(pa.binary())


def _avro(column: "pa.Array", form: Any) -> "pa.Array":
    import pyarrow as pa

    try:
        import fastavro
    except ImportError:
        raise UserError(
            "Avro needs fastavro", "it is not installed", "pip install 'headwater[avro]', or pip install fastavro"
        ) from None
    schema = json.loads(form.schema) if isinstance(form.schema, str) else form.schema
    parsed = fastavro.parse_schema(schema)
    header = getattr(form, "header", b"")

    def write(value: Any) -> bytes | None:
        if value is None:
            return None
        out = io.BytesIO()
        out.write(header)
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    return pa.array([write(value) for value in column.to_pylist()], pa.binary())


Encodings = Mapping[str, Encode]
ColumnFunction = Callable[["pa.Array"], "pa.Array"]
