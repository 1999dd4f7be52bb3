"""What a connection has to send: bytes and file slices, in order.

Slices go out by `sendfile`, from the page cache to the socket, after a look whether their pages are in memory: cold
ones are brought there by a helper thread first, because the loop must not wait for a disk. Bytes in front of a slice
are sent with MSG_MORE, so that both share their packets; many small answers become one `send`.
"""

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from headwater.base.ports import Disk, FileSlice, Warm
from headwater.server.hot_fetch import send_chunks

_SENDFILE_BYTES_MAX: Final = 4 * 1024 * 1024
_FIRST_AFTER_WARMING_BYTES: Final = 64 * 1024
_PROBE: Final = [bytearray(1)]


class Outbox:
    """Owned by its connection, which reads `chunks` to know whether something waits."""

    __slots__ = ("_disk", "_fd", "_on_warmed", "_send", "_slice_sent", "chunks", "is_warming", "size_bytes")

    def __init__(self, sock: socket.socket, disk: Disk, on_warmed: Callable[[OSError | None], None]) -> None:
        self._fd = sock.fileno()
        self._send = sock.send
        self._disk = disk
        self._on_warmed = on_warmed
        self._slice_sent = 0  # of the slice in front
        self.chunks: deque[Any] = deque()
        self.size_bytes = 0  # of what was put in since it was last empty
        self.is_warming = False

    def put(self, chunks: list[Any]) -> None:
        for chunk in chunks:
            self.chunks.append(chunk)
            self.size_bytes += len(chunk)

    def send(self, chunks: list[Any]) -> None:
        """Puts in a large answer, of which the socket takes at once what it can. `flush` goes on, and meets what
        stopped this.
        """
        if not self.chunks:
            stopped = send_chunks(self._fd, chunks)
            if stopped is None:
                return
            at, sent = stopped
            del chunks[:at]
            if type(chunks[0]) is FileSlice:
                self._slice_sent = sent
            elif sent:
                chunks[0] = memoryview(chunks[0])[sent:]
        self.put(chunks)

    def flush(self) -> None:
        """Sends what the socket takes now. OSError means that the connection is lost."""
        chunks = self.chunks
        if self.is_warming:
            return
        try:
            while chunks:
                chunk = chunks[0]
                if type(chunk) is FileSlice:
                    if not self._send_slice(chunk):
                        return
                    chunks.popleft()
                    chunk.release()
                    continue
                chunks.popleft()
                if chunks:
                    chunk = self._join(chunk)
                sent = self._send(chunk, socket.MSG_MORE if chunks else 0)
                if sent < len(chunk):
                    chunks.appendleft(memoryview(chunk)[sent:])
                    return
        except BlockingIOError:
            if type(chunk) is not FileSlice:
                chunks.appendleft(chunk)
            return
        self.size_bytes = 0

    def _join(self, chunk: Any) -> Any:
        """The bytes up to the next slice as one piece."""
        chunks = self.chunks
        if type(chunks[0]) is FileSlice:
            return chunk
        pieces = [chunk]
        while chunks and type(chunks[0]) is not FileSlice:
            pieces.append(chunks.popleft())
        return b"".join(pieces)

    def _send_slice(self, piece: FileSlice) -> bool:
        """True when all of it is out. A short `sendfile` means that the file lost bytes: the stream cannot go on."""
        if self._slice_sent == 0 and not is_warm(piece):
            self.is_warming = True
            self._disk.submit(Warm(piece.file, piece.position, piece.length), self._on_warmed)
            return False
        source = piece.file.fileno()
        left = piece.length - self._slice_sent
        while left:
            sent = os.sendfile(self._fd, source, piece.position + self._slice_sent, min(left, _SENDFILE_BYTES_MAX))
            if sent == 0:
                raise OSError(0, "a segment is shorter than its log says")
            self._slice_sent += sent
            left -= sent
        self._slice_sent = 0
        return True

    def warmed(self) -> None:
        """Sends the start of the slice in front, whatever the disk said: to look again could go on for ever."""
        self.is_warming = False
        piece = self.chunks[0]
        try:
            self._slice_sent = os.sendfile(
                self._fd, piece.file.fileno(), piece.position, min(piece.length, _FIRST_AFTER_WARMING_BYTES)
            )
        except BlockingIOError:
            return
        self.flush()

    def clear(self) -> None:
        """At the end of the connection, which it does not hold any longer: nothing is left to the garbage collector."""
        release_chunks(self.chunks)
        self.chunks.clear()
        self._on_warmed = _nobody


def _nobody(_problem: OSError | None) -> None:
    pass


def is_warm(piece: FileSlice) -> bool:
    fd = piece.file.fileno()
    try:
        os.preadv(fd, _PROBE, piece.position, os.RWF_NOWAIT)
        os.preadv(fd, _PROBE, piece.position + piece.length - 1, os.RWF_NOWAIT)
    except BlockingIOError:
        return False
    except OSError:  # a file system that cannot tell
        return True
    return True


def release_chunks(chunks: Any) -> None:
    """For answers that nobody will send."""
    for chunk in chunks:
        if type(chunk) is FileSlice:
            chunk.release()
