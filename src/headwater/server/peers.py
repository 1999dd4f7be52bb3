"""The Peers port on the kernel's sockets: a lane is one connection, made when it is needed, and never waited for.

Answers that fit into the shared read buffer are decoded right there. A larger one is read into a buffer of the
connection's own, which grows with what has really come and is kept for the next answer. Either way its bytes are
somebody else's after `done`.

Numbers and `localhost` are addresses at once; any other host name is looked up by a thread, because a name server may
take its time.

Owned by the broker's loop.
"""

import errno
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.ids import BrokerId
from headwater.base.peers import Lane
from headwater.broker.origins import client_id_on
from headwater.server.addresses import Lookup, is_own_end, numeric_addresses
from headwater.server.loop import Loop, LoopTimer, SystemClock
from headwater.server.peer_lane import Done, PeerLane

if TYPE_CHECKING:
    from headwater.base.security.tls_socket import TlsSocket

ANSWER_BYTES_MAX: Final = 128 << 20
_SHARED_BYTES: Final = 256 * 1024
_KEPT_BYTES_MAX: Final = 16 << 20
_GROW_BY: Final = 4
_LENGTH_BYTES: Final = 4
_CONNECT_MS: Final = 5000
_LOOK_AGAIN_MS: Final = 5
_NOT_FROM_HERE: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)  # this host has no addresses of that family


class LoopPeers:
    """`endpoint_of` says where a broker is now: on the listener that brokers use among themselves. `socket_to` makes
    other sockets than plain ones.
    """

    def __init__(
        self,
        loop: Loop,
        endpoint_of: Callable[[BrokerId], tuple[str, int] | None],
        client_id: str,
        socket_to: "Callable[[Loop, memoryview, PeerLane, str, int], PeerSocket] | None" = None,
    ) -> None:
        self.on_lost: Callable[[BrokerId], None] = lambda _broker: None
        self._loop = loop
        self._endpoint_of = endpoint_of
        self._client_id = client_id
        self._socket_to = socket_to or PeerSocket
        self._clock = SystemClock()
        self._lanes: dict[tuple[BrokerId, Lane], PeerLane] = {}
        self._shared = memoryview(bytearray(_SHARED_BYTES))
        self._is_closed = False

    def ask(
        self,
        broker: BrokerId,
        lane: Lane,
        request: Any,
        version: int,
        done: Done,
        *,
        timeout_ms: int,
        origin: str = "",
    ) -> None:
        if self._is_closed:
            return
        found = self._lanes.get((broker, lane))
        if found is None:
            found = PeerLane(
                self._loop,
                self._clock,
                lambda asking: self._dial(broker, asking),
                client_id_on(lane, self._client_id),
                lambda: self.on_lost(broker),
            )
            self._lanes[broker, lane] = found
        found.ask(request, version, done, timeout_ms, origin)

    def _dial(self, broker: BrokerId, lane: PeerLane) -> "PeerSocket | None":
        endpoint = self._endpoint_of(broker)
        if endpoint is None:
            return None
        return self._socket_to(self._loop, self._shared, lane, *endpoint)

    def forget(self, broker: BrokerId) -> None:
        for key in [key for key in self._lanes if key[0] == broker]:
            self._lanes.pop(key).drop("the broker is gone")

    def close(self) -> None:
        self._is_closed = True
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()


