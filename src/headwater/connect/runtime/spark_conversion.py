"""The converters and transforms of a sink inside of a Spark job: rows of the source in, rows with the fields of values
out.

Two steps, because only the records say which columns there are. `convert` makes of each Arrow batch one row per topic
and schema, a `CHUNK`, with the rows in Arrow's stream format; the driver looks at the schemas alone and decides on the
columns; `rows_of` unpacks. Values without a schema are packed as JSON text, in the one column `JSON_COLUMN`. A row
without columns tells what was counted meanwhile: it is as often there as the rows are, however often Spark tries.

A Python process of Spark's runs one task at a time and is kept for the next one: so it keeps the last pipelines, with
what their converters have learned of the registry.
"""

import io
import json
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.client import ConsumerRecord
from headwater.connect.config.secrets import redacted
from headwater.connect.converters.json_converter import JsonConverter
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_schema, plain
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.runs import RUN_RECORDS_MIN, ValueColumns
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.validation import validate
from headwater.connect.errors import DataError
from headwater.connect.metrics.error_counts import ErrorCounts
from headwater.connect.plugins import Catalog
from headwater.connect.runtime.dead_letters import DeadLetters
from headwater.connect.runtime.pipeline import Pipeline, class_name
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.task import TaskId, wall_ms
from headwater.connect.runtime.tolerance import Failure, LogReporter, Reporter, Skipped, Stage, Tolerance

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK: Final = "topic string, columns binary, data binary, rows long, counts string"
READ: Final = "read"  # how many records: among the counts
JSON_COLUMN: Final = "headwater_json"
VALUE_COLUMN: Final = "value"
_PIPELINES_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Conversion:
    """Travels to the executors: plain values only."""

    token: str  # of one start of the task
    task: TaskId
    props: Mapping[str, str]
    config: dict[str, Any]
    worker: Mapping[str, str]
    allowed: tuple[str, ...]
    secrets: frozenset[str]
    producer: Mapping[str, str]
    admin: Mapping[str, str]
    nulls_fail: bool

    @classmethod
    def of(cls, task: TaskId, props: Mapping[str, str], config: dict[str, Any], **more: Any) -> "Conversion":
        nulls_fail = props.get("behavior.on.null.values", "fail").strip() == "fail"
        return cls(uuid.uuid4().hex, task, dict(props), config, nulls_fail=nulls_fail, **more)


class _Kept:
    """What a conversion needs, opened once in a process."""

    def __init__(self, of: Conversion) -> None:
        def redact(text: str) -> str:
            return redacted(text, of.secrets)

        self.counts = ErrorCounts(wall_ms)
        self.pipeline = Pipeline(Catalog(of.allowed), of.props, of.config, of.worker)
        reporters: list[Reporter] = []
        if of.config["errors.log.enable"]:
            with_messages = of.config["errors.log.include.messages"]
            reporters.append(LogReporter(*of.task, with_messages, redact, self.counts))
        self.dead: DeadLetters | None = None
        if of.config["errors.deadletterqueue.topic.name"]:
            self.dead = DeadLetters(of.task, of.config, of.producer, of.admin, redact, self.counts)
            reporters.append(self.dead)
        now_ms = lambda: time.monotonic_ns() // 1_000_000  # noqa: E731
        self.tolerance = Tolerance(of.config, reporters, now_ms, _never_stops, self.counts)
        self.records = SinkConversion(self.pipeline, self.tolerance)

    def close(self) -> None:
        self.pipeline.close()
        if self.dead is not None:
            self.dead.close()


_kept: dict[str, _Kept] = {}


def _never_stops(seconds: float) -> bool:
    """Spark ends the process of a task that is to stop."""
    return threading.Event().wait(seconds)


def _opened(conversion: Conversion) -> _Kept:
    found = _kept.get(conversion.token)
    if found is None:
        while len(_kept) >= _PIPELINES_MAX:
            _kept.pop(next(iter(_kept))).close()
        found = _kept[conversion.token] = _Kept(conversion)
    return found


