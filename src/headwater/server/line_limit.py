"""A limit for lines of the log that strangers can cause: whoever tries passwords, sends nonsense or connects by the
thousand must not fill the disk.
"""

from typing import Final

_LINES_PER_SECOND: Final = 20
_SECOND_NS: Final = 1_000_000_000


class LineLimit:
    """At most so many lines per second. Owned by the server's loop."""

    def __init__(self) -> None:
        self._left = _LINES_PER_SECOND
        self._since_ns = 0
        self._unsaid = 0

    def take(self, now_ns: int) -> int | None:
        """How many lines were left out before this one; None if this one is left out, too."""
        if now_ns - self._since_ns > _SECOND_NS:
            self._since_ns, self._left = now_ns, _LINES_PER_SECOND
        if not self._left:
            self._unsaid += 1
            return None
        self._left -= 1
        unsaid, self._unsaid = self._unsaid, 0
        return unsaid
