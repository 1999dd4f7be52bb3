"""Columns of Arrow as databases take them. Times become text in UTC, decimals keep all digits, nested values are
JSON.
"""

import base64
import json
from typing import Any

import pyarrow
import pyarrow.compute


def simplified(batch: pyarrow.RecordBatch, *, utc_suffix: str = "") -> pyarrow.RecordBatch:
    """Only integers, floats, booleans, text and bytes are left. `utc_suffix` marks points in time, as in "+00"."""
    columns = [_simplified(batch.column(number), utc_suffix) for number in range(batch.num_columns)]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


def rows_of(batch: pyarrow.RecordBatch) -> list[tuple[Any, ...]]:
    """The rows of a simplified batch."""
    columns = [column.to_pylist() for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else []


def row_as_json(batch: pyarrow.RecordBatch, number: int) -> str:
    """One row for people to look at, and to send again by hand."""
    return json.dumps(batch.slice(number, 1).to_pylist()[0], default=_plain, ensure_ascii=False)


def _simplified(column: pyarrow.Array, utc_suffix: str) -> pyarrow.Array:
    kind = column.type
    types = pyarrow.types
    if types.is_timestamp(kind):
        text = column.cast(pyarrow.timestamp("us")).cast(pyarrow.string())  # a zone's time becomes UTC's
        if kind.tz is None or not utc_suffix:
            return text
        return pyarrow.compute.binary_join_element_wise(text, utc_suffix, "")
    if types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        return column.cast(pyarrow.string())
    if types.is_nested(kind) or types.is_duration(kind) or types.is_interval(kind):
        values = (None if value is None else json.dumps(value, default=_plain) for value in column.to_pylist())
        return pyarrow.array(values, pyarrow.string())
    if types.is_null(kind):
        return column.cast(pyarrow.string())
    return column


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
