"""Bounds the number of open segment files, however many partitions there are.

Each holder (a segment) has its file in `file`, or None, and sets `recently_used` on every use: a plain attribute, so
that the append path pays one store and no call. When there are too many, the cache goes round its holders like the hand
of a clock: whoever was used since the last round stays, the first who was not lets go. A slice in flight or an fsync
under way holds its own reference; the descriptor is closed when the last of them is done.

Letting go of a file that has unflushed data loses nothing: the pages stay in the kernel, and a write error on them is
reported to the next fsync, also through a new descriptor.
"""

from collections import OrderedDict
from typing import Final, Protocol

from headwater.base.ports import File

OPEN_FILES_MAX: Final = 4096


class Holder(Protocol):
    file: File | None
    recently_used: bool

    def let_go(self) -> None:
        """Releases `file` and whatever memory can be loaded again."""
        ...


class Handles:
    """One for all logs of a broker; `opened` and `closed` are called by the segments."""

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self._open_files_max = open_files_max
        self._holders: OrderedDict[Holder, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._holders)

    def opened(self, holder: Holder) -> None:
        """`holder` has just opened its file."""
        holders = self._holders
        while len(holders) >= self._open_files_max:
            oldest, _ = holders.popitem(last=False)
            if oldest.recently_used:
                oldest.recently_used = False
                holders[oldest] = None
            else:
                oldest.let_go()
        holder.recently_used = True
        holders[holder] = None

    def closed(self, holder: Holder) -> None:
        """`holder` let go on its own account."""
        self._holders.pop(holder, None)
