"""The processes that `headwater up` watches: how each is started, what it says on stdout, how it is told to stop.

A child has a process group of its own, so that Ctrl-C reaches the supervisor alone. A broker's stdin is a pipe whose
other end the supervisor holds: however that ends, the broker sees the end of it and stops cleanly. The other end of
ZooKeeper's is held by the brokers too, so that it goes last even then. Owned by the supervisor, in its one thread.
"""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Final

from headwater.base.own_module import module_command
from headwater.cli.log_files import size_bytes
from headwater.cli.plans import ANY_PORT, BrokerPlan, ConnectPlan, RegistryPlan, SqlPlan, ZooKeeperPlan
from headwater.cli.processes import identify
from headwater.cli.state import BrokerState, ConnectState, RegistryState, ServerState, SqlState, ZooKeeperState
from headwater.cli.supervision import (
    Supervision,
    parse_connect_line,
    parse_ready_line,
    parse_registry_line,
    parse_sql_line,
    parse_zookeeper_line,
)

REGISTRY_READY_S: Final = 120.0  # a machine that is very busy needs half of it
REGISTRY_STOP_S: Final = 10.0
CONNECT_STOP_S: Final = 30.0  # its tasks have five to end, and connectors too
CONNECT_GROUP: Final = "connect-cluster"
_LINE_BYTES_MAX: Final = 65536


class Child(ABC):
    """One process. `start_at` is when it is due to be started again, if it is. Limits are for those that others need
    not wait for: how long the first start and a stop may take. `give_up_at` is when the limit that counts now is
    over.
    """

    ready_limit_s: float | None = None
    stop_limit_s: float | None = None

    def __init__(self, name: str, state: ServerState, log_file: Path | None) -> None:
        """`log_file`: where its stderr goes; None leaves it with ours."""
        self.name = name
        self.state = state
        self.log_file = log_file
        self.supervision = Supervision()
        self.start_at: float | None = None
        self.give_up_at: float | None = None
        self.is_given_up = False
        self.log_was_bytes = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._output = b""
        self._told = False

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def hears_ready(self, line: str) -> bool:
        """Whether that line says that it is ready; then the state has what it says."""

    @abstractmethod
    def _pipes(self) -> dict[str, Any]: ...

    @property
    def is_running(self) -> bool:
        return self._process is not None

    @property
    def output(self) -> int | None:
        """The descriptor to read from."""
        if self._process is None or self._process.stdout is None or self._process.stdout.closed:
            return None
        return self._process.stdout.fileno()

    def start(self) -> None:
        log = None
        if self.log_file is not None:
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            self.log_was_bytes = size_bytes(self.log_file)
            log = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._process = subprocess.Popen(
                self.command(), stdout=subprocess.PIPE, stderr=log, process_group=0, **self._pipes()
            )
        finally:
            if log is not None:
                os.close(log)
        self._started = time.monotonic()
        self.start_at = None
        self._output = b""
        self._told = False
        self.is_given_up = False
        self.give_up_at = None
        if self.ready_limit_s is not None and not self.supervision.was_ready:
            self.give_up_at = self._started + self.ready_limit_s
        process = identify(self._process.pid)
        self.state.pid = self._process.pid
        self.state.start_ticks = process.start_ticks if process else -1
        self.state.started_ms = time.time_ns() // 1_000_000
        self.state.ready = False
        self.state.restarts = self.supervision.restarts

    def tell_to_stop(self) -> None:
        """Once; it gets the time it needs, unless it has a limit."""
        if self._process is not None and not self._told:
            self._told = True
            self._process.send_signal(signal.SIGTERM)
            self.give_up_at = None if self.stop_limit_s is None else time.monotonic() + self.stop_limit_s

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self.is_given_up, self.give_up_at = True, None
        if self._process is not None:
            self._process.kill()

    def read_lines(self) -> list[str]:
        """What it said since: whole lines. At the end of its output nothing more is to be read."""
        assert self._process is not None
        assert self._process.stdout is not None
        data = os.read(self._process.stdout.fileno(), 65536)
        if not data:
            self._process.stdout.close()
            return []
        *lines, self._output = (self._output + data)[-_LINE_BYTES_MAX:].split(b"\n")
        return [line.decode("utf-8", "replace") for line in lines]

    def reap(self) -> int | None:
        """Its exit code if it has ended; then it is forgotten."""
        if self._process is None or self._process.poll() is None:
            return None
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
        code: int = self._process.returncode
        self._process = None
        self.give_up_at = None
        self.state.pid, self.state.start_ticks, self.state.ready = -1, -1, False
        return code

    @property
    def uptime_ms(self) -> int:
        return round((time.monotonic() - self._started) * 1000)


