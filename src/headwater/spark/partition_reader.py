"""One stretch of one partition as Arrow batches: what a task of the source does. The seam to the client.

Runs in the executors. Gives every record of the range that a reader of the chosen isolation level gets to see, once and
in order. Offsets that are gone (retention, a deleted topic) are an error or are skipped, as `failOnDataLoss` says.

Spark keeps its Python workers between tasks, so readers wait here for the next one, with their connections.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.ranges import RangeReader
from headwater.spark.input_partitions import OffsetRange
from headwater.spark.options import SourceOptions
from headwater.spark.stream_offsets import raise_losses
from headwater.spark.worker_garbage import freeze_modules, worker_is_kept

if TYPE_CHECKING:
    import pyarrow

    from headwater.spark.serdes.source_plan import TypedColumn

_GONE: Final = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.OFFSET_OUT_OF_RANGE)
)
_IDLE_MAX: Final = 4

_idle: dict[str, list[RangeReader]] = {}  # by their settings; one worker runs one task at a time, so none is shared


def read_range(options: SourceOptions, wanted: OffsetRange, columns: list[str]) -> Iterator["pyarrow.RecordBatch"]:
    partition = TopicPartition(wanted.topic, wanted.partition)
    loss_matters = options.fail_on_data_loss and wanted.exact
    settings = client_settings(options)
    waiting = _idle.setdefault(repr(sorted(settings.items())), [])
    reader = waiting.pop() if waiting else RangeReader(settings)
    finished = False
    try:
        for batch in reader.read_range(partition, wanted.start, wanted.end, lost="raise" if loss_matters else "skip"):
            yield batch.select(columns)
        finished = True
    except KafkaError as error:
        is_cut_off = error.code == ErrorCode.REQUEST_TIMED_OUT and reader.log_end(partition) < wanted.end
        if error.code not in _GONE and not is_cut_off:
            raise
        if loss_matters:
            raise_losses([f"offsets {wanted.start} to {wanted.end} of {partition} cannot be read: {error}"])
    finally:
        if finished and len(waiting) < _IDLE_MAX:
            waiting.append(reader)
            if worker_is_kept():
                freeze_modules()
        else:
            reader.close()


def read_typed_range(
    options: SourceOptions,
    wanted: OffsetRange,
    typed: "tuple[TypedColumn, ...]",
    raw: list[str],
    schema: "pyarrow.Schema",
) -> Iterator["pyarrow.RecordBatch"]:
    """The same with keys and values decoded. `raw` names all columns of the source, for a record that does not decode
    is kept whole.
    """
    from headwater.spark.client_options import shared_settings
    from headwater.spark.serdes.bad_records import DeadLetterTopic, typed_batches
    from headwater.spark.serdes.decoding import column_decoders
    from headwater.spark.serdes.registries import cached_registry

    serdes = options.serdes
    assert serdes is not None
    registry = cached_registry(serdes.registry) if serdes.registry else None
    decoders = column_decoders(typed, schema, registry)
    if not decoders:
        yield from read_range(options, wanted, schema.names)
        return
    letters = None
    if serdes.dead_letter_topic:
        settings = {**shared_settings(options.client), "bootstrap.servers": options.bootstrap_servers}
        letters = DeadLetterTopic(settings, serdes.dead_letter_topic)
    yield from typed_batches(read_range(options, wanted, raw), decoders, serdes, letters, schema.names)


def client_settings(options: SourceOptions) -> dict[str, object]:
    return {
        "client.id": "headwater-spark",
        **options.client,
        "bootstrap.servers": options.bootstrap_servers,
        "isolation.level": "read_committed" if options.read_committed else "read_uncommitted",
    }
