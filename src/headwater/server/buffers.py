"""Buffers for large request frames, and the bound on how much memory requests may hold at once.

Small frames are handled inside the loop's own read buffer and never come here. A buffer is a power of two in size, is given
back when its request was handled, and a few are kept, because fresh memory costs page faults on every megabyte.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

SMALLEST_BYTES: Final = 128 * 1024
_KEPT_BYTES_MAX: Final = 8 * 1024 * 1024


class BufferPool:
    """Owned by the server's loop."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size_bytes: int) -> bytearray | None:
        """A buffer of at least that size, or None while requests hold all they may. One alone always gets its memory."""
        size = max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        if self.held_bytes and self.held_bytes + size > self.limit_bytes:
            return None
        self.held_bytes += size
        kept = self._kept.get(size)
        if kept:
            self._kept_bytes -= size
            return kept.pop()
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        size = len(buffer)
        self.held_bytes -= size
        assert self.held_bytes >= 0
        if self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept.setdefault(size, []).append(buffer)
            self._kept_bytes += size
        while self._waiting and self.held_bytes < self.limit_bytes:
            self._waiting.popleft()()

    def wait(self, resume: Callable[[], None]) -> None:
        """Calls `resume` when there is memory again."""
        self._waiting.append(resume)
