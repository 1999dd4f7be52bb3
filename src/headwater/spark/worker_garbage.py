"""Keeps Python's garbage collector out of small batches.

PySpark's worker collects all garbage after each task, and looks at every object for it: those of its own modules, of
PyArrow and of ours, some 50,000 that stay for ever. That is 30 ms of one processor for each task, beside the work of a
batch that takes 100. What is frozen (`gc.freeze`) is not looked at any more. It is freed as before when nothing refers
to it; only rings among frozen objects would stay, so garbage is collected before.

The state is this process's: how many modules were loaded when it was frozen last. A task that loads more freezes again.
"""

import gc
import os
import sys

_modules_frozen = 0


def worker_is_kept() -> bool:
    """Whether Spark keeps this worker for further tasks (`spark.python.worker.reuse`); one that ends gains nothing."""
    return bool(os.environ.get("SPARK_REUSE_WORKER"))


def freeze_modules() -> bool:
    """Freezes what is alive, if modules were loaded since the last time. Whether it did."""
    global _modules_frozen
    if len(sys.modules) <= _modules_frozen:
        return False
    gc.collect()
    gc.freeze()
    _modules_frozen = len(sys.modules)
    return True
