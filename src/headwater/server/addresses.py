"""Where a host name leads: at once for numbers and for this machine, by a thread that only waits for any other name."""

import logging
import socket
import threading
from typing import Any

logger = logging.getLogger("headwater.server")

Address = tuple[int, Any]  # the family, and what `connect` takes


class Lookup:
    """The addresses of a name, asked for in a thread that only waits. `addresses` is None until they are there."""

    def __init__(self, host: str, port: int) -> None:
        self.addresses: list[Address] | None = None
        threading.Thread(target=self._look_up, args=(host, port), name=f"lookup-{host}", daemon=True).start()

    def _look_up(self, host: str, port: int) -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as problem:
            logger.warning("event=name-not-found host=%r reason=%r", host, str(problem))
            found = []
        self.addresses = [(entry[0], entry[4]) for entry in found]


def numeric_addresses(host: str, port: int) -> list[Address]:
    """Of an address in numbers, or of this machine; none for any other name."""
    if host == "localhost":
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port, 0, 0))]
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port) if family == socket.AF_INET else (host, port, 0, 0))]
    return []


def is_own_end(sock: socket.socket) -> bool:
    """Whether both ends of a connection are this one."""
    try:
        own: bool = sock.getsockname() == sock.getpeername()
    except OSError:  # reset just now, which the first read tells
        return False
    return own
