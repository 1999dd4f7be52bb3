"""The task of a sink on Spark: a streaming query from topics to `SparkSinkTask.write`, with converters and transforms
on the way.

The query's checkpoint says where to go on; the group `connect-<name>` follows it, so that lag shows. A pause stops the
query and a resume starts it again, from its checkpoint. A query that fails is the task's failure.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.ids import TopicPartition
from headwater.connect.api import SparkSinkTask
from headwater.connect.errors import ConnectError, DataError, Interrupted
from headwater.connect.metrics.names import SINK
from headwater.connect.runtime.spark_conversion import CHUNK, JSON_COLUMN, READ, Conversion, convert, rows_of
from headwater.connect.runtime.spark_errors import spark_errors, told
from headwater.connect.runtime.task import TaskId, WorkerTask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("headwater.connect")
_LOOK_S: Final = 0.2
_TOLD_MAX: Final = 500
_COMMIT: Final = "commitOffsets"  # the time of a commit, in what a query tells of its progress
_REFUSED: Final = ("auto.offset.reset", "enable.auto.commit", "group.id", "client.id")


class QueryPlan(NamedTuple):
    """What the connector's properties say of the query."""

    checkpoint: str
    interval_ms: int
    records_max: int
    value_schema: str | None  # Spark's DDL


