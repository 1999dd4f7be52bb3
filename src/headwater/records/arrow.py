"""Fetched batches as Arrow record batches, and Arrow tables as batches to produce. Needs pyarrow, loaded on first use.

The schema is that of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType, headers, of
which headers are null in a record that has none. No Python object is made per record.

An `ArrowGatherer` belongs to whoever made it; the rest has no state.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ports import Buffer
from headwater.records.codec import ColumnBuilder, encode_columns, partition_keys
from headwater.records.columns import ANY_PARTITION, BinaryColumn, Columns, HeadersColumn, Section
from headwater.records.record import CorruptBatch
from headwater.records.visible import VisibleBatches

if TYPE_CHECKING:
    import pyarrow as pa

_SLICE_BYTES: Final = 32 << 20  # of a table: what is encoded at once
_SLICE_ROWS_MAX: Final = 1 << 18
_CHUNK_ROWS_MIN: Final = 1 << 14  # smaller chunks of a table are joined first, so that batches fill


@cache
def schema(headers: bool = True) -> "pa.Schema":
    """What `poll_arrow` gives, and Spark's Kafka source too."""
    import pyarrow as pa

    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    if headers:
        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        fields.append(("headers", pa.list_(pa.field("element", header))))
    return pa.schema(fields)


class ArrowGatherer:
    """Gathers what is visible of fetched stretches, of any number of partitions, into one RecordBatch."""

    def __init__(self, headers: bool = True) -> None:
        self._headers = headers
        self._builder = ColumnBuilder(headers)

    @property
    def row_count(self) -> int:
        return self._builder.row_count

    @property
    def data_bytes(self) -> int:
        """Of keys and values."""
        return self._builder.data_bytes

    def append(
        self,
        topic: str,
        partition: int,
        batches: VisibleBatches,
        max_rows: int | None = None,
        max_bytes: int | None = None,
    ) -> bool:
        """Takes batches until there are no more (True), or a limit on all that is gathered is reached (False).

        Whole batches are taken, so a limit may be passed by one. False comes too when 2 GiB are gathered. An error is
        raised if the next batch is bad; what was gathered before stays, and `batches.next_offset` goes with it.
        """
        builder = self._builder
        topic_bytes = topic.encode()
        while True:
            if max_rows is not None and builder.row_count >= max_rows:
                return False
            if max_bytes is not None and builder.data_bytes >= max_bytes:
                return False
            found = batches.next()
            if found is None:
                return True
            header, payload = found
            try:
                added = builder.append_batch(
                    payload, header, topic_bytes, partition, batches.from_offset, batches.stop_offset
                )
            except KafkaError as error:
                raise batches.corrupt(header, error) from None
            if added < 0:
                batches.put_back(header)
                return False

    def finish(self) -> "pa.RecordBatch":
        """What was gathered; the gatherer is empty then."""
        return record_batch(Columns._make(self._builder.finish()), self._headers)


class VisibleColumns(NamedTuple):
    batch: "pa.RecordBatch"
    next_offset: int


def visible_columns(
    topic: str,
    partition: int,
    data: Buffer,
    position: int,
    aborted: Sequence[tuple[int, int]] | None,
    limit_bytes: int,
    stop: int | None = None,
    headers: bool = True,
) -> VisibleColumns:
    """One fetched stretch as a RecordBatch. The arguments are those of `VisibleBatches`.

    An error is raised only if no record comes before it. With 2 GiB of data, the rest is left for another call.
    """
    gatherer = ArrowGatherer(headers)
    batches = VisibleBatches(data, position, aborted, limit_bytes, stop)
    try:
        gatherer.append(topic, partition, batches)
    except CorruptBatch:
        if not gatherer.row_count:
            raise
    return VisibleColumns(gatherer.finish(), batches.next_offset)


@cache
def _no_rows(headers: bool) -> "pa.RecordBatch":
    """Made once: whoever polls and gets nothing does so many times a second."""
    import pyarrow as pa

    kinds = schema(headers)
    return pa.RecordBatch.from_arrays([pa.nulls(0, each) for each in kinds.types], schema=kinds)


def record_batch(columns: Columns, headers: bool = True) -> "pa.RecordBatch":
    """The columns of a `ColumnBuilder`, without a copy."""
    import pyarrow as pa

    rows = columns.row_count
    if not rows:
        return _no_rows(headers)
    kinds = schema(headers)
    arrays = [
        _binary(pa.binary(), rows, columns.key_null_count, columns.key_validity, columns.key_offsets, columns.key_data),
        _binary(
            pa.binary(),
            rows,
            columns.value_null_count,
            columns.value_validity,
            columns.value_offsets,
            columns.value_data,
        ),
        _binary(pa.string(), rows, 0, None, columns.topic_offsets, columns.topic_data),
    ]
    numbers = (columns.partition, columns.offset, columns.timestamp_us, columns.timestamp_type)
    for kind, data in zip(kinds.types[3:7], numbers, strict=True):
        arrays.append(pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0))
    if headers:
        arrays.append(_headers_array(columns, kinds.types[7]))
    return pa.RecordBatch.from_arrays(arrays, schema=kinds)


