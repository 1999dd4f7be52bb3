"""The brokers that are measured, each a process of its own behind a context manager: gone when the block is left.

Both run with their defaults but for the listener, the directory, one replica of the internal topics, and what a row
says. Should whoever measures be killed, the kernel ends them too.
"""

import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.requests import Broken

ROOT = Path(__file__).parent.parent
JARS = ROOT / "tests/java/target/lib"
READY_TIMEOUT_S = 90
STOP_TIMEOUT_S = 60
CLOCK_TICKS_S = os.sysconf("SC_CLK_TCK")
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
HEAP = ("-Xms1g", "-Xmx1g")  # of kafka-server-start.sh
COLLECTOR = (  # of kafka-run-class.sh
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
ALSO_LISTENER = "also.listener="  # a setting of ours: one more beside the plain one, with its port
_libc = ctypes.CDLL(None)


class Broker(NamedTuple):
    name: str
    port: int
    pid: int
    ready_ms: float


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS_S


def memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def memory_mb_with_children(pid: int) -> float:
    """Of a process and all that it has started. What they share counts once (PSS); what has just ended, not at all."""
    try:
        own = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        children = [one for each in Path(f"/proc/{pid}/task").glob("*/children") for one in each.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return (int(own[1]) * 1024 / 1e6 if own else 0.0) + sum(memory_mb_with_children(int(each)) for each in children)


class Start(Protocol):
    """Starts a broker on a directory (a new one, or one that a broker of this kind has stopped cleanly on)."""

    def __call__(self, directory: Path, settings: Sequence[str] = ()) -> contextlib.AbstractContextManager[Broker]: ...


@contextlib.contextmanager
def headwater(directory: Path, settings: Sequence[str] = ()) -> Iterator[Broker]:
    command = [str(Path(sys.executable).with_name("headwater")), "broker", "start"]
    also, settings = _also_listening(settings)
    (port,) = free_ports(1) if also else (0,)
    if also:
        settings = [*settings, "inter.broker.listener.name=PLAINTEXT"]
    for setting in (f"listeners=PLAINTEXT://127.0.0.1:{port}{also}", f"log.dirs={directory}", *settings):
        command += ["--set", setting]
    with _process(command, directory) as (process, began):
        line = _first_line(process, began)
        ready_ms = (time.perf_counter() - began) * 1e3
        if not line.startswith("ready "):
            raise Broken(f"headwater did not get ready: {_tail(directory)}")
        yield Broker("headwater", port or int(line.rsplit(":", 1)[1]), process.pid, ready_ms)


@contextlib.contextmanager
def apache_kafka(directory: Path, settings: Sequence[str] = ()) -> Iterator[Broker]:
    port, controller_port = free_ports(2)
    also, settings = _also_listening(settings)
    directory.mkdir(parents=True, exist_ok=True)
    properties = directory.with_suffix(".properties")
    properties.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller_port}\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}{also}\n"
        f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}{also}\nlog.dirs={directory}\n"
        # Without it CONTROLLER is known only beside plain listeners.
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL\n"
        "offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n"
        + "".join(f"{setting}\n" for setting in settings)
    )
    if not (directory / "meta.properties").exists():
        format_directory(properties, directory.with_suffix(".output"))
    with _process(apache_command(properties), directory) as (process, began):
        _wait_for_port(port, process, directory)
        yield Broker("Apache Kafka", port, process.pid, (time.perf_counter() - began) * 1e3)


def _also_listening(settings: Sequence[str]) -> tuple[str, list[str]]:
    """What stands behind the plain listener, and the other settings."""
    also = "".join(f",{each.removeprefix(ALSO_LISTENER)}" for each in settings if each.startswith(ALSO_LISTENER))
    return also, [each for each in settings if not each.startswith(ALSO_LISTENER)]


def format_directory(properties: Path, said: Path) -> None:
    command = ["java", *HEAP, "-cp", f"{_jars()}/*", "kafka.tools.StorageTool", "format"]
    command += ["-t", "AAAAAAAAAAAAAAAAAAAAAA", "-c", str(properties)]
    with said.open("ab") as output:
        subprocess.run(command, check=True, timeout=60, stdout=output, stderr=output)


def apache_command(properties: Path) -> list[str]:
    """As its scripts start it."""
    return ["java", *HEAP, *COLLECTOR, "-cp", f"{_jars()}/*", "kafka.Kafka", str(properties)]


def die_with_parent() -> None:
    _libc.prctl(SET_DEATH_SIGNAL, signal.SIGKILL)


@contextlib.contextmanager
def _process(command: list[str], directory: Path) -> Iterator[tuple[subprocess.Popen[str], float]]:
    """The process and when it began. It gets SIGTERM at the end, and SIGKILL if that does not help."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    with directory.with_suffix(".output").open("ab") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, env=environment, preexec_fn=die_with_parent
        )
    try:
        yield process, began
        if process.poll() is not None:
            raise Broken(f"the broker ended with {process.returncode} while it was measured: {_tail(directory)}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def _first_line(process: subprocess.Popen[str], began: float) -> str:
    assert process.stdout is not None
    left_s = READY_TIMEOUT_S - (time.perf_counter() - began)
    readable, _, _ = select.select([process.stdout], [], [], left_s)
    return process.stdout.readline().strip() if readable else ""


def _wait_for_port(port: int, process: subprocess.Popen[str], directory: Path) -> None:
    deadline = time.perf_counter() + READY_TIMEOUT_S
    while time.perf_counter() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.01)
    raise Broken(f"Apache Kafka did not get ready: {_tail(directory)}")


def _tail(directory: Path) -> str:
    return directory.with_suffix(".output").read_text(errors="replace")[-1000:]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _jars() -> Path:
    """Apache Kafka's jars, which the tests get from Maven Central."""
    if not (JARS / ".complete").exists():
        subprocess.run([str(ROOT / "tests/tools.sh")], check=True, timeout=600)
    if not (JARS / ".complete").exists() or not shutil.which("java"):
        raise Broken("Apache Kafka is not here: Java, Maven and the jars of tests/java/pom.xml are needed")
    return JARS
