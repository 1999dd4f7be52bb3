"""Frames: a message behind its length in four bytes. Sans I/O: bytes in, whole frames out.

The server reads straight into buffers of its own; this is for everyone else.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import Buffer
from headwater.wire.errors import DecodeError
from headwater.wire.schema import Chunk

LENGTH: Final = Struct(">i")
FRAME_BYTES_MAX: Final = 100 * 1024 * 1024  # Kafka's own limit, socket.request.max.bytes


class Frames:
    """Splits a stream into frames. Owned by one connection; after a DecodeError the stream is beyond repair."""

    __slots__ = ("_limit_bytes", "_pending")

    def __init__(self, limit_bytes: int = FRAME_BYTES_MAX) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()

    def feed(self, data: Buffer) -> list[bytes]:
        """The frames that `data` completes, without their lengths."""
        pending = self._pending
        pending += data
        frames = []
        at = 0
        while len(pending) - at >= LENGTH.size:
            (length,) = LENGTH.unpack_from(pending, at)
            if not 0 <= length <= self._limit_bytes:
                raise DecodeError(f"a frame claims {length} bytes; the limit is {self._limit_bytes}")
            end = at + LENGTH.size + length
            if end > len(pending):
                break
            frames.append(bytes(memoryview(pending)[at + LENGTH.size : end]))
            at = end
        del pending[:at]
        return frames

    @property
    def pending_bytes(self) -> int:
        """What has come of a frame that is not whole yet."""
        return len(self._pending)


def frame(chunks: list[Chunk]) -> list[Chunk]:
    """The chunks of one message with their total length before them."""
    return [LENGTH.pack(sum(map(len, chunks))), *chunks]
