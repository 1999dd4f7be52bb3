"""Servers that are started and left running, as `kafka-server-start -daemon` and `zookeeper-server-start -daemon` do.

Such a process has a session of its own; its log is in $LOG_DIR, or in `logs` where it was started.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headwater.cli.log_files import log_since, size_bytes
from headwater.cli.script_errors import Stop

_LOOK_S: Final = 0.02


class Background(NamedTuple):
    """`was_bytes` is how long the log was before."""

    process: "subprocess.Popen[bytes]"
    log_file: Path
    was_bytes: int

    def leave(self) -> int:
        """It is left running, and nobody's to wait for."""
        self.process.returncode = 0
        return 0

    def says_ready(self) -> bool:
        """Waits for the line in its log that says so. False: it has ended without one."""
        with self.log_file.open("rb") as log:
            log.seek(self.was_bytes)
            rest = b""
            while True:
                has_ended = self.process.poll() is not None
                *lines, rest = (rest + log.read()).split(b"\n")
                if any(line.startswith(b"ready") for line in lines):
                    return True
                if has_ended:
                    return False
                time.sleep(_LOOK_S)

    def failed(self, code: int, what: str) -> Stop:
        """To be raised: what it wrote to its log, and where that is."""
        return Stop(code, f"{log_since(self.log_file, self.was_bytes)}{what} did not start; its log is {self.log_file}")


def start_in_background(command: Sequence[str], log_name: str, *, reads_stdout: bool) -> Background:
    """With `reads_stdout`, its stdout is a pipe, for one that says nothing there once it is ready: nobody reads on.
    Otherwise that goes to the log too.
    """
    log_file = Path(os.environ.get("LOG_DIR") or "logs") / log_name
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        was_bytes = size_bytes(log_file)
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if reads_stdout else log,
                stderr=log,
                start_new_session=True,
            )
    except OSError as problem:
        raise Stop(1, f"Cannot write {log_file}: {problem.strerror}. Name another place with LOG_DIR.") from None
    return Background(process, log_file, was_bytes)
