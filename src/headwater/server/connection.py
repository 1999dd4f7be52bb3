"""One client connection: bytes in, frames to the dispatcher, responses out in the order of their requests.

Reading. Frames that fit into the loop's shared read buffer are handled right there: the bytes of a request are valid
only while its handler runs, and a handler that defers copies what it needs. What is left of a frame waits in
`_leftover`. A larger frame gets a buffer of its own from the pool, which grows with what has really come, so that a
length prefix alone costs nothing.

A request whose API has a quick handler (`quick_handlers.QUICK`) is given to that first, while no earlier answer is
awaited. `_dispatch` is the one place where a request begins, on either way.

Writing. As long as something waits in the outbox, or too many answers are pending, nothing more is read from this
client: a slow reader holds its own requests and nobody else's.

A closed connection cancels its deferred answers: file descriptors are reused, and a late answer would land in the
stream of somebody else.
"""

import logging
import select
import socket
from collections import deque
from struct import Struct
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.server.outbox import Outbox, release_chunks
from headwater.server.quick_handlers import quick_handlers_for

if TYPE_CHECKING:
    from headwater.server.listener import Server
    from headwater.server.loop import LoopTimer

SHARED_BYTES: Final = 128 * 1024
_SHORT_READ_BYTES: Final = (
    8 * 1024
)  # after a large frame: the next is probably large too, and copying its start is waste
_GROW_FROM_BYTES: Final = 64 * 1024
_PROGRESS_BYTES: Final = 256 * 1024  # less than that of a large frame is not progress: it may come byte by byte
_OUT_BYTES_MAX: Final = 512 * 1024
_PENDING_MAX: Final = 64
_LENGTH: Final = Struct(">i")
_HEAD: Final = Struct(">hhi")  # the start of every request header: API key, version, correlation id
_HEAD_BYTES: Final = 8
_SMALLEST_FRAME_BYTES: Final = 12  # with its length
_READABLE: Final = select.EPOLLIN
_FAREWELL: Final = select.EPOLLRDHUP  # the client sends nothing more

logger = logging.getLogger("headwater.server")


class Slot:
    """The place of one response in its connection's order; `chunks` is None while it is awaited."""

    __slots__ = ("chunks", "deferred")

    def __init__(self) -> None:
        self.chunks: list[Any] | None = None
        self.deferred: Deferred | None = None


