"""ZooKeeper as a process of this machine: for `headwater up`, for tests, for who wants no more than that.

Its directory holds what it writes, its configuration, and its log. It serves clients of 127.0.0.1 unless told
otherwise. An ensemble is several such processes that know of each other (`start_ensemble`, or `members` for given
hosts).
"""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.base.errors import UserError
from headwater.server.zookeeper.installation import server_command

LOG_NAME: Final = "zookeeper.log"
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 20.0
_LOOK_AGAIN_S: Final = 0.02
_ANSWER_TIMEOUT_S: Final = 2.0
_LOG_BYTES_SHOWN: Final = 2000
_PORTS: Final = (20_000, 32_000)  # below those that the system hands out by itself
_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_SETTINGS: Final = {
    "tickTime": 250,
    "minSessionTimeout": 500,
    "maxSessionTimeout": 60_000,
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "ruok,srvr",
    "autopurge.snapRetainCount": 3,
    "autopurge.purgeInterval": 1,
}
_ENSEMBLE_SETTINGS: Final = {"initLimit": 120, "syncLimit": 20}


@dataclass(frozen=True, slots=True)
class Member:
    """A server of an ensemble: its number (from 1), and the ports on which servers talk and elect their leader."""

    number: int
    host: str
    peer_port: int
    election_port: int


class ZooKeeperProcess:
    def __init__(self, process: "subprocess.Popen[bytes]", data_dir: Path, host: str, port: int) -> None:
        self.data_dir = data_dir
        self.host = host
        self.port = port
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Waits until it is gone."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def wait_until_serving(self, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Raises UserError if it ends instead, or takes too long."""
        deadline = time.monotonic() + timeout_s
        while not is_serving(self.host, self.port):
            if not self.is_alive:
                raise self._not_started(f"it ended with exit code {self._process.returncode}")
            if time.monotonic() > deadline:
                raise self._not_started(f"it did not answer within {timeout_s:g} s")
            time.sleep(_LOOK_AGAIN_S)

    def _not_started(self, why: str) -> UserError:
        log = self.data_dir / LOG_NAME
        said = log.read_bytes()[-_LOG_BYTES_SHOWN:].decode("utf-8", "replace").strip() if log.exists() else ""
        last = said.splitlines()[-1] if said else ""
        return UserError(f"ZooKeeper did not start on {self.address}", f"{why}: {last}" if last else why, f"See {log}")


def start(
    data_dir: Path,
    port: int,
    *,
    host: str = "127.0.0.1",
    number: int = 0,
    members: Sequence[Member] = (),
    dies_with_parent: bool = True,
    is_awaited: bool = True,
    settings: Mapping[str, object] | None = None,
    java_options: Sequence[str] = (),
) -> ZooKeeperProcess:
    """A server on `data_dir`, which serves on return. Of an ensemble it is `number` among `members`; without
    `is_awaited` it may still be about to serve, as it must be until most members run. `settings` go into its file
    beside ours.
    """
    expect_free(host, port)
    data_dir.mkdir(parents=True, exist_ok=True)
    config = data_dir / "zoo.cfg"
    further = "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
    config.write_text(configuration(data_dir, host, port, members) + further)
    if members:
        (data_dir / "myid").write_text(f"{number}\n")
    command = server_command(config.absolute(), "WARN", "-Xmx128m", *java_options)
    with (data_dir / LOG_NAME).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            process_group=0,
            preexec_fn=_follow_parent() if dies_with_parent else None,
        )
    server = ZooKeeperProcess(process, data_dir, host, port)
    if is_awaited:
        await_servers([server])
    return server


def start_ensemble(data_dir: Path, count: int = 3, *, dies_with_parent: bool = True) -> list[ZooKeeperProcess]:
    """Several servers on this machine, in directories below `data_dir`, on free ports. They serve on return."""
    ports = free_ports(3 * count)
    members = [
        Member(number, "127.0.0.1", ports[3 * number - 2], ports[3 * number - 1]) for number in range(1, count + 1)
    ]
    servers = [
        start(
            data_dir / str(member.number),
            ports[3 * (member.number - 1)],
            number=member.number,
            members=members,
            dies_with_parent=dies_with_parent,
            is_awaited=False,
        )
        for member in members
    ]
    await_servers(servers)
    return servers


def await_servers(servers: Sequence[ZooKeeperProcess]) -> None:
    """Until all serve; if one does not, none is left behind."""
    try:
        for server in servers:
            server.wait_until_serving()
    except BaseException:
        for server in servers:
            server.kill()
        raise


def configuration(data_dir: Path, host: str, port: int, members: Sequence[Member] = ()) -> str:
    settings: dict[str, object] = {
        "dataDir": data_dir.absolute(),
        "clientPort": port,
        "clientPortAddress": host,
        **_SETTINGS,
        **(_ENSEMBLE_SETTINGS if members else {}),
    }
    for member in members:
        settings[f"server.{member.number}"] = f"{member.host}:{member.peer_port}:{member.election_port}"
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def is_serving(host: str, port: int) -> bool:
    """Whether a server there would carry out a request."""
    return ask(host, port, b"srvr").startswith(b"Zookeeper version")


def ask(host: str, port: int, word: bytes) -> bytes:
    """What a server says to one of its four-letter words; nothing if it does not."""
    said = b""
    with contextlib.suppress(OSError), socket.create_connection((host, port), _ANSWER_TIMEOUT_S) as connection:
        connection.sendall(word)
        while piece := connection.recv(4096):
            said += piece
    return said


def expect_free(host: str, port: int) -> None:
    """Else who waits for the new server would be answered by the one that has the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            raise UserError(f"ZooKeeper cannot start on {host}:{port}", problem.strerror or str(problem)) from problem


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody uses now; all of them different.

    Drawn from the system: processes whose `random` has the same seed, as those of tests have, would draw the same ones,
    and between the draw and the start of a server each is free.
    """
    dice = random.SystemRandom()
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", dice.randrange(*_PORTS)))
                ports.append(probe.getsockname()[1])
        return ports


def _follow_parent() -> Callable[[], None]:
    """To run in the child before it becomes Java: the kernel kills it when this process ends, however that ends."""
    library = ctypes.CDLL(None)
    parent = os.getpid()

    def follow() -> None:
        library.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return follow
