"""One stretch of one partition as Arrow batches: what a task of the source does. The seam to the client.

Runs in the executors. Gives every record of the range that a reader of the chosen isolation level gets to see, once and
in order. Offsets that are gone (retention, a deleted topic) are an error or are skipped, as `failOnDataLoss` says.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.record_reader import RecordReader, Span
from headwater.client.types import READ_COMMITTED, READ_UNCOMMITTED, FetchedRecord
from headwater.spark.logs import PATIENCE_MS, open_admin, patiently
from headwater.spark.offsets import raise_losses
from headwater.spark.options import SourceOptions
from headwater.spark.planning import OffsetRange

if TYPE_CHECKING:
    import pyarrow

_GONE: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.OFFSET_OUT_OF_RANGE)
)


def read_range(
    options: SourceOptions, wanted: OffsetRange, schema: "pyarrow.Schema"
) -> Iterator["pyarrow.RecordBatch"]:
    partition = TopicPartition(wanted.topic, wanted.partition)
    with open_admin(options.bootstrap_servers) as admin:
        reader = RecordReader(
            admin,
            {partition: Span(wanted.start, wanted.end)},
            isolation_level=READ_COMMITTED if options.read_committed else READ_UNCOMMITTED,
            partition_max_bytes=8 * 1024 * 1024,
        )
        moved_at = time.monotonic()
        position = wanted.start
        while not reader.done:
            try:
                records = patiently(admin, reader.poll)
            except KafkaError as error:
                if error.code not in _GONE:
                    raise
                if options.fail_on_data_loss and wanted.exact:
                    raise_losses([f"offsets {position} to {wanted.end} of {partition} cannot be read: {error}"])
                return
            if reader.skipped and options.fail_on_data_loss and wanted.exact:
                raise_losses([f"{partition} has lost offsets from {position} on"])
            if reader.positions[partition] > position:
                position, moved_at = reader.positions[partition], time.monotonic()
            elif time.monotonic() - moved_at > PATIENCE_MS / 1000:
                raise_losses([f"{partition} gives nothing from offset {position} on; up to {wanted.end} was there"])
            if records:
                yield to_arrow(records, schema)


def to_arrow(records: list[FetchedRecord], schema: "pyarrow.Schema") -> "pyarrow.RecordBatch":
    import pyarrow

    columns: list[list[Any]] = [
        [record.key for record in records],
        [record.value for record in records],
        [record.topic for record in records],
        [record.partition for record in records],
        [record.offset for record in records],
        [record.timestamp_ms * 1000 for record in records],
        [int(record.log_append_time) for record in records],
    ]
    if len(schema) > len(columns):
        columns.append([_headers(record) for record in records])
    arrays = [pyarrow.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(record: FetchedRecord) -> list[dict[str, Any]] | None:
    """As Spark has it: a record without headers has null."""
    return [{"key": each.key, "value": each.value} for each in record.headers] or None
