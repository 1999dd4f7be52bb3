"""How many tasks each sub-topology of an application has: a note beside their states (`tasks.json`), for readers in
other processes.

Each machine has the states of some tasks only, so their number does not follow from what is there. Written by each slot
before it opens a task; all of one run write the same.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NOTE: Final = "tasks.json"


def write_task_counts(directory: Path, counts: Mapping[int, int]) -> None:
    if read_task_counts(directory) == counts:
        return
    directory.mkdir(parents=True, exist_ok=True)
    fresh = directory / f"tasks.{os.getpid()}.new"
    fresh.write_text(json.dumps({str(number): count for number, count in counts.items()}))
    fresh.replace(directory / _NOTE)


def read_task_counts(directory: Path) -> dict[int, int]:
    """By the number of the sub-topology; empty where no run has left a note."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((directory / _NOTE).read_text())
        return {int(number): int(count) for number, count in found.items()}
    return {}
