"""Columns of a changelog as lists, for stores that are restored. Without Arrow.

Columns have times in microseconds, which do not hold all that milliseconds do: a changelog with such a time is read
record by record from there on, so that what is restored is what was lost.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import pairwise
from typing import Final, NamedTuple, cast

from headwater.base.ids import TopicPartition
from headwater.base.ports import Buffer
from headwater.client.consumer.ranges import RangeReader
from headwater.records.columns import Columns
from headwater.streams.serdes.native_cells import Cells, native_cells

_CLIPPED: Final = frozenset(((1 << 63) - 1, -(1 << 63)))


class ChangelogRows(NamedTuple):
    """At least one; each has a key."""

    keys: list[bytes]
    values: Cells
    timestamps: list[int]
    next_offset: int


def changelog_runs(
    reader: RangeReader, partition: TopicPartition, begin: int, end: int, most: int, given_up: Callable[[], bool]
) -> Iterator[ChangelogRows]:
    """Its rows between these offsets, up to `most` at a time. Ends early when `given_up` says so."""
    with closing(reader.columns(partition, begin, end, max_records=most, lost="skip", given_up=given_up)) as runs:
        for columns in runs:
            rows = changelog_rows(columns)
            if rows is None:
                break
            begin = rows.next_offset
            yield rows
        else:
            return
    for record in reader.records(partition, begin, end, lost="skip", given_up=given_up):
        yield ChangelogRows([cast(bytes, record.key)], [record.value], [record.timestamp_ms], record.offset + 1)


def changelog_rows(columns: Columns) -> ChangelogRows | None:
    """None where a time is not held."""
    count = columns.row_count
    micros: list[int] = memoryview(columns.timestamp_us).cast("B").cast("q")[:count].tolist()
    if not _CLIPPED.isdisjoint((min(micros), max(micros))):
        return None
    keys = _cells(columns.key_validity, columns.key_offsets, columns.key_data, count)
    values = _cells(columns.value_validity, columns.value_offsets, columns.value_data, count)
    timestamps = [each // 1000 for each in micros]
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
