"""What this machine can do, measured in the same run as the broker: the limit that each figure is a ratio of.

    loopback send      one process sends 1 MB pieces to another, which reads and forgets them
    loopback sendfile  the same out of the page cache; unpaced, whatever the system's congestion control is
    bare round trip    `replay.c`, as for the broker, against a loop that reads and answers and does nothing else

`python -m bench.limits [FOLDER]` prints them as one JSON object.
"""

import json
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

MB = 1 << 20
TOTAL_MB = 1024
UNPACED = (
    b"reno"  # BBR, where it is the system's way, holds each connection to a rate, by timers, within one machine too
)
ANSWER = (56).to_bytes(4, "big") + bytes(56)  # as long as a small produce response

_processes = multiprocessing.get_context("fork")


def _listen(queue: Any, serve: Callable[[socket.socket], None]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
        queue.put(listener.getsockname()[1])
        serve(listener)


def _accept(listener: socket.socket) -> socket.socket:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _swallow(listener: socket.socket) -> None:
    with _accept(listener) as connection:
        buffer = bytearray(MB)
        while connection.recv_into(buffer):
            pass


def _echo_one(listener: socket.socket) -> None:
    """The barest server of one connection: whatever comes is one request."""
    while True:
        with _accept(listener) as connection:
            while connection.recv(4096):
                connection.send(ANSWER)


def _echo_many(listener: socket.socket) -> None:
    """The barest server of many connections: splits frames, forgets them, answers."""
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    connections: dict[int, socket.socket] = {}
    left: dict[int, int] = {}  # descriptor -> bytes of the current frame that have not come yet
    buffer = bytearray(MB + 4)
    view = memoryview(buffer)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == listener.fileno():
                connection = _accept(listener)
                connections[connection.fileno()] = connection
                left[connection.fileno()] = 0
                poller.register(connection, select.EPOLLIN)
                continue
            connection = connections[descriptor]
            got = connection.recv_into(buffer, MB)
            if not got:
                poller.unregister(descriptor)
                connections.pop(descriptor).close()
                continue
            at = left[descriptor]
            while at < got:
                while got - at < 4:  # the rest of a length is on its way
                    got += connection.recv_into(view[got : at + 4])
                at += 4 + int.from_bytes(view[at : at + 4], "big")
                connection.send(ANSWER)
            left[descriptor] = at - got


@contextmanager
def _server(serve: Callable[[socket.socket], None]) -> Iterator[tuple[int, int]]:
    """(port, process id) of a process that serves; it is gone afterwards."""
    queue = _processes.Queue()
    process = _processes.Process(target=_listen, args=(queue, serve), daemon=True)
    process.start()
    try:
        port = queue.get(timeout=30)
        assert process.pid is not None
        yield port, process.pid
    finally:
        process.kill()  # it has nothing to tidy up; a handler of Python's is not run by one that has just begun to wait
        process.join()
        queue.close()


def bare_server_of_one() -> Any:
    return _server(_echo_one)


def bare_server_of_many() -> Any:
    return _server(_echo_many)


def round_trip_us(trips: int = 10_000) -> tuple[float, float]:
    """(p50, p99) of a request and its answer between two bare Python processes: 230 bytes there, 60 back."""
    taken = []
    with bare_server_of_one() as (port, _), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = b"x" * 230
        for _ in range(trips):
            began = time.perf_counter()
            connection.send(request)
            connection.recv(4096)
            taken.append(time.perf_counter() - began)
    taken.sort()
    return taken[len(taken) // 2] * 1e6, taken[int(len(taken) * 0.99)] * 1e6


def _finish(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)  # the other side has read all of it and closed


def loopback_send_mb_s() -> float:
    data = os.urandom(MB)
    with _server(_swallow) as (port, _), socket.create_connection(("127.0.0.1", port)) as connection:
        began = time.perf_counter()
        for _ in range(TOTAL_MB):
            connection.sendall(data)
        _finish(connection)
        return TOTAL_MB * MB / (time.perf_counter() - began) / 1e6


def congestion_control() -> str:
    """The system's own."""
    with socket.socket() as sock:
        name: bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.rstrip(b"\0").decode()


def loopback_sendfile_mb_s(folder: str | None, algorithm: bytes = UNPACED) -> float:
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        file.write(os.urandom(MB) * 64)
        file.flush()
        with _server(_swallow) as (port, _), socket.socket() as connection:
            # Before it connects: what was paced once stays so.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm)
            connection.connect(("127.0.0.1", port))
            began = time.perf_counter()
            for _ in range(TOTAL_MB // 64):
                at = 0
                while at < 64 * MB:
                    at += os.sendfile(connection.fileno(), file.fileno(), at, 4 * MB)
            _finish(connection)
            return TOTAL_MB * MB / (time.perf_counter() - began) / 1e6


def page_cache_write_mb_s(folder: str | None, total_mb: int = 256) -> float:
    data = os.urandom(MB)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        began = time.perf_counter()
        for _ in range(total_mb):
            file.write(data)
        return total_mb * MB / (time.perf_counter() - began) / 1e6


def touch_page_cache(folder: str, total_mb: int) -> tuple[float, float]:
    """Fills and frees page cache, so that a virtual machine gets its memory from the host before anyone is measured.

    Returns the MB/s of the first and of a second time: the difference is what a first measurement would have suffered.
    """
    return page_cache_write_mb_s(folder, total_mb), page_cache_write_mb_s(folder, min(total_mb, 1024))


def interpreter_start_ms() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True, timeout=30)
    return (time.perf_counter() - began) * 1e3


def interpreter_memory_mb() -> float:
    program = "print(open('/proc/self/statm').read().split()[1])"
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=30, capture_output=True, text=True)
    return int(done.stdout) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else None
    figures = {
        "loopback_send_mb_s": loopback_send_mb_s(),
        "loopback_sendfile_mb_s": loopback_sendfile_mb_s(where),
        "page_cache_write_mb_s": page_cache_write_mb_s(where),
        "interpreter_start_ms": interpreter_start_ms(),
        "interpreter_memory_mb": interpreter_memory_mb(),
    }
    print(json.dumps({name: round(value, 1) for name, value in figures.items()}))
