"""One cap on what all logs together have written and the device has not yet been asked to take.

The kernel lets dirty pages pile up until it makes whoever writes next wait, which would be the loop. So the logs report
what they have written, in pieces, and beyond the cap the oldest pieces are sent on their way (`Writeback`), until the
rest fits. Below the cap nothing is done: writing costs a processor that requests could use, and much of what is written
is deleted, or synced with its segment, before it matters.

The count is an upper bound: a piece that has been synced, or whose file is gone, stays in it until it is the oldest,
and then leaves without any work. Owned by the loop, one for all logs of a broker.
"""

from collections import deque
from typing import Final

from headwater.base.ports import Disk, Writeback
from headwater.log.segment import Segment

PIECE_BYTES: Final = 16 << 20  # a log reports what it has written whenever it is this much
DIRTY_BYTES_MAX: Final = 256 << 20  # where nobody says how much memory there is


class DirtyPages:
    def __init__(self, disk: Disk, limit_bytes: int = DIRTY_BYTES_MAX) -> None:
        self._disk = disk
        self._limit_bytes = limit_bytes
        self._pieces: deque[tuple[Segment, int, int]] = deque()  # the oldest first: segment, position, length
        self.size_bytes = 0

    def written(self, segment: Segment, position: int, length: int) -> None:
        """`segment` has so many more bytes. Raises nothing: what the device says shows at the next fsync."""
        self._pieces.append((segment, position, length))
        self.size_bytes += length
        while self.size_bytes > self._limit_bytes:
            segment, position, length = self._pieces.popleft()
            self.size_bytes -= length
            if segment.file is not None:  # neither deleted nor so long unused that the kernel has written it
                self._disk.submit(Writeback(segment.file, position, length), _ignore)


def _ignore(error: OSError | None) -> None:
    """Writeback is only a hint; a bad device shows at the next fsync."""
