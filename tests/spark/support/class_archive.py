"""The classes of Spark as a JVM has them when they are loaded, in an archive that the JVMs of these tests map: each
starts in half the time.

Made once, by a query that runs to its end in a JVM of its own, and kept in build/. A JVM that it does not fit goes on
without it, and says nothing: `python -m spark.support.class_archive` is that query.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pyspark

ROOT = Path(__file__).parents[3]
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # none lives long enough for thorough compiling to pay
OPTIONS = "SPARK_SUBMIT_OPTS"  # for the driver's JVM, and not for the one that only finds out how to start it


def options() -> str:
    """For a driver's JVM; none where no archive can be made."""
    archive = _path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for whoever makes it
        if not archive.exists():
            _make(archive)
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable" if archive.stat().st_size else ""


def _path() -> Path:
    java = shutil.which(
        "java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin") + os.pathsep + os.environ["PATH"]
    )
    told = f"{os.path.realpath(java or '')} {pyspark.__version__} {pyspark.__file__} {sys.prefix} {QUICK_JAVA}"
    return ROOT / f"build/spark-classes/{blake2b(told.encode(), digest_size=8).hexdigest()}.jsa"


def _make(archive: Path) -> None:
    """Or an empty one, so that nobody tries again."""
    made = archive.with_suffix(".new")
    made.unlink(missing_ok=True)
    settings = {"JAVA_TOOL_OPTIONS": QUICK_JAVA, OPTIONS: f"-XX:ArchiveClassesAtExit={made} -Xlog:disable"}
    environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT / "tests")}
    command = [sys.executable, "-m", "spark.support.class_archive"]
    with contextlib.suppress(subprocess.SubprocessError):
        subprocess.run(command, env=environment, capture_output=True, timeout=600, check=True)
        if made.exists():
            made.rename(archive)
            return
    archive.write_bytes(b"")


def main() -> None:
    import headwater.spark
    from headwater.testing import Broker

    with Broker() as broker:
        spark = headwater.spark.session("classes", master="local[2]", spark_sql_shuffle_partitions=2)
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        rows = spark.range(10).selectExpr("cast(id as string) value", "cast(id % 3 as string) key")
        rows.write.mode("append").format("headwater").options(**servers).option("topic", "classes").save()
        records = spark.readStream.format("headwater").options(**servers).option("subscribe", "classes")
        counts = records.option("startingOffsets", "earliest").load().groupBy("key").count()
        query = counts.writeStream.format("memory").queryName("counts").outputMode("complete")
        query.trigger(availableNow=True).start().awaitTermination()
        assert spark.table("counts").count() == 3
        process = spark.sparkContext._gateway.proc
        spark.stop()
        process.stdin.close()  # it ends then, and writes the archive
        process.wait()


if __name__ == "__main__":
    main()