def convert(conversion: Conversion) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For `mapInArrow`, over the columns of the source with headers. Behind the chunks comes what was counted."""

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        kept = _opened(conversion)
        kept.counts.take()  # those of a task that did not come to its end
        read = 0
        for batch in batches:
            read += batch.num_rows
            packing = Packing(conversion.nulls_fail)
            if not packing.add_columns(batch, kept.pipeline):
                _take_all(kept, packing, list(records_of(batch)))
            if kept.dead is not None:
                kept.dead.flush()  # before the batch counts as done
            yield from packing.chunks()
        if read:
            yield _chunk(counts=json.dumps({READ: read, **kept.counts.take()}))

    return run


def _take_all(kept: _Kept, packing: "Packing", records: list[ConsumerRecord]) -> None:
    run = kept.records.sink_run(records)
    if run is None:
        for record in records:
            made = kept.records.sink_record(record)
            if made is not None:
                _take(kept, packing, record, made)
        return
    originals = {each[:3]: each for each in records}
    for made in run:
        _take(kept, packing, originals[made.original_topic, made.original_partition, made.offset], made)


def _take(kept: _Kept, packing: "Packing", record: ConsumerRecord, made: SinkRecord) -> None:
    try:
        packing.add(made)
    except DataError as error:
        failure = Failure(Stage.TASK_PUT, class_name(packing), error, record, 1)
        given_up = kept.tolerance.give_up(failure)
        if not isinstance(given_up, Skipped):
            raise given_up from error


def records_of(batch: "pa.RecordBatch") -> Iterator[ConsumerRecord]:
    """The source's rows as a consumer gives records."""
    import pyarrow as pa

    columns = {name: batch.column(name) for name in batch.schema.names}
    times = columns["timestamp"].cast(pa.int64())  # microseconds
    for key, value, topic, partition, offset, time_us, kind, headers in zip(
        *(columns[name].to_pylist() for name in ("key", "value", "topic", "partition", "offset")),
        times.to_pylist(),
        columns["timestampType"].to_pylist(),
        columns["headers"].to_pylist(),
        strict=True,
    ):
        named = tuple((each["key"], each["value"]) for each in headers or ())
        time_ms = -1 if time_us is None else time_us // 1000
        yield ConsumerRecord(topic, partition, offset, time_ms, kind, key, value, named, -1)


class Packing:
    """Rows by topic and schema, until a batch ends."""

    def __init__(self, nulls_fail: bool) -> None:
        self._nulls_fail = nulls_fail
        self._rows: dict[tuple[str, Schema | None], list[dict[str, Any]]] = {}
        self._whole: tuple[str, Schema, list[pa.Array]] | None = None  # a batch that needs no rows
        self._json = JsonConverter()
        self._json.configure({"schemas.enable": "false", "decimal.format": "NUMERIC"})

    def add(self, record: SinkRecord) -> None:
        if record.value is None:
            if self._nulls_fail:
                raise DataError("The record has no value; behavior.on.null.values=ignore passes over such records")
            return
        schema = record.value_schema
        if schema is None:
            text = self._json.from_connect(record.topic, None, record.value)
            assert text is not None
            row = {JSON_COLUMN: text.decode()}
        else:
            validate(schema, record.value)
            row = plain(schema, record.value)
            if schema.type is not Type.STRUCT or schema.name in s.LOGICAL_NAMES:
                row = {VALUE_COLUMN: row}
        self._rows.setdefault((record.original_topic, schema), []).append(row)

    def add_columns(self, batch: "pa.RecordBatch", pipeline: Pipeline) -> bool:
        """Whether the whole batch could be taken at once: values of one topic and schema, which the converter has
        columns for, with nothing on the way that looks at each record.
        """
        if not pipeline.is_pure or batch.num_rows < RUN_RECORDS_MIN or _has_headers(batch.column("headers")):
            return False
        topics = batch.column("topic").unique().to_pylist()
        if len(topics) != 1:
            return False
        try:
            column = pipeline.value.to_connect_columns(topics[0], batch.column("value"))
            if column is None:
                return False
            pipeline.key.to_connect_run(topics[0], batch.column("key").to_pylist())
            schema, columns = column.schema, column.arrow.flatten()
            if not columns:  # a struct without fields: how many there are, no column says
                return False
            if pipeline.steps:
                changed = pipeline.transform_columns(_value_columns(schema, columns, topics[0], batch))
                if changed is None:
                    return False
                schema, columns = changed.schema, changed.columns
        except Exception:  # noqa: BLE001 - which record it is, is found one by one
            return False
        if len(columns[0]):
            self._whole = topics[0], schema, columns
        return True

    def chunks(self) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        tables: list[tuple[str, pa.Table]] = []
        if self._whole is not None:
            topic, schema, values = self._whole
            tables.append((topic, pa.Table.from_arrays(values, schema=columns_of(schema))))
        for (topic, of_rows), rows in self._rows.items():
            tables.append((topic, pa.Table.from_pylist(rows, schema=columns_of(of_rows))))
        for topic, table in tables:
            columns, data = table.schema, io.BytesIO()
            with pa.ipc.new_stream(data, columns) as out:
                out.write_table(table)
            yield _chunk(topic, columns.serialize().to_pybytes(), data.getvalue(), table.num_rows)


