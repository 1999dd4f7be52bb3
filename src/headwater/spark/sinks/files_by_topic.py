"""A topic straight to Parquet files whose names say which offsets they hold (see `file_names`).

A batch goes like this: rows that files hold already are left out; Spark writes the rest below `_staging`; the least and
greatest offset of each file are read from its footer; the files get their names, in the order of their offsets. Killed
at any moment, the names tell the next run what is done, whatever became of the checkpoint: the rows come again and are
left out. One query per directory and topic.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from uuid import uuid4

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.sinks import file_names
from headwater.spark.sinks.file_names import STAGING, TopicFile
from headwater.spark.sinks.hadoop import HadoopFiles, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NEEDED = ("topic", "partition", "offset")


class TopicFiles:
    """Given to `foreachBatch`. Remembers where the files end; after a failure it looks again."""

    def __init__(self, path: str) -> None:
        self.root = path.rstrip("/")
        self._done: dict[TopicPartition, int] | None = None

    def __call__(self, frame: "DataFrame", _batch_id: int) -> None:
        missing = [column for column in _NEEDED if column not in frame.columns]
        if missing:
            raise UserError(
                f"The rows have no column {missing[0]!r}",
                "the files are named after the topic, partition and offset of their records",
                "Keep these columns of the source, or write with batch_files, which takes any rows",
            )
        spark = frame.sparkSession
        files = HadoopFiles(spark)
        whose = query_id(spark) or "batch"
        if self._done is None:
            self._done = _last_offsets(files, self.root)
            for name in files.names_in(f"{self.root}/{STAGING}"):
                if name.startswith(whose):
                    files.delete(f"{self.root}/{STAGING}/{name}")
        done, self._done = self._done, None  # until the batch is through
        staging = f"{self.root}/{STAGING}/{whose}-{uuid4().hex}"
        condition = file_names.not_yet_in_files(done)
        staged = self._stage(frame if condition is None else frame.where(condition), files, staging)
        for file, path in sorted(staged.items()):
            files.rename(path, f"{self.root}/{file.directory}/{file.name}")
            done[file.topic_partition] = file.end
        files.delete(staging)
        self._done = done

    def _stage(self, frame: "DataFrame", files: HadoopFiles, staging: str) -> dict[TopicFile, str]:
        """Tasks that each hold a stretch of a partition, as those of the source do, need no shuffle; others do."""
        _write(frame, f"{staging}/1")
        found, shared = _ranges(files, f"{staging}/1")
        if not shared:
            return found
        again = frame.sparkSession.read.schema(frame.schema).parquet(f"{staging}/1")
        _write(
            again.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset"), f"{staging}/2"
        )
        found, shared = _ranges(files, f"{staging}/2")
        if shared:
            raise UserError(
                "The same offset comes more than once",
                f"partition {shared} has rows with one offset in several files",
                "topic_files needs one row per record; rows that were multiplied go to batch_files",
            )
        return found


def starting_offsets(spark: "SparkSession", path: str, partitions: Mapping[str, int] | None = None) -> str:
    return file_names.starting_offsets_json(_last_offsets(HadoopFiles(spark), path.rstrip("/")), partitions)


def _last_offsets(files: HadoopFiles, root: str) -> dict[TopicPartition, int]:
    found = [path.rpartition("/")[2] for path in files.files_under(root)]
    file_names.refuse_overlap(root, found)
    return file_names.last_offsets(found)


def _write(frame: "DataFrame", path: str) -> None:
    frame.write.partitionBy("topic", "partition").parquet(path)


def _ranges(files: HadoopFiles, root: str) -> tuple[dict[TopicFile, str], TopicPartition | None]:
    """Which offsets each staged file holds; and a partition of which two files hold the same stretch, if there is
    one.
    """
    found: dict[TopicFile, str] = {}
    for relative in files.files_under(root):
        parts = dict(part.split("=", 1) for part in relative.split("/")[:-1])
        offsets = files.offsets_in(f"{root}/{relative}")
        if offsets is None:
            continue
        file = TopicFile(parts["topic"], int(parts["partition"]), *offsets)
        if file in found:
            return {}, file.topic_partition
        found[file] = f"{root}/{relative}"
    clash = file_names.overlap(found)
    return found, clash[0].topic_partition if clash else None
