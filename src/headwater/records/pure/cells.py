"""Reads binary columns in Arrow's layout cell by cell."""

from collections.abc import Iterator

from headwater.base.ports import Buffer
from headwater.records.columns import BinaryColumn, HeadersColumn
from headwater.records.record import Headers


def cells(row_count: int, column: BinaryColumn) -> Iterator[bytes | None]:
    offsets = _offsets(column.offsets, column.offset_bytes, column.first, row_count)
    _check_validity(column.validity, column.first + row_count)
    data = memoryview(column.data).cast("B")
    for row in range(column.first, column.first + row_count):
        begin, end = offsets[row], offsets[row + 1]
        if not _valid(column.validity, row):
            yield None
        elif 0 <= begin <= end <= len(data):
            yield bytes(data[begin:end])
        else:
            raise ValueError(f"row {row - column.first} has the bytes {begin} to {end} of {len(data)}")


def header_cells(row_count: int, column: HeadersColumn) -> Iterator[Headers]:
    offsets = _offsets(column.offsets, column.offset_bytes, column.first, row_count)
    _check_validity(column.validity, column.first + row_count)
    keys = list(cells(column.header_count, column.keys))
    values = list(cells(column.header_count, column.values))
    for row in range(column.first, column.first + row_count):
        begin, end = offsets[row], offsets[row + 1]
        if not _valid(column.validity, row):
            yield ()
            continue
        if not 0 <= begin <= end <= column.header_count:
            raise ValueError(f"row {row - column.first} has the headers {begin} to {end} of {column.header_count}")
        found = []
        for key, value in zip(keys[begin:end], values[begin:end], strict=True):
            if key is None:
                raise ValueError(f"row {row - column.first} has a header without a key")
            found.append((key.decode(), value))
        yield tuple(found)


def _offsets(data: Buffer, offset_bytes: int, first: int, row_count: int) -> memoryview:
    if offset_bytes not in (4, 8) or first < 0:
        raise ValueError(f"offsets of {offset_bytes} bytes, from {first} on")
    count = first + row_count
    if len(memoryview(data).cast("B")) < (count + 1) * offset_bytes:
        raise ValueError(f"too few offsets for {count} rows")
    return memoryview(data).cast("B")[: (count + 1) * offset_bytes].cast("i" if offset_bytes == 4 else "q")


def _check_validity(validity: Buffer | None, count: int) -> None:
    if validity is not None and len(memoryview(validity).cast("B")) * 8 < count:
        raise ValueError(f"a validity bitmap too short for {count} rows")


def _valid(validity: Buffer | None, row: int) -> bool:
    return validity is None or bool(memoryview(validity).cast("B")[row >> 3] >> (row & 7) & 1)