def _value_columns(schema: Schema, columns: "list[pa.Array]", topic: str, batch: "pa.RecordBatch") -> ValueColumns:
    import pyarrow as pa
    import pyarrow.compute as pc

    def times_ms() -> "pa.Array":
        micros = batch.column("timestamp").cast(pa.int64())
        return pc.if_else(pc.less(micros, 0), pa.scalar(None, pa.int64()), pc.divide(micros, 1000))

    return ValueColumns(
        schema, columns, topic, lambda: batch.column("partition"), lambda: batch.column("offset"), times_ms
    )


def _chunk(
    topic: str | None = None,
    columns: bytes | None = None,
    data: bytes | None = None,
    rows: int = 0,
    counts: str | None = None,
) -> "pa.RecordBatch":
    import pyarrow as pa

    named = {
        "topic": pa.string(),
        "columns": pa.binary(),
        "data": pa.binary(),
        "rows": pa.int64(),
        "counts": pa.string(),
    }
    values = (topic, columns, data, rows, counts)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip(values, named.values(), strict=True)], names=list(named)
    )


def _has_headers(headers: "pa.Array") -> bool:
    return headers.null_count < len(headers) and len(headers.flatten()) > 0


def columns_of(schema: Schema | None) -> "pa.Schema":
    """All may be null: a batch may hold records of several schemas."""
    import pyarrow as pa

    if schema is None:
        return pa.schema([(JSON_COLUMN, pa.string())])
    if schema.type is not Type.STRUCT:
        schema = s.struct([(VALUE_COLUMN, schema)])
    return pa.schema([field.with_nullable(True) for field in arrow_schema(schema)])


def rows_of(
    wanted: "pa.Schema", mine: Collection[bytes], others: Collection[bytes] = ()
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """For `mapInArrow`, over chunks: the rows of those with `mine` as columns, with the wanted ones, null where a chunk
    has not got one.

    Chunks that Spark has lost are made again, and may then have a schema that the driver has not seen: an error, so
    that the batch is tried again with it, for there would be no place for their rows.
    """

    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        for batch in batches:
            for columns, data in zip(batch.column("columns").to_pylist(), batch.column("data"), strict=True):
                if columns not in mine:
                    if columns is None or columns in others:
                        continue
                    raise DataError(
                        "Records were converted again and have another schema now: the batch must be begun again"
                    )
                with pa.ipc.open_stream(data.as_buffer()) as stream:
                    for each in stream:
                        yield _with_columns(each, wanted)

    return run


def _with_columns(batch: "pa.RecordBatch", wanted: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    there = set(batch.schema.names)
    missing = there - set(wanted.names)
    if missing:
        raise DataError(f"There is no place for the columns {', '.join(sorted(missing))} of some records")
    columns = [
        batch.column(field.name).cast(field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
        for field in wanted
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
