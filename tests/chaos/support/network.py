"""Links between the processes of a cluster that can be cut: a small proxy in user space, one thread for all links.

A link listens on a port of its own and carries bytes to its target and back. Cut, it is silent: nothing is carried,
connections stay open, and new ones are taken and not answered, as when packets are lost on the way. Healed, it carries
what waited, as TCP does. A link may be cut for some who come only: a broker names itself in the client id of its first
request ("broker-2").
"""

import contextlib
import re
import selectors
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

HOST = "127.0.0.1"
EVERYONE = ""
PIECE_BYTES = 256 * 1024
CLIENT_ID_FROM = 14  # behind length, key, version, correlation id and the client id's own length
OPENING_BYTES = 64  # of a first request: enough to see who sends it
NAMED = re.compile(rb"broker-\d+(?=$| )")  # behind it, in whose name it asks


@dataclass(eq=False)
class Half:
    """One direction of a connection: what was read at one end and is to be written at the other."""

    source: socket.socket
    target: socket.socket
    waiting: bytearray = field(default_factory=bytearray)
    is_finished: bool = False  # the source has said all


@dataclass(eq=False)
class Connection:
    link: "Link"
    inner: socket.socket
    outer: socket.socket | None = None
    who: str | None = None  # not known until its first request has come
    opening: bytearray = field(default_factory=bytearray)
    halves: list[Half] = field(default_factory=list)
    is_dropped: bool = False

    def sockets(self) -> list[socket.socket]:
        return [self.inner] if self.outer is None else [self.inner, self.outer]


class Link:
    """`is_named`: those who come are told apart by their client ids; otherwise all are alike."""

    def __init__(self, network: "Network", target: tuple[str, int], *, is_named: bool) -> None:
        self.target = target
        self.is_named = is_named
        self.cut_for: set[str] = set()
        self.listener = socket.create_server((HOST, 0))
        self.listener.setblocking(False)
        self.port: int = self.listener.getsockname()[1]
        self._network = network

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def cut(self, who: str = EVERYONE) -> None:
        self._network.call(lambda: self.cut_for.add(who))

    def heal(self, who: str = EVERYONE) -> None:
        self._network.call(lambda: self.cut_for.discard(who))

    def carries(self, who: str | None) -> bool:
        return EVERYONE not in self.cut_for and who not in self.cut_for


