"""How a slot says who it is."""

import os
import socket
import sys
from typing import Any

from headwater.spark.slots.message_codec import Hello


def greeting(number: int) -> Hello:
    return Hello(number, f"{socket.gethostname()}:{os.getpid()}", _tries_before())


def _tries_before() -> int:
    """How often Spark has begun this task before, for a slot that is one: whoever runs it has imported PySpark."""
    pyspark: Any = sys.modules.get("pyspark")
    task = pyspark.TaskContext.get() if pyspark is not None else None
    return task.attemptNumber() if task is not None else 0
