"""Sending a table: columns in, batches out, with no Python object per record.

The table is taken in slices: a slice is encoded into batches in C, put to its partitions' queues, and sent while the
next one is encoded. From there on its batches are like any others. A row's partition is that of its partition column,
else that of its key (murmur2, as everywhere), else batches go to one partition after another.
"""

from collections.abc import Callable, Generator, Iterator
from time import time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.producer.batch import NO_OFFSET, NO_TIME, Delivery, ProducerBatch, Waiting, asyncio_wait
from headwater.client.producer.encoding import Encodings, encode_column
from headwater.client.producer.queues import TopicQueues
from headwater.client.producer.slices import batch_bytes, slice_bytes
from headwater.client.settings.producer import ProducerSettings
from headwater.records.arrow import TableColumns, batches_from_table
from headwater.records.columns import Section

if TYPE_CHECKING:
    import pyarrow as pa

_PARTITION: Final = "__partition"


class PartitionOffsets(NamedTuple):
    record_count: int
    first: int  # -1: not known (acks=0)
    last: int


class TableMetadata(NamedTuple):
    """Where the rows of a table went. Between first and last there may be other producers' records."""

    topic: str
    record_count: int
    partitions: dict[int, PartitionOffsets]


class TableDelivery:
    """The delivery of a whole table: `result(timeout)` waits for it, `await` does in asyncio."""

    def __init__(self, topic: str, owner: Waiting) -> None:
        self.topic = topic
        self.count = 0
        self._owner = owner
        self._batches: list[ProducerBatch] = []  # those before the first pending one are done
        self._first_pending = 0

    def add(self, batches: list[ProducerBatch]) -> None:
        self._batches += batches
        self.count += sum(batch.count for batch in batches)

    def done(self) -> bool:
        return self.pending() is None

    def pending(self) -> ProducerBatch | None:
        batches, at = self._batches, self._first_pending  # other threads may look as well, and be ahead or behind
        batch = None
        while at < len(batches) and batch is None:
            batch = next((each for each in _undivided(batches[at]) if not each.done), None)
            at += batch is None
        self._first_pending = at
        return batch

    def result(self, timeout: float | None = None) -> TableMetadata:
        """Raises the first error of any of its batches; the others may have been written all the same."""
        if not self.done():
            self._owner.wait_for(self, timeout)
        for batch in self._written():
            if batch.error is not None:
                raise batch.error
        return self._metadata()

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        try:
            self.result(timeout)
        except KafkaError as error:
            return error
        return None

    def add_done_callback(self, callback: "Callable[[TableDelivery], object]") -> None:
        """`callback(delivery)` when all its batches are done, as for a single record."""
        batch = self.pending()
        if batch is None:
            callback(self)
        else:
            Delivery(batch, 0, NO_TIME).add_done_callback(lambda _: self.add_done_callback(callback))

    def __await__(self) -> Generator[Any, None, TableMetadata]:
        if not self.done():
            yield from asyncio_wait(self, self._owner)
        return self.result(0)

    def _written(self) -> Iterator[ProducerBatch]:
        for batch in self._batches:
            yield from _undivided(batch)

    def _metadata(self) -> TableMetadata:
        partitions: dict[int, PartitionOffsets] = {}
        for batch in self._written():
            known = batch.base_offset >= 0
            first = batch.base_offset if known else NO_OFFSET
            last = batch.base_offset + batch.count - 1 if known else NO_OFFSET
            before = partitions.get(batch.queue.partition)
            if before is not None:
                first, last = min(before.first, first), max(before.last, last)
            count = batch.count + (before.record_count if before is not None else 0)
            partitions[batch.queue.partition] = PartitionOffsets(count, first, last)
        return TableMetadata(self.topic, self.count, dict(sorted(partitions.items())))


def _undivided(batch: ProducerBatch) -> Iterator[ProducerBatch]:
    """The batch, or what it was split into."""
    if batch.parts is None:
        yield batch
    else:
        for _, part in batch.parts:
            yield from _undivided(part)


