"""Fetched columns as chunks, one for each stretch of a partition. Pure."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from headwater.streams.engine.columns import Chunk
from headwater.streams.model.record import Headers
from headwater.streams.serdes.native_cells import Cells, native_cells

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def chunks(batch: "pa.RecordBatch") -> Iterator[Chunk]:
    """Of what `poll_arrow` gave, in its order."""
    import numpy as np

    rows = batch.num_rows
    if not rows:
        return
    topics, partitions = batch.column("topic"), _numbers(batch.column("partition"), "int32")
    times = _numbers(batch.column("timestamp"), "int64") // 1000
    offsets = _numbers(batch.column("offset"), "int64")
    borders = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), rows]
    for begin, end in pairwise(borders):
        for first, last in _of_one_topic(topics, begin, end):
            part = batch.slice(first, last - first)
            yield Chunk(
                topics[first].as_py(),
                int(partitions[first]),
                offsets[first:last].tolist(),
                times[first:last].tolist(),
                _cells(part.column("key")),
                _cells(part.column("value")),
                _headers(part),
            )


def _numbers(column: "pa.Array", kind: str) -> "np.ndarray[Any, Any]":
    """A column without nulls, where it lies: pyarrow's own way imports pandas, which takes most of a second."""
    import numpy as np

    data = column.buffers()[1]
    return np.frombuffer(data, kind, count=len(column), offset=column.offset * np.dtype(kind).itemsize)


def _cells(column: "pa.Array") -> Cells:
    """Of a binary column."""
    import pyarrow as pa

    native = native_cells()
    if native is None or column.type != pa.binary():
        listed: Cells = column.to_pylist()
        return listed
    validity, offsets, data = column.buffers()
    return native.list_cells(validity, offsets, data, column.offset, len(column))


def _of_one_topic(topics: "pa.Array", begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Neighbouring partitions of the same number may be of two topics."""
    import pyarrow.compute as pc

    part = topics.slice(begin, end - begin)
    for run_end in pc.run_end_encode(part).run_ends.to_pylist():
        yield begin, end - len(part) + run_end
        begin = end - len(part) + run_end


def _headers(part: "pa.RecordBatch") -> list[Headers] | None:
    column = part.column("headers")
    if column.null_count == len(column):
        return None
    return [tuple((each["key"], each["value"]) for each in row or ()) for row in column.to_pylist()]
