"""A real broker process seen from outside: its descriptors, its memory, what it wrote,
and whether others are served.
"""

import os
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from compat.support.broker import BrokerProcess
from compat.support.raw import Raw, batch, metadata, produce, produced

WAIT_S = 180  # what normally takes less than a second, on a machine that is busy


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"after {WAIT_S} s still not: {what}"
        time.sleep(0.05)


def descriptors(broker: BrokerProcess) -> int:
    return len(os.listdir(f"/proc/{broker.pid}/fd"))


def sockets(broker: BrokerProcess) -> int:
    """Its open sockets, the listening ones included."""
    count = 0
    for name in os.listdir(f"/proc/{broker.pid}/fd"):
        with suppress(FileNotFoundError):  # closed since it was listed
            count += os.readlink(f"/proc/{broker.pid}/fd/{name}").startswith("socket:")
    return count


def memory_bytes(broker: BrokerProcess) -> int:
    return int(psutil.Process(broker.pid).memory_info().rss)


def assert_no_complaint(broker: BrokerProcess) -> None:
    """Nothing in its log is an error: what clients do is no fault of the broker's."""
    assert broker.alive
    log = broker.log
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
    errors = [line for line in log.splitlines() if " ERROR " in line or " CRITICAL " in line]
    assert not errors, errors[:5]


def connect_from(address: str, broker: BrokerProcess) -> socket.socket:
    """A connection from an address of this machine's own: each has its own 28,000 ports."""
    sock = socket.socket()
    try:
        sock.settimeout(WAIT_S)
        sock.bind((address, 0))
        sock.connect(("127.0.0.1", broker.port))
    except BaseException:
        sock.close()
        raise
    return sock


def reset(sock: socket.socket) -> None:
    """Ends it by RST, as a peer that crashed does."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def receive_frame(sock: socket.socket) -> bytes:
    """One answer, without its length."""
    data = bytearray()
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        piece = sock.recv(1 << 20)
        if not piece:
            raise ConnectionError(f"closed after {len(data)} bytes of an answer")
        data += piece
    return bytes(data[4:])


@contextmanager
def many_descriptors(wanted: int) -> Iterator[int]:
    """Raises this process's limit; gives how many connections it allows, at most as many as wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield wanted if hard == resource.RLIM_INFINITY else min(wanted, hard - 500)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Neighbour:
    """Somebody who wants to be served meanwhile: a thread that produces and asks until it is told to stop."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self._topic = topic
        self._bootstrap = broker.bootstrap
        self._stop = threading.Event()
        self.served = 0
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> "Neighbour":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self._problem is not None:
            raise self._problem

    def _work(self) -> None:
        try:
            with Raw(self._bootstrap) as connection:
                connection.socket.settimeout(WAIT_S)
                while not self._stop.wait(0.01):
                    assert produced(connection.call(produce(self._topic, batch(b"served"))))[0] == 0
                    assert connection.call(metadata(self._topic)).topics[0].error_code == 0
                    self.served += 1
        except BaseException as problem:  # noqa: BLE001 (raised in the test's own thread)
            self._problem = problem

    def is_served_again(self) -> None:
        """Waits for a few more of its requests."""
        goal = self.served + 3
        wait_for(lambda: self.served >= goal or self._problem is not None, "others are served")
        assert self._problem is None, self._problem