class Connection:
    __slots__ = (
        "_awaits_memory",
        "_blocked",
        "_broker",
        "_events",
        "_fd",
        "_filled",
        "_frame",
        "_frame_bytes",
        "_frame_view",
        "_largest_frame",
        "_leftover",
        "_loop",
        "_muted",
        "_out",
        "_outbox",
        "_pending",
        "_progress_at",
        "_quick",
        "_recv_into",
        "_send",
        "_server",
        "_shared",
        "_socket",
        "closed",
        "context",
        "frame_progress_ns",
        "last_active_ns",
    )

    def __init__(self, server: "Server", sock: socket.socket, context: ConnectionContext, shared: memoryview) -> None:
        self._server = server
        self._loop = server.loop
        self._broker = server.broker
        self._socket = sock
        self._fd = sock.fileno()
        self._recv_into = sock.recv_into
        self._send = sock.send
        self._shared = shared
        self.context = context
        self._leftover = b""
        self._frame: bytearray | None = None
        self._frame_view = shared
        self._frame_bytes = 0
        self._filled = 0
        self._progress_at = 0
        self._largest_frame = 0
        self._outbox = Outbox(sock, server.disk, self._warmed)
        self._out = self._outbox.chunks
        self._pending: deque[Slot] = deque()
        self._blocked = False
        self._awaits_memory = False
        self._muted: LoopTimer | None = None  # the end of a pause for its quotas
        self.choose_ways()
        self._events = select.EPOLLIN
        self.closed = False
        self.last_active_ns = self._loop.turn_ns
        self.frame_progress_ns = 0

    def choose_ways(self) -> None:
        """Anew, when it is known who asks, and when quotas have changed."""
        self._quick = quick_handlers_for(self._broker, self.context)

    def fileno(self) -> int:
        return self._fd

    def on_events(self, events: int) -> None:
        if events == _READABLE and not self._blocked and self._frame is None:  # nearly always
            self._read_shared()
            return
        if events & select.EPOLLOUT:
            self.last_active_ns = self._loop.turn_ns  # slow is not idle
            self._flush()
            if self._blocked and not self.closed:
                self._unblock()
        if events & ~select.EPOLLOUT and not self.closed:
            if self._blocked:
                if events & (select.EPOLLHUP | select.EPOLLERR) or (events & _FAREWELL and self._owes_only()):
                    self.close("peer is gone")
            elif self._frame is not None:
                self._read_frame()
            else:
                self._read_shared()

    # Reading

    def _read_shared(self) -> None:
        shared = self._shared
        left = len(self._leftover)
        try:
            if left:
                shared[:left] = self._leftover
                count = self._recv_into(shared[left:])
            elif self._largest_frame > SHARED_BYTES:
                count = self._recv_into(shared, _SHORT_READ_BYTES)
            else:
                count = self._recv_into(shared)
        except BlockingIOError:
            return
        except OSError as problem:
            self.close(problem.strerror or "read failed")
            return
        if count == 0:
            self.close("closed by the peer")
            return
        if not left and count >= _SMALLEST_FRAME_BYTES and _LENGTH.unpack_from(shared)[0] + 4 == count:
            self._dispatch(shared, 4, count)  # nearly always: one request and nothing else
            if self._out or self._pending:
                self._send_one()
            return
        self._consume(shared, left + count)
        if count == _SHORT_READ_BYTES and self._frame is not None and not self._blocked:
            self._read_frame()  # the read was cut short: the rest is there already

    def _send_one(self) -> None:
        """Sends what one request has brought: most often one small answer, which the socket takes."""
        out = self._out
        if len(out) == 1 and type(out[0]) is bytes:
            reply = out[0]
            try:
                sent = self._send(reply)
            except OSError:  # full, or gone: the flush finds out which
                sent = 0
            if sent == len(reply):
                out.clear()
                self._outbox.size_bytes = 0
                if not self._pending and not self._blocked:
                    return
            elif sent:
                out[0] = memoryview(reply)[sent:]
        self._flush()
        if not self.closed and self._must_wait():
            self._block()

    def _consume(self, buffer: memoryview, end: int) -> None:
        """Handles the frames in buffer[:end] and keeps what is left of the last one."""
        at = 0
        out = self._out
        while end - at >= 4:
            (size,) = _LENGTH.unpack_from(buffer, at)
            begin = at + 4
            behind = begin + size
            if behind > end or size < _HEAD_BYTES:
                if not self._takes(size):
                    self._server.refuse_frame(self, size)
                    return
                if behind > end:
                    if size > SHARED_BYTES - 4:
                        self._begin_frame(size, buffer[begin:end])
                        at = end
                    break
            self._dispatch(buffer, begin, behind)
            if self.closed:
                return
            at = behind
            if self._pending or self._blocked or self._outbox.size_bytes > _OUT_BYTES_MAX:
                self._flush()
                if self._must_wait():
                    self._leftover = bytes(buffer[at:end])
                    self._block()  # at once: what drains from here on unblocks, and these frames are not forgotten
                    return
        self._leftover = bytes(buffer[at:end]) if at < end else b""
        if out:
            self._flush()
        if (out or self._pending or self._awaits_memory) and not self.closed and self._must_wait():
            self._block()

    def _takes(self, size: int) -> bool:
        """Whether a frame of this length is allowed:
        asked of frames that are incomplete, or too short for a request.
        """
        return self._server.frame_bytes_max >= size >= _HEAD_BYTES

    def _must_wait(self) -> bool:
        """Whether nothing more of this client may be begun now."""
        if self._out or self.closed or self._awaits_memory or self._muted is not None:
            return True
        return len(self._pending) >= _PENDING_MAX or self._held()

    def _held(self) -> bool:
        """Whether the last request wants nothing begun behind it."""
        if not self._pending:
            return False
        deferred = self._pending[-1].deferred
        return deferred is not None and deferred.holds_order and not deferred.done

    def _dispatch(self, buffer: memoryview, begin: int, behind: int) -> None:
        """One request: its quick handler is asked first, once. What that one declines goes the general way."""
        key, version, correlation_id = _HEAD.unpack_from(buffer, begin)
        self.last_active_ns = self._loop.turn_ns
        quick = None if self._pending else self._quick.get(key)
        if quick is not None:
            began_ns = perf_counter_ns()
            answer = quick(self._broker, buffer, begin + _HEAD_BYTES, behind, version, correlation_id)
            if answer is not None:
                if type(answer) is list:
                    self._outbox.send(answer)
                elif answer:  # empty: the client wants no answer
                    self._out.append(answer)
                self._server.metrics[key].observe(perf_counter_ns() - began_ns)
                return
        self._server.dispatch(self, buffer[begin:behind])

    def _begin_frame(self, size: int, start: memoryview) -> None:
        if self._server.buffers.reserve(size):
            self._take_frame(size, start)
            return
        self._awaits_memory = True
        self._block()
        kept = bytes(start)
        self._server.buffers.wait(size, lambda: self._memory_is_there(size, kept))

    def _memory_is_there(self, size: int, start: bytes) -> None:
        if self.closed:
            self._server.buffers.unreserve(size)
            return
        self._awaits_memory = False
        self._take_frame(size, memoryview(start))
        self._unblock()

    def _take_frame(self, size: int, start: memoryview) -> None:
        # Only a client that has sent frames of this size gets all the memory at once.
        trusted = size <= self._largest_frame
        self._frame = self._server.buffers.take(size if trusted else min(size, max(_GROW_FROM_BYTES, 2 * len(start))))
        self._frame_view = memoryview(self._frame)
        self._frame_bytes = size
        self._filled = len(start)
        self._frame_view[: len(start)] = start
        self._progress_at = len(start) + _PROGRESS_BYTES
        self.frame_progress_ns = self._loop.turn_ns

    @property
    def is_in_frame(self) -> bool:
        """Whether it holds memory for a large frame that is not complete."""
        return self._frame is not None

    def _read_frame(self) -> None:
        frame = self._frame
        assert frame is not None
        room = min(len(frame), self._frame_bytes)
        try:
            count = self._recv_into(self._frame_view[self._filled : room])
        except BlockingIOError:
            return
        except OSError as problem:
            self.close(problem.strerror or "read failed")
            return
        if count == 0:
            self.close("closed by the peer in the middle of a request")
            return
        self._filled += count
        if self._filled >= self._progress_at:
            self._progress_at = self._filled + _PROGRESS_BYTES
            self.frame_progress_ns = self._loop.turn_ns
        if self._filled < room:
            return
        if room < self._frame_bytes:
            self._grow_frame(frame)
            return
        self._largest_frame = max(self._largest_frame, room)
        self._frame = None
        view = self._frame_view
        self._frame_view = self._shared
        try:
            self._dispatch(view, 0, room)
        finally:
            self._server.buffers.give(frame)
            self._server.buffers.unreserve(room)
        if not self.closed:
            self._flush()
            if self._must_wait():
                self._block()

    def _grow_frame(self, frame: bytearray) -> None:
        larger = self._server.buffers.take(min(self._frame_bytes, 4 * len(frame)))
        larger[: self._filled] = self._frame_view[: self._filled]
        self._frame = larger
        self._frame_view = memoryview(larger)
        self._server.buffers.give(frame)

    # Blocking: no reading while answers wait

    def _block(self) -> None:
        self._blocked = True
        self._want()

    def _unblock(self) -> None:
        if self._must_wait() or self.closed:
            return
        self._blocked = False
        self._want()
        if self._leftover:
            # Not in the shared buffer: somebody else's request, which is being handled there, may be what unblocked us.
            left = bytearray(self._leftover)
            self._leftover = b""
            try:
                self._consume(memoryview(left), len(left))
            except Exception:
                # Whoever unblocked us (a completion, another connection's request) is not the one to pay for it.
                logger.exception("event=handler-failed fd=%d", self._fd)
                self.on_failure()

    def _owes_only(self) -> bool:
        """Whether requests that are held back are why nothing is read: only then is a client's last byte the end."""
        is_held_back = bool(self._pending) or self._muted is not None
        return self._blocked and is_held_back and not self._out and not self._awaits_memory

    def _want(self) -> None:
        events = ((_FAREWELL if self._owes_only() else 0) if self._blocked else select.EPOLLIN) | (
            select.EPOLLOUT if self._out and not self._outbox.is_warming else 0
        )
        if events != self._events and not self.closed:
            self._events = events
            self._loop.modify(self._fd, events)

    def mute(self, for_ms: int) -> None:
        """Nothing more of this client is begun for so long (KIP-219). What was begun before is answered. The longest
        pause holds.
        """
        if self.closed:
            return
        ends = self._loop.call_later(for_ms, self._unmute)
        if self._muted is None:
            self._muted = ends
        elif self._muted.due_ns < ends.due_ns:
            self._muted.cancel()
            self._muted = ends
        else:
            ends.cancel()
        self._block()

    def _unmute(self) -> None:
        self._muted = None
        self.frame_progress_ns = self._loop.turn_ns  # a large frame that is not complete stood still because of us
        if self._blocked and not self.closed:
            self._unblock()

    @property
    def is_muted(self) -> bool:
        return self._muted is not None

    # Responses

    def answer(self, chunks: list[Any]) -> None:
        """A response that is ready at once, unless earlier ones are not."""
        if self._pending:
            slot = Slot()
            slot.chunks = chunks
            self._pending.append(slot)
        elif len(chunks) == 1:
            self._outbox.put(chunks)  # goes out together with those of other small requests
        else:
            self._outbox.send(chunks)

    def answer_later(self) -> Slot:
        slot = Slot()
        self._pending.append(slot)
        return slot

    def answered(self, slot: Slot, chunks: list[Any]) -> None:
        """The response for a slot is there: sends whatever is now in order."""
        if self.closed:
            release_chunks(chunks)
            return
        slot.chunks = chunks
        slot.deferred = None
        pending = self._pending
        while pending:
            ready = pending[0].chunks
            if ready is None:
                break
            pending.popleft()
            (self._outbox.put if len(ready) == 1 else self._outbox.send)(ready)
        if self._out:
            self._flush()
        if self._blocked and not self.closed:
            self._unblock()

    def _flush(self) -> None:
        """Sends what it can; asks for EPOLLOUT when something is left."""
        if self.closed:
            return
        try:
            self._outbox.flush()
        except OSError as problem:
            self.close(problem.strerror or "write failed")
            return
        if self._out or self._events & select.EPOLLOUT:
            self._want()

    def _warmed(self, _problem: OSError | None) -> None:
        if self.closed or not self._out:
            return
        try:
            self._outbox.warmed()
        except OSError as problem:
            self.close(problem.strerror or "write failed")
            return
        except Exception:  # a completion: nobody above us closes the connection
            logger.exception("event=handler-failed fd=%d", self._fd)
            self.on_failure()
            return
        self._want()
        if self._blocked:
            self._unblock()

    # The end

    def end(self, why: str) -> None:
        """Closes it, after what the socket takes at once of the answers that are ready."""
        if not self.closed:
            self._flush()
            self.close(why)

    def on_failure(self) -> None:
        """A handler of ours broke: nobody knows which answers are owed, so the client must begin again."""
        self.close("internal error")

    def close(self, why: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._muted is not None:
            self._muted.cancel()
        self._loop.unregister(self._fd)
        self._socket.close()
        for slot in self._pending:
            if slot.deferred is not None:
                slot.deferred.cancel()
            if slot.chunks is not None:
                release_chunks(slot.chunks)
        self._pending.clear()
        self._outbox.clear()
        if self._frame is not None:
            self._server.buffers.give(self._frame)
            self._server.buffers.unreserve(self._frame_bytes)
            self._frame = None
        self._server.forget(self, self._fd, why)
