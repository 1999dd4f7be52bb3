"""What to do when a supervised process ends. Pure: facts and time in, decision out; `supervisor` acts on it.

One that never became ready has a reason that starting it again will not cure (a bad setting, a port in use): give
up. One that ran and died is started again, at once the first time, then after pauses that double up to a limit. Having
run for a while makes it a first time again.
"""

from dataclasses import dataclass
from typing import Final

FIRST_PAUSE_MS: Final = 500
PAUSE_MS_MAX: Final = 30_000
STABLE_MS: Final = 60_000
_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class StartAgain:
    pause_ms: int


@dataclass(frozen=True, slots=True)
class End:
    """The supervisor ends too, with this code."""

    exit_code: int


@dataclass(slots=True)
class Supervision:
    """Owned by the supervisor. `deaths` counts those in a row, none of them after a stable run."""

    was_ready: bool = False
    stopping: bool = False
    deaths: int = 0
    restarts: int = 0

    def on_ready(self) -> None:
        self.was_ready = True

    def on_stop_request(self) -> None:
        self.stopping = True

    def on_exit(self, exit_code: int, uptime_ms: int) -> StartAgain | End:
        """`exit_code` as the subprocess module has it: below zero is a signal."""
        if self.stopping:
            return End(0 if exit_code == 0 else 1)
        if not self.was_ready:
            return End(1)
        if uptime_ms >= STABLE_MS:
            self.deaths = 0
        pause_ms = 0 if self.deaths == 0 else min(FIRST_PAUSE_MS << min(self.deaths - 1, _DOUBLINGS_MAX), PAUSE_MS_MAX)
        self.deaths += 1
        self.restarts += 1
        return StartAgain(pause_ms)


@dataclass(frozen=True, slots=True)
class ReadyLine:
    """`ready broker=0 listeners=PLAINTEXT://localhost:9092 metrics=http://127.0.0.1:1234/metrics`."""

    broker_id: int
    host: str
    port: int
    metrics_port: int  # -1: none


def parse_ready_line(line: str) -> ReadyLine | None:
    """None if it is another line, or one that makes no sense."""
    word, *pairs = line.split()[:8] or [""]
    fields = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if word != "ready" or "listeners" not in fields:
        return None
    _, _, address = fields["listeners"].split(",")[0].partition("://")
    host, _, port = address.rpartition(":")
    metrics_port = fields.get("metrics", "").removesuffix("/metrics").rpartition(":")[2]
    try:
        return ReadyLine(int(fields["broker"]), host.strip("[]"), int(port), int(metrics_port or -1))
    except (ValueError, KeyError):
        return None


def parse_zookeeper_line(line: str) -> int | None:
    """`ready zookeeper=127.0.0.1:2181 pid=77` -> 77, the JVM; None if it is another line."""
    match line.split():
        case ["ready", address, pid] if address.startswith("zookeeper=") and pid.startswith("pid="):
            number = pid.removeprefix("pid=")
            return int(number) if number.isascii() and number.isdigit() else None
    return None


def parse_registry_line(line: str) -> tuple[str, int] | None:
    """`ready registry=http://127.0.0.1:8081` -> its host and port; None if it is another line."""
    match line.split():
        case ["ready", address] if address.startswith("registry=http://"):
            host, _, port = address.removeprefix("registry=http://").rpartition(":")
            return (host.strip("[]"), int(port)) if port.isascii() and port.isdigit() else None
    return None


def parse_sql_line(line: str) -> tuple[str, int] | None:
    """`ready sql=http://127.0.0.1:8088` -> its host and port; None if it is another line."""
    return (
        parse_registry_line(line.replace("ready sql=", "ready registry=", 1)) if line.startswith("ready sql=") else None
    )


def parse_connect_line(line: str) -> tuple[str, int] | None:
    """`ready connect listeners=http://127.0.0.1:8083 group=g` -> its host and port; None if it is another line."""
    match line.split():
        case ["ready", "connect", listeners, *_] if listeners.startswith("listeners=http://"):
            host, _, port = listeners.removeprefix("listeners=http://").partition(",")[0].rpartition(":")
            return (host.strip("[]"), int(port)) if port.isascii() and port.isdigit() else None
    return None


def exit_text(exit_code: int) -> str:
    """'exit code 1', 'signal SIGKILL'."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    import signal

    try:
        return f"signal {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"signal {-exit_code}"
