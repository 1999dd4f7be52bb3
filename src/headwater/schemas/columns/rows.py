"""The twin in Python: rows are decoded one by one and put into columns by pyarrow. Slow, and what the compiled decoder
is held against.
"""

import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.types import AvroType
from headwater.schemas.columns.arrow import arrow_type
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa


def row_decoder(writer: AvroType, reader: AvroType) -> Callable[["pa.Array", int], "pa.Array"]:
    of_type = arrow_type(reader)
    read = compile_reader(writer, reader)

    def decode(column: "pa.Array", prefix: int) -> "pa.Array":
        import pyarrow as pa

        rows = []
        for number, data in enumerate(column.to_pylist()):
            try:
                rows.append(None if data is None else _plain(read(_behind(data, prefix))))
            except DataError as error:
                raise DataError(f"row {number}: {error}") from error
        return pa.array(rows, of_type)

    return decode


def _behind(data: bytes, prefix: int) -> bytes:
    if len(data) < prefix:
        raise DataError("the bytes end too early")
    return data[prefix:]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, uuid.UUID) else value
