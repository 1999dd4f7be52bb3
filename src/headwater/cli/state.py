"""The state file of `headwater up`: `up.json` in the data directory says what runs and where.

Written by the supervisor alone, which holds a lock on `up.lock` for as long as it lives; each write replaces the file
in one step. Everyone else only reads, and believes a process id only together with its start time: after a crash, a
reboot, or a reused id the file counts as stale.
"""

import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.cli.processes import ProcessId, is_alive

FILE_NAME: Final = "up.json"
LOCK_NAME: Final = "up.lock"
_FORMAT: Final = 1


@dataclass(slots=True, kw_only=True)
class ServerState:
    """One supervised process. `pid` is -1 while it waits to be started again."""

    host: str
    port: int
    pid: int = -1
    start_ticks: int = -1
    ready: bool = False
    started_ms: int = 0
    restarts: int = 0
    log_file: str | None

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.start_ticks)

    @property
    def processes(self) -> list[ProcessId]:
        """All that have to be gone when it is."""
        return [self.process] if self.pid > 0 else []

    @property
    def is_alive(self) -> bool:
        return any(is_alive(process) for process in self.processes)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(slots=True, kw_only=True)
class BrokerState(ServerState):
    id: int
    log_dirs: list[str]
    metrics_port: int = -1


@dataclass(slots=True, kw_only=True)
class ZooKeeperState(ServerState):
    """`pid` is the process that watches over the JVM for us, `server_pid` the JVM itself; -1 until it is ready."""

    data_dir: str
    server_pid: int = -1
    server_start_ticks: int = -1

    @property
    def processes(self) -> list[ProcessId]:
        both = (self.process, ProcessId(self.server_pid, self.server_start_ticks))
        return [process for process in both if process.pid > 0]


@dataclass(slots=True, kw_only=True)
class RegistryState(ServerState):
    @property
    def url(self) -> str:
        return f"http://{self.address}"


@dataclass(slots=True, kw_only=True)
class SqlState(ServerState):
    @property
    def url(self) -> str:
        return f"http://{self.address}"


@dataclass(slots=True, kw_only=True)
class ConnectState(ServerState):
    @property
    def url(self) -> str:
        return f"http://{self.address}"


@dataclass(slots=True)
class UpState:
    data_dir: str
    version: str
    supervisor_pid: int
    supervisor_start_ticks: int
    brokers: list[BrokerState] = field(default_factory=list)
    zookeeper: ZooKeeperState | None = None
    stopping: bool = False
    registry: RegistryState | None = None
    sql: SqlState | None = None
    connect: ConnectState | None = None
    client_config: str | None = None  # the properties that clients need, if they need more than an address

    @property
    def supervisor(self) -> ProcessId:
        return ProcessId(self.supervisor_pid, self.supervisor_start_ticks)

    @property
    def servers(self) -> Sequence[ServerState]:
        """The Connect worker, the SQL server and the registry if there are any, the brokers, and ZooKeeper after them
        if there is one.
        """
        first = [each for each in (self.connect, self.sql, self.registry) if each is not None]
        return [*first, *self.brokers, *([self.zookeeper] if self.zookeeper else [])]

    @property
    def processes(self) -> list[ProcessId]:
        return [self.supervisor, *(process for server in self.servers for process in server.processes)]

    @property
    def is_ending(self) -> bool:
        """Told to stop, or left behind by a supervisor that was killed: those it started see that, and end by
        themselves.
        """
        return self.stopping or not is_alive(self.supervisor)


def to_json(state: UpState) -> str:
    return json.dumps({"format": _FORMAT, **asdict(state)}, indent=2) + "\n"


def from_json(text: str) -> UpState | None:
    """None for what this version did not write: a torn or foreign file is as good as none."""
    try:
        document: Any = json.loads(text)
        if document.pop("format") != _FORMAT:
            return None
        brokers = [BrokerState(**broker) for broker in document.pop("brokers")]
        zookeeper, registry = document.pop("zookeeper", None), document.pop("registry", None)
        sql, connect = document.pop("sql", None), document.pop("connect", None)
        return UpState(
            **document,
            brokers=brokers,
            zookeeper=None if zookeeper is None else ZooKeeperState(**zookeeper),
            registry=None if registry is None else RegistryState(**registry),
            sql=None if sql is None else SqlState(**sql),
            connect=None if connect is None else ConnectState(**connect),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def write_state(data_dir: Path, state: UpState) -> None:
    beside = data_dir / f"{FILE_NAME}.new"
    beside.write_text(to_json(state), encoding="utf-8")
    beside.rename(data_dir / FILE_NAME)


def remove_state(data_dir: Path) -> None:
    (data_dir / FILE_NAME).unlink(missing_ok=True)


def read_state(data_dir: Path) -> UpState | None:
    """What runs there: the state, if its supervisor or one of those that it watched is alive."""
    try:
        state = from_json((data_dir / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    if state is None:
        return None
    alive = is_alive(state.supervisor) or any(server.is_alive for server in state.servers)
    return state if alive else None


def is_locked(data_dir: Path) -> bool:
    """Whether a supervisor lives there, or is being started, whatever the file says."""
    try:
        descriptor = os.open(data_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def take_lock(data_dir: Path) -> int:
    """One supervisor per data directory. The lock goes with the descriptor, so with the process, however it ends."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise UserError(
            f"Cannot use the data directory {data_dir}", error.strerror or str(error), "Name another with --data-dir"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UserError(
            f"Headwater is running already on {data_dir}",
            "another `headwater up` holds its lock",
            "See `headwater status`; stop it with `headwater down`",
        ) from None
    return descriptor
