"""The broker under test, as a process of its own: Headwater, or Apache Kafka to show that a test itself is right.

Both have the same face: `bootstrap`, `log_dir`, `start`, `kill` (SIGKILL), `stop` (SIGTERM), `restart` (same port, same
directory). Whoever makes one calls `kill` or `stop` at the end; the fixtures in conftest.py do.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from abc import ABC, abstractmethod
from pathlib import Path

from compat.support.java import classpath, java_command

START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
CLUSTER_ID = "aGVhZHdhdGVyLWNvbXBhdA"  # 16 bytes, base64


class BrokerProcess(ABC):
    """One broker, its directory and its port. The port is chosen at the first start and kept."""

    def __init__(self, directory: Path, properties: dict[str, str]) -> None:
        self.directory = directory
        self.log_dir = directory / "data"
        self.properties = properties
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.directory / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _wait_until_ready(self) -> None: ...

    def start(self) -> None:
        assert not self.alive
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """A clean shutdown; the exit status."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Clean, on the same port. For a crash: `kill`, then `start`."""
        if self.alive:
            self.stop()
        self.start()

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            self._process = None
        return process.returncode

    def _held_port(self) -> int:
        """Bound, and never listening: the broker may listen there,
        and nobody else is given the port while it is away.
        """
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        weakref.finalize(self, held.close)
        port: int = held.getsockname()[1]
        return port

    def _fail(self, why: str) -> None:
        raise AssertionError(f"the broker {why}; its log ends:\n{self.log[-4000:]}")


class HeadwaterBroker(BrokerProcess):
    """`headwater broker start`, ready when it says so on stdout."""

    def _command(self) -> list[str]:
        if not self.port:
            self.port = self._held_port()
        properties = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.log_dir),
            **self.properties,
        }
        command = [str(Path(sys.executable).parent / "headwater"), "broker", "start"]
        for name, value in properties.items():
            command += ["--set", f"{name}={value}"]
        return command

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        line = b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                self._fail("did not become ready in time")
            piece = os.read(self._process.stdout.fileno(), 4096)
            if not piece:
                self._fail("ended before it was ready")
            line += piece
        assert line.startswith((b"ready broker=0 listeners=PLAINTEXT://", b"ready broker=0 listeners=SASL_SSL://")), (
            line
        )
        self.port = int(line.split()[2].rsplit(b":", 1)[1])


class ApacheBroker(BrokerProcess):
    """Apache Kafka 4.3 from Maven Central: one KRaft node, ready when it answers on its port."""

    def listen_at(self) -> tuple[int, int]:
        """The ports of clients and of the controller, chosen now if they are not: for `properties` that name them."""
        if not self.port:
            self.port, self._controller_port = self._held_port(), self._held_port()
        return self.port, self._controller_port

    def _command(self) -> list[str]:
        self.listen_at()
        controller_port = self._controller_port
        properties = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.quorum.voters": f"0@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "initial.broker.registration.timeout.ms": "120000",
            **self.properties,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return [*java_command("512m"), "-cp", classpath(), "ApacheBroker", str(path), CLUSTER_ID]

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._fail("ended before it was ready")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        self._fail("did not become ready in time")
