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
    def __init__(self, log: Path, *, master: str = "local[3]", **settings: str) -> None:
        """`settings`: of the session."""
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark.support.streams_process", master, json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

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

    def processes(self, name: str) -> dict[int, int]:
        """Of the slots."""
        return {number: int(slot["process"].rpartition(":")[2]) for number, slot in self.slots(name).items()}

    def kill_slot(self, name: str, number: int) -> None:
        os.kill(self.processes(name)[number], signal.SIGKILL)

    def kill(self) -> None:
        """Python alone: the JVM and its workers notice, and go on for a moment."""
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()
