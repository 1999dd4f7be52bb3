"""The schema registry of the demo: a process beside the broker, which ends when its standard input closes."""

import select
import subprocess
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError
from headwater.base.own_module import module_command

_READY: Final = "ready registry="
_START_S: Final = 120.0
_STOP_S: Final = 15.0


class DemoRegistry:
    """`url` is known within the `with` block. What it complains about goes into `log`."""

    def __init__(self, servers: str, log: Path) -> None:
        self._servers = servers
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> "DemoRegistry":
        settings = {
            "listeners": "http://127.0.0.1:0",
            "kafkastore.bootstrap.servers": self._servers,
            "kafkastore.topic.replication.factor": "1",
        }
        command = module_command("headwater.cli.main", "registry", "start", "--stop-on-eof")
        command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            self.url = self._ready_line()
        except BaseException:
            self._end()
            raise
        return self

    def _ready_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        came = select.select([self._process.stdout], [], [], _START_S)[0]
        line = self._process.stdout.readline().decode() if came else ""
        if not line.startswith(_READY):
            said = line.strip() or "it said nothing"
            raise UserError("The schema registry of the demo did not start", f"{said}; its log is {self._log}")
        return line.removeprefix(_READY).strip()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the registry is not running"
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, below zero for a signal; None while it runs."""
        assert self._process is not None, "the registry is not running"
        return self._process.poll()

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
