"""`headwater up` at work: one broker as a child, watched, started again when it dies, stopped when we are told to.

The child's stdin is a pipe that we hold: however we end, it sees the end of it and stops cleanly. It has a process group
of its own, so that Ctrl-C reaches us alone. Owns the state file. One thread, one `poll`.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from headwater._version import VERSION
from headwater.cli.processes import identify
from headwater.cli.state import BrokerState, UpState, remove_state, write_state
from headwater.cli.supervision import End, StartAgain, Supervision, exit_text, parse_ready_line

ANY_PORT: Final = "listeners=PLAINTEXT://localhost:0"
_FOREVER_MS: Final = -1


class Plan(NamedTuple):
    """What to run: everything that the options of `up` come to."""

    data_dir: Path
    config_path: str | None
    overrides: list[str]
    log_dirs: list[str]
    log_file: Path | None  # None: in the foreground, the broker's log goes where ours goes


class Supervisor:
    """`on_ready` is called once, when the broker is ready for the first time. `run` gives the exit code."""

    def __init__(self, plan: Plan, on_ready: Callable[[UpState], None]) -> None:
        self._plan = plan
        self._on_ready = on_ready
        self._overrides = list(plan.overrides)
        self._supervision = Supervision()
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._start_at: float | None = None
        self._output = b""
        me = identify(os.getpid())
        assert me is not None
        self._broker = BrokerState(
            id=0,
            host="localhost",
            port=0,
            pid=-1,
            start_ticks=-1,
            ready=False,
            started_ms=0,
            restarts=0,
            log_dirs=plan.log_dirs,
            metrics_port=-1,
            log_file=None if plan.log_file is None else str(plan.log_file),
        )
        self._state = UpState(str(plan.data_dir), VERSION, me.pid, me.start_ticks, [self._broker])

    def run(self) -> int:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        try:
            self._start()
            while True:
                self._wait(wake_read)
                end = self._step()
                if end is not None:
                    return end.exit_code
        finally:
            signal.set_wakeup_fd(-1)
            os.close(wake_read)
            os.close(wake_write)
            remove_state(self._plan.data_dir)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Told to stop: so is the broker. Told again: the broker still gets the time it needs."""
        self._supervision.on_stop_request()
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGTERM)

    def _start(self) -> None:
        command = [sys.executable, "-m", "headwater.cli.main", "broker", "start", "--stop-on-eof"]
        if self._plan.config_path is not None:
            command += ["--config", self._plan.config_path]
        for override in self._overrides:
            command += ["--set", override]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        self._started = time.monotonic()
        self._start_at = None
        self._output = b""
        process = identify(self._child.pid)
        self._broker.pid = self._child.pid
        self._broker.start_ticks = process.start_ticks if process else -1
        self._broker.started_ms = time.time_ns() // 1_000_000
        self._broker.ready = False
        self._broker.restarts = self._supervision.restarts
        write_state(self._plan.data_dir, self._state)
        if self._supervision.stopping:  # told while it was being started
            self._child.send_signal(signal.SIGTERM)

    def _wait(self, wake_read: int) -> None:
        """Until a signal, output of the child, or the time to start it again."""
        poll = select.poll()
        poll.register(wake_read, select.POLLIN)
        if self._child is not None and self._child.stdout is not None and not self._child.stdout.closed:
            poll.register(self._child.stdout.fileno(), select.POLLIN)
        timeout_ms = _FOREVER_MS
        if self._start_at is not None:
            timeout_ms = max(0, round((self._start_at - time.monotonic()) * 1000))
        for descriptor, _ in poll.poll(timeout_ms):
            if descriptor == wake_read:
                os.read(wake_read, 4096)
            else:
                self._read_output(descriptor)

    def _read_output(self, descriptor: int) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        data = os.read(descriptor, 65536)
        if not data:
            self._child.stdout.close()
            return
        *lines, self._output = (self._output + data)[-65536:].split(b"\n")
        for line in lines:
            self._take_line(line.decode("utf-8", "replace"))

    def _take_line(self, line: str) -> None:
        ready = parse_ready_line(line)
        if ready is None:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
            return
        first = not self._supervision.was_ready
        self._supervision.on_ready()
        self._broker.id, self._broker.host, self._broker.port = ready.broker_id, ready.host, ready.port
        self._broker.metrics_port = ready.metrics_port
        self._broker.ready = True
        if ANY_PORT in self._overrides:  # clients know the port by now: it must be the same after a restart
            self._overrides[self._overrides.index(ANY_PORT)] = ANY_PORT.removesuffix("0") + str(ready.port)
        write_state(self._plan.data_dir, self._state)
        if first:
            self._on_ready(self._state)
        else:
            _say(f"broker {ready.broker_id} is ready again at {self._broker.address} (pid {self._broker.pid})")

    def _step(self) -> End | None:
        if self._child is not None and self._child.poll() is not None:
            return self._after_exit(self._child)
        if self._start_at is not None and time.monotonic() >= self._start_at:
            self._start()
        elif self._child is None and self._supervision.stopping:
            return End(0)
        return None

    def _after_exit(self, child: subprocess.Popen[bytes]) -> End | None:
        for stream in (child.stdin, child.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        self._child = None
        code = child.returncode
        decision = self._supervision.on_exit(code, round((time.monotonic() - self._started) * 1000))
        if isinstance(decision, End):
            return decision
        assert isinstance(decision, StartAgain)
        pause_s = decision.pause_ms / 1000
        when = f"in {pause_s:g} s" if pause_s else "now"
        _say(f"broker {self._broker.id} died ({exit_text(code)}); it is started again {when}")
        self._start_at = time.monotonic() + pause_s
        self._broker.pid, self._broker.start_ticks, self._broker.ready = -1, -1, False
        write_state(self._plan.data_dir, self._state)
        return None


def _say(text: str) -> None:
    sys.stderr.write(f"headwater: {text}\n")
    sys.stderr.flush()