class Network:
    """All links and the thread that carries their bytes; `close` ends both."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._links: list[Link] = []
        self._connections: list[Connection] = []
        self._orders: list[tuple[Callable[[], object], threading.Event]] = []
        self._lock = threading.Lock()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="network", daemon=True)
        self._thread.start()

    def link(self, target: tuple[str, int], *, is_named: bool = False) -> Link:
        link = Link(self, target, is_named=is_named)
        self.call(lambda: self._add(link))
        return link

    def call(self, order: Callable[[], object]) -> None:
        """Runs it in the network's thread, and waits for it: when this returns, a cut link is cut."""
        done = threading.Event()
        with self._lock:
            self._orders.append((order, done))
        self._waker.send(b"!")
        assert done.wait(30), "the network's thread is gone"

    def close(self) -> None:
        if not self._is_closed:
            self.call(self._end)
            self._thread.join()
            self._waker.close()

    def _add(self, link: Link) -> None:
        self._links.append(link)
        self._selector.register(link.listener, selectors.EVENT_READ, link)

    def _end(self) -> None:
        self._is_closed = True
        for connection in list(self._connections):
            self._drop(connection)
        for link in self._links:
            link.listener.close()
        self._selector.close()
        self._woken.close()

    # The thread

    def _run(self) -> None:
        while not self._is_closed:
            ready = [key.data for key, _ in self._selector.select()]
            for found in ready:
                if isinstance(found, Link):
                    self._accept(found)
                elif isinstance(found, Connection):
                    self._carry(found)
            if None in ready:
                self._obey()

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096)
        with self._lock:
            orders, self._orders = self._orders, []
        for order, done in orders:
            order()
            done.set()
        for connection in list(self._connections):
            self._carry(connection)

    def _accept(self, link: Link) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            inner, _ = link.listener.accept()
            inner.setblocking(False)
            inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(link, inner, who=None if link.is_named else EVERYONE)
            self._connections.append(connection)
            self._carry(connection)

    def _carry(self, connection: Connection) -> None:
        """As far as it goes now; then the selector is told what to wait for."""
        if connection.is_dropped:
            return  # both its ends were ready
        wanted: dict[socket.socket, int] = {}
        try:
            if connection.outer is None:
                self._open(connection, wanted)
            if connection.outer is not None and connection.link.carries(connection.who):
                for half in connection.halves:
                    self._move(half, wanted)
                if all(half.is_finished and not half.waiting for half in connection.halves):
                    raise ConnectionError
        except (ConnectionError, OSError):
            self._drop(connection)
            return
        for end in connection.sockets():
            self._watch(end, wanted.get(end, 0), connection)

    def _open(self, connection: Connection, wanted: dict[socket.socket, int]) -> None:
        """Once it is known who comes, and the link is not cut for them."""
        if connection.who is None:
            with contextlib.suppress(BlockingIOError):
                piece = connection.inner.recv(OPENING_BYTES - len(connection.opening))
                if not piece:
                    raise ConnectionError
                connection.opening += piece
            connection.who = who_opens(bytes(connection.opening))
            if connection.who is None:
                wanted[connection.inner] = selectors.EVENT_READ
                return
        if connection.link.carries(connection.who):
            outer = socket.create_connection(connection.link.target, timeout=5)  # on this machine: at once, or refused
            outer.setblocking(False)
            outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.outer = outer
            there = Half(connection.inner, outer, connection.opening)
            connection.halves = [there, Half(outer, connection.inner)]

    def _move(self, half: Half, wanted: dict[socket.socket, int]) -> None:
        with contextlib.suppress(BlockingIOError):
            if not half.is_finished and len(half.waiting) < PIECE_BYTES:
                piece = half.source.recv(PIECE_BYTES)
                half.waiting += piece
                half.is_finished = not piece
        if half.waiting:
            with contextlib.suppress(BlockingIOError):
                del half.waiting[: half.target.send(half.waiting)]
        elif half.is_finished:
            with contextlib.suppress(OSError):
                half.target.shutdown(socket.SHUT_WR)
        if not half.is_finished and len(half.waiting) < PIECE_BYTES:
            wanted[half.source] = wanted.get(half.source, 0) | selectors.EVENT_READ
        if half.waiting:
            wanted[half.target] = wanted.get(half.target, 0) | selectors.EVENT_WRITE

    def _watch(self, end: socket.socket, events: int, connection: Connection) -> None:
        known = end in self._selector.get_map()
        if not events and known:
            self._selector.unregister(end)
        elif events and not known:
            self._selector.register(end, events, connection)
        elif events:
            self._selector.modify(end, events, connection)

    def _drop(self, connection: Connection) -> None:
        connection.is_dropped = True
        for end in connection.sockets():
            if end in self._selector.get_map():
                self._selector.unregister(end)
            end.close()
        self._connections.remove(connection)


def who_opens(opening: bytes) -> str | None:
    """Who sends these first bytes of a first request: "broker-2", or everyone else; None if that is not known yet."""
    if len(opening) < CLIENT_ID_FROM:
        return None
    length = max(int.from_bytes(opening[CLIENT_ID_FROM - 2 : CLIENT_ID_FROM], signed=True), 0)
    if len(opening) < min(CLIENT_ID_FROM + length, OPENING_BYTES):
        return None
    named = NAMED.search(opening[CLIENT_ID_FROM : CLIENT_ID_FROM + length])
    return named.group().decode() if named else EVERYONE
