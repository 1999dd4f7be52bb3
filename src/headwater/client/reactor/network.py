"""The client's sockets: one selector for all connections of a client, frames in and chunks out, nothing that blocks.

A frame is received into a buffer of its own, as long as it is, and handed on uncopied: the records in it stay where the
kernel put them. What is given to `write` must not change until it is sent, which `Stream.unsent_bytes` tells.

Names are looked up in a thread of their own (only numbers and localhost are not), because that may take seconds.
"""

import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from headwater.base.ports import Buffer
from headwater.base.security.tls_socket import TlsSocket
from headwater.client.addresses import Address
from headwater.wire.framing import LENGTH

SCRATCH_BYTES: Final = 128 * 1024
_READS_PER_EVENT: Final = 32  # then the others have their turn
_CHUNKS_PER_CALL: Final = 64
_CONNECTING: Final = (0, 115, 114, 36)  # EINPROGRESS, EALREADY; 36 is macOS


class NotSecured(Exception):
    """There is a connection, and no TLS over it. The message is a sentence for people. `is_final`: nothing will get
    better by itself.
    """

    def __init__(self, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.is_final = is_final


class StreamOwner(Protocol):
    """Whom a stream tells what happens. After `stream_closed` nothing more comes."""

    def stream_connected(self) -> None: ...
    def stream_frame(self, frame: memoryview) -> None: ...
    def stream_closed(self, error: Exception | None) -> None:
        """None: the peer closed it."""


class Stream(Protocol):
    def write(self, chunks: list[Buffer]) -> None: ...
    def close(self) -> None:
        """No further event comes."""

    @property
    def unsent_bytes(self) -> int: ...


class Dialer(Protocol):
    """Makes connections: sockets here, a simulated network in tests."""

    def dial(self, address: Address, owner: StreamOwner, frame_bytes_max: int) -> Stream: ...
    def post(self, action: Callable[[], None], /) -> None:
        """Has the owner of the kernel do something, from any thread."""


class Network:
    """Poller and dialer of one kernel. `close` it after the streams."""

    def __init__(
        self,
        *,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
        stream_to: "Callable[[Network, Address, StreamOwner, int], TcpStream] | None" = None,
    ) -> None:
        self.scratch = bytearray(SCRATCH_BYTES)
        self.selector = selectors.DefaultSelector()
        self._stream_to = stream_to or TcpStream  # TLS makes its own
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._posted: deque[Callable[[], None]] = deque()
        self._closed = False
        self._waking = threading.RLock()  # a signal handler may wake, too, in the middle of this
        self._wake_in, self._wake_out = os.pipe()
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self.selector.register(self._wake_in, selectors.EVENT_READ, None)

    def fileno(self) -> int:
        """Readable when `poll` has something to tell: an asyncio loop watches it. Not every selector has one."""
        return self.selector.fileno()

    def poll(self, timeout: float | None) -> list[Any]:
        return self.selector.select(timeout)

    def dispatch(self, events: list[Any]) -> None:
        for key, mask in events:
            if key.data is None:
                self._woken()
            else:
                key.data(mask)

    def wake(self) -> None:
        with self._waking:  # the number of a closed descriptor may be somebody else's by now
            if self._closed:
                return
            try:
                os.write(self._wake_out, b"w")
            except BlockingIOError:
                return  # full: it is awake already

    def post(self, action: Callable[[], None]) -> None:
        """Has the owner of the kernel do something, from any thread."""
        self._posted.append(action)
        self.wake()

    def dial(self, address: Address, owner: StreamOwner, frame_bytes_max: int) -> "TcpStream":
        return self._stream_to(self, address, owner, frame_bytes_max)

    def close(self) -> None:
        with self._waking:
            self._closed = True
            left = [key.fileobj for key in self.selector.get_map().values() if key.data is not None]
            self.selector.close()
            for each in left:  # connections that nobody has closed
                assert isinstance(each, socket.socket | TlsSocket)
                each.close()
            os.close(self._wake_in)
            os.close(self._wake_out)

    def _woken(self) -> None:
        try:
            os.read(self._wake_in, 4096)
        except BlockingIOError:
            return
        finally:
            while self._posted:
                self._posted.popleft()()

    def open_socket(self, family: int) -> socket.socket:
        opened = socket.socket(family, socket.SOCK_STREAM)
        opened.setblocking(False)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._send_buffer_bytes > 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes > 0:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
        return opened


class TcpStream:
    """One connection. Tries the host's addresses in turn; owned by the kernel's owner."""

    def __init__(self, network: Network, address: Address, owner: StreamOwner, frame_bytes_max: int) -> None:
        self._network = network
        self._owner = owner
        self._frame_bytes_max = frame_bytes_max
        self._socket: socket.socket | TlsSocket | None = None
        self._candidates: deque[tuple[int, Any]] = deque()
        self._connected = False
        self._closed = False
        self._outgoing: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._mask = 0
        self._partial = bytearray()  # the beginning of a frame whose length is not known yet
        self._frame: bytearray | None = None  # a frame whose length is known, and what has come of it
        self._frame_view = memoryview(b"")
        self._filled_bytes = 0
        _resolve(network, address, self._resolved)

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    def write(self, chunks: list[Buffer]) -> None:
        if self._closed:
            return
        for chunk in chunks:
            view = memoryview(chunk)
            if len(view):
                self._outgoing.append(view)
                self._unsent_bytes += len(view)
        if self._connected:
            self._send()

    def close(self) -> None:
        self._closed = True
        self._outgoing.clear()
        self._unsent_bytes = 0
        if self._socket is not None:
            opened, self._socket = self._socket, None
            try:
                if self._mask:
                    self._network.selector.unregister(opened)
            except (KeyError, ValueError, OSError):
                pass  # the selector is closed, or has lost it: the socket must go all the same
            finally:
                self._mask = 0
                opened.close()

    # Connecting

    def _resolved(self, found: "list[tuple[int, Any]] | OSError") -> None:
        if self._closed:
            return
        if isinstance(found, OSError):
            self._fail(found)
            return
        self._candidates.extend(found)
        self._connect_next(OSError("the name stands for no address"))

    def _connect_next(self, error: OSError) -> None:
        while self._candidates:
            family, target = self._candidates.popleft()
            try:
                self._socket = opened = self._network.open_socket(family)
            except OSError as problem:  # no such family on this machine, or no descriptor is left
                error = problem
                continue
            code = opened.connect_ex(target)
            if code in _CONNECTING:
                self._watch(selectors.EVENT_WRITE)
                return
            self._drop_socket()
            error = OSError(code, os.strerror(code))
        self._fail(error)

    def _connection_made(self) -> None:
        assert isinstance(self._socket, socket.socket)
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._drop_socket()
            self._connect_next(_os_error(code))
            return
        self._opened()

    def _opened(self) -> None:
        """There is a connection that requests may go over."""
        self._connected = True
        self._watch(selectors.EVENT_READ)
        self._owner.stream_connected()
        if self._outgoing and not self._closed:
            self._send()

    def _drop_socket(self) -> None:
        if self._socket is not None:
            self._watch(0)
            self._socket.close()
            self._socket = None

    # Events

    def _on_event(self, mask: int) -> None:
        if self._closed:
            return
        if not self._connected:
            self._connection_made()
            return
        if mask & selectors.EVENT_WRITE:
            self._send()
        if mask & selectors.EVENT_READ and not self._closed:
            self._receive()

    def _watch(self, mask: int) -> None:
        if mask == self._mask or self._socket is None:
            return
        selector = self._network.selector
        if not mask:
            selector.unregister(self._socket)
        elif self._mask:
            selector.modify(self._socket, mask, self._on_event)
        else:
            selector.register(self._socket, mask, self._on_event)
        self._mask = mask

    def _send(self) -> None:
        assert self._socket is not None
        outgoing = self._outgoing
        while outgoing:
            try:
                if len(outgoing) == 1:
                    sent = self._socket.send(outgoing[0])
                else:
                    sent = self._socket.sendmsg([outgoing[at] for at in range(min(len(outgoing), _CHUNKS_PER_CALL))])
            except BlockingIOError:
                break
            except OSError as error:
                self._fail(error)
                return
            self._unsent_bytes -= sent
            while sent:
                first = outgoing[0]
                if sent >= len(first):
                    sent -= len(first)
                    outgoing.popleft()
                else:
                    outgoing[0] = first[sent:]
                    sent = 0
        self._watch(selectors.EVENT_READ | (selectors.EVENT_WRITE if outgoing else 0))

    def _receive(self) -> None:
        for _ in range(_READS_PER_EVENT):
            assert self._socket is not None
            whole_frame = self._frame is not None
            target = self._frame_view[self._filled_bytes :] if whole_frame else memoryview(self._network.scratch)
            try:
                count = self._socket.recv_into(target)
            except BlockingIOError:
                return
            except OSError as error:
                self._fail(error)
                return
            if count == 0:
                self._fail(None)
                return
            if whole_frame:
                self._filled_bytes += count
                self._frame_came()
            else:
                self._split(target[:count])
            if self._closed or count < len(target):
                return  # the socket is most likely empty; if not, the selector says so again

    def _split(self, data: memoryview) -> None:
        """Cuts what came into frames; the rest begins the next one."""
        if self._partial:
            self._partial += data
            data = memoryview(bytes(self._partial))
            self._partial = bytearray()
        at = 0
        while len(data) - at >= LENGTH.size and not self._closed:
            (length,) = LENGTH.unpack_from(data, at)
            if not 0 <= length <= self._frame_bytes_max:
                self._fail(ValueError(f"a frame claims {length} bytes; the limit is {self._frame_bytes_max}"))
                return
            at += LENGTH.size
            if len(data) - at < length:
                self._frame = bytearray(length)
                self._frame_view = memoryview(self._frame)
                self._filled_bytes = len(data) - at
                self._frame_view[: self._filled_bytes] = data[at:]
                return
            self._owner.stream_frame(memoryview(bytes(data[at : at + length])))
            at += length
        if not self._closed:
            self._partial += data[at:]

    def _frame_came(self) -> None:
        if self._frame is not None and self._filled_bytes == len(self._frame):
            frame, self._frame, self._frame_view = self._frame_view, None, memoryview(b"")
            self._filled_bytes = 0
            self._owner.stream_frame(frame)

    def _fail(self, error: Exception | None) -> None:
        self.close()
        self._owner.stream_closed(error)


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))  # Python makes it a ConnectionRefusedError where it is one


def _resolve(network: Network, address: Address, done: "Callable[[list[tuple[int, Any]] | OSError], None]") -> None:
    """Gives the addresses that the name stands for, later: never before the caller has finished its own step."""
    try:
        found = _addresses(address, 0 if address.host == "localhost" else socket.AI_NUMERICHOST)
    except OSError:
        threading.Thread(target=_look_up, args=(network, address, done), daemon=True, name="headwater-resolver").start()
    else:
        network.post(lambda: done(found))


def _look_up(network: Network, address: Address, done: "Callable[[list[tuple[int, Any]] | OSError], None]") -> None:
    found: list[tuple[int, Any]] | OSError
    try:
        found = _addresses(address, 0)
    except OSError as error:
        found = error
    network.post(lambda: done(found))


def _addresses(address: Address, flags: int) -> list[tuple[int, Any]]:
    entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=flags)
    return [(entry[0], entry[4]) for entry in entries]
