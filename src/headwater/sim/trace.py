"""What happened, in order: a hash of all of it and the last lines for people. The same seed gives the same hash."""

from collections import deque
from hashlib import blake2b
from typing import Final

_LINES_KEPT: Final = 80


class Violation(AssertionError):
    """An invariant does not hold. The message begins with its number in the list of invariants, where it has one."""


class Trace:
    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=_LINES_KEPT)

    def add(self, now_ms: int, text: str) -> None:
        line = f"{now_ms:>8} {text}"
        self._hash.update(line.encode())
        self._lines.append(line)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self) -> str:
        return "\n".join(self._lines)
