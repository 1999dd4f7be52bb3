"""Columns of Arrow as databases take them. Times become text in UTC, decimals keep all digits, nested values are
JSON: structs and maps are objects, and what JSON has no values for is text.
"""

import base64
import json
import math
from collections.abc import Callable
from typing import Any

import pyarrow
import pyarrow.compute

types = pyarrow.types


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
    row = batch.slice(number, 1)
    values = [_trees(column)[0] for column in row.columns]
    return json.dumps(dict(zip(row.schema.names, values, strict=True)), ensure_ascii=False)


def _simplified(column: pyarrow.Array, utc_suffix: str) -> pyarrow.Array:
    kind = column.type
    if types.is_timestamp(kind):
        text = column.cast(pyarrow.timestamp("us")).cast(pyarrow.string())  # a zone's time becomes UTC's
        if kind.tz is None or not utc_suffix:
            return text
        return pyarrow.compute.binary_join_element_wise(text, utc_suffix, "")
    if types.is_date(kind) or types.is_time(kind) or types.is_decimal(kind):
        return column.cast(pyarrow.string())
    if types.is_nested(kind):
        values = (None if tree is None else json.dumps(tree) for tree in _trees(column))
        return pyarrow.array(values, pyarrow.string())
    if types.is_duration(kind) or types.is_interval(kind):
        return pyarrow.array(_trees(column), pyarrow.string())
    if types.is_null(kind):
        return column.cast(pyarrow.string())
    return column


def _trees(column: pyarrow.Array) -> list[Any]:
    """Each value as JSON has it. Arrow makes text of what Python has less of: years, and floats of 32 bits."""
    kind = column.type
    texts = column.cast(_leaves(kind, _without_zone)).cast(_leaves(kind, _text))
    return [_tree(value, kind) for value in texts.to_pylist()]


def _leaves(kind: pyarrow.DataType, change: Callable[[pyarrow.DataType], pyarrow.DataType]) -> pyarrow.DataType:
    """The same type, with other ones at its ends."""
    if types.is_struct(kind):
        return pyarrow.struct([each.with_type(_leaves(each.type, change)) for each in kind])
    if types.is_map(kind):
        key, item = (each.with_type(_leaves(each.type, change)) for each in (kind.key_field, kind.item_field))
        return pyarrow.map_(key, item)
    if types.is_list(kind):
        return pyarrow.list_(kind.value_field.with_type(_leaves(kind.value_type, change)))
    return change(kind)


def _without_zone(kind: pyarrow.DataType) -> pyarrow.DataType:
    return pyarrow.timestamp("us") if types.is_timestamp(kind) else kind


def _text(kind: pyarrow.DataType) -> pyarrow.DataType:
    is_text = types.is_temporal(kind) and not types.is_duration(kind) and not types.is_interval(kind)
    return pyarrow.string() if is_text or types.is_decimal(kind) or types.is_float32(kind) else kind


def _tree(value: Any, kind: pyarrow.DataType) -> Any:
    if value is None:
        return None
    if types.is_struct(kind):
        return (
            _variant(value) if _is_variant(kind) else {each.name: _tree(value[each.name], each.type) for each in kind}
        )
    if types.is_map(kind):
        return {_name(_tree(key, kind.key_type)): _tree(item, kind.item_type) for key, item in value}
    if types.is_list(kind) or types.is_large_list(kind):
        return [_tree(each, kind.value_type) for each in value]
    if types.is_floating(kind):
        number = float(value)
        return number if math.isfinite(number) else _NO_NUMBERS[str(number)]
    if types.is_timestamp(kind) and kind.tz is not None:
        return f"{value}+00:00"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if isinstance(value, bool | int | str) else str(value)


_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # as Spark's to_json has them


def _name(key: Any) -> str:
    """JSON's names are text."""
    return key if isinstance(key, str) else json.dumps(key)


def _is_variant(kind: pyarrow.DataType) -> bool:
    from pyspark.sql.pandas.types import is_variant

    return bool(is_variant(kind))


def _variant(value: dict[str, bytes]) -> Any:
    from pyspark.sql.types import VariantVal

    return json.loads(VariantVal(value["value"], value["metadata"]).toJson())
