"""Encodes columns as the records of batches."""

from collections.abc import Iterable
from typing import Literal

from headwater.base.ports import Buffer
from headwater.records.columns import ANY_PARTITION, BinaryColumn, HeadersColumn, Section
from headwater.records.pure.appending import BatchAppender
from headwater.records.pure.cells import cells, header_cells
from headwater.records.record import Headers


def encode_columns(
    row_count: int,
    keys: BinaryColumn | None,
    values: BinaryColumn | None,
    headers: HeadersColumn | None,
    timestamps: int | Buffer,
    partitions: Buffer | None,
    partition_count: int,
    limit_bytes: int,
    /,
) -> list[Section]:
    if row_count < 0 or partition_count < 0:
        raise ValueError(f"{row_count} rows for {partition_count} partitions")
    nothing: Iterable[None] = [None] * row_count
    rows = zip(
        nothing if keys is None else cells(row_count, keys),
        nothing if values is None else cells(row_count, values),
        _no_headers(row_count) if headers is None else header_cells(row_count, headers),
        [timestamps] * row_count if isinstance(timestamps, int) else _numbers(timestamps, "q", row_count),
        [ANY_PARTITION] * row_count if partitions is None else _numbers(partitions, "i", row_count),
        strict=True,
    )
    sections: list[Section] = []
    open_batches: dict[int, BatchAppender] = {}
    for row, (key, value, row_headers, timestamp, partition) in enumerate(rows):
        if not ANY_PARTITION <= partition < partition_count:
            raise ValueError(f"row {row} goes to partition {partition} of {partition_count}")
        batch = open_batches.get(partition)
        if batch is None:
            batch = open_batches[partition] = BatchAppender(limit_bytes)
        if not batch.append(timestamp, key, value, row_headers):
            sections.append(batch.section(partition))
            batch.append(timestamp, key, value, row_headers)
    sections += [open_batches[partition].section(partition) for partition in sorted(open_batches)]
    return sections


def _no_headers(row_count: int) -> list[Headers]:
    return [()] * row_count


def _numbers(data: Buffer, kind: Literal["i", "q"], row_count: int) -> memoryview:
    numbers = memoryview(data).cast("B").cast(kind)
    if len(numbers) < row_count:
        raise ValueError(f"{len(numbers)} numbers for {row_count} rows")
    return numbers[:row_count]
