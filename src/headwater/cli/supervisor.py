"""`headwater up` at work: brokers as children, and a ZooKeeper for several; watched, started again when they die,
stopped when we are told to: the registry first, the brokers one after the other, so that each can hand over what it
leads, and ZooKeeper last.

The schema registry begins when the brokers are ready. One that cannot begin (its port is in use, or it hangs) ends
nobody: it is left out, and we say so. One that does not stop is killed, so that the brokers can.

Owns the state file. One thread, one `poll`.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Final, TextIO

from headwater._version import VERSION
from headwater.base.errors import UserError
from headwater.cli.children import BrokerChild, Child, ConnectChild, RegistryChild, SqlChild, ZooKeeperChild
from headwater.cli.log_files import log_since
from headwater.cli.plans import Plan
from headwater.cli.processes import identify
from headwater.cli.state import UpState, remove_state, write_state
from headwater.cli.supervision import End, StartAgain, exit_text

_FOREVER_MS: Final = -1


class Supervisor:
    """`on_ready` is called once, when all are ready for the first time. `run` gives the exit code."""

    def __init__(self, plan: Plan, on_ready: Callable[[UpState], None]) -> None:
        self._plan = plan
        self._on_ready = on_ready
        self._stopping = False
        self._all_were_ready = False
        self._exit_code = 0
        # Its other end is open for as long as somebody needs ZooKeeper: we, or a broker that outlived us.
        self._life: tuple[int, int] | None = os.pipe() if plan.zookeeper is not None else None
        held = self._life[1:] if self._life is not None else ()
        self._brokers = [BrokerChild(each, plan.config_path, plan.log_file, held) for each in plan.brokers]
        self._zookeeper: ZooKeeperChild | None = None
        if plan.zookeeper is not None and self._life is not None:
            self._zookeeper = ZooKeeperChild(plan.zookeeper, self._life[0])
        self._registry: RegistryChild | None = None
        if plan.registry is not None:
            brokers = [child.broker for child in self._brokers]
            self._registry = RegistryChild(plan.registry, brokers, plan.log_file)
        self._sql: SqlChild | None = None
        if plan.sql is not None:
            brokers = [child.broker for child in self._brokers]
            registry = None if self._registry is None else self._registry.registry
            self._sql = SqlChild(plan.sql, brokers, registry, plan.log_file)
        self._connect: ConnectChild | None = None
        if plan.connect is not None:
            brokers = [child.broker for child in self._brokers]
            self._connect = ConnectChild(plan.connect, brokers, plan.log_file)
        me = identify(os.getpid())
        assert me is not None
        self._state = UpState(
            str(plan.data_dir),
            VERSION,
            me.pid,
            me.start_ticks,
            [child.broker for child in self._brokers],
            None if self._zookeeper is None else self._zookeeper.zookeeper,
            registry=None if self._registry is None else self._registry.registry,
            sql=None if self._sql is None else self._sql.sql,
            connect=None if self._connect is None else self._connect.connect,
            client_config=None if plan.client_config is None else str(plan.client_config),
        )

    @property
    def _children(self) -> list[Child]:
        """In the order in which they are stopped."""
        first: list[Child] = [each for each in (self._connect, self._sql, self._registry) if each is not None]
        return [*first, *self._brokers, *([self._zookeeper] if self._zookeeper is not None else [])]

    def run(self) -> int:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        try:
            self._start(self._brokers if self._zookeeper is None else [self._zookeeper])
            while True:
                self._wait(wake_read)
                if self._step():
                    return self._exit_code
        finally:
            signal.set_wakeup_fd(-1)
            for descriptor in (wake_read, wake_write, *(self._life or ())):
                os.close(descriptor)
            remove_state(self._plan.data_dir)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        """Told to stop. Told again: they still get the time that they need."""
        self._stopping = True

    def _start(self, children: Sequence[Child]) -> None:
        for child in children:
            try:
                child.start()
            except OSError as error:  # no room for its log, or for one more process
                self._after_refusal(child, error)
        self._write_state()

    def _after_refusal(self, child: Child, error: OSError) -> None:
        """One that ran before is tried again later: the others go on."""
        why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        if not child.supervision.was_ready:
            raise UserError(f"{child.name} cannot be started", why) from None
        decision = child.supervision.on_exit(1, 0)
        assert isinstance(decision, StartAgain), "it was ready once, and nobody stops"
        pause_s = decision.pause_ms / 1000
        _say(f"{child.name} cannot be started ({why}); it is tried again in {pause_s:g} s")
        child.start_at = time.monotonic() + pause_s

    def _write_state(self) -> None:
        """A disk that is full now is no reason to leave those alone that run: they are watched and stopped all the
        same.
        """
        try:
            write_state(self._plan.data_dir, self._state)
        except OSError as error:
            if not self._all_were_ready and not self._stopping:  # nobody would find what was started
                raise UserError(
                    f"Cannot write the state of what runs to {self._plan.data_dir}", error.strerror or str(error)
                ) from None
            _say(f"the state of what runs could not be written: {error.strerror or error}")

    def _wait(self, wake_read: int) -> None:
        """Until a signal, output of a child, or the time to start one again."""
        poll = select.poll()
        poll.register(wake_read, select.POLLIN)
        talking = {child.output: child for child in self._children if child.output is not None}
        for descriptor in talking:
            poll.register(descriptor, select.POLLIN)
        times = [at for child in self._children for at in (child.start_at, child.give_up_at)]
        due = [at for at in times if at is not None]
        timeout_ms = max(0, round((min(due) - time.monotonic()) * 1000)) if due else _FOREVER_MS
        for descriptor, _ in poll.poll(timeout_ms):
            if descriptor == wake_read:
                os.read(wake_read, 4096)
                continue
            for line in talking[descriptor].read_lines():
                self._take_line(talking[descriptor], line)

    def _take_line(self, child: Child, line: str) -> None:
        if not child.hears_ready(line):
            _write(sys.stdout, line + "\n")
            return
        first = not child.supervision.was_ready
        child.supervision.on_ready()
        if not self._stopping:
            child.give_up_at = None
        self._write_state()
        if not first:
            _say(f"{child.name} is ready again at {child.state.address} (pid {child.state.pid})")
        elif child is self._zookeeper and not self._stopping:
            self._start(self._brokers)
        self._after_readiness()

    def _after_readiness(self) -> None:
        """Begins the registry when the brokers are ready for the first time, then the SQL server and the Connect
        worker, and says that all are when they are.
        """
        if self._all_were_ready or self._stopping or not all(each.supervision.was_ready for each in self._brokers):
            return
        for child in (self._registry, self._sql, self._connect):
            if child is None or child.supervision.was_ready:
                continue
            if not child.is_running:
                self._start([child])
            return
        self._all_were_ready = True
        self._on_ready(self._state)

    def _step(self) -> bool:
        """Whether that was all: everything has ended, and nothing is to be started again."""
        for child in self._children:
            code = child.reap()
            if code is not None:
                self._after_exit(child, code)
            elif child.give_up_at is not None and time.monotonic() >= child.give_up_at:
                if self._stopping:
                    _say(f"{child.name} has not stopped within {child.stop_limit_s:g} s: it is killed")
                child.give_up()
        if self._stopping:
            return self._stop_next()
        due = [each for each in self._children if each.start_at is not None and time.monotonic() >= each.start_at]
        if due:
            self._start(due)
        return False

    def _stop_next(self) -> bool:
        if not self._state.stopping:
            self._state.stopping = True
            self._write_state()
        for child in self._children:
            child.supervision.on_stop_request()
            child.start_at = None
        running = [child for child in self._children if child.is_running and not child.is_given_up]
        if running:
            running[0].tell_to_stop()
        return not running

    def _after_exit(self, child: Child, code: int) -> None:
        if self._stopping:
            child.supervision.on_stop_request()
            if child.is_given_up:
                return
        if (
            child in (self._registry, self._sql, self._connect)
            and not self._stopping
            and not child.supervision.was_ready
        ):
            self._leave_out(child, code)
            return
        decision = child.supervision.on_exit(code, child.uptime_ms)
        if isinstance(decision, End):
            self._exit_code = max(self._exit_code, decision.exit_code)
            if not self._stopping:
                self._stopping = True
                _say_why(child, code)
            return
        pause_s = decision.pause_ms / 1000
        when = f"in {pause_s:g} s" if pause_s else "now"
        _say(f"{child.name} died ({exit_text(code)}); it is started again {when}")
        child.start_at = time.monotonic() + pause_s
        self._write_state()

    def _leave_out(self, child: Child, code: int) -> None:
        why = f"not ready within {child.ready_limit_s:g} s" if child.is_given_up else exit_text(code)
        name, hint = "the schema registry", "--registry-port and --no-registry"
        if child is self._sql:
            name, hint = "the SQL server", "--sql-port"
        elif child is self._connect:
            name, hint = "the Connect worker", "--connect-port"
        _say(f"{name} did not start ({why}): going on without it. See {hint}")
        if child.log_file is not None:
            _write(sys.stderr, log_since(child.log_file, child.log_was_bytes))
        if child is self._sql:
            self._sql, self._state.sql = None, None
        elif child is self._connect:
            self._connect, self._state.connect = None, None
        else:
            self._registry, self._state.registry = None, None
        self._write_state()
        self._after_readiness()


def _say_why(child: Child, code: int) -> None:
    """One that never was ready. Without a log of its own it has said why where we would."""
    if child.log_file is not None:
        _say(f"{child.name} did not start ({exit_text(code)}); its log is {child.log_file} and ends:")
        _write(sys.stderr, log_since(child.log_file, child.log_was_bytes))


def _say(text: str) -> None:
    _write(sys.stderr, f"headwater: {text}\n")


def _write(stream: TextIO, text: str) -> None:
    """A log that takes no more (its disk is full, or its reader has gone) is no reason to end what runs."""
    with contextlib.suppress(OSError):
        stream.write(text)
        stream.flush()
