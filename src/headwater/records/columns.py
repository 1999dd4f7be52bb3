"""Columns in Arrow's memory layout, as they pass between the codec and whoever knows pyarrow. No pyarrow here.

All numbers are in native byte order (little-endian wherever Arrow runs). A validity bitmap has the lowest bit first, 1
for a value and 0 for null; None stands for "no nulls". The rows of a binary column are the pieces of `data` between
neighbouring `offsets`, of which there is one more than rows. No state.
"""

from typing import Final, NamedTuple

from headwater.base.ports import Buffer

DATA_BYTES_MAX: Final = (1 << 31) - 1  # what int32 offsets reach
NO_STOP: Final = (1 << 63) - 1
ANY_PARTITION: Final = -1  # of a row, or of a section: the producer may choose
SCHEMA_FRAMES_MAX: Final = 128  # that `schema_frames` tells apart
NO_FRAME: Final = -1  # of a record: its key or value is null
OTHER_FRAME: Final = -2  # of a record: there were too many before


class HeaderColumns(NamedTuple):
    """The headers of the rows of `Columns`: lists of (key, value). A row without headers is null, as Spark has it."""

    null_count: int
    validity: Buffer
    offsets: Buffer  # int32, rows + 1: which of the headers below are a row's
    header_count: int
    key_offsets: Buffer
    key_data: Buffer  # UTF-8
    value_null_count: int
    value_validity: Buffer | None
    value_offsets: Buffer
    value_data: Buffer


class Columns(NamedTuple):
    """What a `ColumnBuilder` gathered."""

    row_count: int
    key_null_count: int
    key_validity: Buffer | None
    key_offsets: Buffer  # int32
    key_data: Buffer
    value_null_count: int
    value_validity: Buffer | None
    value_offsets: Buffer  # int32
    value_data: Buffer
    topic_offsets: Buffer  # int32
    topic_data: Buffer  # UTF-8
    partition: Buffer  # int32
    offset: Buffer  # int64
    timestamp_us: Buffer  # int64; what milliseconds hold and microseconds do not is clipped
    timestamp_type: Buffer  # int32: 0 CreateTime, 1 LogAppendTime
    headers: HeaderColumns | None  # None: no row has any, or nobody asked


class BinaryColumn(NamedTuple):
    """A binary or string column to be encoded."""

    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    offset_bytes: int  # 4 or 8: int32 or int64 offsets
    first: int  # row 0 stands at this place in validity and offsets: a slice of a longer column


class HeadersColumn(NamedTuple):
    """A list<struct<key, value>> column to be encoded. Null and empty lists are the same: no headers."""

    validity: Buffer | None
    offsets: Buffer
    offset_bytes: int  # 4 or 8
    first: int
    header_count: int  # in `keys` and in `values`
    keys: BinaryColumn  # without nulls
    values: BinaryColumn


class Section(NamedTuple):
    """The records of one batch to be. `batch` has room for the header, then the records, not compressed.

    Its offsets run from 0 on. `finish_section` in `builder.py` makes the batch of it.
    """

    partition: int
    record_count: int
    base_timestamp: int
    max_timestamp: int
    batch: bytearray


class Layout(NamedTuple):
    """How `build_records` makes a record: the fields of `template`, a tuple, with five of them replaced.

    The type is a NamedTuple class or any other plain subclass of tuple. Its `__new__` is not called.
    """

    record_type: type
    header_type: type | None  # of one header; None for a plain pair
    offset_at: int
    timestamp_at: int
    key_at: int
    value_at: int
    headers_at: int


def layout_of(
    record_type: type,
    header_type: type | None = None,
    *,
    offset: str = "offset",
    timestamp: str = "timestamp_ms",
    key: str = "key",
    value: str = "value",
    headers: str = "headers",
) -> Layout:
    """The layout of a NamedTuple class, by the names of its fields."""
    fields: tuple[str, ...] = record_type._fields  # type: ignore[attr-defined]
    places = [fields.index(name) for name in (offset, timestamp, key, value, headers)]
    return Layout(record_type, header_type, *places)