class BrokerChild(Child):
    def __init__(self, plan: BrokerPlan, config_path: str | None, our_log: Path | None, held: tuple[int, ...]) -> None:
        """`our_log` is where its log is if it has no file of its own; `held`: descriptors that it keeps open."""
        shown = plan.log_file or our_log
        self.broker = BrokerState(
            id=plan.id,
            host="localhost",
            port=0,
            log_dirs=plan.log_dirs,
            log_file=None if shown is None else str(shown),
        )
        super().__init__(f"broker {plan.id}", self.broker, plan.log_file)
        self._overrides = list(plan.overrides)
        self._config_path = config_path
        self._held = held

    def command(self) -> list[str]:
        command = module_command("headwater.cli.main", "broker", "start", "--stop-on-eof")
        if self._config_path is not None:
            command += ["--config", self._config_path]
        for override in self._overrides:
            command += ["--set", override]
        return command

    def _pipes(self) -> dict[str, Any]:
        return {"stdin": subprocess.PIPE, "pass_fds": self._held}

    def hears_ready(self, line: str) -> bool:
        ready = parse_ready_line(line)
        if ready is None:
            return False
        self.broker.id, self.broker.host, self.broker.port = ready.broker_id, ready.host, ready.port
        self.broker.metrics_port = ready.metrics_port
        self.broker.ready = True
        self.name = f"broker {ready.broker_id}"
        for at, override in enumerate(self._overrides):
            if override in ANY_PORT:  # clients know the port by now: it must be the same after a restart
                self._overrides[at] = override.removesuffix("0") + str(ready.port)
        return True


class RegistryChild(Child):
    """It has nothing to lose: what it knows is in a topic."""

    ready_limit_s = REGISTRY_READY_S
    stop_limit_s = REGISTRY_STOP_S

    def __init__(self, plan: RegistryPlan, brokers: list[BrokerState], our_log: Path | None) -> None:
        """Started when the brokers are ready, whose addresses are known then."""
        shown = plan.log_file or our_log
        self.registry = RegistryState(host="127.0.0.1", port=plan.port, log_file=None if shown is None else str(shown))
        super().__init__("The schema registry", self.registry, plan.log_file)
        self._brokers = brokers

    def command(self) -> list[str]:
        settings = (
            f"listeners=http://127.0.0.1:{self.registry.port}",
            "kafkastore.bootstrap.servers=" + ",".join(broker.address for broker in self._brokers),
        )
        command = module_command("headwater.cli.main", "registry", "start", "--stop-on-eof")
        return [*command, *(part for setting in settings for part in ("--set", setting))]

    def _pipes(self) -> dict[str, Any]:
        return {"stdin": subprocess.PIPE}

    def hears_ready(self, line: str) -> bool:
        address = parse_registry_line(line)
        if address is None:
            return False
        self.registry.host, self.registry.port = address  # the same after a restart
        self.registry.ready = True
        return True


