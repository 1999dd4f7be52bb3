"""A broker in a process of its own, by nothing but its properties."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def started_server(
    properties: Mapping[str, str], log: Path, env: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """The process and the addresses of its listeners by their names, once it is ready. What it complains of is added to
    `log`.
    """
    with log.open("a") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.server", *(f"{name}={value}" for name, value in properties.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            env=env,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("ready "):
        end_servers([process])
        raise AssertionError(log.read_text())
    return process, dict(each.split("://") for each in line.split("listeners=")[1].split()[0].split(","))


def end_servers(processes: list[subprocess.Popen[str]]) -> None:
    """All of them, though one does not stop by itself; that one is an error."""
    for process in processes:
        process.terminate()
    slow = [process.pid for process in processes if not _has_ended(process)]
    assert not slow, f"these did not stop when they were asked to, and were killed: {slow}"


def _has_ended(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    finally:
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
    return True


@contextmanager
def server_process(
    properties: Mapping[str, str], log: Path, env: Mapping[str, str] | None = None
) -> Iterator[dict[str, str]]:
    process, addresses = started_server(properties, log, env)
    try:
        yield addresses
    finally:
        end_servers([process])
