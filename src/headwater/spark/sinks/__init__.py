"""Where pipelines write: files by `foreachBatch`, databases by `format`. Each effect exactly once.

All sinks have one shape. Tasks write aside; one step on the driver makes a whole batch visible, together with the mark
that it is done; a batch that is tried again finds the mark and does nothing. They differ in what is atomic: a rename
(files), a manifest put last (a directory of files), or a transaction (PostgreSQL, SQLite).

Why two ways in: only the JVM sees Hadoop's file systems, and a data source written in Python has no JVM at hand, so
files go through Spark's own Parquet writer inside `foreachBatch`. Databases need code in the tasks, which a data source
gives, and `commit` is called when all tasks are done. Inside `foreachBatch` the formats work as well, for they find
query and batch in the task; and Spark takes the output mode update, of tables that are kept up to date, only there.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.spark.sinks.files_by_batch import BatchFiles
    from headwater.spark.sinks.files_by_topic import TopicFiles

__all__ = ["batch_files", "into", "read_committed_files", "register", "starting_offsets", "topic_files"]


def topic_files(path: str) -> "TopicFiles":
    """`frame.writeStream.foreachBatch(topic_files("hdfs:///views"))`: Parquet named topic+partition+start+end."""
    from headwater.spark.sinks.files_by_topic import TopicFiles

    return TopicFiles(path)


def starting_offsets(spark: "SparkSession", path: str, partitions: Mapping[str, int] | None = None) -> str:
    """The option `startingOffsets` for a query whose checkpoint is lost: where the files of `topic_files` end.

    The option must name all partitions. `partitions` says how many each topic has, as in {"clicks": 6}: those that have
    no file yet are then read from their beginning.
    """
    from headwater.spark.sinks.files_by_topic import starting_offsets as from_names

    return from_names(spark, path, partitions)


def batch_files(path: str) -> "BatchFiles":
    """`frame.writeStream.foreachBatch(batch_files("out"))`: Parquet of any query, visible batch by batch."""
    from headwater.spark.sinks.files_by_batch import BatchFiles

    return BatchFiles(path)


def read_committed_files(spark: "SparkSession", path: str, schema: str | None = None) -> "DataFrame":
    """What `batch_files` has made visible."""
    from headwater.spark.sinks.files_by_batch import read_committed_files as read

    return read(spark, path, schema)


def into(form: str, **options: object) -> "Callable[[DataFrame, int], None]":
    """For the output mode update: `counts.writeStream.outputMode("update").foreachBatch(into("headwater-sqlite",
    path="results.db", table="counts", keys="word"))`."""

    def write(frame: "DataFrame", _batch_id: int) -> None:
        frame.write.format(form).options(**{name: str(value) for name, value in options.items()}).mode("append").save()

    return write


def register(spark: "SparkSession") -> None:
    """Adds `format("headwater-sqlite")` and `format("headwater-postgres")` to a session."""
    from headwater.spark.sinks.database_sources import PostgresDataSource, SqliteDataSource

    spark.dataSource.register(SqliteDataSource)
    spark.dataSource.register(PostgresDataSource)
