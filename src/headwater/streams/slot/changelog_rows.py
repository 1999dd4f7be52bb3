"""Columns of a changelog as lists, for stores that are restored. Pure, and without Arrow."""

from itertools import pairwise
from typing import NamedTuple, cast

from headwater.base.ports import Buffer
from headwater.records.columns import Columns
from headwater.streams.serdes.native_cells import Cells, native_cells


class ChangelogRows(NamedTuple):
    """At least one; each has a key."""

    keys: list[bytes]
    values: Cells
    timestamps: list[int]
    next_offset: int


def changelog_rows(columns: Columns) -> ChangelogRows:
    count = columns.row_count
    keys = _cells(columns.key_validity, columns.key_offsets, columns.key_data, count)
    values = _cells(columns.value_validity, columns.value_offsets, columns.value_data, count)
    timestamps = [each // 1000 for each in memoryview(columns.timestamp_us).cast("B").cast("q")[:count].tolist()]
    last: int = memoryview(columns.offset).cast("B").cast("q")[count - 1]
    return ChangelogRows(cast(list[bytes], keys), values, timestamps, last + 1)


def _cells(validity: Buffer | None, offsets: Buffer, data: Buffer, count: int) -> Cells:
    native = native_cells()
    if native is not None:
        return native.list_cells(validity, offsets, data, 0, count)
    whole, places = bytes(data), memoryview(offsets).cast("B").cast("i")[: count + 1].tolist()
    cells: Cells = [whole[begin:end] for begin, end in pairwise(places)]
    if validity is not None:
        bits = memoryview(validity).cast("B")
        cells = [cell if bits[at // 8] >> (at % 8) & 1 else None for at, cell in enumerate(cells)]
    return cells
