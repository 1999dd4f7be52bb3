"""Runs `replay.c`, compiled on demand into bench/build/: the load generator of every row that is not about
librdkafka.
"""

import json
import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from bench.requests import Broken

HERE = Path(__file__).parent
BUILD = HERE / "build"


class Replayed(NamedTuple):
    requests: int
    seconds: float
    bytes_out: float
    bytes_in: float
    p50_us: float
    p99_us: float
    p999_us: float

    @property
    def requests_s(self) -> float:
        return self.requests / self.seconds

    @property
    def out_mb_s(self) -> float:
        return self.bytes_out / self.seconds / 1e6

    @property
    def in_mb_s(self) -> float:
        return self.bytes_in / self.seconds / 1e6


def program() -> Path:
    """The compiled load generator; built again when its source is newer."""
    source, binary = HERE / "replay.c", BUILD / "replay"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(exist_ok=True)
        subprocess.run(["cc", "-O2", "-Wall", "-o", str(binary), str(source)], check=True, timeout=120)
    return binary


class Running:
    """A replay under way: `result()` waits for it. Leaving the block ends it in any case."""

    def __init__(
        self, port: int, frames: Path, *, connections: int, depth: int, seconds: float, requests: int | None = None
    ) -> None:
        command = [str(program()), str(port), str(connections), str(depth), str(seconds), str(frames)]
        if requests is not None:
            command.append(str(requests))
        self._timeout_s = seconds + 30
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def stop(self) -> None:
        """Before its time: what is under way is still awaited."""
        self._process.send_signal(signal.SIGINT)

    def result(self) -> Replayed:
        out, errors = self._process.communicate(timeout=self._timeout_s)
        if self._process.returncode:
            raise Broken(f"replay: {errors.strip() or self._process.returncode}")
        return Replayed(**json.loads(out))


def replay(
    port: int, frames: Path, *, connections: int, depth: int, seconds: float, requests: int | None = None
) -> Replayed:
    with Running(port, frames, connections=connections, depth=depth, seconds=seconds, requests=requests) as running:
        return running.result()