class PeerSocket:
    """A Wire: it looks its address up, connects to the first that answers, and cuts the stream into frames."""

    def __init__(self, loop: Loop, shared: memoryview, lane: PeerLane, host: str, port: int) -> None:
        self._loop = loop
        self._shared = shared
        self._lane = lane
        self._socket: socket.socket | TlsSocket | None = None
        self._events = 0
        self._is_open = False
        self._is_closed = False
        self._problems: set[int] = set()  # why its addresses gave no connection; 0: for a reason of our own
        self._out: deque[Any] = deque()
        self._leftover = b""  # the start of an answer that fits into the shared buffer
        self._buffer = bytearray()  # for larger ones; kept
        self._frame_bytes = 0  # of the larger one that is being read, with its length; 0: none is
        self._filled = 0
        self._timer: LoopTimer = loop.call_later(_CONNECT_MS, lambda: self._lose("no connection in time"))
        self._addresses = numeric_addresses(host, port)
        lookup = None if self._addresses else Lookup(host, port)
        loop.call_later(0, self._connect_next if lookup is None else lambda: self._await_lookup(lookup))

    # Connecting

    def _await_lookup(self, lookup: Lookup) -> None:
        if self._is_closed:
            return
        if lookup.addresses is None:
            self._loop.call_later(_LOOK_AGAIN_MS, lambda: self._await_lookup(lookup))
        else:
            self._addresses = list(lookup.addresses)
            self._connect_next()

    def _not_connected(self, code: int) -> None:
        if code not in _NOT_FROM_HERE:
            self._problems.add(code)
        self._connect_next(os.strerror(code))

    def _connect_next(self, why: str = "its name has no address") -> None:
        if self._is_closed:
            return
        self._drop_socket()
        if not self._addresses:
            self._lose(why, is_refused=self._problems == {errno.ECONNREFUSED})
            return
        family, address = self._addresses.pop(0)
        try:
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as problem:  # no descriptor is left, or no such family here
            self._not_connected(problem.errno or errno.EIO)
            return
        self._socket = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(address)
        if code not in (0, errno.EINPROGRESS):
            self._not_connected(code)
            return
        self._events = select.EPOLLOUT
        self._loop.register(sock.fileno(), self._events, self._on_events, lambda: self._lose("internal error"))

    def _connected(self) -> None:
        sock = self._socket
        assert isinstance(sock, socket.socket)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code != 0:
            self._not_connected(code)
        elif is_own_end(sock):
            # Nobody listens on a port that the kernel gives to clients, and it gave it to us: we would talk to
            # ourselves, and keep the broker from taking its port again.
            self._problems.add(0)
            self._connect_next("connected to itself")
        else:
            self._opened()

    def _opened(self) -> None:
        """There is a connection: the lane may use it."""
        self._timer.cancel()
        self._is_open = True
        self._want()
        self._lane.opened(self)

    def _received(self, frame: memoryview) -> None:
        self._lane.received(self, frame)

    # Events

    def _on_events(self, events: int) -> None:
        if not self._is_open:
            self._connected()
            return
        if events & select.EPOLLOUT:
            self._flush()
        if events & ~select.EPOLLOUT and not self._is_closed:
            self._read()

    def _want(self) -> None:
        assert self._socket is not None
        events = select.EPOLLIN | (select.EPOLLOUT if self._out else 0)
        if events != self._events:
            self._events = events
            self._loop.modify(self._socket.fileno(), events)

    # Writing

    def send(self, frame: bytes) -> None:
        self._out.append(len(frame).to_bytes(_LENGTH_BYTES) + frame)
        if len(self._out) == 1:
            self._flush()

    def _flush(self) -> None:
        assert self._socket is not None
        try:
            while self._out:
                data = self._out[0]
                sent = self._socket.send(data)
                if sent < len(data):
                    self._out[0] = memoryview(data)[sent:]
                    break
                self._out.popleft()
        except BlockingIOError:
            pass
        except OSError as problem:
            why = problem.strerror or "write failed"
            self._loop.call_later(0, lambda: self._lose(why))  # the lane may be in the middle of asking
            return
        self._want()

    # Reading

    def _read(self) -> None:
        assert self._socket is not None
        try:
            if self._frame_bytes:
                count = self._socket.recv_into(memoryview(self._buffer)[self._filled : self._frame_bytes])
            else:
                kept = len(self._leftover)
                self._shared[:kept] = self._leftover
                count = self._socket.recv_into(self._shared[kept:])
        except BlockingIOError:
            return
        except OSError as problem:
            self._lose(problem.strerror or "read failed")
            return
        if count == 0:
            self._lose("it closed the connection")
        elif self._frame_bytes:
            self._filled += count
            self._go_on_with_frame()
        else:
            self._take_apart(len(self._leftover) + count)

    def _take_apart(self, end: int) -> None:
        """The answers in the shared buffer; what is left of the last one is put away."""
        at = 0
        self._leftover = b""
        while end - at >= _LENGTH_BYTES:
            size = int.from_bytes(self._shared[at : at + _LENGTH_BYTES], signed=True)
            if not _LENGTH_BYTES <= size <= ANSWER_BYTES_MAX:
                self._lose(f"an answer of {size} bytes")
                return
            next_at = at + _LENGTH_BYTES + size
            if next_at > end:
                break
            self._received(self._shared[at + _LENGTH_BYTES : next_at])
            if self._is_closed:
                return
            at = next_at
        else:
            self._leftover = bytes(self._shared[at:end])
            return
        if next_at - at <= len(self._shared):
            self._leftover = bytes(self._shared[at:end])
            return
        self._frame_bytes = next_at - at
        self._filled = 0
        self._make_room(end - at)
        self._buffer[: end - at] = self._shared[at:end]
        self._filled = end - at

    def _make_room(self, more: int) -> None:
        """For `more` bytes at least: as much as is there already, or several times that, but not more than the answer
        has.
        """
        if len(self._buffer) >= min(self._frame_bytes, self._filled + more):
            return
        larger = bytearray(min(self._frame_bytes, max(_GROW_BY * self._filled, _GROW_BY * more)))
        larger[: self._filled] = memoryview(self._buffer)[: self._filled]
        self._buffer = larger

    def _go_on_with_frame(self) -> None:
        if self._filled < self._frame_bytes:
            self._make_room(1)
            return
        frame = memoryview(self._buffer)[_LENGTH_BYTES : self._frame_bytes]
        self._frame_bytes = self._filled = 0
        self._received(frame)
        if len(self._buffer) > _KEPT_BYTES_MAX:
            self._buffer = bytearray()

    # The end

    def _lose(self, why: str, *, is_refused: bool = False) -> None:
        if not self._is_closed:
            self.close()
            self._lane.lost(self, why, is_refused=is_refused)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._timer.cancel()
            self._drop_socket()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            if self._events:
                self._loop.unregister(self._socket.fileno())
                self._events = 0
            self._socket.close()
            self._socket = None
