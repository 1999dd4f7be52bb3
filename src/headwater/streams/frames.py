"""DataFrames at both ends of an application: `.df(spark)` reads what it has committed, `from_df` writes what it reads.
Knows PySpark, as `on_spark` does.

Out: the source of Spark (`format("headwater")`) over the topic of a point, with keys and values as the serdes there
mean them. It reads committed records, so each result once.

In: a query that writes the frame with the exactly-once sink, for as long as the application runs. A frame that is not a
stream is made one batch of a stream, by a source that gives one row, once; the checkpoint of the query then says that
it was written. The checkpoint's name has the id of the topic in it: a topic that was deleted and made again is filled
again. A query that fails ends the application.
"""

import copyreg
import logging
import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, _parse_datatype_string

from headwater.base.errors import UserError
from headwater.client.admin import Admin
from headwater.client.types import topic_id_text
from headwater.spark.sessions import is_local, register
from headwater.spark.sinks.hadoop import HadoopFiles
from headwater.streams.plan.frame_types import JSON_TEXT, NUMBERS, column_type, windowed_key_type
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde
from headwater.streams.topics.internal import ensure_frame_inputs, ensure_frame_outputs, partitions_of
from headwater.streams.topics.patterns import with_topics_named
from headwater.streams.topics.plan import external_topics, plan_topics

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.streaming.query import StreamingQuery

    from headwater.streams.dsl.app import App
    from headwater.streams.dsl.frames import FrameFeed, FramePoint
    from headwater.streams.slot.settings import RunSettings

_log: Final = logging.getLogger("headwater.streams")
_LOOK_S: Final = 0.25
_RECORD: Final = frozenset(("key", "value", "headers", "partition"))
_KAFKA: Final = "kafka."
copyreg.pickle(struct.Struct, lambda layout: (struct.Struct, (layout.format,)))  # serdes of numbers have one


class Run(Protocol):
    """An application that runs, here or on Spark."""

    @property
    def running(self) -> bool: ...

    def ask_to_stop(self, error: UserError | None = None) -> None: ...


# Out: `.df(spark)`


def read_frame(
    app: "App",
    point: "FramePoint",
    spark: SparkSession | None,
    *,
    batch: bool,
    schema: str | StructType | None,
    options: Mapping[str, str],
) -> DataFrame:
    session = spark or active_session()
    register(session)
    _make_topics(app, point, options)
    of_json = _json_type(point.value, schema)
    reader = (session.read if batch else session.readStream).format("headwater")
    chosen = {"startingOffsets": "earliest", **options}
    chosen |= {"kafka.bootstrap.servers": app.brokers, "subscribe": ",".join(point.topics)}
    if isinstance(of_json, StructType):
        chosen |= {"value.format": "json", "value.schema": of_json.json()}
    frame = reader.options(**chosen).load()
    frame = frame.withColumn("key", _decoded(functions.col("key"), point.key, None))
    if not isinstance(of_json, StructType):
        frame = frame.withColumn("value", _decoded(functions.col("value"), point.value, of_json))
    return _latest(frame) if point.of_table and batch else frame


def active_session() -> SparkSession:
    found = SparkSession.getActiveSession()
    if found is None:
        raise UserError(
            "There is no Spark session", "a DataFrame belongs to one", "Make one with headwater.spark.session(name)"
        )
    return found


def _json_type(serde: Serde, schema: str | StructType | None) -> DataType | None:
    """Of a value that is JSON; None where nothing is known of it, and where it is something else."""
    kind = column_type(serde)
    is_record = getattr(serde, "record_type", None) is not None
    if schema is None:
        return _parse_datatype_string(kind) if is_record and kind != "string" else None
    if kind != JSON_TEXT and not is_record:
        raise UserError(
            "A schema is of no use here", f"the values are {serde.name}, not JSON", "Leave it out, or cast the column"
        )
    return _parse_datatype_string(schema) if isinstance(schema, str) else schema


