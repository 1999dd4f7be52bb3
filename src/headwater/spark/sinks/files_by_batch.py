"""Files of any query, Parquet unless told otherwise: Spark's own writer, then a directory renamed, then a manifest put
last.

    0000000007-<query id>/part-….parquet        batch 7
    _manifests/0000000007-<query id>            batch 7 is visible; its text says how many files and bytes

A batch is visible when its manifest is there, and only then. Each try writes to a directory of its own, and what it has
written counts by the rename of that to the batch's name. The query id in the names keeps apart what queries with other
checkpoints write to the same directory. Names alone decide; the text of a manifest is for people.

Where a rename is one step and refuses a name that is taken (HDFS, local disks), a directory with the batch's name is
whole. It is never changed or removed, so whoever finds it only has to put the manifest. Of two drivers that write the
same batch, because one was thought dead, the late one finds the name taken and removes its own files, whenever it
wakes. Elsewhere (object stores) a rename copies file by file, and a directory without a manifest may be half of one: it
is removed, and the batch is written again. That does not keep out a driver that wakes late.

Leftovers of other tries go when their batch is visible, not before: a try that is still written must not lose a part of
it.
"""

import json
import re
from collections.abc import Callable, Mapping
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
        write = frame.write.format(self._form).options(**self._options).save
        write_batch(HadoopFiles(spark), self.root, batch_name(batch_id, query_id(spark)), uuid4().hex, write)


def batch_name(batch_id: int, query: str | None) -> str:
    return f"{batch_id:010d}-{query or 'batch'}"


def write_batch(files: Files, root: str, name: str, attempt: str, write: Callable[[str], None]) -> None:
    """`write` writes the rows to the directory that it is given."""
    manifest, target = f"{root}/{MANIFESTS}/{name}", f"{root}/{name}"
    staging = f"{root}/{STAGING}/{name}-{attempt}"
    if not files.exists(manifest):
        if files.renames_at_once(root):
            if not files.exists(target):
                write(staging)
                if not files.rename_once(staging, target):
                    files.delete(staging)
            put_manifest(files, manifest, parts_in(files, target), staging)
        else:
            write(staging)
            copy_in(files, staging, target, manifest)
    sweep(files, root)


def is_visible(files: Files, root: str, name: str) -> bool:
    """Of a batch that nobody writes any more. One that has its name and lacks only the manifest gets that."""
    manifest, target = f"{root}/{MANIFESTS}/{name}", f"{root}/{name}"
    if files.exists(manifest):
        return True
    if not files.renames_at_once(root) or not files.exists(target):
        return False
    put_manifest(files, manifest, parts_in(files, target), f"{root}/{STAGING}/{name}-late")
    return True


def copy_in(files: Files, staging: str, target: str, manifest: str) -> None:
    """Where a rename may end half way: the manifest is put if all that was written has arrived, and nothing else."""
    written = parts_in(files, staging)
    if files.exists(manifest):  # another driver was quicker
        files.delete(staging)
        return
    files.delete(target)
    files.rename(staging, target)
    if parts_in(files, target) != written:
        raise UserError(
            f"{target} does not have the files that were written for it",
            "another driver writes the same batch, or the file system lost some on the way",
            "See that the query runs once, and start it again: the batch is not visible, and will be written anew",
        )
    put_manifest(files, manifest, written, staging)


def parts_in(files: Files, path: str) -> list[str]:
    return sorted(each for each in files.files_under(path) if each.rpartition("/")[2].startswith("part-"))


def put_manifest(files: Files, manifest: str, parts: list[str], staging: str) -> None:
    """Written beside the try's directory, where `sweep` finds what a driver that dies leaves of it."""
    try:
        files.write_text(manifest, json.dumps({"version": 1, "files": parts}) + "\n", f"{staging}.manifest")
    except Exception:
        if not files.exists(manifest):  # whoever was quicker has put the same, and may have swept ours
            raise


def sweep(files: Files, root: str) -> None:
    """Takes away what other tries left of batches that are visible."""
    for leftover in files.names_in(f"{root}/{STAGING}"):
        if files.exists(f"{root}/{MANIFESTS}/{leftover.rpartition('-')[0]}"):
            files.delete(f"{root}/{STAGING}/{leftover}")


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
