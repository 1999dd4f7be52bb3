"""The port of a runtime, where its slots register: who is there, who went, who fell silent.

Each connection has a thread that only waits and reads; what it reads is handed to a `Listener`, which takes it over to
the threads that own state. A slot that says nothing for `silence_s` is as good as gone: its connection is closed, and
whatever it may still do is up to the lead to fence. A later slot of the same number replaces an earlier one. Who came
and who went is told in that order, one at a time: a listener that heard of an earlier slot last would believe in it.
"""

import contextlib
import itertools
import logging
import secrets
import socket
import threading
from typing import Any, Final, Protocol

from headwater.spark.slots.frames import SILENCE_S, Channel, ChannelClosed
from headwater.spark.slots.message_codec import EndLease, Heartbeat, Hello, Leaving, MessageCodec

_log: Final = logging.getLogger("headwater.spark.slots")
_CONNECTIONS_MAX: Final = 4096
_ACCEPT_PAUSE_S: Final = 1.0


class SlotLink:
    """A slot that has registered. `life`: no other has the same."""

    def __init__(self, channel: Channel, number: int, life: int, process: str) -> None:
        self.channel = channel
        self.number = number
        self.life = life
        self.process = process

    def send(self, message: Any) -> None:
        """What does not arrive is no error here: whoever reads the connection notices."""
        try:
            self.channel.send(message)
        except ChannelClosed:
            self.channel.hang_up()


class Listener(Protocol):
    """Called by the threads of connections."""

    def joined(self, link: SlotLink) -> None: ...

    def said(self, link: SlotLink, message: Any) -> None: ...

    def gone(self, link: SlotLink) -> None:
        """For whatever reason; never without `joined` before it."""


class SlotServer:
    def __init__(
        self, listener: Listener, codec: MessageCodec, host: str = "127.0.0.1", silence_s: float = SILENCE_S
    ) -> None:
        self._codec = codec
        self.secret = secrets.token_bytes(32)
        self._listener = listener
        self._silence_s = silence_s
        self._lives = itertools.count(1)
        self._telling = threading.Lock()  # taken before `_lock`, which listeners need
        self._lock = threading.Lock()
        self._links: dict[int, SlotLink] = {}
        self._threads: set[threading.Thread] = set()
        self._losses: dict[int, int] = {}
        self._closing = threading.Event()
        self._ending = False
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="headwater-slots", daemon=True)
        self._acceptor.start()

    @property
    def links(self) -> list[SlotLink]:
        with self._lock:
            return sorted(self._links.values(), key=lambda link: link.number)

    def end_lease(self, *, late_ones: bool = False) -> None:
        """Every slot commits, lets go, and ends. `late_ones`: also those that come before `begin_lease`."""
        self._ending = late_ones
        for link in self.links:
            link.send(EndLease())

    def begin_lease(self) -> None:
        self._ending = False
        with self._lock:
            self._losses.clear()

    @property
    def losses(self) -> int:
        """How often the slot that was lost most often has been lost since the lease began: as seen here, or as it says
        itself, who may have been lost before it could connect.
        """
        with self._lock:
            return max(self._losses.values(), default=0)

    def close(self) -> None:
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._acceptor.join()
        self._socket.close()
        with self._lock:
            threads = list(self._threads)
        for link in self.links:
            link.channel.hang_up()
        for thread in threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError as error:
                if self._closing.is_set():
                    return
                _log.warning("slots cannot connect for now error=%s", error)  # no descriptor is left, for example
                self._closing.wait(_ACCEPT_PAUSE_S)
                continue
            with self._lock:
                if self._closing.is_set() or len(self._threads) >= _CONNECTIONS_MAX:
                    connection.close()
                    continue
                thread = threading.Thread(
                    target=self._serve, args=(connection,), name="headwater-slot-link", daemon=True
                )
                self._threads.add(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        link = None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = Channel.accepted(connection, self.secret, self._codec)
            hello = channel.receive(self._silence_s)
            if not isinstance(hello, Hello):
                raise ChannelClosed("it does not say who it is")
            link = self._join(channel, hello)
            self._lost(link.number, hello.tries_before)
            self._read(link)
        except (ChannelClosed, OSError) as error:
            if link is not None:
                self._lost(link.number, hello.tries_before + 1)
            if not self._closing.is_set():
                _log.warning("a slot is gone slot=%s reason=%s", "?" if link is None else link.number, error)
        finally:
            connection.close()
            if link is not None:
                self._leave(link)
            with self._lock:
                self._threads.discard(threading.current_thread())

    def _lost(self, number: int, times: int) -> None:
        with self._lock:
            self._losses[number] = max(self._losses.get(number, 0), times)

    def _read(self, link: SlotLink) -> None:
        while True:
            message = link.channel.receive(self._silence_s)
            if message is None:
                raise ChannelClosed(f"it has said nothing for {self._silence_s} seconds")
            if isinstance(message, Leaving):
                return
            if not isinstance(message, Heartbeat):
                self._listener.said(link, message)

    def _join(self, channel: Channel, hello: Hello) -> SlotLink:
        with self._telling:
            with self._lock:
                link = SlotLink(channel, hello.number, next(self._lives), hello.process)
                before = self._links.get(link.number)
                self._links[link.number] = link
            if before is not None:
                before.channel.hang_up()
                self._listener.gone(before)
            self._listener.joined(link)
        if self._ending:
            link.send(EndLease())
        return link

    def _leave(self, link: SlotLink) -> None:
        with self._telling:
            with self._lock:
                if self._links.get(link.number) is not link:
                    return  # its successor has said so
                del self._links[link.number]
            self._listener.gone(link)