class SparkSinkWorkerTask(WorkerTask):
    kind = SINK

    def __init__(
        self,
        task_id: TaskId,
        make_task: Callable[[], SparkSinkTask],
        conversion: Conversion,
        consumer_settings: Mapping[str, str],
        plan: QueryPlan,
        *,
        restart: bool,
        on_topic: Callable[[str], None],
        secrets: frozenset[str] = frozenset(),
        paused: bool = False,
    ) -> None:
        super().__init__(task_id, restart=restart, secrets=secrets, paused=paused)
        self._make_task, self._conversion, self._consumer, self._plan = make_task, conversion, consumer_settings, plan
        self._on_topic = on_topic
        self._topics_seen: set[str] = set()
        self._writing = threading.Lock()  # held while a batch is written
        self._ending = False  # no batch is begun any more
        self._failure: Exception | None = None  # of the batch that ended the query
        self._query: StreamingQuery | None = None
        self._uncommitted: int | None = None  # a batch that was written, and that Spark may not have committed yet

    def work(self) -> None:
        spark = self.use_spark()
        task = self._make_task()
        self.call(task.start, self._conversion.props)
        try:
            self.running()
            while not self.stopping.is_set():
                self.wait_while_paused()
                if not self.paused:
                    self._run_query(spark, task)
        finally:
            self.call(task.stop)

    def _run_query(self, spark: "SparkSession", task: SparkSinkTask) -> None:
        """Until it is to stop or to pause, or fails."""
        with spark_errors():
            self.call(task.prepare, spark)
            options = source_options(self.id.connector, self._conversion.config, self._consumer, self._plan)
            if options["startingOffsets"].lower() == "latest":
                self.call(task.begin, spark, lambda: ends_of(options))
            query = self._query = self._started(spark, task, options)
        try:
            with spark_errors():
                while not self.paused and not self.stopping.wait(_LOOK_S):
                    self._look_for_commit()
                    if not query.isActive:
                        self._commit_failed()
                        raise ConnectError(told(self._failure)) if self._failure is not None else _why_ended(query)
        finally:
            self._stop(query)
            self._look_for_commit()
            self._query, self._uncommitted = None, None

    def _stop(self, query: "StreamingQuery") -> None:
        """Between two batches, unless the task is given up: one that is interrupted is written again, and Spark tells
        of it at length.
        """
        self._ending = True
        waited = self._writing.acquire(timeout=_LOOK_S)
        while not waited and not self.cancelled:
            waited = self._writing.acquire(timeout=_LOOK_S)
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - the JVM is gone, or the batch does not end
            logger.warning("event=stop-failed connector=%r task=%d error=%r", *self.id, self.redact(told(error))[:2000])
        finally:
            if waited:
                self._writing.release()

    def _begin_batch(self) -> None:
        """Takes `_writing`. Who stops the query holds it and waits for this very thread: so nobody waits here once that
        has begun.
        """
        while not self._writing.acquire(timeout=_LOOK_S):
            if self._ending:
                raise Interrupted("The task stops: this batch is not begun")
        if self._ending:
            self._writing.release()
            raise Interrupted("The task stops: this batch is not begun")

    def _started(self, spark: "SparkSession", task: SparkSinkTask, options: dict[str, str]) -> "StreamingQuery":
        frame = spark.readStream.format("headwater").options(**options).load()
        self._ending, self._failure = False, None

        def each(batch: "DataFrame", batch_id: int) -> None:
            self._begin_batch()
            try:
                self._note_commit()  # of the batch before: otherwise there would be no other one
                self._write(task, batch, batch_id)
                self._uncommitted = batch_id
            except Exception as error:  # noqa: BLE001 - the JVM gets a sentence, the status what happened
                self._failure = error
                raise ConnectError(self.redact(told(error))[:_TOLD_MAX]) from None
            finally:
                self._writing.release()

        writing = frame.writeStream.foreachBatch(each).option("checkpointLocation", self._plan.checkpoint)
        return writing.trigger(processingTime=f"{self._plan.interval_ms} milliseconds").start()

    def _write(self, task: SparkSinkTask, batch: "DataFrame", batch_id: int) -> None:
        """On the driver, in a thread of PySpark's."""
        chunks = batch.mapInArrow(convert(self._conversion), CHUNK).persist()
        try:
            by_schema = chunks.groupBy("topic", "columns").agg({"rows": "sum", "counts": "collect_list"}).collect()
            self._count_read([json.loads(each) for row in by_schema for each in row["collect_list(counts)"]])
            found = [(row["topic"], bytes(row["columns"])) for row in by_schema if row["columns"] is not None]
            if self.cancelled:
                raise ConnectError("This task was given up")
            for topic in {topic for topic, _ in found} - self._topics_seen:
                self._topics_seen.add(topic)
                self._on_topic(topic)
            if found:
                rows = frame_of(chunks, {columns for _, columns in found}, self._plan.value_schema)
                began_ms = self.metrics.now_ms()
                task.write(rows, batch_id)
                self.metrics.put(sum(row["sum(rows)"] for row in by_schema), self.metrics.now_ms() - began_ms)
        finally:
            chunks.unpersist()

    # Metrics

    def _count_read(self, counted: list[dict[str, int]]) -> None:
        """What Spark's tasks have counted."""
        read = sum(each[READ] for each in counted)
        if read:
            self.metrics.read(read)
            self.metrics.active(read)
        for each in counted:
            self.metrics.errors(each)

    def _look_for_commit(self) -> None:
        """From the task's thread, unless a batch is being written: that one looks itself."""
        if self._uncommitted is not None and self._writing.acquire(blocking=False):
            try:
                self._note_commit()
            finally:
                self._writing.release()

    def _note_commit(self) -> None:
        """Once Spark tells of the batch, it stands in the checkpoint: that is where a sink on Spark commits."""
        if self._uncommitted is None or self._query is None:
            return
        try:
            progress = self._query.lastProgress
            if progress is not None and progress["batchId"] >= self._uncommitted:
                self._uncommitted = None
                self.metrics.committed(progress["durationMs"].get(_COMMIT, 0), success=True)
                self.metrics.active(0)
                self.metrics.partitions(sum(map(partition_count, progress["sources"])))
        except Exception as error:  # noqa: BLE001 - whatever a JVM says that is going; nothing fails for a count
            logger.debug("event=progress-not-known connector=%r task=%d error=%r", *self.id, str(error))

    def _commit_failed(self) -> None:
        """The query has ended behind a batch that was written."""
        if self._uncommitted is not None and self._failure is None:
            self.metrics.committed(0, success=False)


def partition_count(source: Mapping[str, Any]) -> int:
    """How many partitions a source of a query reads, by what its progress says of their offsets."""
    return sum(len(offsets) for offsets in (json.loads(source["endOffset"] or "null") or {}).values())


