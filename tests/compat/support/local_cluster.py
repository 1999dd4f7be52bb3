"""A cluster as users start it: `headwater up --brokers 3`, and what there is to ask and wait for."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from headwater.cli.state import read_state

COMMAND = [sys.executable, "-m", "headwater.cli.main"]
PATIENCE_S = 120
PORTS = range(20_000, 32_000, 3_000)


def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {patience_s} s: {what}"
        time.sleep(0.05)


def ports_in_a_row(count: int) -> int:
    """The first of some that are free, below those that the system hands out: a restarted broker gets its own again.

    Not by the dice of the tests, which are the same in all processes of a run: two of them took the same ports at once.
    Each of those processes has ports of its own.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % len(PORTS)
    while True:
        first = random.SystemRandom().randrange(PORTS[process], PORTS[process] + PORTS.step - count)
        with ExitStack() as held:
            try:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


class LocalCluster:
    def __init__(self, directory: Path, count: int = 3) -> None:
        self.data_dir = directory / "data"
        self.count = count
        self.port = ports_in_a_row(count)
        self.bootstrap = ",".join(f"localhost:{self.port + at}" for at in range(count))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_BOOTSTRAP")}
        self.environment = kept | {"HEADWATER_DATA_DIR": str(self.data_dir), "XDG_CONFIG_HOME": str(directory)}

    def headwater(self, *arguments: str, code: int | None = 0) -> "subprocess.CompletedProcess[str]":
        result = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert code is None or result.returncode == code, (result.stdout, result.stderr)
        return result

    def script(self, module: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A script shaped like Kafka's, in a process of its own."""
        code = f"from headwater.cli.kafka.{module} import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, "--bootstrap-server", self.bootstrap, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def up(self, *more: str) -> str:
        arguments = ["up", "-d", "--no-registry", "--brokers", str(self.count), "--port", str(self.port), *more]
        return self.headwater(*arguments).stdout

    def status(self) -> Any:
        return json.loads(self.headwater("status", "-o", "json").stdout)

    def pids(self) -> list[int]:
        """Of all that `up` started, the supervisor last. While one of them lives, another `up` says that all is
        running.
        """
        state = read_state(self.data_dir)
        assert state is not None
        servers = [process.pid for server in state.servers for process in server.processes]
        return [*servers, state.supervisor_pid]

    def is_healthy(self) -> bool:
        """All brokers are there, and every partition has a leader and all its replicas in sync."""
        if not all(broker["ready"] for broker in self.status()["brokers"]):
            return False
        info = self.headwater("cluster", "info", "-o", "json", code=None)
        if info.returncode or len(json.loads(info.stdout)["brokers"]) < self.count:
            return False
        return self.headwater("cluster", "health", code=None).returncode == 0

    def logs(self) -> str:
        files = sorted((self.data_dir / "logs").glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in files)
