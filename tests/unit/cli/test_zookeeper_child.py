"""The process between the supervisor and ZooKeeper: when it stops it, and what it ends with."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater.cli.supervision import parse_zookeeper_line
from headwater.cli.zookeeper_child import watch


class Server:
    """Any process that waits."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.pid = self.process.pid
        self.port = 2181
        self.stops = 0

    def stop(self) -> None:
        self.stops += 1
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.fixture
def pipes() -> Iterator[list[int]]:
    """life to read, life to write, wake to read, wake to write."""
    ends = [*os.pipe(), *os.pipe()]
    yield ends
    for end in ends:
        if end >= 0:
            os.close(end)


def test_it_stops_zookeeper_when_nobody_needs_it(server: Server, pipes: list[int]) -> None:
    os.write(pipes[1], b"words do not count")
    os.close(pipes[1])
    pipes[1] = -1
    assert watch(server, pipes[0], pipes[2]) == 0
    assert server.stops == 1


def test_it_stops_zookeeper_on_a_signal(server: Server, pipes: list[int]) -> None:
    os.write(pipes[3], b"\x0f")
    assert watch(server, pipes[0], pipes[2]) == 0
    assert server.stops == 1


def test_a_zookeeper_that_ended_by_itself_is_a_failure(server: Server, pipes: list[int]) -> None:
    server.process.kill()
    assert watch(server, pipes[0], pipes[2]) == 1


@pytest.mark.parametrize(
    ("line", "pid"),
    [
        ("ready zookeeper=127.0.0.1:2181 pid=77", 77),
        ("ready zookeeper=127.0.0.1:2181", None),
        ("ready zookeeper=127.0.0.1:2181 pid=", None),
        ("ready broker=0 listeners=PLAINTEXT://localhost:1", None),
        ("", None),
    ],
)
def test_its_ready_line_is_read(line: str, pid: int | None) -> None:
    assert parse_zookeeper_line(line) == pid
