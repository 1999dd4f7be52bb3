"""Which brokers `kafka-server-start` has started here: a file for each, which `kafka-server-stop` looks for.

`servers/<pid>.json` below the user's data directory. Written and removed by the broker's own process; believed only
while that process is alive, which its start time tells.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from headwater.cli.processes import ProcessId, identify, is_alive


class Started(NamedTuple):
    process: ProcessId
    node_id: int


@contextmanager
def noted(directory: Path, pid: int, node_id: int) -> Iterator[None]:
    """For as long as the broker runs. Without a place to write to it runs all the same."""
    process = identify(pid)
    path = directory / f"{pid}.json"
    with suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True)
        document = {"pid": pid, "start_ticks": process.start_ticks if process else -1, "node_id": node_id}
        path.write_text(json.dumps(document), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()


def running(directory: Path) -> list[Started]:
    """Those that are alive, by process id. What the dead left behind is removed."""
    found = []
    for path in sorted(directory.glob("*.json")):
        started = _read(path)
        if started is not None and is_alive(started.process):
            found.append(started)
        else:
            with suppress(OSError):
                path.unlink()
    return sorted(found)


def _read(path: Path) -> Started | None:
    try:
        document: Any = json.loads(path.read_text(encoding="utf-8"))
        process = ProcessId(int(document["pid"]), int(document["start_ticks"]))
        return Started(process, int(document["node_id"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
