"""Files through Hadoop's file system classes, on the driver: HDFS, object stores and local paths by one interface.

`Files` is the port that the sinks see; `HadoopFiles` asks the JVM that PySpark started. Paths are as users write them,
`hdfs://host/dir` or `/dir`. A rename is atomic on HDFS and local disks, and there what the sinks rely on.
"""

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_RENAME_AT_ONCE: Final = ("file", "hdfs")


class Files(Protocol):
    def files_under(self, path: str) -> list[str]:
        """Paths of all files below, relative to `path`, without hidden ones; empty if there is no such directory."""

    def names_in(self, path: str) -> list[str]:
        """Names of what is directly in a directory; empty if there is none."""

    def exists(self, path: str) -> bool: ...

    def rename(self, source: str, target: str) -> None:
        """The directory of `target` is made; a target that exists is an error."""

    def rename_once(self, source: str, target: str) -> bool:
        """False if the target is there, whoever made it and when: of several that rename to it, one succeeds. Only
        where `renames_at_once`.
        """

    def renames_at_once(self, path: str) -> bool:
        """Whether a directory that is renamed to somewhere below is there as a whole or not at all, and never in the
        place of another. Object stores copy file by file.
        """

    def delete(self, path: str) -> None:
        """With everything in it; nothing there is fine."""

    def write_text(self, path: str, text: str, aside: str) -> None:
        """Written to `aside` and renamed: the file is there with all of its text, or not. A process that dies leaves
        what is aside; an error does not.
        """


class HadoopFiles:
    def __init__(self, spark: "SparkSession") -> None:
        context = getattr(spark, "_jsc", None)
        if context is None:
            raise UserError(
                "Files cannot be written from this session",
                "it is a Spark Connect session, and only the JVM beside the driver sees Hadoop's file systems",
                "Use a session of headwater.spark.session, or run the driver on the cluster",
            )
        self._jvm: Any = spark._jvm
        self._gateway: Any = spark.sparkContext._gateway
        self._configuration: Any = context.hadoopConfiguration()

    def files_under(self, path: str) -> list[str]:
        root, system = self._at(path)
        if not system.exists(root):
            return []
        base = root.makeQualified(system.getUri(), system.getWorkingDirectory()).toUri().getPath().rstrip("/")
        found = []
        listing = system.listFiles(root, True)
        while listing.hasNext():
            relative = listing.next().getPath().toUri().getPath()[len(base) + 1 :]
            if not any(part.startswith(("_", ".")) for part in relative.split("/")):
                found.append(relative)
        return found

    def names_in(self, path: str) -> list[str]:
        root, system = self._at(path)
        if not system.exists(root):
            return []
        return [status.getPath().getName() for status in system.listStatus(root)]

    def exists(self, path: str) -> bool:
        where, system = self._at(path)
        return bool(system.exists(where))

    def rename(self, source: str, target: str) -> None:
        destination, system = self._at(target)
        system.mkdirs(destination.getParent())
        # Local disks would overwrite a file, or move a directory into one that is there.
        if system.exists(destination):
            raise UserError(
                f"{target} is there already", "another query writes to this directory", "Give each query its own"
            )
        if not system.rename(self._path(source), destination):
            raise UserError(f"{source} could not be renamed to {target}", "the file system refused", "See its log")

    def rename_once(self, source: str, target: str) -> bool:
        destination, system = self._at(target)
        system.mkdirs(destination.getParent())
        if system.exists(destination):
            return False
        if not self.renames_at_once(target.rpartition("/")[0]):
            self.rename(source, target)  # what is there after an error may be a half of our own, and nobody else's
            return True
        if system.getUri().getScheme() == "file":  # Hadoop's own would copy into a directory that is there
            return rename_locally(self._local(source, system), self._local(target, system))
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(system.getUri(), self._configuration)
        rename = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        try:
            context.rename(self._path(source), destination, self._gateway.new_array(rename, 0))
        except Exception:
            if system.exists(destination):
                return False
            raise
        return True

    def renames_at_once(self, path: str) -> bool:
        where, system = self._at(path)
        scheme = system.getUri().getScheme()
        if scheme == "viewfs":  # a table of mounts, of any file systems
            system.mkdirs(where)
            scheme = system.resolvePath(where).toUri().getScheme()
        return scheme in _RENAME_AT_ONCE

    def _local(self, path: str, system: Any) -> str:
        return str(self._path(path).makeQualified(system.getUri(), system.getWorkingDirectory()).toUri().getPath())

    def delete(self, path: str) -> None:
        where, system = self._at(path)
        system.delete(where, True)

    def read_text(self, path: str) -> str:
        where, system = self._at(path)
        stream = system.open(where)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def write_text(self, path: str, text: str, aside: str) -> None:
        where, system = self._at(aside)
        try:
            stream = system.create(where, True)
            try:
                stream.write(text.encode())
            finally:
                stream.close()
            self.rename(aside, path)
        except Exception:
            with contextlib.suppress(Exception):  # what went wrong first is told
                system.delete(where, False)
            raise

    def offsets_in(self, path: str, column: str = "offset") -> tuple[int, int] | None:
        """The least and the greatest value of a column of integers, from the footer of a Parquet file."""
        formats = self._jvm.org.apache.parquet.hadoop
        source = formats.util.HadoopInputFile.fromPath(self._path(path), self._configuration)
        reader = formats.ParquetFileReader.open(source)
        least: list[int] = []
        greatest: list[int] = []
        try:
            for block in reader.getFooter().getBlocks():
                for chunk in block.getColumns():
                    if chunk.getPath().toDotString() == column and chunk.getValueCount():
                        statistics = chunk.getStatistics()
                        least.append(int(statistics.genericGetMin()))
                        greatest.append(int(statistics.genericGetMax()))
        finally:
            reader.close()
        return (min(least), max(greatest)) if least else None

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._path(path)
        return where, where.getFileSystem(self._configuration)


def rename_locally(source: str, target: str) -> bool:
    """A directory with files in it is never replaced by a rename, so two cannot both succeed; the driver and its JVM
    see the same disk. A source that is gone was removed by whoever has made the target meanwhile.
    """
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        if error.errno == errno.ENOENT and os.path.exists(target):
            return False
        raise
    return True


def query_id(spark: "SparkSession") -> str | None:
    """The streaming query whose batch this thread runs."""
    return spark.sparkContext.getLocalProperty("sql.streaming.queryId")
