"""Protobuf straight into Arrow's columns, and back: compiled (`native/`, built at install) where it could be, else row
by row. Needs pyarrow.

    decode = protobuf_columns(shape)             # of a MessageShape: `shape_of(message)`, NoColumns where it has none
    decode(column, 5, b"\\0")                     # a binary array -> an array of structs, null where the column is
    protobuf_rows(shape)(column, b"...")         # and back; the bytes come before each message

Rows are read by the reader's message: Protobuf's fields are their numbers, so what was written with another version of
it comes out in this one. A row that is not a message is a DataError, which names it by its number; `OtherMessage` is
one that has another path than was expected.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.schemas.columns import _columns, column_buffers
from headwater.schemas.columns.encoder import cast_column, with_nulls
from headwater.schemas.columns.protobuf_arrow import assemble_message, gather_message, message_type
from headwater.schemas.columns.protobuf_program import decoding_program, encoding_program
from headwater.schemas.columns.protobuf_rows import read_message, write_message
from headwater.schemas.columns.protobuf_shapes import MessageShape
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa

DecodeMessages = Callable[["pa.Array", int, bytes], "pa.Array"]
EncodeMessages = Callable[["pa.Array", bytes], "pa.Array"]
COMPILED: Final = _columns is not None and hasattr(_columns, "decode_messages")  # an older build has none

_OTHER_MESSAGE: Final = 16
# By the numbers of native/columns.h and native/protobuf.h.
_REASONS: Final = {
    2: "the bytes end too early",
    4: "a number is too large",
    5: "a length is beyond the bytes that are there",
    6: "text is not UTF-8",
    10: "the bytes are nested too deep",
    11: "there are too many values in it",
    12: "a column is too large: take fewer rows at once",
    14: "there is a null where the schema has none",
    15: "there is no such field or wire type",
}


class OtherMessage(DataError):
    """A row names another message than was expected."""


def protobuf_columns(shape: MessageShape) -> DecodeMessages:
    """A function of a binary array, how many bytes stand before each row's path to its message, and that path."""
    return compiled_messages(shape) if COMPILED else message_rows(shape)


def protobuf_rows(shape: MessageShape) -> EncodeMessages:
    """The way back: a function of a column that fits the message and of what comes before each, to a binary array."""
    return compiled_message_encoder(shape) if COMPILED else message_row_encoder(shape)


def compiled_messages(shape: MessageShape) -> DecodeMessages:
    program = decoding_program(shape)

    def decode(column: "pa.Array", prefix: int, path: bytes) -> "pa.Array":
        rows, reason, finished = _columns.decode_messages(
            program.code, program.table, len(program.columns), path, *column_buffers(column), len(column), prefix
        )
        _check(rows, reason)
        return assemble_message(shape, program.columns[0], finished)

    return decode


def compiled_message_encoder(shape: MessageShape) -> EncodeMessages:
    of_type = message_type(shape)
    code = encoding_program(shape)

    def encode(column: "pa.Array", prefix: bytes) -> "pa.Array":
        import pyarrow as pa

        fitting = cast_column(column, of_type)
        sources: list[Any] = []
        gather_message(fitting, shape, sources)
        rows, reason, offsets, data = _columns.encode_messages(code, sources, len(fitting), prefix)
        _check(rows, reason)
        made = pa.Array.from_buffers(
            pa.binary(), len(fitting), [None, pa.py_buffer(bytes(4) + offsets), pa.py_buffer(data)]
        )
        return with_nulls(made, fitting)

    return encode


def _check(rows: int, reason: int) -> None:
    if reason == 1:
        raise MemoryError
    if reason == _OTHER_MESSAGE:
        raise OtherMessage(f"row {rows}: it names another message of its schema")
    if reason:
        raise DataError(f"row {rows}: {_REASONS[reason]}")


def message_rows(shape: MessageShape) -> DecodeMessages:
    """The twin in Python."""
    of_type = message_type(shape)

    def decode(column: "pa.Array", prefix: int, path: bytes) -> "pa.Array":
        import pyarrow as pa

        rows = []
        for number, data in enumerate(column.to_pylist()):
            if data is not None and len(data) < prefix:
                raise DataError(f"row {number}: the bytes end too early")
            if data is not None and data[prefix : prefix + len(path)] != path:
                raise OtherMessage(f"row {number}: it names another message of its schema")
            try:
                rows.append(None if data is None else read_message(shape, data[prefix + len(path) :]))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from error
        return pa.array(rows, of_type)

    return decode


def message_row_encoder(shape: MessageShape) -> EncodeMessages:
    """The twin in Python."""
    of_type = message_type(shape)

    def encode(column: "pa.Array", prefix: bytes) -> "pa.Array":
        import pyarrow as pa

        rows = []
        for number, value in enumerate(cast_column(column, of_type).to_pylist()):
            try:
                rows.append(None if value is None else prefix + write_message(shape, value))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from error
        return pa.array(rows, pa.binary())

    return encode
