"""Starts `pipeline_process`, and ends it well or badly."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_TESTS = Path(__file__).parents[2]


class PipelineProcess:
    """In a process group of its own, with its JVM, so that a kill can take them all at once, or Python alone."""

    def __init__(
        self,
        servers: str,
        directory: Path,
        *,
        master: str = "local[2]",
        executors: int = 0,
        executor_options: str = "",
        until_now: bool,
        postgres: str = "",
    ):
        told: dict[str, object] = {"servers": servers, "directory": str(directory), "master": master}
        told |= {"executors": executors, "executor_options": executor_options}
        told |= {"until_now": until_now, "postgres": postgres}
        self._log = directory.parent / f"{directory.name}.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "spark.support.pipeline_process", json.dumps(told)],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(_TESTS)},
                start_new_session=True,
            )
        assert self._process.stdout is not None
        self._out = self._process.stdout

    def wait_until_started(self, timeout_s: float = 300) -> None:
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and self._process.poll() is None:
            if select.select([self._out], [], [], 1)[0] and self._out.readline() == b"started\n":
                return
        raise AssertionError(self._log.read_text(errors="replace")[-3000:])

    def finish(self, timeout_s: float = 600) -> None:
        self._process.wait(timeout_s)
        assert self._process.returncode == 0, self._log.read_text(errors="replace")[-3000:]

    def kill(self, *, whole: bool = True) -> None:
        """Without `whole`, the JVM and its workers notice the end of Python, and go on for a moment: zombies."""
        if whole:
            os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        self._out.close()

    def close(self) -> None:
        """For the end of a test, whatever happened."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._out.close()
