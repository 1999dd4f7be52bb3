"""Files of any query, Parquet unless told otherwise: Spark's own writer, then a directory renamed, then a manifest put
last.

    0000000007-<query id>/part-….parquet        batch 7
    _manifests/0000000007-<query id>            batch 7 is visible; its text says how many files and bytes

A batch is visible when its manifest is there, and only then. A batch that was killed before that is written again and
replaces what it left; one that is visible is never touched again. The query id in the names keeps apart what queries
with other checkpoints write to the same directory. Names alone decide; the text of a manifest is for people.
"""

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from headwater.base.errors import UserError
from headwater.spark.sinks.file_names import STAGING
from headwater.spark.sinks.hadoop import Files, HadoopFiles, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFESTS: Final = "_manifests"
_BATCH: Final = re.compile(r"\d{10,19}-.+")


class BatchFiles:
    """Given to `foreachBatch`. `form` is a format of files that Spark writes, `options` are those of its writer."""

    def __init__(self, path: str, form: str = "parquet", options: Mapping[str, str] = MappingProxyType({})) -> None:
        self.root = path.rstrip("/")
        self._form, self._options = form, dict(options)

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        spark = frame.sparkSession
        files = HadoopFiles(spark)
        name = batch_name(batch_id, query_id(spark))
        if files.exists(f"{self.root}/{MANIFESTS}/{name}"):
            return
        sweep(files, self.root, name)
        staging = f"{self.root}/{STAGING}/{name}-{uuid4().hex}"
        frame.write.format(self._form).options(**self._options).save(staging)
        publish(files, self.root, name, staging)


def batch_name(batch_id: int, query: str | None) -> str:
    return f"{batch_id:010d}-{query or 'batch'}"


def sweep(files: Files, root: str, name: str) -> None:
    """Takes away what earlier tries of this batch left."""
    files.delete(f"{root}/{name}")
    for leftover in files.names_in(f"{root}/{STAGING}"):
        if leftover.startswith(name):
            files.delete(f"{root}/{STAGING}/{leftover}")


def publish(files: Files, root: str, name: str, staging: str) -> None:
    parts = [each for each in files.files_under(staging) if each.rpartition("/")[2].startswith("part-")]
    files.rename(staging, f"{root}/{name}")
    files.write_text(f"{root}/{MANIFESTS}/{name}", json.dumps({"version": 1, "files": sorted(parts)}) + "\n")


def committed(files: Files, root: str) -> list[str]:
    """The directories of the batches that are visible."""
    return sorted(f"{root}/{name}" for name in files.names_in(f"{root}/{MANIFESTS}") if _BATCH.fullmatch(name))


def read_committed_files(spark: "SparkSession", path: str, schema: str | None = None) -> "DataFrame":
    """Without a schema, the columns of all batches: a query may have got another one since the first, which is null
    before.
    """
    paths = committed(HadoopFiles(spark), path.rstrip("/"))
    if paths:
        reader = spark.read.option("mergeSchema", "true") if schema is None else spark.read.schema(schema)
        return reader.parquet(*paths)
    if schema is None:
        raise UserError(
            f"There is nothing in {path} yet",
            "no batch is committed, so the columns are not known",
            "Wait for the first batch, or give the schema and get an empty frame",
        )
    return spark.createDataFrame([], schema)