def _binary(kind: Any, rows: int, nulls: int, validity: Buffer | None, offsets: Buffer, data: Buffer) -> "pa.Array":
    import pyarrow as pa

    bitmap = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(kind, rows, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def _headers_array(columns: Columns, kind: Any) -> "pa.Array":
    import pyarrow as pa

    if columns.headers is None:
        return pa.nulls(columns.row_count, kind)
    found = columns.headers
    keys = _binary(pa.string(), found.header_count, 0, None, found.key_offsets, found.key_data)
    values = _binary(
        pa.binary(),
        found.header_count,
        found.value_null_count,
        found.value_validity,
        found.value_offsets,
        found.value_data,
    )
    pairs = pa.Array.from_buffers(kind.value_type, found.header_count, [None], 0, children=[keys, values])
    buffers = [pa.py_buffer(found.validity), pa.py_buffer(found.offsets)]
    return pa.Array.from_buffers(kind, columns.row_count, buffers, found.null_count, children=[pairs])


class TableColumns(NamedTuple):
    """Which column of a table is what in a record: names, None for what the table does not have."""

    value: str | None = "value"
    key: str | None = None
    headers: str | None = None
    timestamp: str | None = None  # a timestamp of any unit, or milliseconds as a number; null: now
    partition: str | None = None  # null: the producer may choose


def batches_from_table(
    table: "pa.Table | pa.RecordBatch", columns: TableColumns, *, partition_count: int, limit_bytes: int, now_ms: int
) -> Iterator[list[Section]]:
    """The rows of a table as sections of batches (`finish_section` makes the batches), some 32 MiB at a time.

    The partition of a row is that of its partition column; without one, that of its key; without either the section has
    ANY_PARTITION. Keys, values and headers are binary or string. A column of another type is a TypeError.
    """
    for rows in _slices(table):
        keys = _binary_column(rows, columns.key)
        partitions: Buffer | None = None
        if columns.partition is not None:
            partitions = _partition_column(rows, columns.partition)
        elif keys is not None:
            partitions = partition_keys(rows.num_rows, keys, partition_count)
        yield encode_columns(
            rows.num_rows,
            keys,
            _binary_column(rows, columns.value),
            None if columns.headers is None else _headers_column(rows.column(columns.headers)),
            now_ms if columns.timestamp is None else _timestamp_column(rows, columns.timestamp, now_ms),
            partitions,
            partition_count,
            limit_bytes,
        )


def _slices(table: "pa.Table | pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        chunks = [table]
    else:
        chunks = table.to_batches()
        if len(chunks) > 1 and table.num_rows // len(chunks) < _CHUNK_ROWS_MIN:
            chunks = table.combine_chunks().to_batches()
    for chunk in chunks:
        row_bytes = chunk.nbytes // max(chunk.num_rows, 1) + 1
        step = min(max(_SLICE_BYTES // row_bytes, 1), _SLICE_ROWS_MAX)
        for first in range(0, chunk.num_rows, step):
            yield chunk.slice(first, step)


def _binary_column(rows: "pa.RecordBatch", name: str | None) -> BinaryColumn | None:
    import pyarrow as pa

    if name is None or pa.types.is_null(rows.schema.field(name).type):
        return None
    return _as_binary(rows.column(name), name)


def _as_binary(array: "pa.Array", name: str) -> BinaryColumn:
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if kinds.is_binary_view(array.type) or kinds.is_string_view(array.type) or kinds.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    large = kinds.is_large_binary(array.type) or kinds.is_large_string(array.type)
    if not (large or kinds.is_binary(array.type) or kinds.is_string(array.type)):
        raise TypeError(f"the column {name} has the type {array.type}: a record takes binary or string")
    validity, offsets, data = array.buffers()
    offset_bytes = 8 if large else 4
    return BinaryColumn(
        _view(validity) if array.null_count else None,
        _view(offsets) if offsets is not None else bytes(offset_bytes * (array.offset + 1)),
        _view(data) if data is not None else b"",
        offset_bytes,
        array.offset,
    )


def _headers_column(array: "pa.Array") -> HeadersColumn | None:
    import pyarrow as pa

    if pa.types.is_null(array.type):
        return None
    large = pa.types.is_large_list(array.type)
    if not (large or pa.types.is_list(array.type)) or not pa.types.is_struct(array.type.value_type):
        raise TypeError(f"headers have the type {array.type}: they are lists of structs with a key and a value")
    pairs = array.values
    if pairs.null_count:
        raise ValueError("a list of headers has a null in it")
    validity, offsets = array.buffers()[:2]
    return HeadersColumn(
        _view(validity) if array.null_count else None,
        _view(offsets),
        8 if large else 4,
        array.offset,
        len(pairs),
        _as_binary(pairs.field("key"), "headers.key"),
        _as_binary(pairs.field("value"), "headers.value"),
    )


def _timestamp_column(rows: "pa.RecordBatch", name: str, now_ms: int) -> Buffer:
    import pyarrow as pa

    array = rows.column(name)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    elif not pa.types.is_integer(array.type):
        raise TypeError(f"the column {name} has the type {array.type}: a timestamp is a timestamp or milliseconds")
    return _numbers(array.cast(pa.int64()).fill_null(now_ms), 8)


def _partition_column(rows: "pa.RecordBatch", name: str) -> Buffer:
    import pyarrow as pa

    array = rows.column(name)
    if not pa.types.is_integer(array.type):
        raise TypeError(f"the column {name} has the type {array.type}: a partition is a number")
    return _numbers(array.cast(pa.int32()).fill_null(ANY_PARTITION), 4)


def _numbers(array: "pa.Array", width_bytes: int) -> Buffer:
    data = _view(array.buffers()[1])
    return data[array.offset * width_bytes : (array.offset + len(array)) * width_bytes]


def _view(buffer: Any) -> memoryview:
    return memoryview(buffer)
