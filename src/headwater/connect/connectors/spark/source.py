"""SparkSource: whatever Spark can read, as records. Batches come one at a time, at least once.

On workers of a group that write in transactions, a batch and its offset are one transaction; a group was not tested.

Streaming: Spark's checkpoint says which rows make a batch, and plans each before it runs, so that a batch that is tried
again has the same rows. The query hands a batch over (`Handover`) and waits; the task gives its rows as records, the
last of them with the offset `{"query": id, "batch": number}`; when all have arrived, the query goes on and Spark notes
that the batch is done. Killed in between, the query gives the batch again, and the offset says that it is in the topic
already. A checkpoint that was removed makes another query id.

Batch: everything is read once (`poll.interval.ms=0`), or again and again. A read is as a batch of a stream: in one
transaction.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.connect.api import SourceConnector, SourceOffsets, SourceTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, MEDIUM, REQUIRED, NonEmptyText, listing, long, text
from headwater.connect.connectors.spark.columns import connect_schema, value_of
from headwater.connect.connectors.spark.options import FORMAT_KEY, check_names, options_of, path_key
from headwater.connect.data import schema as s
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import Schema
from headwater.connect.errors import ConnectError, Interrupted
from headwater.connect.runtime.spark_errors import spark_errors, told

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_WAIT_S: Final = 0.2
_PACKED: Final = "data binary"


class Handover:
    """One batch at a time, from the query's thread to the task's. `done` lets the query go on; `close` ends its waiting
    with an error.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batch: tuple[DataFrame, str, int] | None = None
        self._closed = False

    def give(self, frame: "DataFrame", query: str, number: int) -> None:
        """By the query: returns when the batch is through."""
        with self._changed:
            self._batch = (frame, query, number)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._batch is None or self._closed)
            if self._closed:
                raise Interrupted("The task stops: this batch is not through")

    def take(self, timeout_s: float) -> "tuple[DataFrame, str, int] | None":
        with self._changed:
            self._changed.wait_for(lambda: self._batch is not None or self._closed, timeout_s)
            return None if self._closed else self._batch

    def done(self) -> None:
        with self._changed:
            self._batch = None
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class SparkSourceTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._config = SparkSourceConnector.config_def.parse(props)
        self._options = options_of(props)
        self._partition = {"format": self._config["format"]}
        self._handover = Handover()
        self._stopped = threading.Event()
        self._whole = False  # all rows of the batch at hand are given
        self._busy = False  # there is a batch at hand
        self._query: StreamingQuery | None = None
        self._spark: Any = self.context.spark()  # may take long
        if self.context.stopping:
            raise Interrupted("The task stops: its query is not begun")
        self._committed = self.context.offset_reader.offset(self._partition) or {}
        if self._config["read.mode"] == "streaming":
            with spark_errors():
                self._query = self._started()

    def _frame(self, reader: Any) -> "DataFrame":
        reader = reader.format(self._config["format"]).options(**self._options)
        if self._config["schema"]:
            reader = reader.schema(self._config["schema"])
        frame: DataFrame = reader.load()
        self._plan(frame)
        return frame

    def _started(self) -> "StreamingQuery":
        frame = self._frame(self._spark.readStream)

        def each(batch: "DataFrame", number: int) -> None:
            query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
            self._handover.give(batch, str(query), number)

        writing = frame.writeStream.foreachBatch(each).option("checkpointLocation", self._config["checkpoint.location"])
        return writing.trigger(processingTime=f"{self._config['batch.interval.ms']} milliseconds").start()

    def _plan(self, frame: "DataFrame") -> None:
        """What records are made of, from the columns."""
        self._schema = connect_schema(frame.schema)
        self._value = value_of(self._schema)
        self._key_schema, self._key = self._key_of(self._config["key.columns"])

    def _key_of(self, names: list[str]) -> tuple[Schema | None, Any]:
        """One column is the key itself, several are a struct."""
        if not names:
            return None, lambda _row: None
        fields = []
        for name in names:
            field = self._schema.field(name)
            if field is None:
                raise ConnectError(f"key.columns names {name}, which is no column of what was read")
            fields.append((name, field.schema))
        if len(fields) == 1:
            ((name, schema),) = fields
            made = value_of(schema)
            return schema, lambda row: made(row[name])
        schema = s.struct(fields)
        return schema, value_of(schema)

    # The task's thread

    def poll(self) -> Iterator[SourceRecord] | None:
        if self._busy:
            self._wait_for_arrival()
            return None
        if self._config["read.mode"] == "batch":
            return self._poll_batch()
        taken = self._handover.take(_WAIT_S)
        if taken is None:
            self._check_query()
            return None
        frame, query, number = taken
        if self._committed.get("query") == query and self._committed.get("batch", -1) >= number:
            self._handover.done()
            return None
        return self._records(frame, {"query": query, "batch": number})

    def _wait_for_arrival(self) -> None:
        """The records of a batch are on their way: nothing more before they have arrived."""
        self._check_query()
        self.context.request_commit()
        self._stopped.wait(_WAIT_S / 10)

    def _check_query(self) -> None:
        if self._query is not None and not self._stopped.is_set() and not self._query.isActive:
            error = self._query.exception()
            raise ConnectError(told(error) if error is not None else "The query has ended by itself")

    def _poll_batch(self) -> Iterator[SourceRecord] | None:
        reads, interval_ms = self._committed.get("reads", 0), self._config["poll.interval.ms"]
        due_ms = self._committed.get("at", 0) + interval_ms
        now_ms = time.time_ns() // 1_000_000
        if reads and (interval_ms == 0 or now_ms < due_ms):
            self._stopped.wait(_WAIT_S)
            return None
        with spark_errors():
            frame = self._frame(self._spark.read)
        return self._records(frame, {"reads": reads + 1, "at": now_ms})

    def _records(self, frame: "DataFrame", offset: dict[str, Any]) -> Iterator[SourceRecord]:
        """All of a batch. The last one has the offset, which is committed when it and all before it have arrived: then
        `commit` comes.
        """
        self._busy, self._whole, self._next_offset = True, False, offset
        topic, last = self._config["topic"], None
        for row in self._rows(frame):
            if self._stopped.is_set():
                raise Interrupted("The task stops: this batch is not through")
            if last is not None:
                yield self._record(topic, last, None)
            last = row
        if last is None:  # nothing to write down
            self._through()
            return
        yield self._record(topic, last, offset)
        self._whole = True

    def _rows(self, frame: "DataFrame") -> Iterator[dict[str, Any]]:
        import pyarrow as pa

        with spark_errors():
            for packed in frame.mapInArrow(_pack, _PACKED).toLocalIterator():
                with pa.ipc.open_stream(pa.py_buffer(bytes(packed["data"]))) as stream:
                    for batch in stream:
                        yield from batch.to_pylist()

    def _record(self, topic: str, row: dict[str, Any], offset: dict[str, Any] | None) -> SourceRecord:
        return SourceRecord(
            topic=topic,
            key_schema=self._key_schema,
            key=self._key(row),
            value_schema=self._schema,
            value=self._value(row),
            source_partition=self._partition,
            source_offset=offset,
        )

    def commit(self) -> None:
        """Offsets were written: the batch's own, if all of it was given, for no other record of it has one."""
        if self._busy and self._whole:
            self._through()

    def _through(self) -> None:
        self._busy = False
        self._committed = self._next_offset
        self._handover.done()

    def stop(self) -> None:
        """From another thread. The query's own thread waits in Python: it must be let go before the query can be
        stopped.
        """
        if hasattr(self, "_stopped"):
            self._stopped.set()
            self._handover.close()

    def close(self) -> None:
        query = getattr(self, "_query", None)
        if query is not None:
            query.stop()


