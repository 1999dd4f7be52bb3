"""Starts `streams_process`, talks to it, and ends it well or badly."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).parents[2]


class Driver:
    def __init__(self, log: Path, *, master: str = "local[3]", java_options: str = "") -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark.support.streams_process", master, java_options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, "PYTHONPATH": str(_TESTS)},
                start_new_session=True,
            )

    def ask(self, **told: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self._log.read_text(errors="replace")[-5000:]
        return json.loads(answer)

    def slots(self, name: str) -> dict[int, Any]:
        return {slot["slot"]: slot for slot in self.ask(status=name)["slots"]}

    def kill_slot(self, name: str, number: int) -> None:
        os.kill(int(self.slots(name)[number]["process"].rpartition(":")[2]), signal.SIGKILL)

    def kill(self) -> None:
        """Python alone: the JVM and its workers notice, and go on for a moment."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
