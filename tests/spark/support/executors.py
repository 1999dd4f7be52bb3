"""Spark with two executors on this machine, which are processes of their own and are replaced when they die:
`local-cluster`, whose master and workers live in the driver's JVM and do what those of a standalone cluster do.
"""

import os
from pathlib import Path

import pyspark

from headwater.spark.sessions import data_home
from headwater.spark.spark_home import make_home
from spark.support.class_archive import QUICK_JAVA
from spark.support.copying import command_line, descendants

MASTER = "local-cluster[2,2,512]"  # executors, cores of each, MB of each


def settings(archived_classes: str) -> dict[str, str]:
    java = f"{QUICK_JAVA} {archived_classes}".strip()
    return {
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
    }


def spark_home() -> str:
    """For SPARK_HOME: as sessions on one machine have it, whose Pythons start quickly."""
    return str(make_home(data_home(os.environ) / "spark", Path(pyspark.__file__).parent, pyspark.__version__))


def executors(driver: int) -> list[int]:
    """The processes that run tasks, of a driver below this process."""
    return [pid for pid in descendants(driver) if b"CoarseGrainedExecutorBackend" in command_line(pid)]


def executor_of(driver: int, python: int) -> int | None:
    """The one in which this Python runs a task; None: it has ended."""
    return next((pid for pid in executors(driver) if python in descendants(pid)), None)