def _decoded(column: "Column", serde: Serde, of_json: DataType | None) -> "Column":
    kind = column_type(serde)
    if kind == "binary":
        return column
    text = column.cast("string")
    if isinstance(of_json, ArrayType | MapType):
        return functions.from_json(text, of_json, {"mode": "FAILFAST"})
    if of_json is not None:
        return functions.get_json_object(text, "$").cast(of_json)
    if kind in ("string", JSON_TEXT) or getattr(serde, "record_type", None) is not None:
        return text
    decode: Callable[[Column], Column] = arrow_udf(_decoder(serde, kind), kind)  # type: ignore[call-overload]
    return decode(column)


def _decoder(serde: Serde, kind: str) -> Any:
    """By the serde itself, in Spark's Python processes."""
    windowed = isinstance(serde, WindowedSerde | SessionWindowedSerde)

    def decode(cells: "pa.Array") -> "pa.Array":
        import pyarrow as pa

        from headwater.streams.frames import _windowed_key, arrow_type

        values = [None if cell is None else serde.deserialize(cell) for cell in cells.to_pylist()]
        if windowed:
            inner = serde.inner  # type: ignore[attr-defined]
            values = [
                None if v is None else {"key": _windowed_key(inner, v.key), "start": v.start, "end": v.end}
                for v in values
            ]
        return pa.array(values, arrow_type(kind))

    decode.__annotations__ = _ANNOTATIONS
    return decode


def _windowed_key(inner: Serde, key: Any) -> Any:
    """What is neither text nor a number is as it is in the topic."""
    if inner.name == "text" or inner.name in NUMBERS:
        return key
    written = inner.serialize(key)
    return written.decode() if windowed_key_type(inner) == "string" else written


def arrow_type(kind: str) -> "pa.DataType":
    """Of the types that `column_type` has for numbers and windowed keys."""
    import pyarrow as pa

    named = {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32()}
    named |= {"double": pa.float64(), "string": pa.string(), "binary": pa.binary()}
    if kind in named:
        return named[kind]
    inner = kind.removeprefix("struct<key:").partition(",start:")[0]
    return pa.struct([("key", named[inner]), ("start", pa.int64()), ("end", pa.int64())])


def _latest(frame: DataFrame) -> DataFrame:
    """The rows of a table: the last change of each key, unless it is a tombstone.

    Within a partition offsets tell which is the last. Where partitions were added, equal keys may be in several: of
    these the timestamps tell.
    """
    whole = functions.struct(*frame.columns).alias("row")
    rows = frame.where("key IS NOT NULL").select(whole)
    of_one = rows.groupBy("row.key", "row.topic", "row.partition").agg(
        functions.max_by("row", "row.offset").alias("row")
    )
    newest = functions.struct("row.timestamp", "row.offset")
    last = of_one.groupBy("row.key").agg(functions.max_by("row", newest).alias("row"))
    return last.select("row.*").where("value IS NOT NULL")


def _make_topics(app: "App", point: "FramePoint", options: Mapping[str, str]) -> None:
    """So that a query may begin before the application does."""
    topology = app.topology()
    if not topology.frame_topics.keys() & set(point.topics):
        return
    with Admin(_client(app, options)) as admin:
        if len(partitions_of(admin, point.topics)) == len(point.topics):
            return
        ensure_frame_inputs(admin, topology)
        topology = with_topics_named(topology, app.name, [topic.name for topic in admin.list_topics()])
        plan = plan_topics(app.name, topology, partitions_of(admin, external_topics(topology)))
        ensure_frame_outputs(admin, plan.frames)


def _client(app: "App", options: Mapping[str, str]) -> dict[str, Any]:
    named = {name.lower(): text for name, text in options.items()}
    given = {name.removeprefix(_KAFKA): text for name, text in named.items() if name.startswith(_KAFKA)}
    shared = {name: text for name, text in given.items() if name.startswith(("security.", "ssl.", "sasl."))}
    return {**shared, "bootstrap.servers": app.brokers}