class SqlChild(Child):
    """Its statements are in a topic, and its state comes back from topics."""

    ready_limit_s = REGISTRY_READY_S
    stop_limit_s = REGISTRY_STOP_S

    def __init__(
        self, plan: SqlPlan, brokers: list[BrokerState], registry: RegistryState | None, our_log: Path | None
    ) -> None:
        """Started when the brokers and the registry are ready, whose addresses are known then."""
        shown = plan.log_file or our_log
        self.sql = SqlState(host="127.0.0.1", port=plan.port, log_file=None if shown is None else str(shown))
        super().__init__("The SQL server", self.sql, plan.log_file)
        self._state_dir = plan.state_dir
        self._brokers = brokers
        self._registry = registry

    def command(self) -> list[str]:
        settings = [
            f"listeners=http://127.0.0.1:{self.sql.port}",
            "bootstrap.servers=" + ",".join(broker.address for broker in self._brokers),
            f"ksql.streams.state.dir={self._state_dir}",
        ]
        if self._registry is not None and self._registry.ready:
            settings.append(f"ksql.schema.registry.url={self._registry.url}")
        command = module_command("headwater.cli.main", "sql", "server", "--stop-on-eof")
        return [*command, *(part for setting in settings for part in ("--set", setting))]

    def _pipes(self) -> dict[str, Any]:
        return {"stdin": subprocess.PIPE}

    def hears_ready(self, line: str) -> bool:
        address = parse_sql_line(line)
        if address is None:
            return False
        self.sql.host, self.sql.port = address  # the same after a restart
        self.sql.ready = True
        return True


class ConnectChild(Child):
    """A worker of the group `connect-cluster`: what it knows is in topics."""

    ready_limit_s = REGISTRY_READY_S
    stop_limit_s = CONNECT_STOP_S

    def __init__(self, plan: ConnectPlan, brokers: list[BrokerState], our_log: Path | None) -> None:
        """Started when the brokers are ready, whose addresses are known then."""
        shown = plan.log_file or our_log
        self.connect = ConnectState(host="127.0.0.1", port=plan.port, log_file=None if shown is None else str(shown))
        super().__init__("The Connect worker", self.connect, plan.log_file)
        self._brokers = brokers

    def command(self) -> list[str]:
        settings = (
            f"listeners=http://127.0.0.1:{self.connect.port}",
            f"group.id={CONNECT_GROUP}",
            "bootstrap.servers=" + ",".join(broker.address for broker in self._brokers),
        )
        command = module_command("headwater.cli.main", "connect", "worker", "--stop-on-eof")
        return [*command, *(part for setting in settings for part in ("--set", setting))]

    def _pipes(self) -> dict[str, Any]:
        return {"stdin": subprocess.PIPE}

    def hears_ready(self, line: str) -> bool:
        address = parse_connect_line(line)
        if address is None:
            return False
        self.connect.host, self.connect.port = address  # the same after a restart
        self.connect.ready = True
        return True


class ZooKeeperChild(Child):
    def __init__(self, plan: ZooKeeperPlan, life: int) -> None:
        """`life`: the end of a pipe to read from; when the other end is closed everywhere, nobody needs it any more."""
        self.zookeeper = ZooKeeperState(
            host="127.0.0.1", port=plan.port, data_dir=str(plan.data_dir), log_file=str(plan.data_dir / "zookeeper.log")
        )
        super().__init__("ZooKeeper", self.zookeeper, plan.log_file)
        self._plan = plan
        self._life = life

    def command(self) -> list[str]:
        plan = self._plan
        users = [] if plan.jaas_file is None else [str(plan.jaas_file)]
        return module_command("headwater.cli.zookeeper_child", str(plan.data_dir), str(plan.port), *users)

    def _pipes(self) -> dict[str, Any]:
        return {"stdin": self._life}

    def hears_ready(self, line: str) -> bool:
        server_pid = parse_zookeeper_line(line)
        if server_pid is None:
            return False
        process = identify(server_pid)
        self.zookeeper.server_pid = server_pid
        self.zookeeper.server_start_ticks = process.start_ticks if process else -1
        self.zookeeper.ready = True
        return True

    def reap(self) -> int | None:
        code = super().reap()
        if code is not None:
            self.zookeeper.server_pid, self.zookeeper.server_start_ticks = -1, -1
        return code
