"""A broker in a process of its own, by nothing but its properties."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server_process(properties: Mapping[str, str], log: Path) -> Iterator[dict[str, str]]:
    """The addresses of its listeners by their names, once it is ready. What it complains of is added to `log`."""
    with log.open("a") as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater.server", *(f"{name}={value}" for name, value in properties.items())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("ready "), log.read_text()
        yield dict(each.split("://") for each in line.split("listeners=")[1].split()[0].split(","))
    finally:
        process.terminate()
        process.wait(60)
        process.stdin.close()
        process.stdout.close()
