"""SparkSink: topics into whatever Spark can write, batch by batch, with Connect's converters and transforms.

A batch that leaves a mark with its rows is not written again, after a kill either: files (a batch is a directory that
gets its name when it is whole, and counts by its manifest, see `headwater.spark.sinks.files_by_batch`),
`headwater-postgres` and `headwater-sqlite` (the mark is in the transaction). Any other format is at least once: a batch
that was not through is written again. A worker that sleeps while another one has taken over finds, on local disks and
HDFS, that the batch has its name already, and takes its own files away.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from headwater.base.config.validators import AtLeast, OneOf
from headwater.base.ids import TopicPartition
from headwater.connect.api import Offsets, SinkConnector, SparkSinkTask
from headwater.connect.config.definition import ConfigDef, ConfigValue
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REQUIRED, NonEmptyText, long, text
from headwater.connect.connectors.spark.checkpoint import begin_at, recover, reset_offsets, set_offsets
from headwater.connect.connectors.spark.options import FORMAT_KEY, OPTIONS, check_names, options_of, path_key
from headwater.connect.runtime.spark_errors import spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.spark.sinks.hadoop import HadoopFiles

FILES: Final = ("parquet", "orc", "json", "csv", "text", "xml", "avro")
_FILES_BY_NAME: Final = frozenset(FILES)


class SparkSinkTaskByFormat(SparkSinkTask):
    def start(self, props: Mapping[str, str]) -> None:
        self._format, self._options = props["format"], options_of(props)
        self._checkpoint = props["checkpoint.location"]

    def prepare(self, spark: "SparkSession") -> None:
        from headwater.spark.sinks.hadoop import HadoopFiles

        recover(HadoopFiles(spark), self._checkpoint)

    def begin(self, spark: "SparkSession", ends: Callable[[], Offsets]) -> None:
        from headwater.spark.sinks.hadoop import HadoopFiles

        begin_at(HadoopFiles(spark), self._checkpoint, ends)

    def write(self, frame: "DataFrame", batch_id: int) -> None:
        if self._format.lower() in _FILES_BY_NAME:
            from headwater.spark.sinks.files_by_batch import BatchFiles

            others = {name: value for name, value in self._options.items() if name != "path"}
            BatchFiles(self._options["path"], self._format, others)(frame, batch_id)
        else:
            frame.write.format(self._format).options(**self._options).mode("append").save()


class SparkSinkConnector(SinkConnector):
    doc = (
        "Topics into whatever Spark can write. Files (parquet, orc, json, csv, text, xml, avro), headwater-postgres and headwater-sqlite "
        "mark each batch and do not write it twice, also after a kill; any other format is at least once. The fields of values are the columns; a value that is no struct is "
        "the column `value`."
    )
    config_def: ClassVar[ConfigDef] = ConfigDef(
        FORMAT_KEY,
        path_key("The directory of files, as the worker's Spark reaches it: a path, hdfs://... All other options of the format stand under options. likewise (options.dbtable, options.compression)."),
        text("checkpoint.location", REQUIRED, HIGH, "The directory of the query's checkpoint, which says where to go on. Of this connector alone; every worker must reach it.", NonEmptyText()),
        text("value.schema", None, MEDIUM, "The columns, in Spark's words: `id BIGINT, name STRING`. Needed for values without a schema (JsonConverter with schemas.enable=false); with others it chooses and casts columns."),
        long("batch.interval.ms", 1000, MEDIUM, "How often (ms) a batch begins at most.", AtLeast(0)),
        long("batch.records.max", 100_000, LOW, "How many records a batch has at most.", AtLeast(1)),
        text("behavior.on.null.values", "fail", MEDIUM, "What becomes of records without a value (tombstones): fail (an error of that record: errors.tolerance decides) or ignore.", OneOf("fail", "ignore")),
    )  # fmt: skip
    needs_spark: ClassVar[bool] = True
    task_class = SparkSinkTaskByFormat

    def alter_offsets(self, props: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """The checkpoint says where to go on; the next batch has a number that the target has no mark of."""
        form = props["format"]

        def has_mark(query: str, batch: int) -> bool:
            from headwater.connect.connectors.spark.marks import is_written

            of_files = form.lower() in _FILES_BY_NAME
            return is_written(files, form, options_of(props), of_files=of_files, query=query, batch=batch)

        with spark_errors():
            files = self._files()
            set_offsets(files, props["checkpoint.location"], offsets, has_mark)
        return True

    def reset_offsets(self, props: Mapping[str, str], known: Sequence[TopicPartition]) -> bool:
        del known
        with spark_errors():
            reset_offsets(self._files(), props["checkpoint.location"])
        return True

    def _files(self) -> "HadoopFiles":
        from headwater.spark.sinks.hadoop import HadoopFiles

        return HadoopFiles(self.spark())

    def validate(self, props: Mapping[str, str], found: dict[str, ConfigValue]) -> None:
        check_names(props, found)
        if str(found["format"].value).lower() in _FILES_BY_NAME and not found[f"{OPTIONS}path"].value:
            found[f"{OPTIONS}path"].errors.append(f"format={found['format'].value} needs a directory")
        if str(found["format"].value).lower() == "headwater" and f"{OPTIONS}topic" not in props:
            found["format"].errors.append("format=headwater writes to topics: options.topic is missing")
