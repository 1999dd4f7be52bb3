"""A directory as Apache Kafka's distribution has it, `bin` and `config`, to type the lines of a tutorial in.

Tutorials name the default ports, so a lab has a network of its own where the machine allows that. Where it does not,
other ports are put in the place of the default ones, in the lines and in the files.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.support.local_cluster import PATIENCE_S, gone, ports_in_a_row, until

ROOT = Path(__file__).parents[3]
_OWN_NETWORK = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
_HOLD = "ip link set lo up && echo ready && exec cat"


class Typed:
    """What a line printed."""

    def __init__(self, stdout: str, stderr: str) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self.lines = stdout.splitlines()


class Lab:
    """Owns the directory, the network, and the servers that were started in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "kafka"
        self.directory.mkdir()
        (self.directory / "bin").symlink_to(Path(sys.executable).parent)
        shutil.copytree(ROOT / "config", self.directory / "config")
        self._home = directory / "home"
        self._environment = os.environ | {
            "HEADWATER_DATA_DIR": str(self._home),
            "LOG_DIR": str(directory / "logs"),
            "PYTHONUNBUFFERED": "1",
        }
        self._network = _own_network()
        self._instead: dict[str, str] = {}
        if self._network is None:
            first = ports_in_a_row(4)
            self._instead = {"localhost:2181": f"localhost:{first}", "clientPort=2181": f"clientPort={first}"}
            for at in range(3):
                self._instead[f"localhost:{9092 + at}"] = f"localhost:{first + 1 + at}"
        self.edit("zookeeper.properties", dataDir=str(directory / "zookeeper"))
        self.edit(
            "server.properties",
            log_dirs=str(directory / "kafka-logs"),
            zookeeper_connect="localhost:2181",
            offsets_topic_replication_factor="1",
        )

    def here(self, text: str) -> str:
        for default, own in self._instead.items():
            text = text.replace(default, own)
        return text

    def export(self, **variables: str) -> None:
        """As typed once, for all lines after it."""
        self._environment |= variables

    def edit(self, name: str, **changes: str) -> None:
        """An editor: a line that sets one of these, or would but for its `#`, is replaced."""
        path = self.directory / "config" / name
        lines = path.read_text().splitlines()
        for keyword, value in changes.items():
            key = keyword.replace("_", ".")
            at = next(at for at, line in enumerate(lines) if line.lstrip("#").startswith(f"{key}="))
            lines[at] = f"{key}={value}"
        path.write_text(self.here("\n".join(lines) + "\n"))

    def type(self, line: str, *, stdin: str = "", code: int | None = 0, within: str = ".") -> Typed:
        """A line up to its end, and whatever its code if that is None. `within` is the directory that one has gone to
        before.
        """
        ended = subprocess.run(
            self._command(line),
            cwd=self.directory / within,
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert code is None or ended.returncode == code, (line, ended.returncode, ended.stdout, ended.stderr)
        return Typed(ended.stdout, ended.stderr)

    @contextmanager
    def leave_running(self, line: str) -> "Iterator[subprocess.Popen[str]]":
        """A line that does not end by itself; if it still runs at the end of the block, Ctrl-C ends it."""
        process = subprocess.Popen(
            self._command(line),
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGINT)
                try:
                    process.wait(PATIENCE_S)
                finally:
                    process.kill()  # one that did not hear it is not left behind

    def start(self) -> None:
        """ZooKeeper, and a broker, both in the background."""
        self.type("bin/zookeeper-server-start.sh -daemon config/zookeeper.properties")
        self.type("bin/kafka-server-start.sh -daemon config/server.properties")

    def close(self) -> None:
        for folder, stop in (("servers", "kafka-server-stop.sh"), ("zookeepers", "zookeeper-server-stop.sh")):
            pids = [int(path.stem) for path in (self._home / folder).glob("*.json")]
            if pids:
                self.type(f"bin/{stop} || true")
                until(lambda pids=pids: all(gone(pid) for pid in pids), f"{folder} are gone")  # type: ignore[misc]
        if self._network is not None:
            self._network.communicate(timeout=PATIENCE_S)

    def _command(self, line: str) -> list[str]:
        shell = ["bash", "-c", self.here(line)]
        if self._network is None:
            return shell
        target = f"--target={self._network.pid}"
        return ["nsenter", target, "--user", "--net", "--preserve-credentials", "--", *shell]


def _own_network() -> "subprocess.Popen[str] | None":
    """A process that holds it until its stdin ends; None where that is not allowed."""
    try:
        holder = subprocess.Popen(
            [*_OWN_NETWORK, _HOLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except FileNotFoundError:
        return None
    assert holder.stdout is not None
    if holder.stdout.readline() == "ready\n":
        return holder
    holder.communicate(timeout=PATIENCE_S)
    return None