def source_options(
    connector: str, config: Mapping[str, Any], consumer: Mapping[str, str], plan: QueryPlan
) -> dict[str, str]:
    """The options of the source: the connector's topics, the worker's client,
    and where to begin without a checkpoint.
    """
    made = {f"kafka.{name}": str(value) for name, value in consumer.items() if name not in _REFUSED}
    made["kafka.group.id"] = consumer.get("group.id") or f"connect-{connector}"
    made["startingOffsets"] = consumer.get("auto.offset.reset", "earliest")
    made["includeHeaders"] = "true"
    made["maxOffsetsPerTrigger"] = str(plan.records_max)
    if config["topics.regex"]:
        made["subscribePattern"] = config["topics.regex"]
    else:
        made["subscribe"] = ",".join(config["topics"])
    return made


def ends_of(options: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Where the source with these options begins."""
    from headwater.spark.data_source_readers import StreamReader
    from headwater.spark.options import parse_source_options
    from headwater.spark.schema import source_schema
    from headwater.spark.stream_offsets import from_tree

    reader = StreamReader(parse_source_options(options, streaming=True), source_schema(headers=True))
    try:
        return from_tree(reader.initialOffset())
    finally:
        reader.stop()


def frame_of(chunks: "DataFrame", schemas: set[bytes], value_schema: str | None) -> "DataFrame":
    """The rows of a batch: typed ones, and those of JSON text by the schema that the connector gives."""
    import pyarrow as pa

    read = {data: pa.ipc.read_schema(pa.py_buffer(data)) for data in schemas}
    plain = {data: each for data, each in read.items() if each.names != [JSON_COLUMN]}
    texts = {data for data in read if data not in plain}
    made = []
    if plain:
        made.append(_typed(chunks, plain, texts))
    if texts:
        made.append(_parsed(chunks, texts, set(plain), value_schema))
    frame = made[0] if len(made) == 1 else made[0].unionByName(made[1], allowMissingColumns=True)
    return frame if value_schema is None else as_wanted(frame, value_schema)


def _typed(chunks: "DataFrame", schemas: "dict[bytes, pa.Schema]", others: set[bytes]) -> "DataFrame":
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    try:
        unified = pa.unify_schemas(list(schemas.values()), promote_options="permissive")
    except pa.ArrowInvalid as error:
        raise DataError(f"Records of one batch have schemas that no columns can hold: {error}") from None
    columns = from_arrow_schema(unified)
    wanted = to_arrow_schema(columns, timezone="UTC")
    return chunks.mapInArrow(rows_of(wanted, frozenset(schemas), others), columns)


def _parsed(chunks: "DataFrame", mine: set[bytes], others: set[bytes], value_schema: str | None) -> "DataFrame":
    from pyspark.sql import functions as f
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StringType, StructField, StructType

    if value_schema is None:
        raise DataError(
            "Values without a schema have no columns: value.schema says which there are (`id BIGINT, name STRING`), or a converter with "
            "schemas (AvroConverter, JsonSchemaConverter, ProtobufConverter, JsonConverter with schemas.enable=true)"
        )
    text = StructType([StructField(JSON_COLUMN, StringType())])
    rows = chunks.mapInArrow(rows_of(to_arrow_schema(text, timezone="UTC"), mine, others), text)
    parsed = f.from_json(f.col(JSON_COLUMN), value_schema, {"mode": "FAILFAST"})
    return rows.select(parsed.alias("row")).select("row.*")


def as_wanted(frame: "DataFrame", value_schema: str) -> "DataFrame":
    """The columns that value.schema names, null where the records have none."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    there = set(frame.columns)
    wanted = StructType.fromDDL(value_schema)
    assert isinstance(wanted, StructType)
    return frame.select(
        [
            (f.col(f"`{field.name}`") if field.name in there else f.lit(None)).cast(field.dataType).alias(field.name)
            for field in wanted.fields
        ]
    )


def _why_ended(query: "StreamingQuery") -> ConnectError:
    error = query.exception()
    if error is None:
        return ConnectError("The query has ended by itself: somebody else stopped it, or its session")
    return ConnectError(told(error))
