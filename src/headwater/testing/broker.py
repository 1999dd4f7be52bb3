"""The embedded broker: a process of its own on a free port, with a directory that goes when it goes.

A process, not a thread: a test that computes in Python would hold the interpreter lock under a broker in the same
process, and a broker that is killed in the middle of a write is worth testing against. The child stops when its stdin
closes, and then takes its temporary directory with it: neither outlives the test run, however that ends.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, TextIO, cast

from headwater.base.errors import UserError
from headwater.base.own_module import module_command

_READY: Final = "ready "
_PATIENCE_S: Final = 60


class Broker:
    """`Broker()` or `Broker({"num.partitions": 3})`; keyword arguments are config names with underscores for dots.
    `log_file` gets what the broker logs, which is else kept by nobody. A directory that is named, as `data_dir` or
    `log.dirs`, stays.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        data_dir: str | None = None,
        log_file: str | None = None,
        **settings: object,
    ) -> None:
        self._settings = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            **{name.replace("_", "."): value for name, value in settings.items()},
            **(config or {}),
        }
        own = [text for name in ("log.dirs", "log.dir") if (text := str(self._settings.get(name) or ""))]
        self._names_directories = bool(own) and data_dir is None
        self._given_dir = data_dir or (own[0].partition(",")[0].strip() if own else None)
        self._log_file = log_file
        self._process: subprocess.Popen[str] | None = None
        self._let_go_of_ports: Callable[[], object] = lambda: None  # which are held while the broker is away
        self.data_dir = ""
        self.bootstrap_servers = ""
        self.port = 0

    def start(self) -> "Broker":
        if self._process is not None:
            if self._process.poll() is None:
                return self
            self.kill()  # it has ended by itself: what is left of it goes
        if not self.data_dir:
            self.data_dir = self._given_dir or tempfile.mkdtemp(prefix="headwater-")
        values = {**({} if self._names_directories else {"log.dirs": self.data_dir}), **self._settings}
        arguments = [f"{name}={_text(value)}" for name, value in values.items()]
        if self._given_dir is None:
            arguments.insert(0, "--temporary")
        with self._complaints() as complaints:
            began = complaints.seek(0, os.SEEK_END)
            self._process = process = subprocess.Popen(
                module_command("headwater.server", *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
            )
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith(_READY):
                self.close()
                complaints.seek(began)
                reason = complaints.read().strip()
                raise UserError("The embedded broker did not start", reason or f"it printed {line!r}")
        reported = line.split("listeners=")[1].split()[0]
        self.bootstrap_servers = reported.split(",")[0].split("://")[1]
        self.port = int(self.bootstrap_servers.rsplit(":", 1)[1])
        self._settings["listeners"] = settled_listeners(str(self._settings["listeners"]), reported)
        self._let_go_of_ports()
        return self

    def _complaints(self) -> TextIO:
        """Not a pipe: nobody reads it while the broker runs."""
        if self._log_file is not None:
            return open(self._log_file, "a+")
        return cast("TextIO", tempfile.TemporaryFile(mode="w+"))

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code of one that has ended by itself or was killed by others, below zero for a signal; None while it
        runs.
        """
        assert self._process is not None, "the broker is not running"
        return self._process.poll()

    def stop(self) -> None:
        """A clean shutdown; `start` goes on where it was. The directory stays until `close`."""
        self._end(kill=False)

    def kill(self) -> None:
        """SIGKILL: as a crash of the process."""
        self._end(kill=True)

    def close(self) -> None:
        try:
            self.stop()
        finally:
            self._let_go_of_ports()
            if self.data_dir and self._given_dir is None:
                shutil.rmtree(self.data_dir, ignore_errors=True)
                self.data_dir = ""

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:  # not before: a closed stdin means that nobody wants the data any more
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()
        self._hold_ports()

    def _hold_ports(self) -> None:
        """Bound, and never listening: nobody else is given them until the broker comes back and listens there."""
        held = contextlib.ExitStack()
        for _, place in _named(str(self._settings["listeners"])):
            host, _, port = place.rpartition(":")
            if not self.port or not port.isdigit() or port == "0":
                continue
            own = held.enter_context(socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET))
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):  # an address that is none of this machine's is not held
                own.bind((host.strip("[]"), int(port)))
        self._let_go_of_ports()  # of a start that failed
        self._let_go_of_ports = weakref.finalize(self, held.close)


def settled_listeners(configured: str, reported: str) -> str:
    """With the ports that were chosen, so that a restart comes back where clients expect it; else as they were."""
    chosen = {name.upper(): place.rpartition(":")[2] for name, place in _named(reported)}
    settled = []
    for name, place in _named(configured):
        host, _, port = place.rpartition(":")
        settled.append(f"{name}://{host}:{chosen.get(name.upper(), port) if port == '0' else port}")
    return ",".join(settled)


def _named(listeners: str) -> list[tuple[str, str]]:
    named = [each.strip().partition("://") for each in listeners.split(",")]
    return [(name, place) for name, _, place in named]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
