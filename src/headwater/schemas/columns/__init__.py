"""Avro straight into Arrow's columns: compiled (`native/`, built at install) where it could be, else row by row. Needs
pyarrow.

    decode = avro_columns(writer, reader)     # of AvroType; NoColumns where the reader's has none
    decode(column, prefix=5)                  # a binary array -> an array in the reader's schema; null stays null
    avro_rows(schema)(column, prefix)         # and back

A row that is not what its schema says is a DataError, which names it by its number. With HEADWATER_PURE=1 the rows' way
serves.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.avro.decoding import require_readable
from headwater.schemas.avro.types import AvroType
from headwater.schemas.columns.arrow import arrow_type, assemble
from headwater.schemas.columns.encoder import Encode, compiled_encoder, row_encoder
from headwater.schemas.columns.program import NoColumns, compile_program
from headwater.schemas.columns.rows import row_decoder
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa

    _columns: Any
else:
    try:
        if os.environ.get("HEADWATER_PURE") == "1":
            raise ImportError
        from headwater.schemas import _columns
    except ImportError:
        _columns = None

__all__ = ["COMPILED", "NoColumns", "avro_columns", "avro_rows", "frame_ids"]

COMPILED: Final = _columns is not None
Decode = Callable[["pa.Array", int], "pa.Array"]

# By the numbers of native/columns.h.
_REASONS: Final = {
    2: "the bytes end too early",
    3: "bytes are left behind the value",
    4: "a number is too large",
    5: "a length is beyond the bytes that are there",
    6: "text is not UTF-8",
    7: "a union has no such branch",
    8: "an enum has no such symbol",
    9: "a decimal has too many digits",
    10: "the bytes are nested too deep",
    11: "a list has too many items",
    12: "a column is too large: decode fewer rows at once",
    13: "what was written cannot be read with the reader's schema",
}


def avro_columns(writer: AvroType, reader: AvroType) -> Decode:
    """A function of a binary array and of how many bytes stand before each value."""
    if _columns is None:
        return row_decoder(writer, reader)
    of_type = arrow_type(reader)
    require_readable(writer, reader)
    program = compile_program(writer, reader)

    def decode(column: "pa.Array", prefix: int) -> "pa.Array":
        rows, reason, finished = _columns.decode(
            program.code,
            program.table,
            len(program.columns),
            program.defaults,
            *column_buffers(column),
            len(column),
            prefix,
        )
        if reason == 1:
            raise MemoryError
        if reason:
            raise DataError(f"row {rows}: {_REASONS[reason]}")
        return assemble(program.columns[0], finished, of_type)

    return decode


def avro_rows(avro_type: AvroType) -> Encode:
    """The way back: a function of a column that fits the schema and of what comes before each value, to a binary
    array.
    """
    return row_encoder(avro_type) if _columns is None else compiled_encoder(_columns, avro_type)


def column_buffers(column: "pa.Array") -> tuple[Any, Any, Any, int]:
    """Data, the offsets of its rows, validity (empty: all are there) and its first bit."""
    import pyarrow as pa

    if not pa.types.is_binary(column.type) and not pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    validity, offsets, data = column.buffers()
    begin = column.offset * 4
    view = (
        memoryview(offsets)[begin : begin + 4 * (len(column) + 1)] if offsets is not None and len(offsets) else bytes(4)
    )
    return (
        data if data is not None else b"",
        view,
        validity if column.null_count else b"",
        column.offset if column.null_count else 0,
    )


def frame_ids(column: "pa.Array") -> "pa.Array":
    """The schema id of each row in Confluent's framing, as int64; -1 where there is none, null where the row is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if _columns is None:
        ids = [
            None if row is None else int.from_bytes(row[1:5], "big") if len(row) >= 5 and row[0] == 0 else -1
            for row in column.to_pylist()
        ]
        return pa.array(ids, pa.int64())
    data, offsets, _, _ = column_buffers(column)
    ids = pa.Array.from_buffers(
        pa.int64(), len(column), [None, pa.py_buffer(_columns.schema_ids(data, offsets, len(column)))]
    )
    return pc.if_else(column.is_valid(), ids, None) if column.null_count else ids
