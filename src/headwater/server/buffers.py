"""Buffers for large request frames, and the bound on how much memory requests may hold at once.

Small frames are handled inside the loop's own read buffer and never come here. A large frame first reserves all of its
size against the limit; only then does it get memory, piece by piece as its bytes really come. So a length prefix alone
costs nothing, and requests that have begun can always be finished: were they to wait for memory halfway, each could
wait for the others.

A buffer is a power of two in size, is given back when its request was handled, and a few are kept, because fresh memory
costs page faults on every megabyte.
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
        self.reserved_bytes = 0
        self.allocated_bytes = 0
        self._kept: dict[int, list[bytearray]] = {}
        self._kept_bytes = 0
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    # Reservations

    def reserve(self, size_bytes: int) -> bool:
        """False while requests hold all they may, or others wait: a stream of small ones must not overtake a large
        one.
        """
        if self._waiting or not self._has_room(size_bytes):
            return False
        self.reserved_bytes += size_bytes
        return True

    def _has_room(self, size_bytes: int) -> bool:
        """One alone always gets its memory."""
        return not self.reserved_bytes or self.reserved_bytes + size_bytes <= self.limit_bytes

    def unreserve(self, size_bytes: int) -> None:
        self.reserved_bytes -= size_bytes
        assert self.reserved_bytes >= 0
        while self._waiting and self._has_room(self._waiting[0][0]):
            size, resume = self._waiting.popleft()
            self.reserved_bytes += size
            resume()

    def wait(self, size_bytes: int, resume: Callable[[], None]) -> None:
        """Calls `resume` when that much was reserved for it, in the order of waiting."""
        self._waiting.append((size_bytes, resume))

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiting)

    # Memory

    def take(self, size_bytes: int) -> bytearray:
        size = max(SMALLEST_BYTES, 1 << (size_bytes - 1).bit_length())
        self.allocated_bytes += size
        kept = self._kept.get(size)
        if kept:
            self._kept_bytes -= size
            return kept.pop()
        return bytearray(size)

    def give(self, buffer: bytearray) -> None:
        size = len(buffer)
        self.allocated_bytes -= size
        assert self.allocated_bytes >= 0
        if self._kept_bytes + size <= _KEPT_BYTES_MAX:
            self._kept.setdefault(size, []).append(buffer)
            self._kept_bytes += size
