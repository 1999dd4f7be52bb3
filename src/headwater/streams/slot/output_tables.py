"""Columns of a commit as Arrow tables, for the producer: `key`, `value`, `timestamp`, and `partition` where each record
names its own. Pure.
"""

from typing import TYPE_CHECKING

from headwater.streams.engine.columns import OutputColumns, PackedColumns, PackedRows

if TYPE_CHECKING:
    import pyarrow as pa


def as_table(columns: OutputColumns) -> "pa.Table":
    import pyarrow as pa

    if isinstance(columns, PackedColumns):
        return pa.Table.from_batches([_packed(part) for part in columns.parts])
    arrays = {
        "key": pa.array(columns.keys, pa.binary()),
        "value": pa.array(columns.values, pa.binary()),
        "timestamp": pa.array(columns.timestamps, pa.int64()),
    }
    if columns.partitions is not None:
        arrays["partition"] = pa.array(columns.partitions, pa.int32())
    return pa.table(arrays)


def _packed(part: PackedRows) -> "pa.RecordBatch":
    """The bytes as they lie there: no copy."""
    import numpy as np
    import pyarrow as pa

    rows = part.row_count
    places: object = part.value_offsets
    if places is None:
        places = np.arange(rows + 1, dtype=np.int64) * part.value_size
    arrays = {
        "key": _array(pa.large_binary(), rows, part.key_offsets, part.key_data),
        "value": _array(pa.large_binary(), rows, places, part.values),
        "timestamp": _array(pa.int64(), rows, part.timestamps),
    }
    if part.partitions is not None:
        arrays["partition"] = _array(pa.int32(), rows, part.partitions)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _array(kind: "pa.DataType", rows: int, *data: object) -> "pa.Array":
    import pyarrow as pa

    return pa.Array.from_buffers(kind, rows, [None, *map(pa.py_buffer, data)], null_count=0)