class TableSource:
    """A table and what its columns are, ready to be cut into sections."""

    def __init__(
        self,
        table: "pa.Table | pa.RecordBatch",
        settings: ProducerSettings,
        *,
        key: Any,
        value: Any,
        headers: Any,
        timestamp: Any,
        partition: Any,
        encode: Encodings | None,
    ) -> None:
        if not hasattr(table, "num_rows"):
            raise UserError(
                f"A {type(table).__name__} is no table",
                "send_arrow takes a pyarrow.Table or RecordBatch",
                "pyarrow.Table.from_pandas(frame) for pandas, frame.to_arrow() for polars",
            )
        if settings.partitioner is not None and partition is None:
            raise UserError(
                "A table cannot go through a partitioner of your own",
                "that would be a call per record",
                "Give partition=, a column or a number",
            )
        self._settings = settings
        self._encode = dict(encode or {})
        parts = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        unknown = [name for name in self._encode if name not in ("key", "value")]
        if unknown:
            raise UserError(f"encode names {unknown[0]!r}", "only key and value are encoded")
        self._columns = {name: part for name, part in parts.items() if part is not None}
        self._table = table
        row_bytes = table.nbytes // max(table.num_rows, 1) + 1
        self.slice_bytes = slice_bytes(settings)
        self._step = max(1, self.slice_bytes // row_bytes)
        self._batch_bytes = batch_bytes(settings)

    def try_encoders(self) -> None:
        """On one row: what they have to ask for, a schema say, they have then."""
        if self._encode and self._table.num_rows:
            self._prepared(self._table.slice(0, 1))

    def sections(self, topic: TopicQueues) -> Iterator[list[Section]]:
        """One list for each slice."""
        if topic.count == 1:
            self._columns.setdefault("partition", 0)  # so rows with and without a key keep their order
        for first in range(0, self._table.num_rows, self._step):
            rows = self._prepared(self._table.slice(first, self._step))
            names = TableColumns(**{**TableColumns(value=None)._asdict(), **{name: name for name in rows.schema.names}})
            slices = batches_from_table(
                rows,
                names,
                partition_count=topic.count,
                limit_bytes=self._batch_bytes,
                now_ms=time_ns() // 1_000_000,
            )
            try:
                for sections in slices:
                    self._check(sections)
                    yield sections
            except ValueError as error:  # a partition that the topic does not have, a null among headers
                raise UserError(
                    "The table cannot be sent as it is", str(error), f"{topic.name!r} has {topic.count} partitions"
                ) from None

    def _prepared(self, rows: "pa.Table | pa.RecordBatch") -> "pa.Table":
        """The columns that a record takes, under the names that it has for them, encoded."""
        import pyarrow as pa

        made: dict[str, Any] = {}
        for name, part in self._columns.items():
            column = _column(rows, name, part)
            if name in self._encode:
                if isinstance(column, pa.ChunkedArray):
                    column = column.combine_chunks()
                column = encode_column(column, self._encode[name])
            made[name] = column
        if not made:
            raise UserError("The table has no part in the records", "key and value are both None")
        return pa.table(made)

    def _check(self, sections: list[Section]) -> None:
        limit_bytes = self._settings.request_bytes_max
        for section in sections:
            if section.record_count == 1 and len(section.batch) > limit_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a record takes {len(section.batch)} bytes, max.request.size is {limit_bytes}",
                )


def _column(rows: Any, name: str, part: Any) -> Any:
    """A column by its name; several as a struct; an expression; a number for all rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(part, str):
        if part not in rows.schema.names:
            raise UserError(
                f"The table has no column {part!r} for the {name}", "", f"It has {', '.join(rows.schema.names)}"
            )
        return rows.column(part)
    if isinstance(part, pc.Expression):
        from pyarrow.acero import Declaration, ProjectNodeOptions, TableSourceNodeOptions

        table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
        source = Declaration("table_source", TableSourceNodeOptions(table))
        project = Declaration("project", ProjectNodeOptions([part], [name]))
        return Declaration.from_sequence([source, project]).to_table(use_threads=False).column(name)
    if isinstance(part, list | tuple):
        chosen = (rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])).select(list(part))
        return chosen.to_struct_array()
    if name == "partition" and isinstance(part, int):
        return pa.repeat(pa.scalar(part, pa.int32()), rows.num_rows)
    raise UserError(f"{part!r} cannot be the {name}", "it is a column's name, a list of names, or an expression")
