"""A small application whose JVMs write down which classes they load: `python -m headwater.spark.class_training FOLDER`.

Its master and worker live in the driver's JVM, its executor is a process of its own (`local-cluster`), so what it loads
is what all JVMs of a standalone cluster load. It runs a query like the one that supplies slots, and an aggregation.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

CLASS_PATH: Final = "class-path"
_MASTER: Final = "local-cluster[1,2,512]"
_QUERY_S: Final = 600


def settings(folder: Path) -> dict[str, str]:
    """Each JVM has a list of its own; nothing is mapped from an archive, else that would not be in it."""
    return {
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": f"-Xshare:off -XX:DumpLoadedClassList={folder}/driver.lst",
        "spark.executor.extraJavaOptions": f"-Xshare:off -XX:DumpLoadedClassList={folder}/executor-{{{{EXECUTOR_ID}}}}.lst",
    }


def main(folder: Path) -> None:
    from pyspark.sql import functions

    import headwater.spark

    def same(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        yield from batches

    spark = headwater.spark.session("classes", master=_MASTER, **settings(folder))
    (folder / CLASS_PATH).write_text(spark.sparkContext._jvm.java.lang.System.getProperty("java.class.path"))  # type: ignore[union-attr]
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2).option("numPartitions", 2).load()
    told = rows.select("value").mapInArrow(same, "value long").observe("classes", functions.sum("value").alias("sum"))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
        writer = told.writeStream.format("noop").option("checkpointLocation", f"file://{checkpoint}")
        query = writer.trigger(once=True).start()
        if not query.awaitTermination(_QUERY_S):
            sys.exit("Spark gave no result")
    spark.range(4).groupBy((functions.col("id") % 2).alias("half")).count().collect()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
