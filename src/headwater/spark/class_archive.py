"""An archive of Spark's classes, as a JVM has them once they are loaded (class data sharing), for JVMs that start.

A JVM of Spark spends most of its start on some ten thousand classes: it reads, checks and links them. With the archive
it maps them. `python -m headwater.spark.make_class_archive` makes it, once for each installation of Spark and each
Java. Sessions use the one that is there, for their own JVM and, on a cluster, for the executors: there it must lie at
the same path. A JVM that it does not fit, or that does not find it, starts without it, as slowly as ever.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path


def find_archive(data_home: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The one that was made for the Spark that a session would start; None: nobody has made it."""
    found = archive_path(data_home, jars_directory(environment))
    return found if found.exists() else None


def archive_path(data_home: Path, jars: Path) -> Path:
    """By the directory of Spark's jars, links resolved: JVMs refuse an archive of other jars."""
    return data_home / "spark" / f"classes-{hashlib.sha256(str(jars.resolve()).encode()).hexdigest()[:12]}.jsa"


def jars_directory(environment: Mapping[str, str]) -> Path:
    named = environment.get("SPARK_HOME")
    if named:
        return Path(named) / "jars"
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def archive_options(archive: Path) -> str:
    """For a JVM. It says nothing where the archive does not fit. Nothing for a path that Spark would split."""
    return "" if any(each.isspace() for each in str(archive)) else f"-XX:SharedArchiveFile={archive} -Xlog:cds=off"
