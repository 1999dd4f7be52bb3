"""How kazoo waits and calls back: in its one thread, and with another patience than its own.

By itself kazoo notices a silent server only when it has nothing to send, and then may wait for an answer no longer than
a busy machine needs for one. Here the connection ends when an answer has been due for half of the session's time-out,
whatever is sent meanwhile: that is before the service can expire the session, which last heard of us a third of it
earlier.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.server.zookeeper.kazoo_tls import TlsHandler

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

_CONNECT_TIMEOUT_S: Final = (0.3, 2.0)  # at least, at most: then the next host is tried


class InPlaceHandler(TlsHandler):
    """Without kazoo's further threads: callbacks, which only post, run where the event is seen."""

    def __init__(self, session_timeout_s: float, tls: "ContextSource | None" = None) -> None:
        super().__init__(tls)
        shortest_s, longest_s = _CONNECT_TIMEOUT_S
        self._connect_timeout_s = max(shortest_s, min(longest_s, session_timeout_s / 3))
        self._patience_s = session_timeout_s / 2
        self._silent_since = time.monotonic()
        self.expects_answer: Callable[[], bool] = lambda: False
        self.give_up: Callable[[], None] = lambda: None
        """Makes kazoo end the connection, once `select` tells of nothing."""

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def create_connection(self, *arguments: Any, **options: Any) -> Any:
        connection = super().create_connection(*arguments, **(options | {"timeout": self._connect_timeout_s}))
        self._silent_since = time.monotonic()
        return connection

    def create_socket_pair(self) -> "tuple[Wake, Wake]":
        """kazoo's thread reads one byte for each request. A pair of sockets that is full would block the loop."""
        descriptor = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        return Wake(descriptor), Wake(os.dup(descriptor))

    def select(self, readers: list[Any], writers: list[Any], errors: list[Any], timeout_s: float | None = None) -> Any:
        """Of all waits, the one for the server and for requests to send has two to read from."""
        while True:
            found = super().select(readers, writers, errors, timeout_s)
            if len(readers) != 2:
                return found
            if readers[0] in found[0] or not self.expects_answer():
                self._silent_since = time.monotonic()
                return found
            left_s = self._silent_since + self._patience_s - time.monotonic()
            if left_s <= 0:
                self.give_up()
                return [], [], []
            if found[0]:
                return found
            timeout_s = left_s


class Wake:
    """One end of what wakes kazoo's thread, as it expects a socket to be."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def send(self, data: bytes) -> int:
        os.eventfd_write(self._descriptor, len(data))
        return len(data)

    def recv(self, _size: int) -> bytes:
        os.eventfd_read(self._descriptor)
        return b"\0"

    def close(self) -> None:
        os.close(self._descriptor)
