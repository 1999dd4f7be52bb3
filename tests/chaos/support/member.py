"""One broker of a cluster: its ports, its links, its directory, and its process while it runs."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from chaos.support.network import HOST, Link, Network
from chaos.support.processes import WAIT_S, end_group, hold_a_port, start_group


class Member:
    """One broker: its ports, which are held for it between its lives, its directory, and its process while it runs."""

    def __init__(
        self,
        number: int,
        directory: Path,
        network: Network,
        servers: Sequence[tuple[str, int]],
        listener: str = "PLAINTEXT",
    ) -> None:
        self.number = number
        self.directory = directory
        self.log_dir = directory / "data"
        self._held = [hold_a_port() for _ in range(2)]
        self.port, inner_port = (held.getsockname()[1] for held in self._held)
        self.inward: Link = network.link((HOST, inner_port), is_named=True)
        self.to_zookeeper = [network.link(server) for server in servers]
        self._properties = {
            "broker.id": str(number),
            "listeners": f"{listener}://{HOST}:{self.port},BETWEEN://{HOST}:{inner_port}",
            "advertised.listeners": f"{listener}://{HOST}:{self.port},BETWEEN://{self.inward.address}",
            "log.dirs": str(self.log_dir),
            "zookeeper.connect": ",".join(link.address for link in self.to_zookeeper),
        }
        self.own_settings: dict[str, str] = {}  # for its next start
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def name(self) -> str:
        """As other brokers hear it."""
        return f"broker-{self.number}"

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.directory / "broker.log").read_text(errors="replace")

    def launch(self, settings: dict[str, str]) -> None:
        """Begins a start; `wait_until_ready` ends it."""
        assert self.process is None
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).with_name("headwater")), "broker", "start"]
        for name, value in (settings | self._properties | self.own_settings).items():
            command += ["--set", f"{name}={value}"]
        with (self.directory / "broker.log").open("ab") as log:
            self.process = start_group(command, stdout=subprocess.PIPE, stderr=log)

    def wait_until_ready(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        deadline = time.monotonic() + WAIT_S
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"broker {self.number} did not become ready; its log ends:\n{self.log[-4000:]}")
            piece = os.read(self.process.stdout.fileno(), 4096)
            if not piece:
                raise AssertionError(
                    f"broker {self.number} ended before it was ready; its log ends:\n{self.log[-4000:]}"
                )
            line += piece
        assert line.startswith(f"ready broker={self.number} ".encode()), line

    def send(self, number: signal.Signals) -> None:
        """To the broker and its worker processes."""
        assert self.process is not None
        assert self.process.poll() is None, f"broker {self.number} is gone; its log ends:\n{self.log[-4000:]}"
        os.killpg(self.process.pid, number)

    def end(self, number: signal.Signals) -> int:
        """The exit status, or 0 if it did not run."""
        process, self.process = self.process, None
        if process is None:
            return 0
        try:
            if process.poll() is None:
                os.kill(process.pid, number)
            process.wait(WAIT_S)
        finally:
            end_group(process)
        return process.returncode

    def let_ports_go(self) -> None:
        for held in self._held:
            held.close()