# In: `app.from_df(frame)`


class Feeds:
    """The queries that write DataFrames to topics of one application. A thread of its own sees that they run, and ends
    them with it.
    """

    def __init__(self, run: Run, queries: "dict[str, StreamingQuery]") -> None:
        self._run = run
        self._queries = queries
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="headwater-frames", daemon=True)
        self._thread.start()

    @property
    def queries(self) -> "dict[str, StreamingQuery]":
        """By the names of the frames; those that have ended are here, too."""
        return dict(self._queries)

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        waiting, name = dict(self._queries), ", ".join(self._queries)
        try:
            while not self._closing.is_set() and self._run.running:
                for name, query in list(waiting.items()):
                    if query.awaitTermination(_LOOK_S):  # type: ignore[arg-type]  # it takes parts of seconds
                        del waiting[name]
                if not waiting:
                    self._closing.wait(_LOOK_S)
        except Exception as error:  # noqa: BLE001 - also of Spark's gateway: an application whose frame is not written must not seem to run
            why = (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
            _log.warning("a DataFrame could not be written frame=%s error=%s", name, why)
            self._run.ask_to_stop(
                UserError(f"The DataFrame {name} could not be written to the application's topic", why)
            )
        finally:
            _stop_all(self._queries)


def feed(app: "App", run: Run, settings: "RunSettings", spark: SparkSession | None) -> Feeds:
    """Starts to write the application's frames to their topics, which are there."""
    started: dict[str, StreamingQuery] = {}
    try:
        for each in app.feeds:
            query = _start(app, each, settings, spark)
            if query is not None:
                started[each.name] = query
    except BaseException:
        _stop_all(started)
        raise
    return Feeds(run, started)


def _stop_all(queries: "Mapping[str, StreamingQuery]") -> None:
    """Each of them, also where another does not stop."""
    for name, query in queries.items():
        try:
            query.stop()
        except Exception as error:  # noqa: BLE001 - whatever Spark's gateway says
            _log.warning("the query of a DataFrame did not stop frame=%s error=%r", name, error)


def _start(
    app: "App", feed: "FrameFeed", settings: "RunSettings", spark: SparkSession | None
) -> "StreamingQuery | None":
    """None where a bounded frame was written by an earlier run: a query would open transactions for no rows."""
    given = feed.frame
    session = given.sparkSession if isinstance(given, DataFrame) else spark or active_session()
    register(session)
    frame = given if isinstance(given, DataFrame) else given(session)
    rows = encoded(frame, feed)
    checkpoint = _checkpoint(app, feed, settings, session)
    if not rows.isStreaming:
        if HadoopFiles(session).exists(f"{checkpoint}/commits/0"):
            return None
        rows = _as_one_batch(rows)
    options = {**feed.options, "kafka.bootstrap.servers": app.brokers, "topic": feed.topic}
    writer = rows.writeStream.format("headwater").options(**options).option("checkpointLocation", checkpoint)
    if not frame.isStreaming:
        writer = writer.trigger(once=True)
    return writer.queryName(f"{app.name} {feed.name}").start()


def _as_one_batch(rows: DataFrame) -> DataFrame:
    """Beside the first row of a stream: its first batch has all rows, every other none."""
    source = rows.sparkSession.readStream.format("rate-micro-batch")
    ones = source.option("rowsPerBatch", 1).option("numPartitions", 1).load().where("value = 0").select()
    return functions.broadcast(ones).crossJoin(rows)


def _checkpoint(app: "App", feed: "FrameFeed", settings: "RunSettings", session: SparkSession) -> str:
    """Below the directory that was given, or one in `state_dir`: of this topic, and not of one of the same name before
    it.
    """
    master = str(session.sparkContext.master)
    if feed.checkpoint is None and not is_local(master):
        raise UserError(
            f"The DataFrame {feed.name} needs a checkpoint",
            f"the master is {master}: a directory of this machine is not seen by all",
            f'app.from_df(..., "{feed.name}", checkpoint="hdfs:///...")',
        )
    with Admin(settings.for_admins) as admin:
        found = admin.describe_topics([feed.topic])[feed.topic]
        cluster = admin.describe_cluster().cluster_id or "cluster"
    if isinstance(found, Exception):
        raise found
    path = Path(settings.state_dir).absolute() / app.name / cluster / "frames" / feed.name
    parent = f"file://{path}" if feed.checkpoint is None else feed.checkpoint.rstrip("/")
    return f"{parent}/{topic_id_text(found.topic_id)}"


def encoded(frame: DataFrame, feed: "FrameFeed") -> DataFrame:
    """With keys and values as bytes: what is written."""
    columns = frame.columns
    is_record = feed.key_column is None and "value" in columns and set(columns) <= _RECORD
    if is_record:
        made = [_encoded(frame, "value", functions.col("value"), feed.value).alias("value")]
        made += [_encoded(frame, "key", functions.col("key"), feed.key).alias("key")] if "key" in columns else []
        return frame.select(*made, *(name for name in columns if name in ("headers", "partition")))
    if feed.key_column is not None and feed.key_column not in columns:
        raise UserError(
            f"The DataFrame {feed.name} has no column {feed.key_column}", f"its columns are {', '.join(columns)}"
        )
    if column_type(feed.value) != JSON_TEXT and getattr(feed.value, "record_type", None) is None:
        raise UserError(
            f"The rows of the DataFrame {feed.name} cannot be {feed.value.name}",
            "a row of several columns becomes JSON",
            "Name one column value, and the key's column key",
        )
    made = [_json_text(functions.struct(*columns)).alias("value")]
    if feed.key_column is not None:
        made.append(_encoded(frame, feed.key_column, functions.col(feed.key_column), feed.key).alias("key"))
    return frame.select(*made)


def _encoded(frame: DataFrame, name: str, column: "Column", serde: Serde) -> "Column":
    kind = column_type(serde)
    if kind == JSON_TEXT or getattr(serde, "record_type", None) is not None:
        return _json_text(column)
    if kind == "string":
        return column.cast("string")
    if serde.name in NUMBERS:
        encode: Callable[[Column], Column] = arrow_udf(_encoder(serde), "binary")  # type: ignore[call-overload]
        return encode(column.cast(kind))
    if serde.name == "bytes" and isinstance(frame.schema[name].dataType, BinaryType | StringType):
        return column.cast("binary")
    raise UserError(
        f"The column {name} cannot be written as {serde.name}",
        f"it is {frame.schema[name].dataType.simpleString()}",
        "Make it binary, or choose text, json or a number as serde",
    )


_JSON_OPTIONS: Final = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXXXX]",  # Spark's own ones end with the milliseconds
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}


def _json_text(column: "Column") -> "Column":
    """Of any type, which `to_json` alone does not take; null stays null, which is a tombstone."""
    whole = functions.to_json(functions.array(column), _JSON_OPTIONS)
    text = functions.substring(whole, functions.lit(2), functions.length(whole) - 2)
    return functions.when(column.isNotNull(), text)


def _encoder(serde: Serde) -> Any:
    def encode(cells: "pa.Array") -> "pa.Array":
        import pyarrow as pa

        return pa.array([None if cell is None else serde.serialize(cell) for cell in cells.to_pylist()], pa.binary())

    encode.__annotations__ = _ANNOTATIONS
    return encode


def _annotations() -> dict[str, Any]:
    """Which Spark asks an Arrow function for; it cannot resolve them as text."""
    import pyarrow as pa

    return {"cells": pa.Array, "return": pa.Array}


_ANNOTATIONS: Final = _annotations()
