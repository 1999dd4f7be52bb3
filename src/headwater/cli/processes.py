"""Is the process that a file names still that process? Linux hands ids out again, so its start time is asked for
too.
"""

import os
import signal
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.base.errors import UserError

_START_TIME_FIELD: Final = 19  # of /proc/PID/stat, counted after the command's closing bracket
_STATE_FIELD: Final = 0
_LOOK_S: Final = 0.02


class ProcessId(NamedTuple):
    """A process of this machine since its last boot. `start_ticks` is field 22 of /proc/PID/stat."""

    pid: int
    start_ticks: int


def identify(pid: int) -> ProcessId | None:
    """None if there is no such process (a zombie is none: it only waits for its parent)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = parse_stat(file.read())
    except OSError:
        return None
    if fields is None or fields[_STATE_FIELD] in "ZX":
        return None
    return ProcessId(pid, int(fields[_START_TIME_FIELD]))


def parse_stat(text: str) -> list[str] | None:
    """The fields after the command, whose name may hold blanks and brackets."""
    _, bracket, rest = text.rpartition(")")
    fields = rest.split()
    return fields if bracket and len(fields) > _START_TIME_FIELD else None


def is_alive(process: ProcessId) -> bool:
    return identify(process.pid) == process


def wait_until_gone(processes: Sequence[ProcessId], timeout_s: float) -> list[ProcessId]:
    """Those that are still there when the time is up. They are nobody's children here, so all we can do is look."""
    deadline = time.monotonic() + timeout_s
    left = [process for process in processes if is_alive(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
        left = [process for process in left if is_alive(process)]
    return left


def pids_of(processes: Sequence[ProcessId]) -> str:
    """For people."""
    return ", ".join(str(process.pid) for process in processes)


def send_signal(process: ProcessId, number: signal.Signals) -> bool:
    """False if it was gone already. Raises UserError for one of another user's."""
    if not is_alive(process):
        return False
    try:
        os.kill(process.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        raise UserError(
            f"Process {process.pid} cannot be stopped", "another user has started it", "Run the command as that user"
        ) from None
    return True