def _pack(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """For `mapInArrow`: each batch as one row, in Arrow's stream format,
    so that values come to the driver as they are.
    """
    import io

    import pyarrow as pa

    for batch in batches:
        data = io.BytesIO()
        with pa.ipc.new_stream(data, batch.schema) as out:
            out.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"data": [data.getvalue()]}, schema=pa.schema([("data", pa.binary())]))


class SparkSourceConnector(SourceConnector):
    doc = (
        "Whatever Spark can read, as records whose values are structs of its columns: as a stream, batch by batch from a checkpoint, or "
        "all of it, once or again and again."
    )
    config_def: ClassVar[ConfigDef] = ConfigDef(
        FORMAT_KEY,
        path_key("What to read, for formats of files. All other options of the format stand under options. likewise (options.dbtable, options.maxFilesPerTrigger)."),
        text("topic", REQUIRED, HIGH, "Where the records go.", NonEmptyText()),
        text("read.mode", "streaming", HIGH, "streaming: what comes is read batch by batch, from the checkpoint on. batch: everything, once or every poll.interval.ms; for formats that are no streams.", OneOf("streaming", "batch")),
        text("checkpoint.location", None, HIGH, "The directory of the query's checkpoint; needed for read.mode=streaming. Of this connector alone; every worker must reach it."),
        text("schema", None, MEDIUM, "The columns, in Spark's words: `id BIGINT, name STRING`. Streams of files need it; text does not."),
        listing("key.columns", [], MEDIUM, "The columns that make the key: one is the key itself, several are a struct. None: no key."),
        long("batch.interval.ms", 1000, MEDIUM, "How often (ms) a batch of a stream begins at most.", AtLeast(0)),
        long("poll.interval.ms", 0, MEDIUM, "How often (ms) read.mode=batch reads everything again. 0: once.", AtLeast(0)),
    )  # fmt: skip
    needs_spark: ClassVar[bool] = True
    task_class = SparkSourceTask

    def alter_offsets(self, props: Mapping[str, str], offsets: SourceOffsets) -> bool:
        if props.get("read.mode", "streaming").strip() == "streaming":
            raise ConnectError(
                f"The checkpoint in {props.get('checkpoint.location')} says where to go on: remove it, and the connector begins anew, or "
                "choose another checkpoint.location"
            )
        for partition, offset in offsets:
            if offset is not None and (set(partition) != {"format"} or not isinstance(offset.get("reads"), int)):
                raise ConnectError(
                    'Offsets of reads are {"reads": n, "at": milliseconds} of the partition {"format": name}'
                )
        return True

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        check_names(props, found)
        if found["read.mode"].value == "streaming" and not found["checkpoint.location"].value:
            found["checkpoint.location"].errors.append("read.mode=streaming needs a directory for the checkpoint")
